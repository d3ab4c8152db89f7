# SPDX-License-Identifier: MIT
"""Data sets that come in an order of their own."""

import os

import webdataset
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import data
from .vision import TRAIN


class Shards(IterableDataset):
    """Pictures, split between the workers."""

    def __init__(self, paths):
        self.paths = paths

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for path in self.paths[first::step]:
            yield TRAIN(Image.open(path).convert("RGB")), data.label(path)


class Iterable:
    """An iterable data set of the program's own."""

    SHARES = "not aligned"

    def make(self, options):
        return [DataLoader(Shards(data.paths(options.data)), options.batch,
                           num_workers=options.workers)]


class WebDataset:
    """Shards that are tar files, shuffled."""

    SHARES = "not aligned"
    REPEATS = False  # it seeds its shuffle by the time

    def make(self, options):
        shards = [os.path.join(options.data, "shard-%d.tar" % number) for number in range(4)]
        stream = webdataset.WebDataset(shards, shardshuffle=4).shuffle(32).decode("pil")
        stream = stream.to_tuple("jpg", "cls").map_tuple(TRAIN, int)
        return [DataLoader(stream, options.batch, num_workers=options.workers)]
