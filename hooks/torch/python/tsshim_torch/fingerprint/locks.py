# SPDX-License-Identifier: MIT
"""
Locks that a data set has, while nobody holds them: then all they say is that they are locks.

Only where the caller seeds what items draw (under --align): an item could ask a lock whether
another thread has it just then, which no name tells.  What counts, wakes or waits besides
(conditions, events, semaphores, queues) stays unknown.
"""

import _thread

_RLOCK = _thread.RLock
_LOCK = type(_thread.allocate_lock())


def add_lock(walker, value):
    """Write that @value is a lock that nobody holds; gives False where it may be more."""
    kind = type(value)
    if walker.notes.generators is None or kind not in (_LOCK, _RLOCK):
        return False
    # Old ones of the second kind tell it in their text only, whoever asks.
    is_held = value.locked() if kind is _LOCK else not repr(value).startswith("<unlocked ")
    if is_held:
        return False
    walker.put(b"%", kind.__name__)
    return True
