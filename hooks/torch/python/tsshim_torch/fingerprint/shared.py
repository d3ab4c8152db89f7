# SPDX-License-Identifier: MIT
"""
Numbers that processes share, as multiprocessing.Value and Array: what they are now is part of a name.

An epoch that the program tells its workers, a curriculum's step: an item may read it at any time, so
the caller compares them again behind each item (sharing/naming.py).  Locks around them say nothing.
"""

import ctypes

from . import library

MOST = 1 << 12  # bytes of one
_NUMBERS = frozenset("bBhHiIlLqQfd?c")


def _is_of_numbers(kind):
    """Whether objects of the ctypes @kind are numbers, or arrays of such, and no pointers."""
    inner = getattr(kind, "_type_", None)
    if library.inherits(kind, ctypes.Array):
        return _is_of_numbers(inner)
    return type(inner) is str and inner in _NUMBERS


def now(cell):
    """The bytes that lie in @cell, of ctypes."""
    return ctypes.string_at(ctypes.addressof(cell), ctypes.sizeof(cell))


def add(walker, value):
    """Write what @value is now, and note it for the caller; False: it may be more than numbers."""
    cells, kind = walker.notes.cells, type(value)
    if library.class_module(kind) == "multiprocessing.sharedctypes" and not library.inherits(kind, ctypes.Array):
        value = vars(value).get("_obj")  # in a wrapper with a lock
    if cells is None or not isinstance(value, (ctypes._SimpleCData, ctypes.Array)) \
            or not _is_of_numbers(type(value)) or ctypes.sizeof(value) > MOST:
        return False
    data = now(value)
    walker.put(b"V", repr((kind.__name__, type(value).__name__)))
    walker.tell(data)
    cells.append((value, data))
    return True
