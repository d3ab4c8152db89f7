# SPDX-License-Identifier: MIT
"""
The instructions that code of the user's may consist of, by name, of Python 3.11 to 3.14.

Whatever has no row here is refused.  Each row moves the values of reader.Reader the way the
instruction moves the real ones.  Values that an instruction hands on to somebody else go through
Reader.use().

An instruction of a known name may do something else in a later Python.  Then a row with `since`
takes the place of the older one.  Names that only later Pythons have need none.
"""

import builtins
import dis
import re
import sys

from . import Refused

_THIS = sys.version_info[:2]


class Value:
    """
    What is known of a value on the stack.

    .kind   "any"; "plain": immutable; "fresh": made by this function; "self": the first argument
            of a method; "const" and "known": .what itself; "attr": .what is a name, .owner what
            it was asked of; "classes": .what are several; "class": that of
            a value, only to be compared; "super"; "enter":
            what enters the manager .owner; "null": no value
    """

    __slots__ = ("kind", "what", "owner")

    def __init__(self, kind, what=None, owner=None):
        self.kind, self.what, self.owner = kind, what, owner

    def same(self, other):
        """Whether nothing is lost by taking @other for this one."""
        return self is other or (self.kind == other.kind and self.what is other.what
                                 and self.owner is other.owner)


ANY, PLAIN, FRESH, SELF, NULL, SUPER = map(Value, ("any", "plain", "fresh", "self", "null",
                                                   "super"))

# ---- instructions that only take and give ----

IGNORED = {"CACHE", "COPY_FREE_VARS", "DELETE_DEREF", "EXTENDED_ARG", "KW_NAMES", "MAKE_CELL",
           "NOP", "NOT_TAKEN", "PRECALL", "RESUME"}


def _arg(number):
    return number


# name: (how many values it takes, or a function of its argument that says so; what it gives).
# Each value that it takes is used.
EFFECTS = {
    "BINARY_SLICE": (3, "any"), "BINARY_SUBSCR": (2, "any"), "COMPARE_OP": (2, "any"),
    "GET_ITER": (1, "any"), "GET_LEN": (0, "plain"),
    "UNARY_POSITIVE": (1, "any"), "UNARY_NEGATIVE": (1, "any"), "UNARY_INVERT": (1, "any"),
    "LIST_TO_TUPLE": (1, "plain"), "RETURN_GENERATOR": (0, "any"), "YIELD_VALUE": (1, "any"),
    "LOAD_ASSERTION_ERROR": (0, "any"), "LIST_EXTEND": (1, ""), "LIST_APPEND": (1, ""),
    "DICT_UPDATE": (1, ""), "DICT_MERGE": (1, ""), "MAP_ADD": (2, ""), "STORE_DEREF": (1, ""),
    "CONVERT_VALUE": (1, "plain"), "FORMAT_SIMPLE": (1, "plain"), "FORMAT_WITH_SPEC": (2, "plain"),
    "FORMAT_VALUE": (lambda arg: 2 if arg & 4 else 1, "plain"), "PUSH_NULL": (0, "null"),
    "BUILD_STRING": (_arg, "plain"), "BUILD_SLICE": (_arg, "plain"), "BUILD_LIST": (_arg, "fresh"),
    "BUILD_MAP": (lambda arg: 2 * arg, "fresh"), "BUILD_CONST_KEY_MAP": (lambda arg: arg + 1, "fresh")}
# The same for those that hand on nothing of what they take.
DROPS = {"POP_TOP": (1, ""), "POP_ITER": (1, ""), "END_FOR": (2 if _THIS == (3, 12) else 1, ""),
         "TO_BOOL": (1, "plain"), "UNARY_NOT": (1, "plain")}

# ---- all others: functions (reader, step); True: nothing follows ----

HANDLERS = {}


def _handles(*names, since=(3, 11)):
    """Decorator: from Python @since on, the function moves the values of these instructions."""
    def register(function):
        if _THIS >= since:
            HANDLERS.update(dict.fromkeys(names, function))
        return function
    return register


# ---- variables and constants ----

@_handles("LOAD_CONST")
def _const(reader, step):
    reader.stack.append(Value("const", step.argval))


@_handles("LOAD_SMALL_INT")
def _small_int(reader, step):
    reader.stack.append(Value("const", step.arg))


# What LOAD_COMMON_CONSTANT may stand for, whatever their names in builtins are bound to.
_COMMON = frozenset(map(id, (AssertionError, NotImplementedError, tuple, all, any)))


@_handles("LOAD_COMMON_CONSTANT")
def _common_constant(reader, step):
    value = dis._common_constants[step.arg]
    if id(value) not in _COMMON:
        reader.refuse(step.argrepr)
    reader.stack.append(Value("known", value))


def _load(reader, name):
    """The variable @name of the function goes onto the stack."""
    # Of a cell, or not assigned on some way.
    reader.stack.append(reader.local.get(name) or reader.cells.get(name) or ANY)


def _store(reader, name):
    """The topmost value goes into the variable @name of the function."""
    value, = reader.pop(1)
    # Functions and classes may be called by another name.
    reader.local[name] = value if value.kind == "known" else reader.use(value)


def names_of(step):
    """The variables that the @step, one of LOAD_FAST's or STORE_FAST's kind, names."""
    return (step.argval,) if type(step.argval) is str else step.argval


@_handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST",
          "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_fast(reader, step):
    for name in names_of(step):
        _load(reader, name)


@_handles("LOAD_FAST_AND_CLEAR")
def _load_and_clear(reader, step):
    """A comprehension's variable, which may be one of the function's: as that is put back."""
    _load(reader, step.argval)
    reader.local[step.argval] = ANY


@_handles("STORE_FAST", "STORE_FAST_STORE_FAST")
def _store_fast(reader, step):
    for name in names_of(step):
        _store(reader, name)


@_handles("STORE_FAST_LOAD_FAST")
def _store_and_load(reader, step):
    stored, loaded = step.argval
    _store(reader, stored)
    _load(reader, loaded)


@_handles("DELETE_FAST")
def _delete_fast(reader, step):
    reader.local.pop(step.argval, None)


@_handles("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE")
def _load_deref(reader, step):
    reader.stack.append(reader.cell(step.argval))


@_handles("LOAD_GLOBAL")
def _load_global(reader, step):
    found = reader.get_global(step.argval)
    reader.stack += [NULL, found] if step.arg & 1 else [found]  # it will be called


# ---- the stack itself ----

@_handles("COPY")
def _copy(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values + values[:1]


@_handles("SWAP")
def _swap(reader, step):
    values = reader.pop(step.arg)
    reader.stack += values[-1:] + values[1:-1] + values[:1]


# ---- computing ----

_SIGNS = frozenset("+ - * / // % ** @ << >> & | ^".split())
_ONE_OF_ITS_KIND = frozenset(map(id, (None, False, True, Ellipsis)))


@_handles("BINARY_OP")
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
        reader.judge.signs.add(sign[0])
    if sign in ("@", "@="):
        reader.judge.computes_by("matmul")
    reader.judge.has_arithmetic = True
    both = {left.kind, right.kind}
    reader.stack.append(PLAIN if both <= {"plain", "const"} else FRESH)


@_handles("IS_OP")
def _is(reader, _step):
    # Whether two equal values are one object depends on how they were made; not so of an object of
    # the user's, as dataclasses compare: which are one is part of the fingerprint.
    if not any(value.kind in ("known", "class", "self") or value.kind == "const"
               and id(value.what) in _ONE_OF_ITS_KIND for value in reader.pop(2)):
        reader.refuse("is")
    reader.stack.append(PLAIN)


@_handles("CONTAINS_OP")
def _contains(reader, _step):
    item, container = reader.pop(2)
    reader.use(item)
    if container.kind != "const":  # the order of a constant set does not matter here
        reader.use(container)
    reader.stack.append(PLAIN)


@_handles("CALL_INTRINSIC_1")
def _intrinsic(reader, step):
    known = {"INTRINSIC_UNARY_POSITIVE": ANY, "INTRINSIC_LIST_TO_TUPLE": PLAIN}
    if step.argrepr not in known:
        reader.refuse(step.argrepr)
    reader.use(reader.pop(1)[0])
    reader.stack.append(known[step.argrepr])


# ---- building ----

@_handles("BUILD_TUPLE")
def _build_tuple(reader, step):
    values = reader.pop(step.arg)
    if values and all(value.kind == "known" and isinstance(value.what, type)
                      for value in values):
        reader.stack.append(Value("classes", tuple(value.what for value in values)))
        return
    # What LOAD_CLOSURE gives goes to MAKE_FUNCTION, and is the cell, not what is in it.
    reader.use_all(values)
    reader.stack.append(PLAIN)


@_handles("BUILD_SET")
def _build_set(reader, step):
    reader.judge.by_hash = True
    for value in reader.pop(step.arg):
        _element(reader, value)
    reader.stack.append(FRESH)


@_handles("SET_ADD")
def _set_add(reader, _step):
    _element(reader, reader.pop(1)[0])


@_handles("SET_UPDATE")
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


@_handles("UNPACK_SEQUENCE", "UNPACK_EX")
def _unpack(reader, step):
    reader.use(reader.pop(1)[0])
    rest = step.opname == "UNPACK_EX"  # what is before and behind the rest, in a byte each
    reader.stack += [ANY] * ((step.arg & 255) + (step.arg >> 8) + 1 if rest else step.arg)


def _change(reader, container, used):
    """Elements of the @container are changed, by the values that are @used."""
    reader.use_all(used)
    if container.kind != "fresh":
        reader.refuse("a change of elements")


@_handles("STORE_SUBSCR")
def _store_item(reader, _step):
    value, container, key = reader.pop(3)
    _change(reader, container, (value, key))


@_handles("DELETE_SUBSCR")
def _delete_item(reader, _step):
    container, key = reader.pop(2)
    _change(reader, container, (key,))


@_handles("STORE_SLICE")
def _store_slice(reader, _step):
    value, container, start, end = reader.pop(4)
    _change(reader, container, (value, start, end))


# ---- ways ----

@_handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def _jump(reader, step):
    reader.jump(step.argval, reader.stack)
    return True


@_handles(*("POP_JUMP_%sIF_%s" % (way, what) for way in ("FORWARD_", "BACKWARD_", "")
            for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")))
def _branch(reader, step):
    reader.pop(1)
    reader.jump(step.argval, reader.stack)


@_handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def _or_pop(reader, step):
    value = reader.use(reader.pop(1)[0])
    reader.jump(step.argval, reader.stack + [value])


@_handles("FOR_ITER")
def _for(reader, step):
    reader.jump(step.argval, reader.stack[:-1])
    reader.stack.append(ANY)


@_handles("FOR_ITER", since=(3, 12))
def _for_with_end(reader, step):
    """At the end, too, the iterator and a value are there, for END_FOR to take away."""
    reader.stack.append(ANY)
    reader.jump(step.argval, reader.stack)


@_handles("RETURN_VALUE")
def _return(reader, _step):
    reader.use(reader.pop(1)[0])
    return True


@_handles("RETURN_CONST")
def _return_const(reader, step):
    reader.use(Value("const", step.argval))
    return True


@_handles("RAISE_VARARGS")
def _raise(reader, step):
    reader.use_all(reader.pop(step.arg))
    return True


@_handles("BEFORE_WITH")
def _with(reader, _step):
    manager, = reader.pop(1)
    reader.stack += [ANY, reader.use(manager)]


@_handles("LOAD_SPECIAL")
def _special(reader, step):
    """Of a manager of `with`: what is called to enter, and what to leave."""
    manager = reader.use(reader.pop(1)[0])
    if step.argrepr not in ("__enter__", "__exit__"):
        reader.refuse(step.argrepr)
    reader.stack += [Value("enter", None, manager) if step.argrepr == "__enter__" else ANY, NULL]


# ---- attributes, functions and calls ----

@_handles("LOAD_ATTR", "LOAD_METHOD")
def _attribute(reader, step):
    found = reader.attribute(reader.pop(1)[0], step.argval)
    is_method = step.arg & 1 if _THIS >= (3, 12) else step.opname == "LOAD_METHOD"
    reader.stack += [NULL, found] if is_method else [found]  # it will be called


@_handles("LOAD_SUPER_ATTR")
def _super_attribute(reader, step):
    """super().name, or where bit 2 is set super(class, object).name"""
    function, owner, first = reader.pop(3)
    if step.arg & 2 or function.kind != "known" or function.what is not builtins.super or \
            id(function.what) not in reader.judge.calls or owner.kind != "known" or \
            reader.first is not SELF or not first.same(SELF):
        reader.refuse("super")
    found = reader.attribute(SUPER, step.argval)
    reader.stack += [NULL, found] if step.arg & 1 else [found]


@_handles("MAKE_FUNCTION")
def _make_function(reader, step):
    code, = reader.pop(1)
    reader.use_all(reader.pop(bin((step.arg or 0) & 15).count("1")))  # none from Python 3.13 on
    reader.stack.append(reader.function(code.what))


@_handles("SET_FUNCTION_ATTRIBUTE")
def _set_of_function(reader, _step):
    """Defaults, annotations or a closure; of a function that was made just before."""
    value, function = reader.pop(2)
    reader.use(value)
    reader.stack.append(function)


def _callee(values):
    """(what is called, an argument in front or nothing) of the two places before arguments."""
    first, second = values
    if first.kind == "null":
        return second, []
    if second.kind == "null":
        return first, []
    return first, [second]


@_handles("CALL")
def _call(reader, step):
    _call_named(reader, step.arg, reader.keywords[step.offset])


@_handles("CALL_KW")
def _call_with_names(reader, step):
    names, = reader.pop(1)
    if names.kind != "const":
        reader.refuse("a call")
    _call_named(reader, step.arg, names.what)


def _call_named(reader, count, names):
    """A call with @count arguments, the last of them by these @names."""
    arguments = reader.pop(count)
    function, front = _callee(reader.pop(2))
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


@_handles("CALL_FUNCTION_EX")
def _call_with(reader, step):
    """f(*arguments) or f(*arguments, **more); from Python 3.14 on there is always a place for more."""
    more = NULL
    if _THIS >= (3, 14) or step.arg & 1:
        more, = reader.pop(1)
        if _THIS < (3, 14) or more.kind != "null":
            reader.use(more)
    reader.use(reader.pop(1)[0])
    function, front = _callee(reader.pop(2))
    if front:
        reader.refuse("a call")
    reader.stack.append(reader.call(function, None, () if more is NULL or more.kind == "null" else None))


# ---- handlers of exceptions ----

# Those that a compiler makes where the author wrote none raise again what they were given: for
# `with`, whose managers here never swallow anything; to clean up; from Python 3.12 on to put the
# variables back that a comprehension has in common with the function that it is a part of, and to
# make another error of a StopIteration that leaves a generator.  Of an author's own nothing is known.
_OWN = re.compile(
    r"PUSH_EXC_INFO WITH_EXCEPT_START (TO_BOOL )?POP_JUMP_(FORWARD_)?IF_TRUE RERAISE |"
    r"COPY POP_EXCEPT RERAISE |"
    r"SWAP POP_TOP (SWAP )?((STORE_FAST|STORE_FAST_STORE_FAST) )+RERAISE |"
    r"CALL_INTRINSIC_1=INTRINSIC_STOPITERATION_ERROR RERAISE ")
_NOISE = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN"))
_LONGEST = 300  # instructions of one of them; a comprehension has no more variables


def check_handlers(code, steps):
    """Raise Refused where @code, which consists of @steps, has a handler of another kind."""
    targets = {entry.target for entry in dis.Bytecode(code).exception_entries}
    real = [step for step in steps if step.opname not in _NOISE] if targets else ()
    for target in targets:
        first = next((place for place, step in enumerate(real) if step.offset >= target), 0)
        text = "".join(map(_named, real[first:first + _LONGEST]))
        if not _OWN.match(text):
            raise Refused("%s handles exceptions" % code.co_name)


def _named(step):
    if step.opname.startswith("CALL_INTRINSIC"):
        return "%s=%s " % (step.opname, step.argrepr)
    return step.opname + " "
