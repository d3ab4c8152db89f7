# SPDX-License-Identifier: MIT
"""
What the workers of one epoch leave for those of the next: whether samples are shared, or why not,
and what kind of batches a data set makes.

A hint saves time and decides nothing else: with a wrong one, about a data set that was changed
meanwhile for instance, a worker makes some samples as without us.  It lies in memory that a process
shares with the workers it forks.
"""

import mmap
import weakref

from ... import clock

SLOTS = 64  # pairs of data set and collate function that are remembered
SECONDS = 60  # that a hint is believed
REASONS = (b"alone", b"torch_cheap", b"torch_dataset", b"torch_getitems", b"torch_impure",
           b"torch_versions")

# The words of a slot, of 64 bits each.  One that is read between two stores is a wrong hint.
# One of the states, when it was left, what else was found out, how many words there are.
_STATE, _SECOND, _FOUND, _WORDS = 0, 1, 2, 3
_UNKNOWN, _SHARES, _FIRST = 0, 1, 2  # the last: of the first of REASONS

_words = None  # shared with the workers to come
# (id of the data set, id of the collate function) -> (where its words begin, the data set)
_slots = {}


def expect(loader):
    """This process may be about to fork workers for @loader.  No hints where this raises."""
    global _words
    if _words is None:
        _words = memoryview(mmap.mmap(-1, 8 * _WORDS * SLOTS)).cast("Q")
    if _find(loader) is not None:
        return
    try:
        reference = weakref.ref(loader.dataset)
    except TypeError:  # a list or a range, say: there are no hints of these
        return
    key = (id(loader.dataset), id(loader.collate_fn))
    if key not in _slots and len(_slots) >= SLOTS:
        _slots.clear()  # of a program that makes ever new data sets
    at = _slots[key][0] if key in _slots else _WORDS * len(_slots)
    _words[at + _STATE] = _words[at + _FOUND] = _UNKNOWN
    _slots[key] = (at, reference)


def _find(scope):
    """Where the words of @scope, or of a loader, begin; None: there are none."""
    at, reference = _slots.get((id(scope.dataset), id(scope.collate_fn))) or (None, None)
    return at if reference is not None and reference() is scope.dataset else None


def _state(at):
    return _words[at + _STATE] if clock.second() - _words[at + _SECOND] <= SECONDS else _UNKNOWN


def _leave(at, state):
    _words[at + _SECOND] = clock.second()
    _words[at + _STATE] = state


def leave(scope, reason):
    """This worker does not share the samples of @scope for @reason; others may see it otherwise."""
    at = _find(scope)
    if at is not None and reason in REASONS and _state(at) != _SHARES:
        _leave(at, _FIRST + REASONS.index(reason))


def shares(scope):
    """This worker shares samples of @scope."""
    at = _find(scope)
    if at is not None:
        _leave(at, _SHARES)


def are_shared(scope):
    """Whether another worker shared samples of @scope not long ago."""
    at = _find(scope)
    return at is not None and _state(at) == _SHARES


def left(scope):
    """Why the samples of @scope are not shared, as other workers found not long ago, or None."""
    at = _find(scope)
    state = _UNKNOWN if at is None else _state(at)
    return REASONS[state - _FIRST] if _FIRST <= state < _FIRST + len(REASONS) else None


def tell(scope, found):
    """
    Let later workers know the number @found, of 64 bits, which says itself what it is about.
    """
    at = _find(scope)
    if at is not None:
        _words[at + _FOUND] = found


def told(scope):
    """What another worker has told about the data set of @scope, which may have changed, or 0."""
    at = _find(scope)
    return 0 if at is None else _words[at + _FOUND]
