# SPDX-License-Identifier: MIT
"""
aligned_streams_job.py KIND [options]

A job over one of the iterable data sets below; prints "epoch E P NUMBER-digest" for each item,
where P is 1000 times the worker and its place.
"""

import hashlib
import os
import random

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import costs
import data_job
import meeting

costs.install()
ITEMS = 60


def _worker():
    info = get_worker_info()
    return (0, 1, 0) if info is None else (info.id, info.num_workers, info.seed)


def item(number, *drawn):
    worker, _, seed = _worker()
    x = [random.random(), float(numpy.random.rand()), float(torch.rand(())), *drawn]
    return {"worker": worker, "number": number, "seed": seed,
            "x": torch.tensor(x, dtype=torch.float64)}


class Drawing(IterableDataset):
    """Shuffles by a generator of its own, the same in all workers, and gives each a part."""

    def __init__(self, options):
        self.rng = random.Random(options.seed)
        self.epochs = self.given = 0

    def numbers(self):
        numbers = list(range(ITEMS))
        self.rng.shuffle(numbers)
        worker, count, _ = _worker()
        return numbers[worker::count]

    def __iter__(self):
        for number in self.numbers():
            yield item(number, self.rng.random())


class Counting(Drawing):
    """Is another one after each iteration, and after each item of it."""

    def __iter__(self):
        self.epochs += 1
        for number in self.numbers():
            self.given += 1
            yield item(number, self.epochs, self.given)


class Epochs(Drawing):
    """Counts its iterations, as what is shuffled anew in each of them does."""

    def __iter__(self):
        self.epochs += 1
        for number in self.numbers():
            yield item(number, self.epochs)


class Ending(Drawing):
    """Is another one after the last item of an iteration."""

    def __iter__(self):
        for number in self.numbers():
            yield item(number, self.epochs)
        self.epochs += 1


class Endless(Drawing):
    """Never ends."""

    def __iter__(self):
        while True:
            yield from super().__iter__()


class Uneven(Drawing):
    """Of some workers nothing comes."""

    def numbers(self):
        worker, _, _ = _worker()
        return list(range(0 if worker == 1 else 20 * worker + 5))


class Raising(Drawing):
    """One item is no good."""

    def __iter__(self):
        for number in range(ITEMS):
            if number == 20:
                raise ValueError("no good")
            yield item(number)


class Iterator(Drawing):
    """Is its own iterator, and no generator: goes on behind an exception."""

    def __iter__(self):
        self.number = -1
        return self

    def __next__(self):
        self.number += 1
        if self.number == 20:
            raise ValueError("no good")
        if self.number == ITEMS:
            raise StopIteration
        return item(self.number)


class Clock(Drawing):
    """Draws what nobody else can draw."""

    def __iter__(self):
        own = random.Random()
        for number in range(ITEMS):
            yield item(number, own.random())


class Files(Drawing):
    """Reads one file after the other, each for a part of the items."""

    def __init__(self, options):
        super().__init__(options)
        self.paths = sorted(os.path.join(options.data, name) for name in os.listdir(options.data))

    def __iter__(self):
        for path in self.paths:
            with open(path, encoding="ascii") as file:
                for line in file:
                    yield item(int(line))


class Large(Drawing):
    """Some of them fill a ring of 2 MB."""

    def __iter__(self):
        for number in self.numbers():
            yield item(number, *[self.rng.random()] * 16000)


class Whole(Drawing):
    """Gives whole batches."""

    def __iter__(self):
        numbers = self.numbers()
        while numbers:
            some = [item(number) for number in numbers[:8]]
            del numbers[:8]
            yield {key: torch.stack([torch.as_tensor(each[key]) for each in some])
                   for key in some[0]}


class Bad(Drawing):
    """Some items cannot be shared."""

    def __iter__(self):
        for place, number in enumerate(self.numbers()):
            found = item(number)
            yield {**found, "bad": {1}} if place % 10 == 9 else found


KINDS = {kind.__name__: kind for kind in (
    Drawing, Counting, Epochs, Ending, Endless, Uneven, Raising, Iterator, Clock, Files, Large,
    Whole, Bad)}


def collate(items):
    keys = ("worker", "number", "seed", "x")
    return {key: torch.stack([torch.as_tensor(each[key]) for each in items]) for key in keys}


def show(epoch, batch, places):
    for worker, number, seed, x in zip(*map(batch.get, ("worker", "number", "seed", "x"))):
        worker = int(worker)
        place = places[worker] = places.get(worker, -1) + 1
        digest = hashlib.md5(x.numpy().tobytes() + b"%d" % seed).hexdigest()[:12]
        print("epoch", epoch, 1000 * worker + place, "%d-%s" % (number, digest), flush=True)


def main():
    # Leave epochs after so many batches; a scene after so many of the last epoch.
    options = data_job.options_of(kinds=KINDS, persistent=False, stop=0, pause=0)
    data_job.begin(options)
    data = KINDS[options.kind](options)
    whole = options.kind == "Whole"
    loader = DataLoader(data, None if whole else options.batch, num_workers=options.workers,
                        collate_fn=None if whole else collate,
                        persistent_workers=options.persistent)
    for epoch in range(options.epochs):
        meeting.arrive()
        iterator, places, given = iter(loader), {}, 0
        while not options.stop or given < options.stop:
            try:
                batch = next(iterator)
            except StopIteration:
                break
            except ValueError as error:
                print("epoch", epoch, 999, str(error).splitlines()[-1])
                continue
            show(epoch, batch, places)
            given += 1
            if given == options.pause and epoch == options.epochs - 1:
                meeting.scene()
    print("drawn", random.random(), numpy.random.rand(), float(torch.rand(())))
    meeting.part()
    print("~", flush=True)


if __name__ == "__main__":
    main()
