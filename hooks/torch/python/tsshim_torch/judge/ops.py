# SPDX-License-Identifier: MIT
"""
The instructions that code of the user's may consist of, by name, from Python 3.9 to 3.14.

HANDLERS move the values of code.Reader the way each instruction moves the real ones;
the values that an instruction hands on to somebody else go through Reader.use().  EFFECTS is
for those that only take and give: how many they take, and the kinds of what they give.
Whatever has no row here is refused.
"""

import sys

from .values import ANY, FRESH, NULL, PLAIN, Value

HANDLERS = {}
_ONE_OF_ITS_KIND = frozenset(map(id, (None, False, True, Ellipsis)))

IGNORED = frozenset(("CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "GEN_START", "KW_NAMES",
                     "MAKE_CELL", "NOP", "NOT_TAKEN", "POP_BLOCK", "PRECALL", "RESUME"))

EFFECTS = {
    "BINARY_SUBSCR": (2, "any"), "BINARY_SLICE": (3, "any"), "GET_ITER": (1, "any"),
    "GET_LEN": (0, "plain"), "UNARY_POSITIVE": (1, "any"), "UNARY_NEGATIVE": (1, "any"),
    "UNARY_INVERT": (1, "any"),
    "FORMAT_SIMPLE": (1, "plain"), "FORMAT_WITH_SPEC": (2, "plain"),
    "CONVERT_VALUE": (1, "plain"), "LIST_TO_TUPLE": (1, "plain"),
    "RETURN_GENERATOR": (0, "any"), "YIELD_VALUE": (1, "any"),
    "LOAD_ASSERTION_ERROR": (0, "any"), "LOAD_COMMON_CONSTANT": (0, "any"),
    "LIST_EXTEND": (1, ""), "LIST_APPEND": (1, ""),
    "DICT_UPDATE": (1, ""), "DICT_MERGE": (1, ""),
    "MAP_ADD": (2, ""), "POP_ITER": (1, "")}


def handles(*names):
    """Decorator: the function moves the values of these instructions; True: nothing follows."""
    def register(function):
        for name in names:
            HANDLERS[name] = function
        return function
    return register


# ---- variables and constants ----

@handles("LOAD_CONST", "LOAD_SMALL_INT", "RETURN_CONST")
def _const(reader, step):
    value = Value("const", step.argval)
    if step.opname == "RETURN_CONST":
        return True
    reader.stack.append(value)
    return False


def _load(reader, name):
    known = reader.local.get(name)
    if known is None:  # of a cell from Python 3.13 on, or not assigned on some way
        known = reader.cells.get(name) or ANY
    reader.stack.append(known)


@handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR",
         "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_fast(reader, step):
    names = step.argval if type(step.argval) is tuple else (step.argval,)
    for name in names:
        _load(reader, name)


def _store(reader, name):
    value, = reader.pop(1)
    # Functions and classes may be called by another name.
    if value.kind != "known":
        value = reader.use(value)
    reader.local[name] = value


@handles("STORE_FAST", "STORE_FAST_MAYBE_NULL")
def _store_fast(reader, step):
    _store(reader, step.argval)


@handles("STORE_FAST_STORE_FAST")
def _store_two(reader, step):
    for name in step.argval:
        _store(reader, name)


@handles("STORE_FAST_LOAD_FAST")
def _store_and_load(reader, step):
    _store(reader, step.argval[0])
    _load(reader, step.argval[1])


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
    has_null = sys.version_info >= (3, 11) and step.arg & 1
    found = reader.get_global(step.argval)
    if has_null and sys.version_info < (3, 13):
        reader.stack.append(NULL)
    reader.stack.append(found)
    if has_null and sys.version_info >= (3, 13):
        reader.stack.append(NULL)


@handles("PUSH_NULL")
def _push_null(reader, _step):
    reader.stack.append(NULL)


# ---- the stack itself ----

@handles("POP_TOP")
def _pop_top(reader, _step):
    reader.pop(1)


@handles("END_FOR")
def _end_for(reader, _step):
    reader.pop(2 if sys.version_info < (3, 13) else 1)


@handles("DUP_TOP")
def _dup(reader, _step):
    value, = reader.pop(1)
    reader.stack += (value, value)


@handles("DUP_TOP_TWO")
def _dup_two(reader, _step):
    reader.stack += reader.pop(2) * 2


@handles("COPY")
def _copy(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values + values[:1]


@handles("SWAP")
def _swap(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values[-1:] + values[1:-1] + values[:1]


@handles("ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N")
def _rotate(reader, step):
    count = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(step.opname, step.arg)
    values = reader.pop(count)
    reader.stack += values[-1:] + values[:-1]


# ---- computing ----

@handles("BINARY_OP")
def _binary(reader, step):
    _operate(reader, step.argrepr)


def _binary_name(reader, step):
    kind, _, name = step.opname.partition("_")
    signs = {"AND": "&", "OR": "|", "XOR": "^", "SUBTRACT": "-"}
    _operate(reader, signs.get(name, name) + ("=" if kind == "INPLACE" else ""))


for _name in ("ADD", "SUBTRACT", "MULTIPLY", "TRUE_DIVIDE", "FLOOR_DIVIDE", "MODULO", "POWER",
              "MATRIX_MULTIPLY", "LSHIFT", "RSHIFT", "AND", "OR", "XOR"):
    HANDLERS["BINARY_" + _name] = HANDLERS["INPLACE_" + _name] = _binary_name


def _operate(reader, sign):
    left, right = reader.pop(2)
    if sign in ("[]", "BINARY_SUBSCR"):  # from Python 3.14 on
        reader.use(left), reader.use(right)
        reader.stack.append(ANY)
        return
    left, right = reader.use(left), reader.use(right)
    if sign.endswith("=") and left.kind not in ("plain", "const", "fresh"):
        reader.refuse("a change in place")
    if sign[:1] in "&|^-":
        reader.judge.combines(sign[0])
    if sign in ("@", "@=", "MATRIX_MULTIPLY", "MATRIX_MULTIPLY="):
        reader.judge.computes_by("matmul")
    reader.judge.computes()
    both = {left.kind, right.kind}
    reader.stack.append(PLAIN if both <= {"plain", "const"} else FRESH)


@handles("UNARY_NOT", "TO_BOOL")
def _truth(reader, _step):
    reader.pop(1)
    reader.stack.append(PLAIN)


@handles("IS_OP")
def _is(reader, _step):
    # Whether two equal values are one object depends on how they were made.
    if not any(value.kind in ("known", "class") or value.kind == "const"
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
    if value.kind not in ("plain", "const") or value.kind == "const" and value.what is None:
        reader.refuse("a set")


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


@handles("STORE_SLICE")
def _store_slice(reader, _step):
    value, container, begin, end = reader.pop(4)
    reader.use(value), reader.use(begin), reader.use(end)
    if container.kind != "fresh":
        reader.refuse("a change of elements")


@handles("DELETE_SUBSCR")
def _delete_item(reader, _step):
    container, key = reader.pop(2)
    reader.use(key)
    if container.kind != "fresh":
        reader.refuse("a change of elements")


# ---- ways ----

@handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(reader, step):
    reader.jump(step.argval, reader.stack)
    return True


def _branch(reader, step):
    reader.pop(1)
    reader.jump(step.argval, reader.stack)


for _name in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE",
              "POP_JUMP_IF_NOT_NONE"):
    HANDLERS[_name] = HANDLERS[_name.replace("JUMP_", "JUMP_FORWARD_")] = _branch
    HANDLERS[_name.replace("JUMP_", "JUMP_BACKWARD_")] = _branch


@handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _or_pop(reader, step):
    value = reader.use(reader.pop(1)[0])
    reader.jump(step.argval, reader.stack + [value])


@handles("FOR_ITER")
def _for(reader, step):
    if sys.version_info < (3, 12):
        reader.jump(step.argval, reader.stack[:-1])
    else:
        reader.jump(step.argval, reader.stack + [ANY])
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


@handles("SETUP_WITH")
def _setup_with(reader, step):
    _with(reader, step)


@handles("LOAD_SPECIAL")
def _special(reader, step):
    manager = reader.use(reader.pop(1)[0])
    if step.argrepr not in ("__enter__", "__exit__"):
        reader.refuse("LOAD_SPECIAL")
    reader.stack += [ANY, manager]
