# SPDX-License-Identifier: MIT
"""A worker's queue of batches, in which it may look for what it can make before its turn."""

import collections
import os
import queue
import select

from ... import native
from ..order import align

# A trainer that was not busy has sent the next batch after so many times 5 ms.
MOMENTS = 8


def _arrivals(wrapped):
    """
    What tells whether something may have arrived in the queue @wrapped: the system is asked,
    without the selector that the queue makes for each question: 80 us a time.
    """
    try:
        poll = select.poll()
        poll.register(wrapped._reader, select.POLLIN)
    except (AttributeError, OSError, TypeError, ValueError):  # a queue that we do not know
        return lambda: True
    return lambda: bool(poll.poll(0))


class QueueAhead:
    """A worker's queue of batches that lets one look at those that wait in it."""

    def __init__(self, wrapped):
        self._wrapped = wrapped
        self._stash = collections.deque()
        self._arrivals = _arrivals(wrapped)
        self._trainer = os.getppid()
        self.idle = None  # what to do while nothing is queued; given what tells that it is

    def __getattr__(self, name):
        return getattr(self._wrapped, name)

    def get(self, *args, **kwargs):
        if self._stash:
            return self._stash.popleft()
        if self.idle is not None:
            try:
                self.idle(self._arrivals)
            except Exception as error:  # torch's loop must not see it
                self.idle = None
                native.failed(error)
        return self._wrapped.get(*args, **kwargs)

    def stashed(self):
        """How many were in the queue when waiting() was last called, and still are."""
        return len(self._stash)

    def has_more(self):
        """Whether something is queued."""
        self._look()
        return bool(self._stash)

    def is_over(self):
        """Whether the worker is told to end, or its trainer has gone without a word."""
        self._look()
        return None in self._stash or os.getppid() != self._trainer

    def _look(self):
        try:
            while len(self._stash) < 64 and self._arrivals():
                self._stash.append(self._wrapped.get_nowait())
        except (queue.Empty, OSError, EOFError):
            pass

    def waiting(self):
        """The Works that are queued, in order."""
        self._look()
        return [item[1] for item in self._stash
                if type(item) is tuple and type(item[1]) is align.Work]
