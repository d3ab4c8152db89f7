# SPDX-License-Identifier: MIT
"""
Samples between nodes: which of those that a worker has claimed the other nodes are asked for, and
what is done until they answer (hooks/torch/across.h).

Several are asked for at once, each in a struct of its own, for an answer takes its time and some
come only when another node has made them.  Meanwhile the worker goes on with its batch, makes what
no node has, and then looks at the batches that are queued for it, as it does for what other
workers of its node make.
"""

from .. import native

# So many at once.  What is won waits for its turn, here and on all nodes: more would have others
# wait for what they could make.
DEPTH = 4
DEPTH_NS = 400_000_000  # and no more than take so long to make: a place is kept for two seconds

WAIT_US = 1000  # for the first answer; then all are looked at


class Errand:
    """One sample that was asked for."""

    def __init__(self, sample, work, position, is_ahead, prefixes):
        self.sample, self.work, self.position = sample, work, position
        self.prefixes = prefixes  # of the scope when it was named
        self.is_ahead = is_ahead  # of a batch that is queued
        self.is_claim = False  # it is to be made here


class Errands:
    """Those of one batch."""

    def __init__(self, scope):
        self._scope = scope
        self._out = []

    def __len__(self):
        return len(self._out)

    def has_room(self):
        cost = self._scope.item_ns or 0
        return len(self._out) < max(1, min(DEPTH, DEPTH_NS // max(cost, 1)))

    def add(self, sample, work, position, is_ahead=False):
        self._out.append(Errand(sample, work, position, is_ahead, self._scope.prefixes))

    def is_waiting(self, end):
        """Whether one of this batch is out that comes before position @end."""
        return any(errand.position < end for errand in self._out if not errand.is_ahead)

    def next(self, wait):
        """
        (errand, verdict) of one that is answered, those first that need not be made and then in
        their order, or None; with @wait after a moment.
        """
        claimed = None
        for errand in self._out:
            verdict = native.CLAIM if errand.is_claim else errand.sample.found(
                WAIT_US if wait and errand is self._out[0] else 0)
            if verdict == native.CLAIM:
                errand.is_claim = True
                if claimed is None or errand.is_ahead < claimed.is_ahead:
                    claimed = errand
            elif verdict != native.BUSY:
                self._out.remove(errand)
                return errand, verdict
        if claimed is None:
            return None
        self._out.remove(claimed)
        return claimed, native.CLAIM

    def spare(self):
        """A struct that holds nothing, to ask with."""
        sample = self._scope.spares.pop() if self._scope.spares else native.Sample()
        sample.across()
        return sample

    def done(self, sample):
        """It is not needed any more."""
        sample.drop()
        self._scope.spares.append(sample)

    def leave(self):
        """Wait for none of them."""
        while self._out:
            self.done(self._out.pop().sample)
