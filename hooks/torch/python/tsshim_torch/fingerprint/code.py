# SPDX-License-Identifier: MIT
"""
Code objects: what they do, as bytes, and which names they look up outside of themselves.

File names and line numbers are left out, so moving a function does not change it.
"""

import dis
import marshal
import types

from .walk import MARSHAL, Unknown, joined

_codes = {}  # id(code) -> (code, bytes); the code is kept, so that its id stays its own
_uses = {}  # id(code) -> (code, [Use])
_said = {}  # id(code) -> Said

GLOBAL_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
ATTRIBUTE_LOADS = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
IMPORTS = frozenset(("IMPORT_FROM",))
NUMBER_LOADS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
# Instructions between those that matter, in one version of Python or another.
NOISE = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN", "PRECALL", "PUSH_NULL", "RESUME"))
# What may follow on a constant that is a whole key or argument.
KEY_ENDS = ("BINARY_SUBSCR", "CALL", "DELETE_SUBSCR", "STORE_SUBSCR")


def code_bytes(code):
    """All of @code that decides what it does, as a function of values only."""
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = (code, _encode(code))
    return known[1]


def _encode(code):
    steps, constants = code.co_code, code.co_consts
    if _mixes_hash_in(code):
        steps, constants = _without_numbers(code)
    parts = (steps, code.co_name, code.co_names, code.co_varnames, code.co_freevars,
             code.co_cellvars, code.co_argcount, code.co_posonlyargcount,
             code.co_kwonlyargcount, code.co_flags, getattr(code, "co_exceptiontable", b""))
    try:
        return marshal.dumps((parts, tuple(map(_constant, constants))), MARSHAL)
    except ValueError:
        raise Unknown("object", "constants of " + code.co_name)


def _mixes_hash_in(code):
    """
    Whether @code is the __hash__ that attrs has made for a class: a number in it is the hash of a
    text, and so another one in each process, as the hashes of texts themselves are.
    """
    return code.co_name == "__hash__" and code.co_filename.startswith("<attrs generated ")


def _without_numbers(code):
    """
    (instructions, constants) of @code, without numbers.  A negative one comes with its positive
    in some versions, and small ones may be an instruction's own argument.
    """
    steps = [("number", "") if step.opname in NUMBER_LOADS and type(step.argval) is int
             else (step.opname, step.argrepr) for step in dis.get_instructions(code)]
    return tuple(steps), tuple([value for value in code.co_consts if type(value) is not int])


def _constant(value):
    kind = type(value)
    if kind is types.CodeType:
        return ("code", code_bytes(value))
    if kind is tuple:
        return ("tuple", tuple(map(_constant, value)))
    if kind is frozenset:  # its order depends on the seed of the hashes
        return ("frozenset", joined(sorted(marshal.dumps(_constant(v), MARSHAL) for v in value)))
    if kind is slice:  # a constant from Python 3.14 on
        return ("slice", _constant((value.start, value.stop, value.step)))
    return value


class Said:
    """What @code and the functions defined in it say of what is outside of them."""

    __slots__ = ("code", "uses", "names", "makes_others", "asks_types", "looks_by_name")

    def __init__(self, code):
        self.code = code  # kept, so that its id stays its own
        self.uses = uses(code)
        self.names = _mentions(code)  # and constant strings
        self.makes_others = makes_others(code)
        # It asks objects for exactly their type, or looks names up in a dict past its class.
        self.asks_types = any(name.startswith(_EXACTLY) for name in self.names) or any(
            use.names[0] == "type" or use.names[-1] in ("eval", "exec") for use in self.uses)
        self.looks_by_name = not self.names.isdisjoint(_BY_NAME)


# How names of functions of libraries begin that ask whether a dict is exactly one.
_EXACTLY = ("tree_", "OmegaConf")
_BY_NAME = frozenset(("globals", "eval", "exec", "__import__", "import_module", "modules"))


def said(code):
    """The Said of @code."""
    known = _said.get(id(code))
    if known is None:
        known = _said[id(code)] = Said(code)
    return known


def _mentions(code):
    found, waiting = set(code.co_names), list(code.co_consts)
    for value in waiting:
        kind = type(value)
        if kind is str:
            found.add(value)
        elif kind is tuple or kind is frozenset:
            waiting += value
        elif kind is types.CodeType:
            found |= _mentions(value)
    return found


def makes_others(code):
    """
    Whether @code, or a function defined in it, may make an object of a class that it does not name: it
    asks an object for its class and does not just look at that, or is an object's own copying.
    """
    if any(makes_others(constant) for constant in code.co_consts if type(constant) is types.CodeType):
        return True
    if _MAKING.isdisjoint(code.co_names + code.co_freevars + code.co_cellvars):
        return False
    steps = [step for step in dis.get_instructions(code) if step.opname not in NOISE]
    return any(_may_make(steps, position) for position in range(len(steps)))


_MAKING = frozenset(("__class__", "type", "evolve", "__replace__", "__reduce__", "replace"))  # in _may_make()


def _may_make(steps, position):
    name, value = steps[position].opname, steps[position].argval
    if name in ATTRIBUTE_LOADS and value == "__class__":
        return not _only_looks(steps, position + 1)
    if name in ("LOAD_DEREF", "LOAD_CLASSDEREF") and value == "__class__":  # of super() itself, from 3.12 on
        return "SUPER" not in "".join(step.opname for step in steps[position + 1:position + 3])
    if name in GLOBAL_LOADS and value == "type":
        calls = [after for after in range(position + 1, len(steps)) if steps[after].opname.startswith("CALL")]
        return not calls or not _only_looks(steps, calls[0] + 1)
    # dataclasses.replace(), whatever the module is called here, and attrs.evolve(): of one object.
    return name in GLOBAL_LOADS | ATTRIBUTE_LOADS | IMPORTS and value in ("evolve", "__replace__", "__reduce__") \
        or name in GLOBAL_LOADS | IMPORTS and value == "replace" \
        or name in ATTRIBUTE_LOADS and value == "replace" and steps[position - 1].opname in GLOBAL_LOADS


def _only_looks(steps, position):
    """Whether the steps from @position on ask the class that lies there for an attribute, or compare it."""
    following = [step.opname for step in steps[position:position + 2]] + [""]
    return following[0] in ATTRIBUTE_LOADS or any(
        name in ("IS_OP", "COMPARE_OP", "CONTAINS_OP") for name in following)


class Use:
    """
    A name that code looks up outside of itself.

    .kind   "name": a global or built-in, with the attributes that follow at once;
            "import": a module imported by the function itself
    .names  ("os", "environ"), or (module name, *names imported from it)
    .level  of a relative import
    .key    the constant string that is the first argument or subscript of it, or None
    .is_test  it is but what isinstance() or issubclass() compares with
    """

    __slots__ = ("kind", "names", "level", "key", "is_test")

    def __init__(self, kind, names, level=0, key=None, is_test=False):
        self.kind, self.names, self.level, self.key, self.is_test = kind, names, level, key, is_test

    def order(self):
        """To sort by."""
        return (self.kind, self.names, self.level, self.key or "", self.is_test)


def uses(code):
    """The Uses of @code and of the functions defined in it, sorted, each once."""
    known = _uses.get(id(code))
    if known is None:
        found = {use.order() + (use.key is None,): use for use in _find(code)}
        for constant in code.co_consts:
            if type(constant) is types.CodeType:
                found.update((use.order() + (use.key is None,), use) for use in uses(constant))
        known = _uses[id(code)] = (code, [found[order] for order in sorted(found)])
    return known[1]


def _find(code):
    steps = [step for step in dis.get_instructions(code) if step.opname not in NOISE]
    for position, step in enumerate(steps):
        if step.opname in GLOBAL_LOADS:
            yield _name(steps, position)
        elif step.opname == "IMPORT_NAME":
            level, wanted = steps[position - 2].argval, steps[position - 1].argval
            wanted = wanted if type(wanted) is tuple else ()
            yield Use("import", (step.argval,) + wanted, level if type(level) is int else 0)


def named_attributes(steps):
    """Offsets of those @steps that ask a global name, or an attribute of one, for an attribute."""
    found, follows = set(), False
    for step in steps:
        if step.opname in NOISE:
            continue
        if follows and step.opname in ATTRIBUTE_LOADS:
            found.add(step.offset)
        else:
            follows = step.opname in GLOBAL_LOADS
    return found


def _name(steps, position):
    names, after = [steps[position].argval], position + 1
    while after < len(steps) and steps[after].opname in ATTRIBUTE_LOADS:
        names.append(steps[after].argval)
        after += 1
    return Use("name", tuple(names), key=_key(steps, position, after), is_test=_is_test(steps, position, after))


def _is_test(steps, position, after):
    """Whether what was loaded at @position is the last argument of isinstance(), called at @after."""
    if after >= len(steps) or not steps[after].opname.startswith("CALL") or steps[after].argval != 2:
        return False
    for step in reversed(steps[:position]):
        if step.opname.startswith("CALL"):
            return False
        if step.opname in GLOBAL_LOADS and step.argval in ("isinstance", "issubclass"):
            return True
    return False


def _key(steps, position, after):
    """The constant in os.environ["X"], os.getenv("X"), os.getenv("X", "1"), "X" in os.environ."""
    following = [(step.opname, step.argval) for step in steps[after:after + 3]]
    following += [("", None)] * 3
    is_in = following[0] in (("COMPARE_OP", "in"), ("COMPARE_OP", "not in"))  # until Python 3.8
    if (is_in or following[0][0] == "CONTAINS_OP") and position > 0:
        name, value = steps[position - 1].opname, steps[position - 1].argval
        return value if name == "LOAD_CONST" and type(value) is str else None
    if following[1][0].startswith("LOAD_CONST"):  # a default
        del following[1]
    ends = following[1][0].startswith(KEY_ENDS) or following[1] == ("BINARY_OP", 26)
    constant = following[0][0].startswith("LOAD_CONST") and type(following[0][1]) is str
    return following[0][1] if constant and ends else None
