# SPDX-License-Identifier: MIT
"""
The ranks of a job side by side in one process, which go on step by step together, for
locality_ranks.py and locality_samplers.py, whose first words choose the interpreter.
"""

import contextlib
import os

import torch
import torch.utils.data as data  # brings the Python half
from torch.utils.data.distributed import DistributedSampler
from tsshim_torch import native
from tsshim_torch.locality import iteration

RANKS, NODES = 8, 4


class Store:
    """What the store of a process group does, without waiting for anything."""

    def __init__(self):
        self.values = {}

    def set(self, key, value):
        self.values[key] = value.encode()

    def wait(self, keys, patience):
        if not self.values.keys() >= set(keys):
            raise RuntimeError("wait timeout after %s" % patience)

    def get(self, key):
        return self.values[key]

    def add(self, key, more):
        found = int(self.values.get(key, b"0")) + more
        self.values[key] = str(found).encode()
        return found


class Job:
    """@ranks processes on @nodes nodes, as one after the other sees itself."""

    def __init__(self, ranks=RANKS, nodes=NODES):
        self.ranks, self.nodes, self.store = ranks, nodes, Store()
        self.said, self.passed = [], []
        self.node_of = [rank * nodes // ranks for rank in range(ranks)]
        torch.manual_seed(3)
        self.drawn = [torch.get_rng_state()] * ranks  # each has a generator of its own

    @contextlib.contextmanager
    def be(self, rank):
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(self.ranks), GROUP_RANK=str(self.node_of[rank]))
        iteration.place = lambda: iteration.Place(rank, self.ranks, iteration.node(), self.store)
        native.say, native.count_pass = self.said.append, self.count
        with self.draw(rank):
            yield

    @contextlib.contextmanager
    def draw(self, rank):
        torch.set_rng_state(self.drawn[rank])
        yield
        self.drawn[rank] = torch.get_rng_state()

    def count(self, reason, count=1):
        self.passed += [reason] * (reason == iteration.REASON)  # besides what sharing counts

    def __enter__(self):
        iteration._jobs.clear()
        iteration._said.clear()
        self.real = iteration.place, native.say, native.count_pass
        return self

    @contextlib.contextmanager
    def going_on(self):
        """The same again, without forgetting what was before."""
        known = dict(self.known)
        with self:
            iteration._jobs.update(known)
            yield

    def __exit__(self, *_):
        self.known = dict(iteration._jobs)
        iteration.place, native.say, native.count_pass = self.real
        for name in ("RANK", "WORLD_SIZE", "GROUP_RANK"):
            os.environ.pop(name, None)

    def epoch(self, loaders, most=None):
        """[step][rank] the batches that the program of each rank is given, as lists of indices."""
        iterators, steps = [], []
        for rank, loader in enumerate(loaders):
            with self.be(rank):
                iterators.append(iter(loader))
        while most is None or len(steps) < most:
            step = []
            for rank, iterator in enumerate(iterators):
                with self.be(rank):
                    batch = next(iterator, None)
                step.append([] if batch is None else batch.tolist())
            if not any(step):
                break
            steps.append(step)
        return steps


class Plain(Job):
    """The same without locality."""

    @contextlib.contextmanager
    def be(self, rank):
        iteration.place = lambda: iteration.Place(rank, 1, "", None)
        with self.draw(rank):
            yield


def loader(dataset, sampler, size, **more):
    more.setdefault("num_workers", 0)
    return data.DataLoader(dataset, batch_size=size, sampler=sampler, **more)


def distributed(samples, size, ranks=RANKS, kind=DistributedSampler, drop_batch=False, **more):
    """The loaders of all ranks."""
    dataset = range(samples)
    return [loader(dataset, kind(dataset, ranks, rank, **more), size, drop_last=drop_batch)
            for rank in range(ranks)]


def tell(loaders, number):
    """The number of the epoch to their samplers; the loaders."""
    for one in loaders if number is not None else ():
        one.sampler.set_epoch(number)
    return loaders


def epochs(job, loaders, numbers):
    found = []
    with job:
        for number in numbers:
            found.append(job.epoch(tell(loaders, number)))
    assert all(torch.equal(one, job.drawn[0]) for one in job.drawn)
    return found


def both(make, numbers=range(3), **more):
    """(what a job gets, what it gets without us, the Job) in these epochs; @make gives its loaders."""
    job = Job(**more)
    plain = Plain(**more)
    found = epochs(job, make(), numbers), epochs(plain, make(), numbers), job
    # What the program draws later is what it would have drawn.
    assert torch.equal(job.drawn[0], plain.drawn[0])
    return found


def check_same_batches(*epochs):
    """Of pairs of epochs: each step has the samples that it had, and each rank as many."""
    for got, plain in epochs:
        assert len(got) == len(plain)
        for step, before in zip(got, plain):
            assert [len(batch) for batch in step] == [len(batch) for batch in before], (step, before)
            assert sorted(sum(step, [])) == sorted(sum(before, []))


def check(make, numbers=range(3), changed=(1, 2), **more):
    """Epochs number @changed of those are shared out, and the others as they were."""
    got, plain, job = both(make, numbers, **more)
    check_same_batches(*zip(got, plain))
    for at, (one, before) in enumerate(zip(got, plain)):
        assert (one != before) == (at in changed), (at, job.said)
    return got, plain, job
