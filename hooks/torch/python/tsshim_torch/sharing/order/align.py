# SPDX-License-Identifier: MIT
"""
Alignment, in the process that iterates the loader: which epoch and loader this is, the
sampler's order, and what the workers must know to draw the same numbers as everybody else.

Under --align[=SEED] an item is a function of (data set, SEED, epoch, ordinal, index,
occurrence), whoever computes it; docs/rooms/torch.md says what each of them is, and how the
sampler draws.
"""

import collections
import hashlib
import marshal
import sys
import weakref

import torch

from ... import native
from ..item import generators
from ..naming import unread
from . import orders, torchdata
from ..naming.digests import digest

MOST = 64  # samples of a chunk (batch/chunks.py), which may begin in one batch and end in another

# A first iteration that was given up after so many batches is a look at the data, not an epoch.
FIRST_LOOK = 2


class Work:
    """The indices of one batch and what their generators are derived from; goes to a worker."""

    __slots__ = ("indices", "occurrences", "stream", "number", "free", "around", "looked", "names",
                 "raised")

    def __init__(self, indices, occurrences, stream, number=0, free=None, around=None):
        self.indices = indices  # what the sampler gave: a batch, or one index
        self.occurrences = occurrences  # per index, or None: all 0
        self.stream = stream  # 16 bytes for (seed, epoch, ordinal)
        self.number = number  # of the batch in the epoch
        self.free = free  # free.Chosen: what else the order was free to choose; None: nothing
        self.around = around  # (place, before, after, occurrences of these two) in the order, where that is known
        self.looked = 0  # how far a worker looked ahead into this batch
        self.names = None  # (prefixes they were made with, Names or False) when it did
        self.raised = None  # {position: exception} of what was made ahead

    def __reduce__(self):
        return Work, (self.indices, self.occurrences, self.stream, self.number, self.free, self.around)

    # For whoever stands between the iterator and its workers, and looks for indices.

    def __len__(self):
        return len(self.indices)

    def __iter__(self):
        return iter(self.indices)

    def __getitem__(self, place):
        return self.indices[place]


def stream_of(epoch, ordinal, again=0):
    """
    16 bytes for what items of that epoch of a loader draw from; @again says how often it was gone
    through before.
    """
    return digest("tsshim stream", native.settings.seed, epoch, ordinal, *[again] * (again > 0))


class Indices(tuple):
    """Those of a whole batch, in the place of one index."""

    __slots__ = ()


def index_bytes(index):
    """The index with its type as bytes, or None where it cannot be named."""
    kind = type(index)
    if kind is Indices:
        inner = index_bytes(tuple(index))
        return inner and b"*" + inner
    if kind is int and -(1 << 63) <= index < 1 << 63:
        return b"i" + index.to_bytes(8, "little", signed=True)
    if kind in (int, str, float, bool):
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


# ---- loaders and their epochs ----

class _Loader:
    """What is remembered of a DataLoader."""

    def __init__(self, ordinal, name, free):
        self.ordinal = ordinal
        self.name = name  # 16 bytes, the same in all jobs that have such a loader
        self.batches = 0  # of an epoch that was gone through, 0: not known
        self.epoch = native.settings.epoch
        self.own_epoch = None  # the number that the program gave the last one,
        self.again = 0  # and how often it has gone through that before
        self.last = None  # Walk of its last iteration
        self.looked = False
        self.orders = None  # free.Orders, as long as its epochs are free ones
        self.free = free  # what begins them (free.begin), or None: all are strict
        self.notes = None  # datasets.Notes of a look at the data set a moment ago


_loaders = weakref.WeakKeyDictionary()
_ordinals = {}  # per data set: how many loaders were seen


_constants = {}  # id of a data set -> (weak reference to it, what fingerprint() keeps of it)


def constants_of(dataset):
    """What makes the next look at @dataset cheaper, for as long as that lives."""
    for key in [key for key, (known, _) in _constants.items() if known() is None]:
        del _constants[key]
    if id(dataset) not in _constants:
        try:
            _constants[id(dataset)] = weakref.ref(dataset), []
        except TypeError:  # of a class without room for one
            return []
    return _constants[id(dataset)][1]


def _identify(dataset):
    """
    (what tells equal data sets from others, also where they cannot be shared; datasets.Unknown or
    None; the datasets.Notes).
    """
    from ...fingerprint import datasets
    notes = datasets.Notes(seeds=True, read=unread.names())
    try:
        with unread.as_they_were():
            datasets.fingerprint(dataset, constants_of(dataset), notes=notes)
        return notes.whole, None, notes
    except datasets.Unknown as unknown:
        kind = type(dataset)
        return (kind.__module__, kind.__qualname__), unknown, notes


def _say_what_is_not(loader, ordinal, unknown):
    """What of @loader, one of equal ones, depends on the job in spite of us."""
    name = "loader over %s (%d)" % (type(loader.dataset).__qualname__, ordinal)
    if unknown is not None and unknown.reason == "generator":
        native.say("not aligned: %s: %s" % (name, unknown))
    elif unknown is not None and unknown.reason == "slow":
        native.say("%s: generators of its own are aligned only where its data leads to them: %s" % (
            name, unknown))
    found = [] if native.settings.orders else orders.seeds_of(loader)
    for path, sampler, field in found:
        native.say("order not aligned: %s: %s of %s (%s); --align-orders does" % (
            name, path + "." + field, type(sampler).__qualname__,
            "a generator" if field == "generator" else getattr(sampler, field)))


def _loader_of(loader, free):
    known = _loaders.get(loader)
    if known is None:
        identity, unknown, notes = _identify(loader.dataset)
        ordinal = _ordinals.get(identity, 0)
        _ordinals[identity] = ordinal + 1
        name = digest("tsshim loader", identity, ordinal, orders.part(getattr(loader, "sampler", None)))
        known = _loaders[loader] = _Loader(ordinal, name, free)
        known.notes = notes
        _say_what_is_not(loader, ordinal, unknown)
    return known


def _has_counted(known, iterator):
    """Whether there was an iteration before; a first look at the data, given up, does not count."""
    before = known.last
    if before is None:
        return False
    last = before.iterator()
    given_up = not before.ended and not torchdata.has_ended(last) and last in (None, iterator)
    if not known.looked and before.first and given_up and before.delivered <= FIRST_LOOK:
        known.looked = True
        return False
    return True


def _next_epoch(known, loader, iterator):
    """The number of the epoch that begins."""
    has_counted = _has_counted(known, iterator)
    known.epoch += has_counted
    kept = torchdata.kept(loader)
    if kept is not None:
        known.epoch, known.ordinal, known.again = kept
        return known.epoch
    epoch = orders.own_epoch(loader)
    # A program that never tells its sampler has the same order in each epoch, as it would have it
    # without us; but not the same augmentation.
    known.again = known.again + has_counted if epoch is not None and epoch == known.own_epoch else 0
    known.own_epoch = epoch
    return known.epoch if epoch is None else epoch


def begin(loader, iterator, free=None, kind=None):
    """
    The plan of @iterator, which begins now; @free (free.begin) where its order is.  @kind makes
    it of (loader, epoch, _Loader, whether it is the first), or it is a Plan.
    """
    known = _loader_of(loader, free)
    first = known.last is None
    epoch = _next_epoch(known, loader, iterator)
    plan = (kind or Plan)(loader, epoch, known, first)
    plan.walk.iterator = weakref.ref(iterator)
    plan.notes, known.notes = known.notes, None
    known.last = plan.walk
    return plan


# ---- one iteration ----

class _Seen:
    """How often each index came in this epoch: a byte per number, a dictionary for the rest."""

    def __init__(self):
        self.small = bytearray()
        self.rest = {}

    def count_all(self, indices):
        """As count() of each: at once where they are small numbers that have not come yet."""
        small = self.small
        if set(map(type, indices)) != {int} or len(set(indices)) != len(indices) or \
                min(indices) < 0 or max(indices) >= len(small) or \
                any(map(small.__getitem__, indices)):
            return list(map(self.count, indices))
        for index in indices:
            small[index] = 1
        return [0] * len(indices)

    def count(self, index):
        if type(index) is int and 0 <= index < 1 << 28:
            if index >= len(self.small):
                self.small.extend(bytes(index + 1 - len(self.small) + len(self.small) // 2))
            before = self.small[index]
            if before < 255:
                self.small[index] = before + 1
                return before
        try:
            before = self.rest.get(index, 255 if type(index) is int else 0)
            self.rest[index] = before + 1
        except TypeError:  # not hashable, as a list
            name = index_bytes(index)
            before = 0 if name is None else self.count(name)
        return before


def unwrapper(dataset):
    """
    datasets.unwrap() for a data set that only picks from others, else None.  What is shared
    is the inner data set's sample: folds and splits of one data set have most in common.
    """
    from ...fingerprint import datasets
    data = torch.utils.data
    return datasets.unwrap if type(dataset) in (data.Subset, data.ConcatDataset) else None


class Walk:
    """How far an iteration has come; it is kept, and keeps neither loader nor data set."""

    def __init__(self, first):
        self.first = first  # of its loader
        self.delivered = 0  # batches the program got
        self.ended = False  # it got them all
        self.iterator = None  # a weak reference


class Iteration:
    """One iteration of a loader, and how far it is."""

    free = None  # free.Epoch, where the order is
    notes = None  # datasets.Notes of a moment ago, in the first iteration of a loader

    def __init__(self, epoch, known, first):
        self.loader = known  # _Loader
        self.walk = Walk(first)
        self.total = 0  # batches, 0: not known
        # Of the loader's as they are now: other iterations may begin before this one ends.
        self.epoch, self.ordinal, self.again = epoch, known.ordinal, known.again
        self.stream = stream_of(epoch, self.ordinal, self.again)
        _say_once(epoch)

    def seed(self):
        """Let the generators be those that the order is drawn from."""
        numbers = hashlib.blake2b(self.stream, digest_size=24).digest()
        generators.seed(int.from_bytes(numbers[:8], "little") >> 1,
                        int.from_bytes(numbers[8:16], "little"),
                        int.from_bytes(numbers[16:20], "little"))

    def begin(self, iterator):
        """Before workers of @iterator are started."""

    def deliver(self):
        """The program was given the next batch."""
        self.walk.delivered += 1
        if self.free is not None:
            self.free.deliver()
        self.tell()

    def end(self):
        """The program was given all batches."""
        self.walk.ended = True
        self.loader.batches = self.walk.delivered

    def tell(self):
        """Let `tsrun stats` say how far this is."""
        native.say_progress(self.loader.name, max(self.epoch, 0), self.walk.delivered, self.total,
                            self.free is not None)


class Plan(Iteration):
    """One iteration of a loader whose items come by index."""

    def __init__(self, loader, epoch, known, first):
        super().__init__(epoch, known, first)
        self.dataset = loader.dataset
        self.unwrap = unwrapper(loader.dataset)
        self.seeds = orders.Seeds(loader, self.ordinal, self.stream)
        self.state = None  # of the sampler's generators between two batches
        self.draws_once = False  # all with the first index
        self.started = False
        self.batches = 0
        self.seen = {}  # by the data set that the index is of
        self.arranges = None  # whether a batch is told what lies around it in the order; None: not known
        self.drawn = collections.deque()  # (indices, occurrences) of batches that were drawn ahead
        self.place, self.before = 0, ([], [])  # of the next batch; what lies before that, in its chunk

    def next_index(self, iterator):
        """What iterator._next_index() gives, at the yield, under the derived generators."""
        if self.started and self.free is None and (self.draws_once or self.state is None):
            if self.drawn:
                return self._arranged(iterator)
            index, error = yield
            return None if error is not None else self._work(iterator, index)
        with generators.used():
            if not self.started:
                self._start(iterator)
            if self.free is not None:
                return self.free.work(self)
            index, error = yield from self._draw(iterator)
        return None if error is not None else self._work(iterator, index)

    def _work(self, iterator, index):
        """The Work for what the sampler gave."""
        if self.arranges is None:
            self.arranges = self.draws_once and iterator._auto_collation and not native.settings.locality and \
                type(iterator._index_sampler) is torch.utils.data.BatchSampler and \
                not torchdata.is_one(iterator) and not self.batches
        if not self.arranges:
            return self.work(index, iterator._auto_collation)
        self.drawn.append((index, self._count_all(index)))
        return self._arranged(iterator)

    def _arranged(self, iterator):
        """The Work for the first of what was drawn, with what lies around it in its chunks."""
        indices, counts = self.drawn.popleft()
        end = self.place + len(indices)
        missing = -end % MOST
        for more in iterator._sampler_iter if sum(len(batch) for batch, _ in self.drawn) < missing else ():
            self.drawn.append((more, self._count_all(more)))
            if sum(len(batch) for batch, _ in self.drawn) >= missing:
                break
        after = [[part for drawn in self.drawn for part in drawn[which]][:missing] for which in (0, 1)]
        around = (self.place, self.before[0], after[0],
                  *[found if any(found) else None for found in (self.before[1], after[1])])
        work = self.make_work(indices, counts)
        work.around = around
        self.place = end
        kept = end % MOST
        self.before = ((self.before[0] + indices)[-kept:], (self.before[1] + counts)[-kept:]) if kept else ([], [])
        return work

    def _start(self, iterator):
        self.started = True
        self.draws_once = orders.draw_as_before(iterator)
        self.free = self.loader.free and self.loader.free(self, iterator)
        self.total = orders.count_batches(iterator) or self.loader.batches
        self.tell()

    def _draw(self, iterator):
        """(what the sampler gives next, at the yield; None or what it raised)."""
        own = generators.save()
        try:
            if self.state is None:
                self.seed()
                if not torchdata.goes_on(iterator):
                    self.seeds.set()
                    iterator._sampler_iter = iter(iterator._index_sampler)
            else:
                generators.restore(self.state)
                self.seeds.go_on()
            index, error = yield
            if error is None:
                self.draws_once = self.draws_once or orders.has_drawn(iterator)
                self.state = generators.save()
            return index, error
        finally:
            self.seeds.put_back()
            generators.restore(own)

    def count(self, index):
        dataset = self.dataset
        if self.unwrap is not None:
            dataset, index = self.unwrap(dataset, index)
        return self._seen_of(dataset).count(index)

    def _seen_of(self, dataset):
        seen = self.seen.get(id(dataset))
        if seen is None:
            seen = self.seen[id(dataset)] = _Seen()
        return seen

    def work(self, indices, batched):
        """The Work for what the sampler gave: @indices of a batch, or one."""
        if not batched:
            return self.make_work(indices, [self.count(indices)])
        if type(indices) not in (list, tuple):
            try:
                indices = list(indices)
            except TypeError:  # something that only the data set itself understands
                self.batches += 1
                return indices
        return self.make_work(indices, self._count_all(indices))

    def _count_all(self, indices):
        if self.unwrap is not None:
            return [self.count(index) for index in indices]
        return self._seen_of(self.dataset).count_all(indices)

    def make_work(self, indices, occurrences, free=None):
        """The next Work; @occurrences of each of the @indices, of which there may be one alone."""
        number, self.batches = self.batches, self.batches + 1
        return Work(indices, occurrences if any(occurrences) else None, self.stream, number,
                    free)


_said = False


def _say_once(epoch):
    """For logs and experiment trackers: what another run must be given to get this data."""
    global _said
    if not _said:
        _said = True
        native.say("aligned data, seed %d, first epoch %d" % (native.settings.seed, epoch))
