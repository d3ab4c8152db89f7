# SPDX-License-Identifier: MIT
"""Data sets that come in an order of their own."""

import os
import random

import datasets
import numpy
import torch
import webdataset
from PIL import Image
from pyarrow import parquet
from torch.utils.data import ChainDataset, DataLoader, IterableDataset, get_worker_info

import data
from . import pipeline
from .hub import transform
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


Iterable = pipeline("An iterable data set of the program's own.",
                    lambda options: [DataLoader(Shards(data.paths(options.data)), options.batch,
                    num_workers=options.workers)])


class Chained:
    """Two of them, one after the other."""

    def make(self, options):
        paths = data.paths(options.data)
        both = ChainDataset([Shards(paths[:48]), Shards(paths[48:])])
        return [DataLoader(both, options.batch, num_workers=options.workers)]


class Shuffled(IterableDataset):
    """Shuffles files by epoch and pictures in a buffer, as language models' loaders do."""

    def __init__(self, paths, seed):
        self.paths, self.epoch = paths, 0
        self.order = numpy.random.default_rng(seed)

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        paths, held = self.order.permutation(self.paths)[first::step], []
        for path in paths:
            held.append(str(path))
            if len(held) == 16:
                path = held.pop(random.randrange(16))
                yield TRAIN(Image.open(path).convert("RGB")), data.label(path)
        random.shuffle(held)
        for path in held:
            yield TRAIN(Image.open(path).convert("RGB")), data.label(path)


class Buffer:
    """A shuffle buffer, an order from the job's seed."""

    def make(self, options):
        return [DataLoader(Shuffled(data.paths(options.data), options.seed), options.batch,
                           num_workers=options.workers)]


class BufferKept(Buffer):
    """The same with workers that live on."""

    def make(self, options):
        return [DataLoader(Shuffled(data.paths(options.data), options.seed), options.batch,
                           num_workers=options.workers, persistent_workers=True)]


class RowGroups(IterableDataset):
    """Goes through the row groups of a file with PyArrow."""

    def __init__(self, path):
        self.path = path

    def __iter__(self):
        file = parquet.ParquetFile(self.path)
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for group in range(first, file.num_row_groups, step):
            for row in file.read_row_group(group).to_pylist():
                picture = Image.open(row["path"]).convert("RGB")
                yield {"x": TRAIN(picture), "y": row["label"]}


Parquet = pipeline("Rows of a Parquet file.",
    lambda options: [DataLoader(RowGroups(os.path.join(options.data, "pictures.parquet")),
    options.batch, num_workers=options.workers)])


def shards(options):
    return [os.path.join(options.data, "shard-%d.tar" % number) for number in range(4)]


class WebDataset:
    """Shards that are tar files, shuffled."""

    REPEATS = False  # it seeds its shuffle by the time

    def make(self, options):
        stream = webdataset.WebDataset(shards(options), shardshuffle=4).shuffle(32).decode("pil")
        stream = stream.to_tuple("jpg", "cls").map_tuple(TRAIN, int)
        return [DataLoader(stream, options.batch, num_workers=options.workers)]


class WebDatasetResampled:
    """Shards drawn with replacement, epochs of 96, WebDataset's own loader."""

    REPEATS = False

    KEPT = False

    def make(self, options):
        stream = webdataset.WebDataset(shards(options), resampled=True).shuffle(32).decode("pil")
        stream = stream.to_tuple("jpg", "cls").map_tuple(TRAIN, int).with_epoch(96)
        return [webdataset.WebLoader(stream, batch_size=options.batch,
                                     num_workers=options.workers,
                                     persistent_workers=self.KEPT)]


class WebDatasetKept(WebDatasetResampled):
    """The same with workers that live on, as contrastive models are trained."""

    KEPT = True


class WebDatasetBatched:
    """Batches made in the worker; of jobs with equal ones."""

    REPEATS = False
    BY_BATCH = True
    EPOCHS = 8  # of 12 items each
    TAKEN = .88  # less where two items are compared in each iteration instead of in the first

    @staticmethod
    def samples(batch):
        return [batch]

    def make(self, options):
        stream = webdataset.WebDataset(shards(options), shardshuffle=4).shuffle(32).decode("pil")
        stream = stream.to_tuple("jpg", "cls").map_tuple(TRAIN, int).batched(options.batch)
        return [webdataset.WebLoader(stream, batch_size=None, num_workers=options.workers)]


class Streaming:
    """Hugging Face's streaming: Parquet files, a shuffle buffer, a function per row."""

    def make(self, options):
        stream = datasets.load_dataset(
            "parquet", data_files=os.path.join(options.data, "pictures.parquet"),
            split="train", streaming=True)
        stream = stream.shuffle(seed=options.seed, buffer_size=32).map(self.load)
        return [DataLoader(stream, options.batch, num_workers=options.workers)]

    @staticmethod
    def load(row):
        return {"x": TRAIN(Image.open(row["path"]).convert("RGB")), "label": row["label"]}


class Converted:
    """A table turned into a stream, in shards."""

    def make(self, options):
        table = datasets.load_from_disk(os.path.join(options.data, "arrow"))
        stream = table.to_iterable_dataset(num_shards=4).shuffle(seed=3, buffer_size=16)
        stream = stream.map(transform, batched=True, batch_size=4, remove_columns=["image"])
        return [DataLoader(stream.with_format("torch"), options.batch,
                           num_workers=options.workers)]


class Endless(IterableDataset):
    """A generator of made up scenes; a step costs what a simulator's does."""

    def __iter__(self):
        while True:
            scene = torch.rand(3, 160, 160)
            for _ in range(8):
                scene = torch.nn.functional.avg_pool2d(scene[None], 5, 1, 2)[0]
            yield scene + 0.1 * torch.randn_like(scene), random.random()


class Simulated:
    """Data made up as it goes, so many steps an epoch."""

    ENDLESS = True

    def make(self, options):
        loader = DataLoader(Endless(), options.batch, num_workers=options.workers)

        class Steps:
            """As many batches as 96 items are."""

            def __iter__(self):
                iterator = iter(loader)
                for _ in range(96 // options.batch):
                    yield next(iterator)

        return [Steps()]
