# SPDX-License-Identifier: MIT
"""
Where indices become samples, under alignment: take, or compute for everybody.

The samples of a batch are independent of each other, so the workers of all jobs split them:
who finds one in the making goes on with the next, then looks ahead into the batches queued
for this worker, and only then waits, at most until the deadline of the store.
"""

import collections
import ctypes
import queue
import select

import torch

from .. import clock, native
from . import align, batches, codec, collate, generators, scopes
from .indices import index_bytes

generators.fill = native.twister
expect_workers = scopes.expect_workers  # for patch.py

_RAISED = object()

# Whoever takes a sample takes it as one of about so many, most of which it has yet to read.
BATCH = 64

# A trainer that was not busy has sent the next batch after so many times 5 ms.
MOMENTS = 8


def _copy_to_ring(target, source, size):
    native.copy(target, source, size, BATCH * size)


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

    def __getattr__(self, name):
        return getattr(self._wrapped, name)

    def get(self, *args, **kwargs):
        if self._stash:
            return self._stash.popleft()
        return self._wrapped.get(*args, **kwargs)

    def stashed(self):
        """How many were in the queue when waiting() was last called, and still are."""
        return len(self._stash)

    def waiting(self):
        """The Works that are queued, in order."""
        try:
            while len(self._stash) < 64 and self._arrivals():
                self._stash.append(self._wrapped.get_nowait())
        except (queue.Empty, OSError, EOFError):
            pass
        return [item[1] for item in self._stash
                if type(item) is tuple and type(item[1]) is align.Work]


worker_queue = None  # of this worker process, set by patch.py


class Fetch:
    """The work on one batch."""

    def __init__(self, scope, work, indices):
        self.scope = scope
        self.sample = scope.sample
        self.work = work
        self.indices = indices
        self.batch = collate.Batch(len(indices), scope.direct, native.copy)
        self.progress = bytearray([native.UNSEEN]) * len(indices)
        self.taking = None
        self.failed_at = len(indices)
        self.error = None
        self.own_generators = None
        self.threads = torch.get_num_threads()

    def run(self):
        try:
            self._fill()
        finally:
            self.leave()
        if self.error is not None:
            raise self.error
        return self.batch

    def leave(self):
        """Put everything back as the program had it."""
        self.sample.drop()
        if self.own_generators is not None:
            generators.restore(self.own_generators)
            if self.threads != 1:
                torch.set_num_threads(self.threads)

    def _fill(self):
        """Put all samples; those in the making elsewhere last."""
        position = 0
        while position < self.failed_at:
            position, verdict = self._next(position, True)
            if position < self.failed_at:
                self._settle(position, verdict)
            position += 1
        # The first of them was begun first; the others are likely to be there after it.
        position, moments = self.progress.find(native.BUSY), 0
        while 0 <= position < self.failed_at:
            position, verdict = self._next(position, False)
            if verdict == native.BUSY:
                if self._look_ahead():
                    moments = 0
                    continue
                wait = native.WAIT
                if moments < MOMENTS and self._may_be_sent_more():
                    wait, moments = native.MOMENT, moments + 1
                verdict = self._ask(position, wait)
                if verdict == native.BUSY:
                    continue
            if position < self.failed_at:
                self._settle(position, verdict)
            position = self.progress.find(native.BUSY, position)

    def _next(self, position, patient):
        """
        (position, verdict) of the next sample from @position on that is not simply there; passing
        by those that are BUSY if @patient.  The verdict is that of _ask().
        """
        taking = self._taking()
        if taking is None:
            return position, self._ask(position)
        position = taking.take(self.sample, position, patient)
        if position == len(self.progress):
            return position, None
        verdict = self.progress[position]
        return position, native.HIT if verdict == native.ODD else verdict

    def _taking(self):
        """What takes many samples in one call, as soon as there is one to compare them with."""
        if not self.batch.direct or not self.batch.rows or self._is_cheap():
            return None
        if self.taking is None:
            names = self._names(self.work, self.indices)
            self.taking = names and batches.Taking(names, self.batch, self.progress)
        return self.taking or None

    def _names(self, work, indices):
        """The names of the samples at @indices of @work, or False: to be asked for singly."""
        dataset = self.scope.dataset
        if self.scope.unwrap is not None:
            found = [self.scope.unwrap(dataset, index) for index in indices]
            if len({id(inner) for inner, _ in found}) != 1:
                return False
            dataset, indices = found[0][0], [index for _, index in found]
        if not batches.can_be_named(indices):
            return False
        prefix, stream = self._streams(dataset, work)
        return prefix is not None and batches.Names(prefix, stream, indices, work.occurrences)

    def _streams(self, dataset, work):
        """(what the key of a sample of @dataset begins with or None, what its seeds do)."""
        return self.scope.prefix(dataset, work.stream), work.stream

    def _is_cheap(self):
        """Whether sharing these samples would not pay."""
        return self.scope.is_cheap()

    def _name(self, work, position, index):
        """Say which sample is meant; whether it may be shared."""
        occurrence = work.occurrences[position] if work.occurrences else 0
        dataset = self.scope.dataset
        if self.scope.unwrap is not None:
            dataset, index = self.scope.unwrap(dataset, index)
        index = index_bytes(index)
        prefix = self.scope.prefix(dataset, work.stream)
        # What cannot be named draws by its place in the epoch, which is no worse than any.
        self.sample.name(prefix or work.stream, work.stream,
                         b"?%d %d" % (work.number, position) if index is None else index,
                         occurrence)
        if index is None:
            native.count_pass(b"torch_index")
        elif prefix is None:
            native.count_pass(self.scope.reason)
        return index is not None and prefix is not None

    def _ask(self, position, wait=native.NOW):
        """HIT, CLAIM, BUSY or PASS for the sample at @position; None: not to be shared."""
        if not self._name(self.work, position, self.indices[position]):
            return None
        if self._is_cheap():
            native.count_pass(b"torch_cheap")
            return None
        return self.sample.take(wait)

    def _settle(self, position, verdict):
        """Put the sample at @position into the batch, or mark it as BUSY."""
        if verdict == native.BUSY:
            self.progress[position] = native.BUSY
            return
        self.progress[position] = native.PUT
        if verdict != native.HIT or not self._use_hit(position):
            self._compute(position, verdict)

    def _use_hit(self, position):
        sample = self.sample
        if sample.view.verify:
            return self._verify(position)
        try:
            extra = self.batch.put_record(position, sample.meta(), sample.view.payload,
                                          sample.view.payload_bytes, sample.origin())
        except Exception as error:  # no sample that is understood here
            native.report(error)
            sample.drop()
            return False
        sample.taken()
        self._took(extra)
        return True

    def _verify(self, position):
        """Compute the hit as well, and use that."""
        sample = self.sample
        value = self._item(self.indices[position])
        if value is _RAISED:
            sample.drop()
            self.failed_at = position
            return True
        try:
            encoded = codec.encode(value, self._extra())
            equal = encoded.meta == sample.meta() and \
                encoded.bytes == sample.view.payload_bytes and \
                _is_equal(encoded.leaves, sample.view.payload)
        except codec.Unshareable:
            encoded, equal = None, False
        sample.verified(equal)
        self.batch.put_value(position, value, encoded)
        return True

    def seed(self):
        """Let the generators be those of the sample that was named."""
        if self.own_generators is None:
            self.own_generators = generators.save()
            if self.threads != 1:
                torch.set_num_threads(1)  # sums depend on it, and workers have one
        view = self.sample.view
        generators.seed(view.torch_seed, view.python_seed, view.numpy_seed)

    def _item(self, index):
        """dataset[index] under its generators; _RAISED with self.error when it raises."""
        self.seed()
        start = clock.thread_ns()
        try:
            value = self.scope.dataset[index]
        except Exception as error:  # the program's own; raised again when it is its turn
            self.error = error.with_traceback(error.__traceback__.tb_next)
            return _RAISED
        self.scope.learn(clock.thread_ns() - start)
        return value

    # ---- what the default mode does in another way (exact.py) ----

    def _may_nest(self, verdict):
        """Whether decodes inside are not worth sharing for themselves."""
        return True

    def _extra(self):
        """What goes into the record besides the sample."""
        return None

    def _took(self, extra):
        """A record was taken that had this extra."""

    def _produce(self, index, verdict):
        """(value, encoded) of an item that is ours to compute; published when it may be."""
        sample = self.sample
        sample.begin(self._may_nest(verdict))
        raised = True
        try:
            value = self._item(index)
            raised = value is _RAISED
        finally:
            publish = sample.end(raised)
        if raised:
            return _RAISED, None
        try:
            encoded = codec.encode(value, self._extra())
        except codec.Unshareable:
            if publish:
                native.count_pass(b"torch_sample")
                sample.drop()
            return value, None
        if publish:
            address = sample.reserve(encoded.meta, encoded.bytes)
            if address:
                codec.fill(encoded.leaves, address, _copy_to_ring)
                encoded.origin = sample.publish()
        return value, encoded

    def _compute(self, position, verdict):
        """Make the sample at @position, for others as well unless @verdict is None."""
        if verdict is not None:
            value, encoded = self._produce(self.indices[position], verdict)
        else:
            value, encoded = self._item(self.indices[position]), None
        if value is _RAISED:
            self.failed_at = position
        else:
            self.batch.put_value(position, value, encoded)

    # ---- ahead ----

    def _may_look_ahead(self):
        return self.scope.may_look_ahead and worker_queue is not None and self.error is None

    def _may_be_sent_more(self):
        """
        Whether another batch may be about to be queued: the trainer sends one when it gets the
        batch before this one, which has only just been sent where batches are small.
        """
        return self._may_look_ahead() and not worker_queue.stashed()

    def _look_ahead(self):
        """Compute one sample of a later batch; False when there is none to do."""
        if not self._may_look_ahead():
            return False
        for work in worker_queue.waiting():
            if type(work.indices) not in (list, tuple):
                continue
            position = self._claim_ahead(work)
            if position is not None:
                self._produce(work.indices[position], native.CLAIM)
                self.error = None  # its own batch will raise it
                return True
        return False

    def _claim_ahead(self, work):
        """The position of a sample of @work that is ours to make now, or None."""
        count = len(work.indices)
        if work.looked < count and (work.names is None
                                    or work.names[0] is not self.scope.prefixes):
            names = self._names(work, work.indices)
            work.names = (self.scope.prefixes, names)
        if work.looked < count and work.names[1]:
            position = self.sample.claim_batch(work.names[1].reference, work.looked)
            work.looked = position + 1
            return position if position < count else None
        while work.looked < count:
            position, work.looked = work.looked, work.looked + 1
            if not self._name(work, position, work.indices[position]):
                return None
            verdict = self.sample.take()
            if verdict == native.CLAIM:
                return position
            self.sample.drop()
            if verdict == native.PASS:
                return None
        return None


def _is_equal(leaves, payload):
    for leaf, offset in zip(leaves, codec.offsets([leaf.bytes for leaf in leaves])):
        if ctypes.string_at(leaf.address, leaf.bytes) != \
                ctypes.string_at(payload + offset, leaf.bytes):
            return False
    return True


def _plain(fetcher, work, indices):
    """The samples without sharing, under the same generators; for when we are in doubt."""
    run = Fetch(scopes.Scope(fetcher), work, indices)
    samples = []
    try:
        for position, index in enumerate(indices):
            run._name(work, position, index)
            value = run._item(index)
            if value is _RAISED:
                raise run.error
            samples.append(value)
    finally:
        run.leave()
    return samples


def batch_of(run):
    """
    The collate.Batch that @run makes, or None when something of ours failed; the only
    exceptions that come out of here are those of the data set.
    """
    run.scope.in_use = True
    try:
        return run.run()
    except Exception as error:
        if error is run.error:
            raise
        native.report(error)
    finally:
        run.scope.in_use = False
    native.count_pass(b"torch_settings")
    return None


def _aligned_batch(fetcher, work, indices):
    scope, batch = scopes.scope_of(fetcher), None
    scope.look()
    if scopes.is_alone(scope):
        batch = batch_of(Fetch(scope, work, indices))
    if batch is None:
        batch = collate.Batch(len(indices), False)
        for position, value in enumerate(_plain(fetcher, work, indices)):
            batch.put_value(position, value, None)
    return batch


def _whole_batch(fetcher, work, original):
    """A batch that the data set makes in one call: aligned by its first index, not shared."""
    native.count_pass(b"torch_getitems", len(work.indices))
    run = Fetch(scopes.scope_of(fetcher), work, work.indices)
    try:
        if work.indices:
            run._name(work, 0, work.indices[0])
            run.seed()
        return original(fetcher, work.indices)
    finally:
        run.leave()


def fetch(fetcher, work, original):
    """What _MapDatasetFetcher.fetch() gives for the batch of @work."""
    if fetcher.auto_collation and scopes.fetches_batches(fetcher.dataset):
        return _whole_batch(fetcher, work, original)
    if not fetcher.auto_collation:
        return fetcher.collate_fn(_aligned_batch(fetcher, work, [work.indices]).samples()[0])
    return _aligned_batch(fetcher, work, work.indices).finish(fetcher.collate_fn)
