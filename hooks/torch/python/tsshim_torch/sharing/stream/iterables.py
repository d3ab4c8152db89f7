# SPDX-License-Identifier: MIT
"""
Iterable data sets under alignment, in the process that iterates the loader.

Their items come in an order of their own, so what is aligned is the iteration: the generators of
each worker are seeded with what follows from (seed, epoch, ordinal, rank, worker), as torch seeds
them with its base seed.  streams.py says what the workers make of it.
"""

import os
import sys

from ..naming import digests
from ..order import align, fastai

_BASE_BITS = 62  # a base seed and the number of a worker are a seed of torch's


class Turn:
    """What a worker must know to give the next batch of an iteration; goes to it."""

    __slots__ = ("indices", "stream", "part", "base", "has_next", "is_persistent")

    def __init__(self, indices, stream, part, base, has_next, is_persistent):
        self.indices = indices  # one per item of the batch, of no meaning; or one alone
        self.stream = stream  # 16 bytes for (seed, epoch, ordinal)
        self.part = part  # which of several processes of one job this is
        self.base = base  # what a worker's seed is counted from
        self.has_next = has_next  # its queue holds the next Turn once a batch was fetched
        self.is_persistent = is_persistent  # the worker lives on behind the iteration

    def __len__(self):
        return len(self.indices)

    def __iter__(self):
        return iter(self.indices)


def part_of_job():
    """
    Which of how many processes of one job this is, as libraries see it that give each its part of
    the data: its rank.  A job of one process is the same however it was started.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


class Plan(align.Iteration):
    """One iteration of a loader whose items come from iterators."""

    def __init__(self, loader, epoch, known, first):
        super().__init__(epoch, known, first)
        self.total = known.batches
        self.part = part_of_job()
        numbers = digests.digest("tsshim base seed", self.stream, self.part)
        self.base = int.from_bytes(numbers[:8], "little") >> 64 - _BASE_BITS
        self.has_next = bool(loader.num_workers and loader.prefetch_factor >= 2)
        self.is_persistent = bool(loader.persistent_workers)

    def begin(self, iterator):
        """For workers that are yet to be started: code of the program's may ask for their seed."""
        iterator._base_seed = self.base
        if fastai.is_one(iterator._dataset):
            fastai.align(iterator._dataset, self.seed)

    def next_index(self, _iterator):
        """The Turn for what the iterator's _next_index() gives, at the yield."""
        indices, _ = yield
        return Turn(indices, self.stream, self.part, self.base, self.has_next, self.is_persistent)
