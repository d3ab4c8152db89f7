# SPDX-License-Identifier: MIT
"""
The instructions that code of the user's may consist of, by name: those of Python 3.11.  newer.py
has what later versions do otherwise.

HANDLERS move the values of code.Reader the way each instruction moves the real ones;
the values that an instruction hands on to somebody else go through Reader.use().  EFFECTS is
for those that only take and give: how many they take, and the kinds of what they give.
Whatever has no row here is refused.
"""

from .values import ANY, FRESH, NULL, PLAIN, Value

HANDLERS = {}
_ONE_OF_ITS_KIND = frozenset(map(id, (None, False, True, Ellipsis)))

IGNORED = {"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "KW_NAMES", "MAKE_CELL", "NOP",
           "PRECALL", "RESUME"}

EFFECTS = {
    "BINARY_SUBSCR": (2, "any"), "GET_ITER": (1, "any"), "GET_LEN": (0, "plain"),
    "UNARY_POSITIVE": (1, "any"), "UNARY_NEGATIVE": (1, "any"), "UNARY_INVERT": (1, "any"),
    "LIST_TO_TUPLE": (1, "plain"), "RETURN_GENERATOR": (0, "any"), "YIELD_VALUE": (1, "any"),
    "LOAD_ASSERTION_ERROR": (0, "any"), "LIST_EXTEND": (1, ""), "LIST_APPEND": (1, ""),
    "DICT_UPDATE": (1, ""), "DICT_MERGE": (1, ""), "MAP_ADD": (2, "")}


def handles(*names):
    """Decorator: the function moves the values of these instructions; True: nothing follows."""
    def register(function):
        for name in names:
            HANDLERS[name] = function
        return function
    return register


# ---- variables and constants ----

@handles("LOAD_CONST")
def _const(reader, step):
    reader.stack.append(Value("const", step.argval))


def load(reader, name):
    """The variable @name of the function goes onto the stack."""
    # Of a cell, or not assigned on some way.
    reader.stack.append(reader.local.get(name) or reader.cells.get(name) or ANY)


def store(reader, name):
    """The topmost value goes into the variable @name of the function."""
    value, = reader.pop(1)
    # Functions and classes may be called by another name.
    reader.local[name] = value if value.kind == "known" else reader.use(value)


@handles("LOAD_FAST")
def _load_fast(reader, step):
    load(reader, step.argval)


@handles("STORE_FAST")
def _store_fast(reader, step):
    store(reader, step.argval)


@handles("DELETE_FAST")
def _delete_fast(reader, step):
    reader.local.pop(step.argval, None)


@handles("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE")
def _load_deref(reader, step):
    reader.stack.append(reader.cell(step.argval))


@handles("STORE_DEREF")
def _store_deref(reader, step):
    reader.use(reader.pop(1)[0])


@handles("DELETE_DEREF")
def _delete_deref(_reader, _step):
    pass


@handles("LOAD_GLOBAL")
def _load_global(reader, step):
    found = reader.get_global(step.argval)
    if step.arg & 1:  # it will be called
        reader.stack.append(NULL)
    reader.stack.append(found)


@handles("PUSH_NULL")
def _push_null(reader, _step):
    reader.stack.append(NULL)


# ---- the stack itself ----

@handles("POP_TOP")
def _pop_top(reader, _step):
    reader.pop(1)


@handles("COPY")
def _copy(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values + values[:1]


@handles("SWAP")
def _swap(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values[-1:] + values[1:-1] + values[:1]


# ---- computing ----

_SIGNS = frozenset("+ - * / // % ** @ << >> & | ^".split())


@handles("BINARY_OP")
def _operate(reader, step):
    left, right = (reader.use(value) for value in reader.pop(2))
    sign = step.argrepr
    if sign == "[]":  # from Python 3.14 on
        reader.stack.append(ANY)
        return
    if sign.rstrip("=") not in _SIGNS:
        reader.refuse(sign)
    if sign.endswith("=") and left.kind not in ("plain", "const", "fresh"):
        reader.refuse("a change in place")
    if sign[:1] in "&|^-":
        reader.judge.combines(sign[0])
    if sign in ("@", "@="):
        reader.judge.computes_by("matmul")
    reader.judge.computes()
    both = {left.kind, right.kind}
    reader.stack.append(PLAIN if both <= {"plain", "const"} else FRESH)


@handles("UNARY_NOT")
def _truth(reader, _step):
    reader.pop(1)
    reader.stack.append(PLAIN)


@handles("IS_OP")
def _is(reader, _step):
    # Whether two equal values are one object depends on how they were made; not so of an object of
    # the user's, as dataclasses compare: which are one is part of the fingerprint.
    if not any(value.kind in ("known", "class", "self") or value.kind == "const"
               and id(value.what) in _ONE_OF_ITS_KIND for value in reader.pop(2)):
        reader.refuse("is")
    reader.stack.append(PLAIN)


@handles("COMPARE_OP")
def _compare(reader, _step):
    for value in reader.pop(2):
        reader.use(value)
    reader.stack.append(ANY)


@handles("CONTAINS_OP")
def _contains(reader, _step):
    item, container = reader.pop(2)
    reader.use(item)
    if container.kind != "const":  # the order of a constant set does not matter here
        reader.use(container)
    reader.stack.append(PLAIN)


@handles("FORMAT_VALUE")
def _format(reader, step):
    for value in reader.pop(2 if step.arg & 4 else 1):
        reader.use(value)
    reader.stack.append(PLAIN)


# ---- building ----

def _build(reader, count, kind):
    for value in reader.pop(count):
        reader.use(value)
    reader.stack.append(kind)


@handles("BUILD_TUPLE")
def _build_tuple(reader, step):
    values = reader.stack[len(reader.stack) - step.arg:] if step.arg else []
    if values and all(value.kind == "known" and isinstance(value.what, type)
                      for value in values):
        reader.pop(step.arg)
        reader.stack.append(Value("classes", tuple(value.what for value in values)))
        return
    # What LOAD_CLOSURE gives goes to MAKE_FUNCTION, and is the cell, not what is in it.
    _build(reader, step.arg, PLAIN)


@handles("BUILD_STRING", "BUILD_SLICE")
def _build_plain(reader, step):
    _build(reader, step.arg, PLAIN)


@handles("BUILD_LIST")
def _build_list(reader, step):
    _build(reader, step.arg, FRESH)


@handles("BUILD_SET")
def _build_set(reader, step):
    reader.judge.uses_sets()
    for value in reader.pop(step.arg):
        _element(reader, value)
    reader.stack.append(FRESH)


@handles("SET_ADD")
def _set_add(reader, _step):
    _element(reader, reader.pop(1)[0])


@handles("SET_UPDATE")
def _set_update(reader, _step):
    value, = reader.pop(1)
    if value.kind != "const":
        reader.refuse("a set")
    reader.use(value)


def _element(reader, value):
    """Of a set: the hashes of None, tensors, types and functions are their addresses."""
    value = reader.use(value)
    if value.kind not in ("plain", "const") or \
            value.kind == "const" and not _has_hash_of_its_own(value.what):
        reader.refuse("a set")


def _has_hash_of_its_own(value):
    """Whether equal constants have equal hashes in processes of equal seeds of these."""
    if type(value) is tuple:
        return all(map(_has_hash_of_its_own, value))
    return type(value) in (bool, int, float, complex, str, bytes)


@handles("BUILD_MAP")
def _build_map(reader, step):
    _build(reader, 2 * step.arg, FRESH)


@handles("BUILD_CONST_KEY_MAP")
def _build_const_map(reader, step):
    _build(reader, step.arg + 1, FRESH)


@handles("UNPACK_SEQUENCE")
def _unpack(reader, step):
    reader.use(reader.pop(1)[0])
    reader.stack += [ANY] * step.arg


@handles("UNPACK_EX")
def _unpack_more(reader, step):
    reader.use(reader.pop(1)[0])
    reader.stack += [ANY] * ((step.arg & 255) + (step.arg >> 8) + 1)


@handles("STORE_SUBSCR")
def _store_item(reader, _step):
    value, container, key = reader.pop(3)
    reader.use(value), reader.use(key)
    if container.kind != "fresh":
        reader.refuse("a change of an element")


@handles("DELETE_SUBSCR")
def _delete_item(reader, _step):
    container, key = reader.pop(2)
    reader.use(key)
    if container.kind != "fresh":
        reader.refuse("a change of elements")


# ---- ways ----

@handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(reader, step):
    reader.jump(step.argval, reader.stack)
    return True


@handles(*("POP_JUMP_%s_IF_%s" % (way, what) for way in ("FORWARD", "BACKWARD")
           for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")))
def _branch(reader, step):
    reader.pop(1)
    reader.jump(step.argval, reader.stack)


@handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _or_pop(reader, step):
    value = reader.use(reader.pop(1)[0])
    reader.jump(step.argval, reader.stack + [value])


@handles("FOR_ITER")
def _for(reader, step):
    reader.jump(step.argval, reader.stack[:-1])
    reader.stack.append(ANY)


@handles("RETURN_VALUE")
def _return(reader, _step):
    reader.use(reader.pop(1)[0])
    return True


@handles("RAISE_VARARGS")
def _raise(reader, step):
    for value in reader.pop(step.arg):
        reader.use(value)
    return True


@handles("BEFORE_WITH")
def _with(reader, _step):
    manager, = reader.pop(1)
    manager = reader.use(manager)
    reader.stack += [ANY, manager]


# ---- attributes, functions and calls ----

@handles("LOAD_ATTR")
def _attribute(reader, step):
    reader.stack.append(reader.attribute(reader.pop(1)[0], step.argval))


@handles("LOAD_METHOD")
def _method(reader, step):
    reader.stack += [NULL, reader.attribute(reader.pop(1)[0], step.argval)]


@handles("MAKE_FUNCTION")
def _make_function(reader, step):
    code, = reader.pop(1)
    for value in reader.pop(bin(step.arg & 15).count("1")):
        reader.use(value)
    reader.stack.append(reader.function(code.what))


def callee(values):
    """(what is called, an argument in front or nothing) of the two places before arguments."""
    first, second = values
    if first.kind == "null":
        return second, []
    if second.kind == "null":
        return first, []
    return first, [second]


@handles("CALL")
def _call(reader, step):
    call(reader, step.arg, reader.keywords[step.offset])


def call(reader, count, names):
    """A call with @count arguments, the last of them by these @names."""
    arguments = reader.pop(count)
    function, front = callee(reader.pop(2))
    if type(names) is not tuple:
        reader.refuse("a call")
    by_place = arguments[:len(arguments) - len(names)]
    reader.by_name = dict(zip(names, arguments[len(by_place):]))
    for name, value in reader.by_name.items():
        # cv2.BORDER_TRANSPARENT, alone or with a flag: memory that nobody wrote.
        if name == "borderMode" and (value.kind != "const" or value.what not in range(5)):
            reader.refuse(name)
        reader.use(value)
    reader.stack.append(reader.call(function, front + by_place, names))


@handles("CALL_FUNCTION_EX")
def _call_with(reader, step):
    keywords = ()
    if step.arg & 1:
        reader.use(reader.pop(1)[0])
        keywords = None
    reader.use(reader.pop(1)[0])
    function, front = callee(reader.pop(2))
    if front:
        reader.refuse("a call")
    reader.stack.append(reader.call(function, None, keywords))
