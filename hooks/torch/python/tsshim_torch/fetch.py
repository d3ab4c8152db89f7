# SPDX-License-Identifier: MIT
"""
Where indices become samples, under alignment: take, or compute for everybody.

The samples of a batch are independent of each other, so the workers of all jobs split them:
who finds one in the making goes on with the next, then looks ahead into the batches queued
for this worker, and only then waits, at most until the deadline of the store.
"""

import collections
import ctypes
import marshal
import queue
import sys
import threading
import time

import torch
from torch.utils.data._utils import worker as torch_worker

from . import align, codec, collate, native

# Sharing a sample costs some 20 us and its copy; below 20 times that it does not pay.
CHEAP_NS = 400_000
CHEAP_AFTER = 8  # items, the fastest of which counts: the first ones import modules
CHEAP_RETRY = 256  # items after which a cheap data set is looked at again

# A data set may be changed by the program at any time: it is looked at again so often that
# this takes no more than 0.5 % of the time.
RECHECK = 200

_INDEX_TYPES = (int, str, float, bool)
_RAISED = object()


class QueueAhead:
    """A worker's queue of batches that lets one look at those that wait in it."""

    def __init__(self, wrapped):
        self._wrapped = wrapped
        self._stash = collections.deque()

    def __getattr__(self, name):
        return getattr(self._wrapped, name)

    def get(self, *args, **kwargs):
        if self._stash:
            return self._stash.popleft()
        return self._wrapped.get(*args, **kwargs)

    def waiting(self):
        """The Works that are queued, in order."""
        try:
            while len(self._stash) < 64:
                self._stash.append(self._wrapped.get_nowait())
        except (queue.Empty, OSError, EOFError):
            pass
        return [item[1] for item in self._stash
                if type(item) is tuple and type(item[1]) is align.Work]


worker_queue = None  # of this worker process, set by patch.py


def index_bytes(index):
    """The index with its type as bytes, or None where it cannot be named."""
    kind = type(index)
    if kind is int and -(1 << 63) <= index < 1 << 63:
        return b"i" + index.to_bytes(8, "little", signed=True)
    if kind in _INDEX_TYPES:
        return marshal.dumps(index, 0)
    if kind in (tuple, list):
        parts = [index_bytes(part) for part in index]
        if None in parts:
            return None
        return (b"(" if kind is tuple else b"[") + b"".join(
            [len(part).to_bytes(4, "little") + part for part in parts])
    if kind.__module__ == "numpy" and isinstance(index, sys.modules["numpy"].generic) \
            and not index.dtype.hasobject:
        return b"n" + index.dtype.str.encode() + b" " + index.tobytes()
    if kind is torch.Tensor and index.dim() == 0 and index.device.type == "cpu":
        return b"t" + str(index.dtype).encode() + b" " + repr(index.item()).encode()
    return None


def fetches_batches(dataset):
    """Whether torch asks @dataset for whole batches; then items are not ours to make."""
    subset = torch.utils.data.Subset
    while type(dataset) is subset:  # whose own __getitems__ only passes on what is inside
        dataset = dataset.dataset
    return callable(getattr(dataset, "__getitems__", None))


class Scope:
    """What the samples of a fetcher are a function of, apart from index and stream."""

    def __init__(self, fetcher):
        self.dataset = fetcher.dataset
        self.direct = collate.is_default(fetcher.collate_fn)
        self.sample = native.Sample()
        self.unwrap = align.unwrapper(self.dataset)
        worker = torch_worker._worker_info
        # A loader inside an item has batches, and a data set, of its own.
        self.may_look_ahead = fetcher.auto_collation and worker is not None \
            and worker.dataset is self.dataset
        self.in_use = False
        self.reason = b"torch_dataset"
        self.identities = {}  # id -> (data set, bytes or None), of the data set or those inside
        self.prefixes = {}
        self.checked, self.cost = float("-inf"), 0.0  # when, and what a look costs; seconds
        self.item_ns = None
        self.items = 0

    def look(self):
        """Fingerprint again what was fingerprinted, when it is time to."""
        if time.monotonic() - self.checked < RECHECK * self.cost:
            return
        start = time.thread_time()
        for dataset, identity in list(self.identities.values()):
            if self._identify(dataset) != identity:
                self.prefixes.clear()
        self.checked = time.monotonic()
        self.cost = max(time.thread_time() - start, 1e-4)

    def _identify(self, dataset):
        identity = self._identity(dataset)
        self.identities[id(dataset)] = (dataset, identity)
        return identity

    def _identity(self, dataset):
        from . import fingerprint
        if native.settings.share == native.SHARE_PIXELS:
            self.reason = b"disabled"
            return None
        try:
            return fingerprint.fingerprint(dataset) + fingerprint.environment()
        except fingerprint.Unknown:
            self.reason = b"torch_dataset"
            return None

    def prefix(self, dataset, stream):
        """16 bytes that name @dataset in this epoch, or None: not to be shared."""
        known = self.prefixes.get((id(dataset), stream))
        if known is None:
            known = self.identities.get(id(dataset))
            identity = known[1] if known else self._identify(dataset)
            if identity is None:
                return None
            known = align._digest("tsshim", codec.FORMAT, identity, stream)
            self.prefixes[id(dataset), stream] = known
        return known

    # ---- cost ----

    def is_cheap(self):
        if self.item_ns is None or self.items < CHEAP_AFTER or self.item_ns >= CHEAP_NS:
            return False
        return self.items % CHEAP_RETRY != 0

    def learn(self, ns):
        self.items += 1
        if self.item_ns is None:
            self.item_ns = ns
        elif self.items <= CHEAP_AFTER:
            self.item_ns = min(self.item_ns, ns)
        else:
            self.item_ns += (ns - self.item_ns) // 8


def is_alone(scope):
    """
    Whether nobody else can be in the middle of an item here: in a worker, or in the main thread
    of the program.  What other threads draw from the global generators is not to be shared.
    """
    return not scope.in_use and (torch_worker._worker_info is not None
                                 or threading.current_thread() is threading.main_thread())


def scope_of(fetcher):
    scope = fetcher.__dict__.get("_tsshim_scope")
    if scope is None:
        scope = fetcher._tsshim_scope = Scope(fetcher)
    else:
        scope.look()
    return scope


class Fetch:
    """The work on one batch."""

    def __init__(self, scope, work, indices):
        self.scope = scope
        self.sample = scope.sample
        self.work = work
        self.indices = indices
        self.batch = collate.Batch(len(indices), scope.direct)
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
            align.restore_generators(self.own_generators)
            if self.threads != 1:
                torch.set_num_threads(self.threads)

    def _fill(self):
        pending = []
        for position in range(len(self.indices)):
            if position < self.failed_at and self._settle(position) == native.BUSY:
                pending.append(position)
        pending.reverse()
        while pending:
            # The first of them was begun first; the others are likely to be there after it.
            position = pending[-1]
            if position < self.failed_at and self._settle(position) == native.BUSY:
                if self._look_ahead():
                    continue
                self._settle(position, wait=True)
            pending.pop()

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

    def _settle(self, position, wait=False):
        """Put the sample at @position into the batch, or answer BUSY."""
        sample, verdict = self.sample, native.PASS
        shareable = self._name(self.work, position, self.indices[position])
        if shareable and self.scope.is_cheap():
            native.count_pass(b"torch_cheap")
            shareable = False
        elif shareable:
            verdict = sample.wait() if wait else sample.take()
        if verdict == native.BUSY:
            return verdict
        if verdict == native.HIT and self._use_hit(position):
            return verdict
        self._compute(position, shareable, verdict)
        return native.PASS

    def _use_hit(self, position):
        sample = self.sample
        if sample.view.verify:
            return self._verify(position)
        try:
            extra = self.batch.put_record(position, sample.meta(), sample.view.payload,
                                          sample.view.payload_bytes)
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
            meta, leaves, size = encoded = codec.encode(value, self._extra())
            equal = meta == sample.meta() and size == sample.view.payload_bytes and \
                _is_equal(leaves, sample.view.payload)
        except codec.Unshareable:
            encoded, equal = None, False
        sample.verified(equal)
        self.batch.put_value(position, value, encoded)
        return True

    def seed(self):
        """Let the generators be those of the sample that was named."""
        if self.own_generators is None:
            self.own_generators = align.save_generators()
            if self.threads != 1:
                torch.set_num_threads(1)  # sums depend on it, and workers have one
        view = self.sample.view
        align.seed_generators(view.torch_seed, view.python_seed, view.numpy_seed)

    def _item(self, index):
        """dataset[index] under its generators; _RAISED with self.error when it raises."""
        self.seed()
        start = time.thread_time_ns()
        try:
            value = self.scope.dataset[index]
        except Exception as error:  # the program's own; raised again when it is its turn
            self.error = error.with_traceback(error.__traceback__.tb_next)
            return _RAISED
        self.scope.learn(time.thread_time_ns() - start)
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
            address = sample.reserve(encoded[0], encoded[2])
            if address:
                codec.fill(encoded[1], address)
                sample.publish()
        return value, encoded

    def _compute(self, position, shareable, verdict):
        if shareable:
            value, encoded = self._produce(self.indices[position], verdict)
        else:
            value, encoded = self._item(self.indices[position]), None
        if value is _RAISED:
            self.failed_at = position
        else:
            self.batch.put_value(position, value, encoded)

    def _look_ahead(self):
        """Compute one sample of a later batch; False when there is none to do."""
        if not self.scope.may_look_ahead or worker_queue is None or self.error is not None:
            return False
        for work in worker_queue.waiting():
            indices = work.indices
            while type(indices) in (list, tuple) and work.looked < len(indices):
                position, work.looked = work.looked, work.looked + 1
                if not self._name(work, position, indices[position]):
                    return False
                verdict = self.sample.take()
                if verdict == native.PASS:
                    return False
                if verdict != native.CLAIM:
                    self.sample.drop()
                    continue
                self._produce(indices[position], verdict)
                self.error = None  # its own batch will raise it
                return True
        return False


def _is_equal(leaves, payload):
    for leaf, offset in zip(leaves, codec.offsets([leaf.bytes for leaf in leaves])):
        if ctypes.string_at(leaf.address, leaf.bytes) != \
                ctypes.string_at(payload + offset, leaf.bytes):
            return False
    return True


def _plain(fetcher, work, indices):
    """The samples without sharing, under the same generators; for when we are in doubt."""
    run = Fetch(Scope(fetcher), work, indices)
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
    scope, batch = scope_of(fetcher), None
    if is_alone(scope):
        batch = batch_of(Fetch(scope, work, indices))
    if batch is None:
        batch = collate.Batch(len(indices), False)
        for position, value in enumerate(_plain(fetcher, work, indices)):
            batch.put_value(position, value, None)
    return batch


def _whole_batch(fetcher, work, original):
    """A batch that the data set makes in one call: aligned by its first index, not shared."""
    native.count_pass(b"torch_getitems", len(work.indices))
    run = Fetch(scope_of(fetcher), work, work.indices)
    try:
        if work.indices:
            run._name(work, 0, work.indices[0])
            run.seed()
        return original(fetcher, work.indices)
    finally:
        run.leave()


def fetch(fetcher, work, original):
    """What _MapDatasetFetcher.fetch() gives for the batch of @work."""
    if fetcher.auto_collation and fetches_batches(fetcher.dataset):
        return _whole_batch(fetcher, work, original)
    if not fetcher.auto_collation:
        return fetcher.collate_fn(_aligned_batch(fetcher, work, [work.indices]).samples()[0])
    return _aligned_batch(fetcher, work, work.indices).finish(fetcher.collate_fn)
