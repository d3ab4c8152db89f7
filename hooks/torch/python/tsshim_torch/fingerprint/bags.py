# SPDX-License-Identifier: MIT
"""
Bags of options: objects in which a program keeps its settings, of which items read a few.

What a sweep varies lies in one: a learning rate, a seed, the name of a run.  So a leaf of a bag, a
plain value, is part of a data set's name only where an item reads it.  Whether one does, code
tells that the walk has met: it mentions the leaf's name.  That is a guess, and may be one:
sharing/unread.py notices a read of a leaf that was left out, and no sample that was made with it is
published.  docs/rooms/options.md has the argument.
"""

import sys
import types

from . import library, walk
from .library import HEAP_TYPE

_flags = type.__dict__["__flags__"].__get__

# What a class of settings may define, none of which decides how an attribute is read; and what
# no item is expected to come to.
_OWN = frozenset((
    "__init__", "__post_init__", "__repr__", "__str__", "__eq__", "__hash__", "__replace__"))

# What does, where somebody has put it into a library's class.
_ACCESS = frozenset(("__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__getstate__"))

_mentioned = {}  # id(code) -> (code, names)


def _mentions(code):
    """The names and constant strings in @code and in the functions defined in it."""
    known = _mentioned.get(id(code))
    if known is None:
        found, waiting = set(code.co_names), list(code.co_consts)
        for value in waiting:
            kind = type(value)
            if kind is str:
                found.add(value)
            elif kind is tuple or kind is frozenset:
                waiting += value
            elif kind is types.CodeType:
                found |= _mentions(value)
        known = _mentioned[id(code)] = (code, found)
    return known[1]


def _is_descriptor(value):
    return any("__get__" in library.class_dict(base) for base in library.mro(type(value)))


def of_class(kind):
    """Names that class @kind has, but object has not: asked for one an object has the class's, too."""
    return {name for base in library.mro(kind)[:-1] for name in library.class_dict(base)}


def is_bag(kind):
    """Whether objects of class @kind are bags: nothing but a dict of attributes."""
    if library.class_name(kind) == "argparse.Namespace":
        return library.is_library_class(kind) and not _ACCESS & of_class(kind)
    *classes, last = library.mro(kind)
    if last is not object or type(kind) is not type or library.is_library_class(kind):
        return False
    parts = [pair for base in classes for pair in library.class_dict(base).items()]
    return all(_flags(base) & HEAP_TYPE for base in classes) and all(
        name in _OWN or type(value) is types.GetSetDescriptorType or not _is_descriptor(value)
        for name, value in parts) and "__slots__" not in dict(parts)


class _Probe:
    pass


def dict_of(kind):
    """What reads the dict of objects of @kind, a bag's class."""
    return next(library.class_dict(base)["__dict__"] for base in library.mro(kind)
                if "__dict__" in library.class_dict(base))


def _references(value):
    attributes = dict_of(type(value)).__get__(value)
    return sys.getrefcount(attributes)


_ALONE = _references(_Probe())


def has_its_dict_alone(value):
    """Whether nobody but the bag @value refers to its dict, as vars() has given it to some."""
    return _references(value) <= _ALONE


def mention(walker, code):
    """An item may come to @code."""
    if code.co_name not in _OWN:
        walker.memory.setdefault(mention, set()).update(_mentions(code))


def _leaf(name, part):
    """The bytes of a leaf of a bag, or None where it is none."""
    is_long = type(part) in (list, tuple, dict) and len(part) > walk.LONG  # data, of which the walk keeps notes
    return None if is_long or name.startswith("__") else walk.plain_bytes(part)  # object has such, too


def add(walker, value, attributes):
    """
    Add the @attributes, {name: value}, of @value, a bag; leaves are written by finish().
    """
    leaves, others = {}, []
    for name, part in attributes.items():
        data = _leaf(name, part)
        if data is None:
            others.append((name, part))
        else:
            leaves[name] = data
    walker.put(b"K", walk.joined(map(walk.encoded, sorted(leaves))))
    walker.add_pairs(others)
    walker.memory.setdefault(add, []).append((value, leaves))


def finish(walker, digest):
    """
    16 bytes for what has this @digest and the leaves of bags; leaves in the walker's notes which
    were left out of them, what tells all of it, and those that count apart from the rest.
    """
    notes, mentioned = walker.notes, walker.memory.get(mention, set())
    counted, everything, notes.left = [], [], []
    for value, leaves in walker.memory.get(add, ()):
        left = ()
        if notes.read is not None and has_its_dict_alone(value):
            # Without a leaf of that name the bag would give the class's: a default, say.
            left = sorted(leaves.keys() - mentioned - notes.read - of_class(type(value)))
        for name, data in sorted(leaves.items()):
            everything += (walk.encoded(name), data)
            counted += (b"", b"") if name in left else everything[-2:]
        if left:
            notes.left.append((value, left))
    notes.whole = walk.summed(digest, *everything)
    notes.apart = digest, walk.summed(*counted)
    return walk.summed(digest, *counted)
