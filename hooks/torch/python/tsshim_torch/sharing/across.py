# SPDX-License-Identifier: MIT
"""
Samples between nodes: which of those that a worker has claimed the other nodes are asked for, and
what is done until they answer (hooks/torch/across.c).

Several are asked for at once, each in a struct of its own, for an answer takes its time and some
come only when another node has made them.  Meanwhile the worker goes on with its batch, makes what
no node has, and then looks at the batches that are queued for it, as it does for what other
workers of its node make.
"""

from .. import native
from . import aligned

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


class Drawn(aligned.Drawn):
    """A batch of an aligned job: other nodes are asked for what was claimed here."""

    def __init__(self, scope, work, indices):
        super().__init__(scope, work, indices)
        self.sample.across()
        self.errands = Errands(scope)

    @classmethod
    def expect_workers(cls):
        native.Sample().across()  # which starts the helper: it is there when they need it

    def leave(self):
        self.errands.leave()
        super().leave()

    def _is_sought(self, work, position, is_ahead=False):
        if not self.sample.seek():
            return False
        self.errands.add(self.sample, work, position, is_ahead)
        self.sample = self.scope.sample = self.errands.spare()
        return True

    def _next(self, position, patient):
        position, verdict = super()._next(position, patient)
        self.is_alone = False  # what nobody asks for here, other nodes may
        return position, verdict

    def _settle(self, position, verdict):
        super()._settle(position, verdict)
        if self.progress[position] == native.ASKED:
            while self._attend(wait=not self.errands.has_room()):
                pass

    def _attend(self, wait):
        """See to one answer; whether there is, or may be soon with @wait, another one."""
        answer = self.errands.next(wait)
        if answer is None:
            return wait and not self.errands.has_room()
        errand, verdict = answer
        asking, self.sample = self.sample, errand.sample
        if verdict == native.CLAIM and errand.prefixes is not self.scope.prefixes:
            self.sample.drop()  # the data set has another name by now
            verdict = None
        try:
            if errand.is_ahead:
                self._take_ahead(errand.work, errand.position, verdict)
            elif errand.position < self.failed_at:
                aligned.fetch.Fetch._settle(self, errand.position, verdict)
        finally:
            self.sample = asking
            self.errands.done(errand.sample)
        return True

    def _fill(self):
        super()._fill()
        while self.errands.is_waiting(self.failed_at):
            if self._attend(False):
                self.moments = 0
            elif not self._look_ahead():
                self._attend(True)
            self._fill_rest()

    def _wait(self, position):
        if len(self.errands):
            self._attend(True)
            return native.BUSY
        return super()._wait(position)

    def _may_look_ahead(self):
        return super()._may_look_ahead() and self.errands.has_room()


def use():
    """Let the batches of this process be such."""
    aligned.Batch = Drawn
