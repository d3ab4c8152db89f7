# SPDX-License-Identifier: MIT
"""
Alignment, in the process that iterates the loader: which epoch and loader this is, the
sampler's order, and what the workers must know to draw the same numbers as everybody else.

Under --align[=SEED] an item is a function of (data set, SEED, epoch, ordinal, index,
occurrence), whoever computes it; docs/rooms/torch.md says what each of them is, and how the
sampler draws.
"""

import gc
import hashlib
import marshal
import sys
import types
import weakref

import torch

from .. import native
from . import generators

# A first iteration that was given up after so many batches is a look at the data, not an epoch.
FIRST_LOOK = 2


class Work:
    """The indices of one batch and what their generators are derived from; goes to a worker."""

    __slots__ = ("indices", "occurrences", "stream", "number", "free", "looked", "names")

    def __init__(self, indices, occurrences, stream, number=0, free=None):
        self.indices = indices  # what the sampler gave: a batch, or one index
        self.occurrences = occurrences  # per index, or None: all 0
        self.stream = stream  # 16 bytes for (seed, epoch, ordinal)
        self.number = number  # of the batch in the epoch
        self.free = free  # free.Chosen: what else the order was free to choose; None: nothing
        self.looked = 0  # how far a worker looked ahead into this batch
        self.names = None  # (prefixes they were made with, Names or False) when it did

    def __reduce__(self):
        return Work, (self.indices, self.occurrences, self.stream, self.number, self.free)


def _digest(*parts):
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def stream_of(epoch, ordinal):
    """16 bytes for what items of that epoch of a loader draw from."""
    return _digest("tsshim stream", native.settings.seed, epoch, ordinal)


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
        self.plan = None
        self.looked = False
        self.order = None  # free.Order, as long as its epochs are free ones
        self.free = free  # what begins them (free.begin), or None: all are strict


_loaders = weakref.WeakKeyDictionary()
_ordinals = {}  # per data set: how many loaders were seen


def _identify(dataset):
    """
    (what tells equal data sets from others, also where they cannot be shared; datasets.Unknown or
    None).
    """
    from ..fingerprint import datasets
    try:
        return datasets.fingerprint(dataset, notes=datasets.Notes(seeds=True)), None
    except datasets.Unknown as unknown:
        kind = type(dataset)
        return (kind.__module__, kind.__qualname__), unknown


def _say_what_is_not(loader, ordinal, unknown):
    """What of @loader, one of equal ones, depends on the job in spite of us."""
    name = "loader over %s (%d)" % (type(loader.dataset).__qualname__, ordinal)
    if unknown is not None and unknown.reason == "generator":
        native.say("not aligned: %s: %s" % (name, unknown))
    sampler = loader.sampler
    if type(sampler) is torch.utils.data.DistributedSampler:
        if sampler.shuffle:
            native.say("order not aligned: %s: DistributedSampler has a seed of its own, %s" % (
                name, sampler.seed))
    elif getattr(sampler, "generator", None) is not None:
        native.say("order not aligned: %s: sampler.generator" % name)


def _part(sampler):
    """Each rank of a distributed job has samples of its own; runs no code of @sampler's."""
    fields = getattr(sampler, "__dict__", {})
    found = [fields.get(name) for name in ("num_replicas", "rank")]
    return [number for number in found if type(number) is int]


def _loader_of(loader, free):
    known = _loaders.get(loader)
    if known is None:
        identity, unknown = _identify(loader.dataset)
        ordinal = _ordinals.get(identity, 0)
        _ordinals[identity] = ordinal + 1
        name = _digest("tsshim loader", identity, ordinal, _part(loader.sampler))
        known = _loaders[loader] = _Loader(ordinal, name, free)
        _say_what_is_not(loader, ordinal, unknown)
    return known


def _own_epoch(loader):
    """The epoch that the user told the sampler, or None."""
    batches = getattr(loader, "batch_sampler", None)
    for sampler in (batches, getattr(batches, "sampler", None), getattr(loader, "sampler", None)):
        if callable(getattr(sampler, "set_epoch", None)):
            epoch = getattr(sampler, "epoch", None)
            if type(epoch) is int:
                return epoch
    return None


def _next_epoch(known, iterator):
    """Count the iteration before; a first look at the data, given up, does not count."""
    before = known.plan
    if before is None:
        return
    given_up = not before.ended and before.iterator() in (None, iterator)
    if not known.looked and before.first and given_up and before.delivered <= FIRST_LOOK:
        known.looked = True
        return
    known.epoch += 1


def begin(loader, iterator, free=None):
    """The plan of @iterator, which begins now; @free (free.begin) where its order is."""
    known = _loader_of(loader, free)
    first = known.plan is None
    _next_epoch(known, iterator)
    epoch = _own_epoch(loader)
    known.plan = Plan(loader.dataset, known.epoch if epoch is None else epoch, known, first)
    known.plan.iterator = weakref.ref(iterator)
    return known.plan


# ---- one iteration ----

class _Seen:
    """How often each index came in this epoch: a byte per number, a dictionary for the rest."""

    def __init__(self):
        self.small = bytearray()
        self.rest = {}

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
    from ..fingerprint import datasets
    data = torch.utils.data
    return datasets.unwrap if type(dataset) in (data.Subset, data.ConcatDataset) else None


class Plan:
    """One iteration of a loader."""

    def __init__(self, dataset, epoch, loader, first):
        self.dataset = dataset
        self.loader = loader  # _Loader
        self.unwrap = unwrapper(dataset)
        self.first = first
        self.delivered = 0  # batches the program got
        self.ended = False  # it got them all
        self.epoch = epoch
        self.stream = stream_of(epoch, loader.ordinal)
        self.free = None  # free.Epoch, where the order is
        self.total = 0  # of its batches, 0: not known
        self.state = None  # of the sampler's generators between two batches
        self.draws_once = False  # all with the first index
        self.started = False
        self.batches = 0
        self.seen = {}  # by the data set that the index is of
        _say_once(epoch)

    def next_index(self, iterator, original):
        """What iterator._next_index() gives under the derived generators."""
        if self.started and self.free is None and (self.draws_once or self.state is None):
            return self.work(original(iterator), iterator._auto_collation)
        if not self.started:
            self.started = True
            self.draws_once = _draw_as_before(iterator)
            self.free = self.loader.free and self.loader.free(self, iterator)
            self.total = _count_batches(iterator) or self.loader.batches
            self._tell()
        if self.free is not None:
            return self.free.work(self)
        own = generators.save()
        try:
            if self.state is None:
                self.seed()
                iterator._sampler_iter = iter(iterator._index_sampler)
            else:
                generators.restore(self.state)
            index = original(iterator)
            self.draws_once = self.draws_once or _has_drawn(iterator)
            self.state = generators.save()
        finally:
            generators.restore(own)
        return self.work(index, iterator._auto_collation)

    def deliver(self):
        """The program was given the next batch."""
        self.delivered += 1
        if self.free is not None:
            self.free.deliver()
        self._tell()

    def end(self):
        """The program was given all batches."""
        self.ended = True
        self.loader.batches = self.delivered

    def _tell(self):
        """Let `tsrun stats` say how far this is."""
        native.say_progress(self.loader.name, max(self.epoch, 0), self.delivered, self.total,
                            self.free is not None)

    def seed(self):
        """Let the generators be those that the sampler draws from."""
        numbers = hashlib.blake2b(self.stream, digest_size=24).digest()
        generators.seed(int.from_bytes(numbers[:8], "little") >> 1,
                        int.from_bytes(numbers[8:16], "little"),
                        int.from_bytes(numbers[16:20], "little"))

    def count(self, index):
        dataset = self.dataset
        if self.unwrap is not None:
            dataset, index = self.unwrap(dataset, index)
        seen = self.seen.get(id(dataset))
        if seen is None:
            seen = self.seen[id(dataset)] = _Seen()
        return seen.count(index)

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
        return self.make_work(indices, [self.count(index) for index in indices])

    def make_work(self, indices, occurrences, free=None):
        """The next Work; @occurrences of each of the @indices, of which there may be one alone."""
        number, self.batches = self.batches, self.batches + 1
        return Work(indices, occurrences if any(occurrences) else None, self.stream, number,
                    free)


def _count_batches(iterator):
    """How many batches @iterator has, where nothing is asked that torch does not ask; else 0."""
    data = torch.utils.data
    sampler = iterator._index_sampler
    inner = sampler.sampler if type(sampler) is data.BatchSampler else sampler
    known = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return len(sampler) if type(inner) in known else 0


def _draw_as_before(iterator):
    """
    Torch's own samplers draw from the job's generators with the first index they give.  That
    draw is made and thrown away, so that what the job draws later is what it would be.

    Returns whether that is all the sampler ever draws.
    """
    data = torch.utils.data
    sampler = iterator._index_sampler
    if type(sampler) is data.BatchSampler:
        sampler = sampler.sampler
    kind = type(sampler)
    if kind not in (data.RandomSampler, data.WeightedRandomSampler, data.SubsetRandomSampler):
        return kind is data.SequentialSampler
    if getattr(sampler, "generator", None) is not None:
        return True
    if kind is data.RandomSampler:
        torch.empty((), dtype=torch.int64).random_()
    else:
        next(iter(sampler), None)
    return True


# Of what is there already: its next one runs no code of a sampler's.
_LISTED = tuple(type(iter(kind)) for kind in ([], (), range(0)))


def _has_drawn(iterator):
    """
    Whether the sampler, after its first index, cannot draw any more: what it gave was an iterator
    over indices that are known, as torch's DistributedSampler and most of the programs' own do.
    """
    given = [iterator._sampler_iter]
    if type(given[0]) is types.GeneratorType and \
            given[0].gi_code is torch.utils.data.BatchSampler.__iter__.__code__:
        given = list(_iterators(given[0]))
    return bool(given) and all(type(part) in _LISTED for part in given)


def _iterators(generator):
    """What the suspended @generator goes through; a zip() is over others that it has."""
    for part in gc.get_referents(generator):
        if type(part) is types.CellType:  # a variable of a list comprehension's as well
            part = next(iter(gc.get_referents(part)), None)
        if hasattr(type(part), "__next__") and type(part) is not zip:
            yield part


_said = False


def _say_once(epoch):
    """For logs and experiment trackers: what another run must be given to get this data."""
    global _said
    if not _said:
        _said = True
        native.say("aligned data, seed %d, first epoch %d" % (native.settings.seed, epoch))
