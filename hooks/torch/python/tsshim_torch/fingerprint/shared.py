# SPDX-License-Identifier: MIT
"""
Numbers that processes share, or may: multiprocessing.Value and Array, objects of ctypes, small tensors
and arrays in shared memory.  What they are now is part of a name.

An epoch that the program tells its workers, a curriculum's step: an item may read it at any time, so
the caller compares them again behind each item (sharing/naming/aligned_names.py).  Locks around them say nothing.
"""

import ctypes

from . import library
from .walk import value as in_place

MOST = 1 << 12  # bytes of one
MANY = 1 << 5  # of one data set, at a microsecond per item
OBJECT = ctypes.Structure.__mro__[-2]  # the class that all of ctypes derive from
_NUMBERS = frozenset("bBhHiIlLqQfd?c")
_FIELD = type(type("_One", (ctypes.Structure,), {"_fields_": [("a", ctypes.c_int)]}).a)


@in_place(_FIELD)
def _field(field):
    return b"C" + repr(field).encode()  # its type, place, size and bits


def _is_of_numbers(kind):
    """Whether objects of the ctypes @kind are numbers, or made of such, and no pointers."""
    if library.inherits(kind, ctypes.Array):
        return _is_of_numbers(library.in_class(kind, "_type_"))
    if library.inherits(kind, ctypes.Structure) or library.inherits(kind, ctypes.Union):
        return all(_is_of_numbers(field[1]) for base in library.mro(kind)
                   for field in library.class_dict(base).get("_fields_", ()))
    return library.inherits(kind, ctypes._SimpleCData) and library.in_class(kind, "_type_") in _NUMBERS


def now(cell):
    """The bytes that lie in @cell: of ctypes, or a tensor or an array without holes."""
    if library.inherits(type(cell), OBJECT):
        return ctypes.string_at(ctypes.addressof(cell), ctypes.sizeof(cell))
    if hasattr(cell, "data_ptr"):
        return ctypes.string_at(cell.data_ptr(), cell.numel() * cell.element_size())
    return cell.tobytes()


def note(walker, cell, size):
    """Write what @cell of @size bytes is now, and note it for the caller; False: it is too much, or nobody asks."""
    cells = walker.notes.cells
    if cells is None or size > MOST or len(cells) >= MANY:
        return False
    data = now(cell)
    walker.tell(data)
    cells.append((cell, data))
    return True


def add(walker, value):
    """Write what @value is now, and note it for the caller; False: it may be more than numbers."""
    kind = type(value)
    if library.class_module(kind) == "multiprocessing.sharedctypes" and not library.inherits(kind, OBJECT):
        value = vars(value).get("_obj")  # in a wrapper with a lock
    inner = type(value)
    if not library.inherits(inner, OBJECT) or not _is_of_numbers(inner):
        return False
    walker.put(b"V", repr((kind.__name__, inner.__name__)))
    walker.add(inner, ".__class__", as_kind=True)
    return note(walker, value, ctypes.sizeof(value))
