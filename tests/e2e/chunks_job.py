# SPDX-License-Identifier: MIT
"""
Loaders over items that cost next to nothing, which jobs share by the chunk; for chunks.py.  Prints
"batch N digest" for each batch or what was raised, "epoch N items", and with --collate "items N digest".

usage: chunks_job.py KIND OPTIONS [--then KIND OPTIONS]...     scenes, one after the other
"""

import collections
import hashlib
import random

import numpy
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Sampler, Subset, WeightedRandomSampler

import costs
import data_job
import meeting

COUNT = 300
Pair = collections.namedtuple("Pair", "first second")


class Items(Dataset):
    """Each draws from all generators."""

    def __init__(self, kind, count=COUNT, base=0):
        self.kind, self.count, self.base = kind, count, base

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        drawn = torch.rand(3, 4, 4) + random.random() + float(numpy.random.random())
        return getattr(self, self.kind)(self.base + index, drawn)

    def pictures(self, index, drawn):
        return drawn, index

    def wide(self, index, drawn):
        return drawn.repeat(1, 17, 17), index

    def small(self, index, drawn):
        return {"x": drawn[0, 0], "y": torch.tensor(index), "name": "item %d" % index}

    def named(self, index, drawn):
        return Pair(torch.tensor(index), {"deep": [drawn, (drawn[0] * 2).half()]})

    def arrays(self, index, drawn):
        return numpy.int64(index), drawn.numpy(), drawn.sum().item()

    def uneven(self, index, drawn):
        return torch.tensor(index), drawn.flatten()[:1 + index % 7]

    def text(self, index, drawn):
        return "%d %r" % (index, drawn.sum().item())

    def mixed(self, index, drawn):
        return index, drawn if index % 50 else drawn[0]

    def raising(self, index, drawn):
        if index in (40, 41, 95, 210):
            raise ValueError("item %d" % index)
        return drawn, index


class Seldom(Items):
    """Items that draw nothing, but for one in a hundred."""

    def __getitem__(self, index):
        return torch.rand(3) if index % 100 == 41 else torch.full((3,), float(index)), index


class Still(Items):
    """Items that draw nothing."""

    def __getitem__(self, index):
        return torch.full((3, 4, 4), float(index)), index


class Once(Sampler):
    """An order of the program's own, which is known when it begins."""

    def __init__(self, _):
        super().__init__(None)

    def __iter__(self):
        return iter(torch.randperm(COUNT).tolist())

    def __len__(self):
        return COUNT


class Slowly(Once):
    """One that draws for each index."""

    def __iter__(self):
        for _ in range(COUNT):
            yield random.randrange(COUNT)


def told(value):
    """What tells @value from all others."""
    if torch.is_tensor(value):
        return str(value.dtype), tuple(value.shape), value.stride(), value.numpy().tobytes()
    if isinstance(value, numpy.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(key, told(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [told(part) for part in value]
    return type(value).__name__, repr(value)


def digest(value):
    return hashlib.sha256(repr(told(value)).encode()).hexdigest()[:16]


def dataset_of(options):
    kind = Still if options.still else Seldom if options.kind == "seldom" else Items
    made = kind(options.kind)
    if options.order == "subset":
        return Subset(made, range(COUNT - 1, 20, -1))
    if options.order == "two":
        return ConcatDataset([Items(options.kind, 150), Items(options.kind, 150, 150)])
    return made


def order_of(options):
    if options.order == "weights":
        return {"sampler": WeightedRandomSampler(torch.arange(1., COUNT + 1), COUNT)}
    if options.order in ("once", "slowly"):
        return {"sampler": {"once": Once, "slowly": Slowly}[options.order](None)}
    return {"shuffle": options.order != "rows"}


def size_of(batch):
    """Of a batch, as it was collated."""
    first = batch if torch.is_tensor(batch) else list(batch.values())[0] if isinstance(batch, dict) else batch[0]
    return len(batch) if type(first) is str else len(first)


def iterate(loader, epoch, is_collated):
    batches, count, items = iter(loader), 0, []
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        except ValueError as error:
            print("batch", epoch, "raised", str(error).strip().splitlines()[-1], flush=True)
            continue
        count += len(batch) if is_collated else size_of(batch)
        items += map(digest, batch if is_collated else ())
        print("batch", epoch, digest(batch), flush=True)
    print("epoch", epoch, count, flush=True)
    print("items", epoch, digest(sorted(items)), flush=True)


def parse(words):
    return data_job.options_of(
        words, ("pictures", "seldom", "wide", "small", "named", "arrays", "uneven", "text", "mixed", "raising"),
        order=("any", "rows", "subset", "two", "weights", "once", "slowly"), still=False, persistent=False,
        drop_last=False, collate=False, cost=200_000)


def play(options):
    costs.install(options.cost)
    data_job.begin(options)
    more = {"persistent_workers": True} if options.persistent else {}
    loader = DataLoader(dataset_of(options), options.batch, num_workers=options.workers,
                        drop_last=options.drop_last, collate_fn=list if options.collate else None,
                        **order_of(options), **more)
    for epoch in range(options.epochs):
        if epoch > 0:
            meeting.arrive()
        iterate(loader, epoch, options.collate)


def main():
    for options in data_job.scenes(parse):
        play(options)
    meeting.part()


if __name__ == "__main__":
    main()
