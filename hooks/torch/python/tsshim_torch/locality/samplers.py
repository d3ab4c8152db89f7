# SPDX-License-Identifier: MIT
"""
What the samplers of all ranks give in an epoch, as this rank's own tells it.

The order is drawn by the sampler's own code: of a copy that stands for all ranks, with the same seed
and epoch, or with the generators that the sampler itself is about to draw from, which are put back.
The program's sampler is never asked, and notices nothing.

Known are classes whose code is known, and these only: torch's DistributedSampler and Lightning's,
which are dealt to ranks one by one, and accelerate's BatchSamplerShard, which deals batches, or
parts of them.  Orders that are the same in each epoch need nothing: what a node takes it has.
"""

import array
import contextlib
import copy
import itertools

import torch

_ACCELERATE = "accelerate.data_loader"
_LIGHTNING = ("lightning.fabric.utilities.distributed", "lightning_fabric.utilities.distributed",
              "lightning.pytorch.overrides.distributed", "pytorch_lightning.overrides.distributed")


class Unknown(Exception):
    """It is not known what other ranks take; says why."""


def _joined(lists):
    return list(itertools.chain.from_iterable(lists))


class Order:
    """
    The batches of all ranks in one epoch: @steps of them, of which step(n) is a list with the batch
    of each rank, an empty one where it has none.
    """

    def __init__(self, flat, ranks):
        if not set(map(type, flat)) <= {int} or flat and min(flat) < 0:
            raise Unknown("its sampler gives something else than numbers")
        try:
            self.flat = array.array("q", flat)
        except OverflowError:
            raise Unknown("its sampler gives numbers that are too large") from None
        self.ranks, self.steps = ranks, 0

    def largest(self):
        return max(self.flat, default=-1)


class Dealt(Order):
    """Rank r takes what is at r, r + ranks, ..., in batches of @size, without an incomplete one where @drop."""

    def __init__(self, flat, ranks, size, drop):
        super().__init__(flat, ranks)
        self.size, self.drop = size, drop
        most = -(-len(self.flat) // ranks)
        self.steps = most // size if drop else -(-most // size)

    def step(self, number):
        begin = number * self.size * self.ranks
        end = min(len(self.flat), begin + self.size * self.ranks)
        batches = [self.flat[begin + rank:end:self.ranks].tolist() for rank in range(self.ranks)]
        return [batch if not self.drop or len(batch) == self.size else [] for batch in batches]


class Grouped(Order):
    """Each step is @size samples for each rank, one rank after the other; then the steps of @tail."""

    def __init__(self, flat, ranks, size, tail):
        super().__init__(flat, ranks)
        self.size, self.tail = size, tail
        self.rest = Order(_joined(_joined(tail)), ranks)
        self.whole = len(self.flat) // (size * ranks)
        self.steps = self.whole + len(tail)

    def step(self, number):
        if number >= self.whole:
            return self.tail[number - self.whole]
        begin = number * self.size * self.ranks
        return [self.flat[at:at + self.size].tolist()
                for at in range(begin, begin + self.size * self.ranks, self.size)]

    def largest(self):
        return max(super().largest(), self.rest.largest())


# ---- generators ----

@contextlib.contextmanager
def _as_before(*generators):
    """What is drawn meanwhile, from torch's generator or @generators, was not drawn."""
    own = torch.get_rng_state()
    states = [(each, each.get_state()) for each in generators if each is not None]
    try:
        yield
    finally:
        torch.set_rng_state(own)
        for each, state in states:
            each.set_state(state)


def _is(value, modules, *names):
    kind = type(value)
    return kind.__module__ in modules and kind.__qualname__ in names


class _Leaf:
    """The sampler that draws, of which all ranks have one alike."""

    def __init__(self, sampler):
        data = torch.utils.data
        self.sampler = sampler
        self.is_constant = type(sampler) is data.SequentialSampler
        # Its seed and epoch say what it draws; else a generator that all ranks have alike.
        self.has_epoch = _is(sampler, (_ACCELERATE,), "SeedableRandomSampler")
        if not self.has_epoch and type(sampler) not in (
                data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler,
                data.WeightedRandomSampler):
            raise Unknown("its order comes from a sampler of the program's (%s)" % type(sampler).__qualname__)

    def description(self):
        fields = vars(self.sampler)
        return [type(self.sampler).__qualname__, len(self.sampler), self.has_epoch,
                fields.get("initial_seed") if self.has_epoch else None, bool(fields.get("replacement"))]

    def epoch(self):
        return self.sampler.epoch if self.has_epoch else None

    def generator(self):
        return getattr(self.sampler, "generator", None)

    def copy(self, epoch):
        """To be iterated in the place of the sampler, between _as_before(generator())."""
        one = copy.copy(self.sampler)
        if self.has_epoch:
            one.epoch = one.epoch if epoch is None else epoch
            # It would seed the program's.
            device = one.generator.device if one.generator is not None else None
            one.generator = device and torch.Generator(device=device)
        return one


# ---- DistributedSampler, and Lightning's ----

class _Distributed:
    """Batches of a sampler that deals samples to ranks."""

    def __init__(self, sampler, batch_sampler):
        kind = torch.utils.data.distributed.DistributedSampler
        self.sampler, self.batches = sampler, batch_sampler
        self.ranks, self.rank = sampler.num_replicas, sampler.rank
        wraps = _is(sampler, _LIGHTNING, "DistributedSamplerWrapper", "UnrepeatedDistributedSamplerWrapper")
        if not wraps and not _is(sampler, _LIGHTNING, "UnrepeatedDistributedSampler") and \
                type(sampler).__iter__ is not kind.__iter__:
            raise Unknown("its sampler has code of its own (%s)" % type(sampler).__qualname__)
        self.leaf = _Leaf(sampler.dataset._sampler) if wraps else None
        self.is_constant = not sampler.shuffle and (not wraps or self.leaf.is_constant)

    def description(self):
        one, batches = self.sampler, self.batches
        leaf = self.leaf and self.leaf.description()
        return [type(one).__qualname__, len(one.dataset), one.total_size, one.seed, one.shuffle, one.drop_last,
                batches.batch_size, batches.drop_last, leaf]

    def epoch(self):
        """The number that says what is drawn, or None."""
        return self.sampler.epoch if self.leaf is None else None

    def draw(self, epoch=None):
        """The Order of @epoch, by default of the one that begins now."""
        one = copy.copy(self.sampler)
        one.num_replicas, one.rank, one.num_samples = 1, 0, one.total_size
        one.epoch = one.epoch if epoch is None else epoch
        if self.leaf is not None:
            one.dataset = copy.copy(one.dataset)
            one.dataset._sampler = self.leaf.copy(epoch)
        with _as_before(self.leaf and self.leaf.generator()):
            flat = list(one)
        return Dealt(flat, self.ranks, self.batches.batch_size, self.batches.drop_last)


# ---- accelerate's ----

class _Given:
    """Stands for a BatchSampler: these batches, each a list of its own, as who takes them adds to it."""

    def __init__(self, batches, sampler):
        self.batches, self.batch_size, self.drop_last = batches, sampler.batch_size, sampler.drop_last

    def __iter__(self):
        return iter([[*batch] for batch in self.batches])

    def __len__(self):
        return len(self.batches)


class _Sharded:
    """Batches that are dealt to ranks, or cut into parts for them (split_batches)."""

    def __init__(self, shard):
        batches = shard.batch_sampler
        if type(batches) is not torch.utils.data.BatchSampler:
            raise Unknown("its batches come from a sampler of the program's (%s)" % type(batches).__qualname__)
        self.shard, self.batches = shard, batches
        self.ranks, self.rank = shard.num_processes, shard.process_index
        self.leaf = _Leaf(batches.sampler)
        self.is_constant = self.leaf.is_constant
        self.epoch = self.leaf.epoch

    def description(self):
        one = self.shard
        return ["BatchSamplerShard", one.split_batches, one.even_batches, one.drop_last, one.batch_size,
                self.batches.batch_size, self.batches.drop_last, self.leaf.description()]

    def _of_ranks(self, batches):
        """[rank][step] by the shard's own code."""
        found = []
        for rank in range(self.ranks):
            one = copy.copy(self.shard)
            one.process_index, one.batch_sampler = rank, _Given(batches, self.batches)
            found.append(list(one))
        return found

    def draw(self, epoch=None):
        with _as_before(self.leaf.generator()):
            sampler = copy.copy(self.batches)
            sampler.sampler = self.leaf.copy(epoch)
            batches = list(sampler)
        size = self.batches.batch_size
        group = 1 if self.shard.split_batches else self.ranks
        whole = sum(len(batch) == size for batch in batches) // group
        # What becomes of the rest follows from it and from the first group.
        few = self._of_ranks(batches[:group] * bool(whole) + batches[whole * group:])
        tail = [list(step) for step in itertools.zip_longest(*few, fillvalue=[])]
        order = Grouped(_joined(batches[:whole * group]), self.ranks, max(1, size * group // self.ranks),
                        tail[bool(whole):])
        if whole and order.step(0) != tail[0]:
            raise Unknown("it deals its batches in another way than was expected")
        return order


# ---- any ----

class Skipped:
    """Another one's batches without the first ones, of a job that resumes in an epoch."""

    def __init__(self, inner, first):
        self.inner, self.first = inner, first
        self.ranks, self.rank, self.is_constant = inner.ranks, inner.rank, inner.is_constant
        self.description, self.epoch, self.draw = inner.description, inner.epoch, inner.draw


def source_of(batches):
    """
    What tells the batches of all ranks where @batches is the batch sampler of a loader, or None where
    nothing could be shared out: each rank takes everything, or the same in each epoch.
    """
    data = torch.utils.data
    if _is(batches, (_ACCELERATE,), "SkipBatchSampler"):
        inner = source_of(batches.batch_sampler)
        return inner and Skipped(inner, batches.skip_batches)
    if _is(batches, (_ACCELERATE,), "BatchSamplerShard"):
        found = _Sharded(batches)
    elif type(batches) is not data.BatchSampler:
        raise Unknown("its batches come from a sampler of the program's (%s)" % type(batches).__qualname__)
    elif type(batches.sampler) is data.SequentialSampler:
        return None
    elif isinstance(batches.sampler, data.distributed.DistributedSampler):
        found = _Distributed(batches.sampler, batches)
    else:
        raise Unknown("its sampler does not say what other ranks take (%s)" %
                      type(batches.sampler).__qualname__)
    return None if found.is_constant else found
