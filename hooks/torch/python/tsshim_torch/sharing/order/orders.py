# SPDX-License-Identifier: MIT
"""
Samplers: how many batches they give, when they draw, and which have a seed of their own.

Torch's own draw from the job's generators, others from a generator or a seed that the program
gave them.  The former are aligned in any case, the latter where the user asks for it
(--align-orders), and told where not.
"""

import gc
import types

import torch

from ... import native
from ..naming import digests

# By these names samplers refer to those that they go through.
_INSIDE = ("sampler", "batch_sampler", "base_sampler", "base_batch_sampler")
_DEPTH = 8
_STATEFUL = "torchdata.stateful_dataloader"


def part(sampler):
    """Each rank of a distributed job has samples of its own; runs no code of @sampler's."""
    fields = getattr(sampler, "__dict__", {})
    found = [fields.get(name) for name in ("num_replicas", "rank")]
    return [number for number in found if type(number) is int]


def own_epoch(loader):
    """The epoch that the user told the sampler, or None."""
    batches = getattr(loader, "batch_sampler", None)
    for sampler in (batches, getattr(batches, "sampler", None), getattr(loader, "sampler", None)):
        if callable(getattr(sampler, "set_epoch", None)):
            epoch = getattr(sampler, "epoch", None)
            if type(epoch) is int:
                return epoch
    return None


# ---- seeds of their own ----

def _chain(sampler):
    """(path, sampler) of @sampler and those that it goes through; runs no code of theirs."""
    path = "sampler"
    for _ in range(_DEPTH):
        yield path, sampler
        fields = getattr(sampler, "__dict__", {})
        name = next((name for name in _INSIDE if fields.get(name) is not None), None)
        if name is None:
            return
        path, sampler = path + "." + name, fields[name]


def _fields(sampler):
    """Names of the fields of @sampler that say what it draws."""
    fields = getattr(sampler, "__dict__", {})
    if isinstance(fields.get("generator"), torch.Generator):
        yield "generator"
    if type(fields.get("initial_seed")) is int:  # accelerate's
        yield "initial_seed"
    if type(fields.get("seed")) is int and fields.get("shuffle", True) and \
            callable(getattr(sampler, "set_epoch", None)):
        yield "seed"


def _all(loader):
    """(path, sampler, field, whether a library made it) for all that the order is drawn from."""
    whole = getattr(loader, "batch_sampler", None)
    whole = getattr(loader, "sampler", None) if whole is None else whole
    for path, sampler in _chain(whole):
        is_made = type(sampler).__module__.startswith(_STATEFUL) and loader.generator is None
        for field in _fields(sampler):
            yield path, sampler, field, is_made


def seeds_of(loader):
    """(path, sampler, field) for what the order of @loader is drawn from besides the job's own."""
    return [found[:3] for found in _all(loader) if not found[3]]


def _number(*parts):
    return int.from_bytes(digests.digest("tsshim order", *parts)[:8], "little") >> 2


class Seeds:
    """Those of the samplers of a loader, let be what all jobs have while the first index comes."""

    def __init__(self, loader, ordinal, stream):
        # No loader is kept: that of workers that live on keeps its iterator, and would go late.
        self.all = [found for found in _all(loader) if native.settings.orders or found[3]]
        self.ordinal, self.stream = ordinal, stream
        self.kept = []
        self.states = []  # (generator, its state) of samplers, which other iterators draw from, too

    def set(self):
        """Generators stay so: some draw all through the epoch."""
        for path, sampler, field, _ in self.all:
            if field == "generator":
                sampler.generator.manual_seed(_number(self.stream, path))
                self.states.append((sampler.generator, None))
            else:
                self.kept.append((sampler, field, getattr(sampler, field)))
                setattr(sampler, field, _number(native.settings.seed, self.ordinal, path) >> 31)

    def put_back(self):
        while self.kept:
            setattr(*self.kept.pop())
        self.states = [(generator, generator.get_state()) for generator, _ in self.states]

    def go_on(self):
        """Let generators be as they were when this iterator drew from them last."""
        for generator, state in self.states:
            generator.set_state(state)


# ---- what they draw, and when ----

def count_batches(iterator):
    """How many batches @iterator has, where nothing is asked that torch does not ask; else 0."""
    data = torch.utils.data
    sampler = iterator._index_sampler
    inner = sampler.sampler if type(sampler) is data.BatchSampler else sampler
    known = (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler)
    return len(sampler) if type(inner) in known else 0


def _draws_later(sampler):
    """Whether torch's RandomSampler draws in the middle of an epoch, too: more than it has."""
    return sampler.replacement or sampler.num_samples > len(sampler.data_source)


def draw_as_before(iterator):
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
        return kind is not data.RandomSampler or not _draws_later(sampler)
    if kind is data.RandomSampler:
        torch.empty((), dtype=torch.int64).random_()
    else:
        next(iter(sampler), None)
    return True


# Of what is there already: its next one runs no code of a sampler's.
_LISTED = tuple(type(iter(kind)) for kind in ([], (), range(0)))


def has_drawn(iterator):
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
