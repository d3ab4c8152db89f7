# SPDX-License-Identifier: MIT
"""
Data sets whose iterations were found to give the same items in several jobs, for the workers of
this job to come: names in memory that a process shares with those it forks.
"""

import mmap

_SLOTS, NAME = 256, 16
_equal = None  # names of these, in memory that is shared with workers to come


def expect():
    """This process may be about to fork workers."""
    global _equal
    if _equal is None:
        _equal = mmap.mmap(-1, _SLOTS * NAME)


def is_equal(name):
    return _equal is not None and any(
        _equal[at:at + NAME] == name for at in range(0, len(_equal), NAME))


def note_equal(name):
    """A slot that two workers write at once holds no name, or one of theirs."""
    for at in range(0, len(_equal or b""), NAME):
        if _equal[at:at + NAME] == bytes(NAME):
            _equal[at:at + NAME] = name
            return
