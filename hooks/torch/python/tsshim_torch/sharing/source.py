# SPDX-License-Identifier: MIT
"""
The iterator of an iterable data set in this process: item by item, each with the files that it
opened, and drawing from generators that are the iteration's.
"""

import struct

from .. import asking, clock, native
from ..asking import Raised
from . import digests, generators, unread

# What is no input: Python looks for code once in a process.
_CODE = (b".py", b".pyc", b".so")

END = object()  # in the place of an item behind the last one
_ENTRY = struct.Struct("=5q2HI")  # leader/inputs/opens.c
_HEADER = 8  # bytes


def files_of(inputs):
    """The entries of a list of files, without code, as bytes."""
    found, at = [], _HEADER
    while at < len(inputs):
        end = at + _ENTRY.size + _ENTRY.unpack_from(inputs, at)[5]
        if end > len(inputs):
            raise ValueError("files")
        entry = inputs[at:end]
        if not entry.endswith(_CODE):
            found.append(entry)
        at = end
    return b"".join(found)


class Generators:
    """
    Those that an iteration draws from: the global ones, and those that its data set has of its
    own.  The latter are the same in all workers, as they are where these are forked.
    """

    def __init__(self, own, seed, numbers):
        self.own, self.seed, self.numbers = own, seed, numbers
        self.inside = self.outside = None

    def _states(self):
        return generators.save(), self.own.states()

    def _put(self, states):
        generators.restore(states[0])
        self.own.put(states[1])

    def enter(self):
        if self.outside is not None:
            return
        self.outside = self._states()
        if self.inside is not None:
            self._put(self.inside)
        else:
            self.begin()

    def begin(self):
        """Let them be as an iteration begins with them."""
        words = digests.digest("tsshim numpy", self.seed)
        generators.seed(self.seed, self.seed, int.from_bytes(words[:4], "little"))
        self.own.begin(self.numbers)

    def leave(self):
        if self.outside is not None:
            self.inside = self._states()
            self._put(self.outside)
            self.outside = None


class Leaves:
    """
    Those of bags of options that the name of an iteration lacks, {name: [bytes]} as it began.  They are
    hidden whenever its iterator runs; what has read one may be kept until its end.
    """

    def __init__(self, scope, left):
        self.scope, self.left = scope, dict(left)
        self.armed, self.have_read = [], False

    def hide(self):
        """The iterator is asked for its next item."""
        if self.left and not self.armed:
            self.armed = self.scope.arm()

    def read(self):
        """
        Leaves that have been read lately, with what they were as the iteration began: they are part
        of its name from now on.  A thread may read all of them when nobody looks.
        """
        if not self.left:
            return None
        names = set()
        if unread.noticed() != self.scope.noticed:
            names = self.scope.learn_reads()
        if not self.scope.all_are_noticed():
            names = set(self.left)
        self.have_read |= bool(names)
        return [(name, self.left.pop(name, [])) for name in sorted(names)]

    def forget(self):
        """The name is of no use any more."""
        self.left.clear()

    def reveal(self):
        """Count all that is hidden now; whether there was anything."""
        return unread.notice_all(self.armed)

    def give_back(self):
        """The batch is made."""
        armed, self.armed = self.armed, []
        unread.disarm(armed)


class Source:
    """The iterator over @dataset; @scope learns what its items cost."""

    def __init__(self, dataset, scope, own):
        self.dataset, self.scope, self.generators = dataset, scope, own
        self.iterator = None
        self.made = 0  # items that it has given, the END as well

    def _next(self):
        if self.iterator is None:
            self.iterator = asking.Iterated(self.dataset, self.scope.auto)
        return next(self.iterator)

    def begin_anew(self):
        """Let another iterator come to where this one has failed; one that cannot raises what it will."""
        self.iterator = None
        self.generators.begin()
        for _ in range(self.made):
            self._next()

    def make(self, sample, how):
        """
        The next item of the own iterator, observed by @sample; END behind the last one.  Gives
        (item, whether @sample may be published, the files it opened or None: not to be told).
        """
        self.generators.enter()
        sample.begin(how | native.WATCH)
        start, outcome = clock.thread_ns(), native.RAISED
        try:
            try:
                value, made = self._next(), native.MADE
            except StopIteration:
                value, made = END, native.NOTHING
            except Exception as error:  # the program's own
                raise Raised(asking.theirs(error)) from None
            outcome = made
        finally:
            publish = sample.end(outcome)
            inputs = sample.inputs()
        if value is not END:
            self.scope.learn(clock.thread_ns() - start)
        self.made += 1
        return value, publish, None if inputs is None else files_of(inputs)
