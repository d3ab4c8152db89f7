# SPDX-License-Identifier: MIT
"""
Aligned jobs whose data sets hold numbers that the program shares with its workers; for cells.py.  For
each way prints the way, the epoch, how many items there were, the number, and a digest of each epoch's items.
"""

import hashlib
import multiprocessing
import sys

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

import costs
import meeting

COUNT, EPOCHS = 48, 3


class Told(Dataset):
    """The program tells the epoch."""

    def __init__(self):
        self.epoch = multiprocessing.Value("i", 0)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        item = numpy.full((16, 256), self.epoch.value * 1000 + index, numpy.float32)
        item[0] += numpy.random.random(256)
        return item


class Raw(Told):
    """Without a lock around it, in an array."""

    def __init__(self):
        self.epoch = self
        self.cells = multiprocessing.RawArray("d", 4)

    @property
    def value(self):
        return float(self.cells[2])

    @value.setter
    def value(self, number):
        self.cells[2] = number


class Tensor(Raw):
    """In a tensor that processes share."""

    def __init__(self):
        super().__init__()
        self.cells = torch.zeros(4).share_memory_()


class Counting(Told):
    """Each item counts itself."""

    def __getitem__(self, index):
        item = super().__getitem__(index)
        with self.epoch.get_lock():
            self.epoch.value += 1
        return item


class Stream(IterableDataset):
    """The items of an epoch."""

    def __init__(self):
        self.epoch = multiprocessing.Value("i", 0)

    def __iter__(self):
        for index in range(COUNT):
            yield numpy.full((16, 256), self.epoch.value * 1000 + index, numpy.float32)


class Lasting(Stream):
    """The same, in a worker that lives on: it looks once, when an iteration begins."""

    def __iter__(self):
        self.begun = self.epoch.value
        for index in range(COUNT):
            yield numpy.full((16, 256), self.begun * 1000 + index, numpy.float32)


class Moving(Stream):
    """Counts the iteration behind its last item."""

    def __iter__(self):
        yield from super().__iter__()
        with self.epoch.get_lock():
            self.epoch.value += 1


WAYS = {kind.__name__: kind for kind in (Told, Raw, Tensor, Counting, Stream, Lasting, Moving)}


def main():
    costs.install(50_000_000)
    torch.set_num_threads(1)
    for way in sys.argv[1:]:
        data = WAYS[way]()
        loader = DataLoader(data, 8, shuffle=not isinstance(data, Stream), num_workers=1,
                            persistent_workers=way in ("Raw", "Tensor", "Lasting"))
        for epoch in range(EPOCHS):
            meeting.arrive()
            data.epoch.value = epoch * 7
            items = [item for batch in loader for item in batch]
            print(way, epoch, len(items), data.epoch.value, hashlib.sha256(torch.stack(items).numpy().tobytes()).hexdigest(), flush=True)
    meeting.part()


if __name__ == "__main__":
    main()
