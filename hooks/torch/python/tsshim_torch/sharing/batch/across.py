# SPDX-License-Identifier: MIT
"""
Samples between nodes: which of those that a worker has claimed the other nodes are asked for, and
what is done until they answer (hooks/torch/across.c).

Several are asked for at once, each in a struct of its own.  Until they answer, the worker goes on with
its batch, makes what no node has, and looks at the batches that are queued for it.
"""

from ... import native
from . import aligned

# So many at once.  What is won waits for its turn, here and on all nodes: more would have others
# wait for what they could make.
DEPTH = 4
DEPTH_NS = 400_000_000  # and no more than take so long to make: a place is kept for two seconds

WAIT_US = 1000  # for the first answer; then all are looked at


class Request:
    """One sample that other nodes were asked for."""

    def __init__(self, sample, work, position, is_ahead, prefixes):
        self.sample, self.work, self.position = sample, work, position
        self.prefixes = prefixes  # of the scope when it was named
        self.is_ahead = is_ahead  # of a batch that is queued
        self.is_claim = False  # it is to be made here


class Drawn(aligned.Drawn):
    """A batch of an aligned job: other nodes are asked for what was claimed here."""

    def __init__(self, scope, work, indices):
        super().__init__(scope, work, indices)
        self.sample.across()
        self.requests = []

    @classmethod
    def expect_workers(cls):
        native.Sample().across()  # which starts the helper: it is there when they need it

    def leave(self):
        while self.requests:
            self._done(self.requests.pop().sample)
        super().leave()

    def _has_room(self):
        cost = self.scope.item_ns or 0
        return len(self.requests) < max(1, min(DEPTH, DEPTH_NS // max(cost, 1)))

    def _done(self, sample):
        """@sample is not needed any more."""
        sample.drop()
        self.scope.spares.append(sample)

    def _is_sought(self, work, position, is_ahead=False):
        if not self.sample.seek():
            return False
        self.requests.append(Request(self.sample, work, position, is_ahead, self.scope.prefixes))
        self.sample = self.scope.spares.pop() if self.scope.spares else native.Sample()
        self.sample.across()
        self.scope.sample = self.sample
        return True

    def _next(self, position, patient):
        position, verdict = super()._next(position, patient)
        self.is_alone = False  # what nobody asks for here, other nodes may
        return position, verdict

    def _settle(self, position, verdict):
        super()._settle(position, verdict)
        if self.progress[position] == native.ASKED:
            while self._attend(wait=not self._has_room()):
                pass

    def _answer(self, wait):
        """
        (request, verdict) of one that is answered, those first that need not be made and then in
        their order, or None; with @wait after a moment.
        """
        claimed = None
        for request in self.requests:
            verdict = native.CLAIM if request.is_claim else request.sample.found(
                WAIT_US if wait and request is self.requests[0] else 0)
            if verdict == native.CLAIM:
                request.is_claim = True
                if claimed is None or request.is_ahead < claimed.is_ahead:
                    claimed = request
            elif verdict != native.BUSY:
                self.requests.remove(request)
                return request, verdict
        if claimed is None:
            return None
        self.requests.remove(claimed)
        return claimed, native.CLAIM

    def _attend(self, wait):
        """See to one answer; whether there is, or may be soon with @wait, another one."""
        answer = self._answer(wait)
        if answer is None:
            return wait and not self._has_room()
        request, verdict = answer
        asking, self.sample = self.sample, request.sample
        if verdict == native.CLAIM and request.prefixes is not self.scope.prefixes:
            self.sample.drop()  # the data set has another name by now
            verdict = None
        try:
            if request.is_ahead:
                self._take_ahead(request.work, request.position, verdict)
            elif request.position < self.failed_at:
                aligned.fetch.Fetch._settle(self, request.position, verdict)
        finally:
            self.sample = asking
            self._done(request.sample)
        return True

    def _fill(self):
        super()._fill()
        while any(request.position < self.failed_at for request in self.requests if not request.is_ahead):
            if self._attend(False):
                self.moments = 0
            elif not self._look_ahead():
                self._attend(True)
            self._fill_rest()

    def _wait(self, position):
        if self.requests:
            self._attend(True)
            return native.BUSY
        return super()._wait(position)

    def _may_look_ahead(self):
        return super()._may_look_ahead() and self._has_room()


def use():
    """Let the batches of this process be such."""
    aligned.Batch = Drawn
