# SPDX-License-Identifier: MIT
"""
The instructions of Python 3.12, 3.13 and 3.14, as far as they are not those of ops.py.

One of a known name may do something else than in the version before: each row says from which
version on it holds, and takes the place of an older one.
"""

import builtins
import dis
import sys

from .ops import EFFECTS, HANDLERS, IGNORED, call, callee, load, store
from .values import ANY, NULL, PLAIN, SELF, SUPER, Value

_THIS = sys.version_info[:2]
# What LOAD_COMMON_CONSTANT may stand for, whatever their names in builtins are bound to.
_COMMON = frozenset(map(id, (AssertionError, NotImplementedError, tuple, all, any)))


def since(version, *names):
    """Decorator: from this @version of Python on, the function is for these instructions."""
    def register(function):
        if _THIS >= version:
            HANDLERS.update(dict.fromkeys(names, function))
        return function
    return register


def _effects(version, **rows):
    if _THIS >= version:
        EFFECTS.update(rows)


_effects((3, 12), BINARY_SLICE=(3, "any"))
_effects((3, 13), CONVERT_VALUE=(1, "plain"), FORMAT_SIMPLE=(1, "plain"),
         FORMAT_WITH_SPEC=(2, "plain"))
IGNORED |= {"NOT_TAKEN"}


# ---- variables and constants ----

@since((3, 12), "LOAD_FAST_CHECK")
@since((3, 14), "LOAD_FAST_BORROW")
def _load_fast(reader, step):
    load(reader, step.argval)


@since((3, 12), "LOAD_FAST_AND_CLEAR")
def _load_and_clear(reader, step):
    """A comprehension's variable, which may be one of the function's: as that is put back."""
    load(reader, step.argval)
    reader.local[step.argval] = ANY


@since((3, 13), "LOAD_FAST_LOAD_FAST")
@since((3, 14), "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def _load_two(reader, step):
    for name in step.argval:
        load(reader, name)


@since((3, 13), "STORE_FAST_LOAD_FAST")
def _store_and_load(reader, step):
    stored, loaded = step.argval
    store(reader, stored)
    load(reader, loaded)


@since((3, 13), "STORE_FAST_STORE_FAST")
def _store_two(reader, step):
    for name in step.argval:
        store(reader, name)


@since((3, 14), "LOAD_SMALL_INT")
def _small_int(reader, step):
    reader.stack.append(Value("const", step.arg))


@since((3, 14), "LOAD_COMMON_CONSTANT")
def _common_constant(reader, step):
    value = dis._common_constants[step.arg]
    if id(value) not in _COMMON:
        reader.refuse(step.argrepr)
    reader.stack.append(Value("known", value))


# ---- computing ----

@since((3, 13), "TO_BOOL")
def _truth(reader, _step):
    reader.pop(1)
    reader.stack.append(PLAIN)


@since((3, 12), "STORE_SLICE")
def _store_slice(reader, _step):
    value, container, start, end = reader.pop(4)
    for part in (value, start, end):
        reader.use(part)
    if container.kind != "fresh":
        reader.refuse("a change of elements")


@since((3, 12), "CALL_INTRINSIC_1")
def _intrinsic(reader, step):
    known = {"INTRINSIC_UNARY_POSITIVE": ANY, "INTRINSIC_LIST_TO_TUPLE": PLAIN}
    if step.argrepr not in known:
        reader.refuse(step.argrepr)
    reader.use(reader.pop(1)[0])
    reader.stack.append(known[step.argrepr])


# ---- ways ----

@since((3, 12), *("POP_JUMP_IF_" + what for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")))
def _branch(reader, step):
    reader.pop(1)
    reader.jump(step.argval, reader.stack)


@since((3, 12), "FOR_ITER")
def _for(reader, step):
    """At the end, too, the iterator and a value are there, for END_FOR to take away."""
    reader.stack.append(ANY)
    reader.jump(step.argval, reader.stack)


@since((3, 12), "END_FOR")
def _end_for(reader, _step):
    reader.pop(2 if _THIS == (3, 12) else 1)


@since((3, 14), "POP_ITER")
def _pop_iter(reader, _step):
    reader.pop(1)


@since((3, 12), "RETURN_CONST")
def _return_const(reader, step):
    reader.use(Value("const", step.argval))
    return True


@since((3, 14), "LOAD_SPECIAL")
def _special(reader, step):
    """Of a manager of `with`: what is called to enter, and what to leave."""
    manager = reader.use(reader.pop(1)[0])
    if step.argrepr not in ("__enter__", "__exit__"):
        reader.refuse(step.argrepr)
    reader.stack += [Value("enter", None, manager) if step.argrepr == "__enter__" else ANY, NULL]


# ---- attributes, functions and calls ----

@since((3, 12), "LOAD_ATTR")
def _attribute(reader, step):
    found = reader.attribute(reader.pop(1)[0], step.argval)
    reader.stack += [NULL, found] if step.arg & 1 else [found]  # it will be called


@since((3, 12), "LOAD_SUPER_ATTR")
def _super_attribute(reader, step):
    """super().name, or where bit 2 is set super(class, object).name"""
    function, owner, first = reader.pop(3)
    if step.arg & 2 or function.kind != "known" or function.what is not builtins.super or \
            id(function.what) not in reader.judge.calls or owner.kind != "known" or \
            reader.first is not SELF or not first.same(SELF):
        reader.refuse("super")
    found = reader.attribute(SUPER, step.argval)
    reader.stack += [NULL, found] if step.arg & 1 else [found]


@since((3, 13), "MAKE_FUNCTION")
def _make_function(reader, _step):
    code, = reader.pop(1)
    reader.stack.append(reader.function(code.what))


@since((3, 13), "SET_FUNCTION_ATTRIBUTE")
def _set_of_function(reader, _step):
    """Defaults, annotations or a closure; of a function that was made just before."""
    value, function = reader.pop(2)
    reader.use(value)
    reader.stack.append(function)


@since((3, 13), "CALL_KW")
def _call_with_names(reader, step):
    names, = reader.pop(1)
    if names.kind != "const":
        reader.refuse("a call")
    call(reader, step.arg, names.what)


@since((3, 14), "CALL_FUNCTION_EX")
def _call_with(reader, _step):
    arguments, more = reader.pop(2)
    reader.use(arguments)
    if more.kind != "null":
        reader.use(more)
    function, front = callee(reader.pop(2))
    if front:
        reader.refuse("a call")
    reader.stack.append(reader.call(function, None, () if more.kind == "null" else None))
