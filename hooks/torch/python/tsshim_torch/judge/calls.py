# SPDX-License-Identifier: MIT
"""The instructions of attributes, functions and calls, which differ most between versions."""

import sys

from .ops import handles
from .values import ANY, NULL, SUPER


def _method_order(reader, found):
    reader.stack += [found, NULL] if sys.version_info >= (3, 13) else [NULL, found]


@handles("LOAD_ATTR")
def _attribute(reader, step):
    found = reader.attribute(reader.pop(1)[0], step.argval)
    if sys.version_info >= (3, 12) and step.arg & 1:
        _method_order(reader, found)
    else:
        reader.stack.append(found)


@handles("LOAD_METHOD")
def _method(reader, step):
    _method_order(reader, reader.attribute(reader.pop(1)[0], step.argval))


@handles("LOAD_SUPER_ATTR")
def _super_attribute(reader, step):
    function, kind, owner = reader.pop(3)
    if function.kind != "known" or not reader.judge.is_super(function.what) or \
            owner.kind != "self" or kind.kind != "known":
        reader.refuse("super")
    found = reader.attribute(SUPER, step.argval)
    if step.arg & 1:
        _method_order(reader, found)
    else:
        reader.stack.append(found)


@handles("MAKE_FUNCTION")
def _make_function(reader, step):
    if sys.version_info < (3, 11):
        reader.pop(1)  # its name
    code, = reader.pop(1)
    if sys.version_info < (3, 13):
        for value in reader.pop(bin(step.arg & 15).count("1")):
            reader.use(value)
    reader.stack.append(reader.function(code.what))


@handles("SET_FUNCTION_ATTRIBUTE")
def _function_attribute(reader, _step):
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


@handles("CALL", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW", "CALL_KW")
def _call(reader, step):
    names = ()
    if step.opname in ("CALL_FUNCTION_KW", "CALL_KW"):
        names = reader.pop(1)[0].what
    elif step.opname == "CALL":
        names = reader.keywords[step.offset]
    arguments = reader.pop(step.arg)
    if step.opname.startswith("CALL_FUNCTION"):
        callee, front = reader.pop(1)[0], []
    else:
        callee, front = _callee(reader.pop(2))
    if type(names) is not tuple:
        reader.refuse("a call")
    by_place = arguments[:len(arguments) - len(names)]
    for name, value in zip(names, arguments[len(by_place):]):
        # numpy.pad(mode="empty"), cv2.BORDER_TRANSPARENT: memory that nobody wrote.
        if name == "borderMode" and (value.kind != "const" or value.what == 5):
            reader.refuse(name)
        reader.use(value)
    if any(value.kind == "const" and value.what == "empty" for value in arguments):
        reader.refuse("empty memory")
    reader.stack.append(reader.call(callee, front + by_place, names))


@handles("CALL_FUNCTION_EX")
def _call_with(reader, step):
    keywords = ()
    if sys.version_info >= (3, 14) or step.arg & 1:
        given, = reader.pop(1)
        if given.kind != "null":
            reader.use(given)
            keywords = None
    for value in reader.pop(1):
        reader.use(value)
    if sys.version_info < (3, 11):
        callee = reader.pop(1)[0]
    else:
        callee, front = _callee(reader.pop(2))
        if front:
            reader.refuse("a call")
    reader.stack.append(reader.call(callee, None, keywords))


@handles("CALL_INTRINSIC_1")
def _intrinsic(reader, step):
    if step.argrepr not in ("INTRINSIC_UNARY_POSITIVE", "INTRINSIC_LIST_TO_TUPLE"):
        reader.refuse(step.argrepr)
    reader.use(reader.pop(1)[0])
    reader.stack.append(ANY)
