# SPDX-License-Identifier: MIT
"""
Bags of options: objects in which a program keeps its settings, of which items read a few.

What a sweep varies lies in one: a learning rate, a seed, the name of a run.  So a leaf of a bag, a
plain value, is part of a data set's name only where an item reads it.  Whether one does, code
tells that the walk has met: it mentions the leaf's name.  That is a guess, and may be one:
sharing/naming/unread.py notices a read of a leaf that was left out, and no sample that was made with it is
published.  docs/rooms/options.md has the argument.
"""

import dis
import functools
import sys
import types

from . import library, parts, walk
from .library import in_class, is_in_c

# What no item is expected to come to, where a class of settings defines it.
_OWN = frozenset((
    "__init__", "__post_init__", "__repr__", "__str__", "__eq__", "__hash__", "__replace__",
    "__setattr__", "__delattr__"))

# What no class of settings defines: it decides how attributes are read or what becomes of derived
# classes, or makes objects of it something else.
_OTHER = frozenset((
    "__getattribute__", "__init_subclass__", "__del__", "__slots__", "__call__", "__next__",
    "__getitems__", "__getstate__"))
_DATASET = frozenset(("__getitem__", "__len__"))
# Objects of one class, of which more are data rather than options, and packages that data is made of.
MANY = 64
_OF_DATA = frozenset(("torch", "numpy", "PIL", "pandas"))
# C's, in which attributes or items lie as in a plain object or dict.
_BASES = frozenset((object, dict, types.SimpleNamespace))

_STORES = frozenset(("STORE_ATTR", "DELETE_ATTR"))


def of_class(kind):
    """Names that class @kind has, but object has not: asked for one an object has the class's, too."""
    return {name for base in library.mro(kind)[:-1] for name in library.class_dict(base)}


def is_bag(kind):
    """Whether objects of class @kind are bags: nothing but attributes or items, and ways to read them."""
    written = [base for base in library.mro(kind) if not is_in_c(base)]
    names = {name for base in written for name in library.class_dict(base)}
    is_table = library.inherits(kind, dict)
    return type(kind) is type and (not is_in_c(kind) or HAS_PLAIN_HEADS) and _BASES.issuperset(set(library.mro(kind)) - set(written)) \
        and kind is not dict and all(_is_part(base, is_table) for base in written) \
        and not names & _OTHER and (is_table or not names >= _DATASET)


# Whether a type lies in each object right behind how often it is referred to: not in a build for
# debugging, or without a lock.
HAS_PLAIN_HEADS = object.__basicsize__ == 16


def _is_part(base, is_table):
    """Whether class @base, in Python, may be one of a bag's classes."""
    own = library.class_dict(base)
    if library.is_library_class(base):
        return is_table or "__dataclass_fields__" in own or library.class_module(base) == "argparse"
    return not any(_stores(value) for name, value in own.items() if name not in _OWN)


def _stores(value):
    """Whether @value is a function that assigns attributes: of that there is more than of settings."""
    return type(value) is types.FunctionType and _code_stores(value.__code__)


@functools.lru_cache(1024)
def _code_stores(code):
    return any(step.opname in _STORES for step in dis.get_instructions(code))


def _ruled(kind, names):
    """Those of @names that objects of class @kind are asked for in vain: the class decides."""
    return {name for name in of_class(kind).intersection(names)
            if {"__set__", "__delete__"} & of_class(type(in_class(kind, name)))}


class _Probe:
    pass


def dict_of(kind):
    """What reads the dict of objects of @kind, a bag's class; None where they have none."""
    return in_class(kind, "__dict__")


def _references(value, reads):
    attributes = reads.__get__(value)
    return sys.getrefcount(attributes)


_ALONE = _references(_Probe(), dict_of(_Probe))


def has_its_dict_alone(value):
    """Whether nobody but the bag @value refers to its dict, as vars() has given it to some."""
    reads = dict_of(type(value))
    return reads is None or _references(value, reads) <= _ALONE


_name_of = type.__dict__["__name__"].__get__


def asks_types(walker):
    """
    Code asks objects for their type, or looks past it: none that it names is to have another one, not for
    a moment.
    """
    walker.memory[asks_types] = True


def functions(value):
    """The functions that are behind @value, an attribute of a class."""
    if type(value) in (staticmethod, classmethod):
        value = value.__func__
    found = (value.fget, value.fset, value.fdel) if type(value) is property else (value,)
    return [function for function in found if type(function) is types.FunctionType]


def note_methods(walker, attributes):
    """The class that is walked has these @attributes: who wants a method says its name."""
    known = walker.memory.setdefault(note_methods, {})
    for name, value in attributes.items():
        if not name.startswith("__"):
            known.update((id(function), name) for function in functions(value))


def mention(walker, function, names):
    """
    An item may come to @function, whose code mentions these @names; to a method only where its own is
    mentioned.
    """
    walker.memory.setdefault(mention, []).append((function, names))


def _reachable(walker):
    """[(function, names it mentions)] that an item may come to, and all these names."""
    methods, found, names, count = walker.memory.get(note_methods, {}), [], set(), -1
    waiting = [(methods.get(id(function)), function, mentioned) for function, mentioned in walker.memory.get(mention, ())
               if function.__code__.co_name not in _OWN]
    while count != len(found):
        count, later = len(found), []
        for method, function, mentioned in waiting:
            if method is None or method in names:
                found.append((function, mentioned))
                names |= mentioned
            else:
                later.append((method, function, mentioned))
        waiting = later
    return found, names


def _leaf(name, part):
    """The bytes of a leaf of a bag, or None where it is none."""
    if type(name) is not str or name.startswith("__"):  # object has such, too
        return None
    if type(part) in (list, tuple) and len(part) > walk.LONG:  # data, of which the walk keeps notes
        return None
    if library.class_module(type(part)) == "omegaconf.nodes":
        return _node(part, vars(part).get("_val"))
    return None if type(part) is dict else walk.plain_bytes(part)  # which may be a bag itself


# Behind the bytes of an OmegaConf's leaf that is worked out by a function when it is read: "${now:%H}".
_WORKED_OUT = b" is worked out"


def _node(node, value):
    """The bytes of an OmegaConf's @node, which has this @value, or None."""
    if type(value) not in walk.ATOMS:
        return None
    is_worked_out = type(value) is str and "${" in value and ":" in value.partition("${")[2]
    return walk.plain_bytes(value) + walk.encoded(library.class_name(type(node))) + \
        _WORKED_OUT * is_worked_out


def add(walker, value, attributes, items=None):
    """
    Add the @attributes, {name: value}, and the @items of @value, a bag; leaves are written by finish().
    """
    if _are_many(walker, type(value)):
        walker.add_pairs(list(attributes.items()))
        walk.add_dict(walker, items or {})
        return
    leaves, others = {}, []
    for name, part in attributes.items():
        data = _leaf(name, part)
        if data is None:
            others.append((name, part))
        else:
            leaves[name] = data
    walker.put(b"K", walk.joined(map(walk.encoded, sorted(leaves))))
    walker.add_pairs(others)
    if items is not None:
        walker.add_sequence(list(items))
        for name, part in items.items():
            data = _leaf(name, part)
            if data is None:
                walker.put(b"k")
                walker.add(part, "[%r]" % (name,))
            else:
                leaves[name] = walk.joined((leaves[name], data)) if name in leaves else data
    walker.memory.setdefault(add, []).append((value, leaves))


def _are_many(walker, kind):
    """Whether objects of @kind, of which one more was met, are data: all there is of them counts."""
    met = walker.memory.setdefault(_are_many, {})
    met[kind] = met.get(kind, 0) + 1
    return met[kind] > MANY


def add_class(walker, kind, attributes):
    """
    Add the @attributes, {name: value}, of @kind, a class that is nothing but settings; False: it is more.
    """
    if type(kind) is not type or any(not _is_setting(name, value) for name, value in attributes.items()):
        return False
    found = ((name, _leaf(name, value)) for name, value in attributes.items())
    leaves = {name: data for name, data in found if data is not None}
    walker.put(b"K", walk.joined(map(walk.encoded, sorted(leaves))))
    walker.add_pairs((name, value) for name, value in attributes.items() if name not in leaves)
    walker.memory.setdefault(add, []).append((kind, leaves))
    return True


def _is_setting(name, value):
    return name in _OWN or not name.startswith("__") and not any(
        "__get__" in library.class_dict(base) for base in library.mro(type(value)))


def deny(walker, table):
    """The dict @table is read past its class, in C: it is no bag."""
    walker.memory.setdefault(deny, set()).add(id(table))


@walk.node(dict)
def _table(walker, value):
    """A dict, which may hold options."""
    if not value or not _is_settings(walker, value):
        walk.add_dict(walker, value)
        return
    walker.put(b"{s")
    add(walker, value, {}, value)


def _is_settings(walker, value):
    """Whether the dict @value holds options rather than a table of numbers or texts by their names."""
    if not HAS_PLAIN_HEADS or walker.notes.generators is None or not 0 < len(value) <= walk.LONG:
        return False  # in default mode no dict is anything but exactly one, not for a moment
    kinds = set(map(type, value.values()))
    return set(map(type, value)) == {str} and "__builtins__" not in value and kinds not in ({int}, {str}) \
        and _OF_DATA.isdisjoint(library.class_module(kind).partition(".")[0] for kind in kinds) \
        and id(value) not in walker.memory.get(deny, ())


def _is_seen(value, mentioned, has_asked):
    """Whether each read of a leaf of @value would be noticed."""
    if type(value) is type:
        return mentioned.isdisjoint(("__dict__", "vars", "getattr_static"))
    if has_asked and (
            is_in_c(type(value)) or not mentioned.isdisjoint(map(_name_of, library.mro(type(value))))):
        return False  # it may be asked whether it is of exactly this class
    return has_its_dict_alone(value)


def finish(walker, digest):
    """
    16 bytes for what has this @digest and the leaves of bags; leaves in the walker's notes which
    were left out of them, what tells all of it, and those that count apart from the rest.
    """
    notes, denied, found = walker.notes, walker.memory.get(deny, ()), walker.memory.get(add, ())
    reachable, mentioned = _reachable(walker) if found else ((), set())
    has_asked, met = asks_types in walker.memory, walker.memory.get(_are_many, {})
    counted, everything, notes.left, notes.out = [], [], [], {}
    for value, leaves in found:
        left = ()
        if notes.read is not None and id(value) not in denied and met.get(type(value), 0) <= MANY \
                and _is_seen(value, mentioned, has_asked):
            left = sorted(leaves.keys() - mentioned - notes.read - notes.ignored - _ruled(type(value), leaves))
        for name, data in sorted(leaves.items()):
            everything += (walk.encoded(name), data)
            is_out = name in left or name in notes.ignored
            if name in left:
                notes.out.setdefault(name, []).append(data)
            if not is_out and data.endswith(_WORKED_OUT):
                raise walk.Unknown("resolver", parts.path_of(walker, value, name))
            counted += (b"", b"") if is_out else everything[-2:]
            if notes.parts is not None and not is_out:
                user = next((function.__qualname__ for function, names in reachable if name in names), None)
                notes.parts.append(parts.leaf(walker, value, name, data, user))
        if left:
            notes.left.append((value, left))
    cells = [data for _, data in notes.cells or ()]
    notes.whole = walk.summed(digest, *everything, *cells)
    notes.still = walk.summed(digest, *counted)
    notes.apart = digest, walk.summed(*counted, *cells)
    return walk.summed(digest, *counted, *cells)
