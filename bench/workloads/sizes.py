#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Epochs over items of any size, from rows of a table to volumes of 400 MB.

It knows nothing of tsshim.  Each line on standard input names how many epochs to make, and whether
with new workers (`new 1`) or with workers that stay (`stay 5`).  The answer is a line of JSON.
"""
import argparse
import json
import resource
import sys
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, default_collate
from torchvision import datasets, transforms

READY = 32  # distinct batches in memory
MB = 10**6


class Cifar(datasets.VisionDataset):
    """CIFAR-10's pictures and the augmentation that is usual for them."""

    def __init__(self, count):
        super().__init__(".", transform=transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(), transforms.Normalize((.49, .48, .45), (.2, .2, .2))]))
        random = numpy.random.RandomState(0)
        self.data = numpy.frombuffer(random.bytes(count * 3072), "u1").reshape(count, 32, 32, 3)
        self.targets = random.randint(0, 10, count).tolist()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.data[index])), self.targets[index]


class Rows(Dataset):
    """A table with 256 numbers in each row, which an item normalizes."""

    def __init__(self, count):
        self.data = numpy.random.RandomState(0).random_sample((count, 256)).astype("f4")
        self.mean, self.scale = self.data[:1000].mean(0), self.data[:1000].std(0)
        self.targets = self.data[:, 0].tolist()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return torch.from_numpy((self.data[index] - self.mean) / self.scale), self.targets[index]


class Tokens(Dataset):
    """Windows of 512 tokens, and the same windows one token on."""

    def __init__(self, count):
        random = numpy.random.RandomState(0)
        self.data, self.count = random.randint(0, 50_000, count * 64 + 513).astype("u2"), count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        window = self.data[index * 64:index * 64 + 513].astype("i8")
        return torch.from_numpy(window[:-1]), torch.from_numpy(window[1:])


class Part(Dataset):
    """Of the batches of @dataset it makes every @of-th; the others are ready in memory."""

    def __init__(self, dataset, batch, number, of):
        self.dataset, self.number, self.of = dataset, number, of
        self.ready = [[part.numpy() for part in self.make(range(first, first + batch))]
                      for first in range(0, min(READY * batch, len(dataset) - batch), batch)]

    def make(self, indices):
        return default_collate([self.dataset[index] for index in indices])

    def __getitem__(self, indices):
        self.number += 1
        if self.number % self.of == 0:
            return self.make(indices)
        return [torch.from_numpy(part) for part in self.ready[self.number % len(self.ready)]]


class Whole(Dataset):
    """Batches of @mb megabytes that lie ready in memory, none of which torch has in shared memory."""

    def __init__(self, count, mb):
        random, many = numpy.random.RandomState(0), int(mb * MB / 12288)
        distinct = max(2, min(READY, int(320 / mb)))
        self.data = [random.random_sample((many, 3, 32, 32)).astype("f4") for _ in range(distinct)]
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return (torch.from_numpy(self.data[index % len(self.data)]),)


class Large(Dataset):
    """Volumes of @mb megabytes that cost @seconds of CPU time."""

    def __init__(self, count, mb, seconds):
        self.count, self.numbers, self.seconds = count, int(mb * MB / 4), seconds

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        end = time.thread_time() + self.seconds
        volume, other = torch.full((self.numbers,), float(index)), torch.zeros(1000)
        while time.thread_time() < end:
            other.sin_()
        return volume.add_(torch.rand(1)), index


def pictures(where):
    """Small pictures in files, cropped to 64 x 64."""
    return datasets.ImageFolder(where, transforms.Compose([
        transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize((.49, .48, .45), (.2, .2, .2))]))


class Uneven(Dataset):
    """One item in twenty takes fifty times as long; none of them draws anything."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(seconds_of(index))
        return torch.full((3, 64, 64), float(index)), index


def seconds_of(index):
    return .2 if (index * 2654435761 >> 7) % 20 == 0 else .004


def make_loader(arguments, persistent):
    count, many = arguments.items, {"num_workers": arguments.workers, "persistent_workers": persistent}
    makers = {"cifar": Cifar, "rows": Rows, "tokens": Tokens, "uneven": Uneven,
              "whole": lambda count: Whole(count, arguments.mb),
              "large": lambda count: Large(count, arguments.mb, arguments.seconds),
              "pictures": lambda count: pictures(arguments.data)}
    dataset = makers[arguments.kind](count)
    if arguments.part:
        number, of = map(int, arguments.part.split("/"))
        order = BatchSampler(RandomSampler(dataset), arguments.batch, False)
        return DataLoader(Part(dataset, arguments.batch, number, of), None, sampler=order, **many)
    return DataLoader(dataset, arguments.batch or None, shuffle=arguments.kind != "whole", **many)


def look(parts):
    """A number of a batch, the same however samples are put together; touches each page of it."""
    found = 0
    for part in parts:
        words = part.numpy().reshape(len(part), -1).view("u4" if part.element_size() == 4 else "u8")
        bytes_each = words[0].nbytes
        step = 1 if bytes_each <= 64 else 61 if bytes_each < MB else 1009
        found += int(words[:, ::step].sum(dtype="u8"))
    return found, len(parts[0])


def spent(loaders):
    """CPU seconds and page faults of this process, and of its workers."""
    own, ended = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    living = [worker.pid for loader in loaders for worker in
              getattr(getattr(loader, "_iterator", None), "_workers", ())]
    workers = ended.ru_utime + ended.ru_stime + sum(time.clock_gettime(~pid << 3 | 2) for pid in living)
    return {"trainer": own.ru_utime + own.ru_stime, "workers": workers, "faults": ended.ru_minflt}


def epochs(loader, count, all_loaders):
    before, begin, found, items = spent(all_loaders), time.monotonic(), 0, 0
    for _ in range(count):
        for batch in loader:
            number, samples = look(batch)
            found, items = (found + number) % 2**64, items + samples
            del batch  # as a trainer's step ends, before it asks for the next one
    seconds, after = time.monotonic() - begin, spent(all_loaders)
    return {"items": items, "seconds": seconds, "sum": found,
            **{what: after[what] - before[what] for what in after}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["cifar", "rows", "tokens", "whole", "large", "uneven", "pictures"])
    parser.add_argument("--items", type=int, required=True, help="of an epoch")
    parser.add_argument("--batch", type=int, default=0, help="0: the data set makes batches")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", help="the directory of pictures")
    parser.add_argument("--mb", type=float, default=0, help="of an item")
    parser.add_argument("--seconds", type=float, default=0, help="of CPU time that an item costs")
    parser.add_argument("--part", help="NUMBER/OF: the batches that are made; others are ready")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    loaders = {}
    print("ready", flush=True)
    for line in sys.stdin:
        how, count = line.split()
        if how not in loaders:
            loaders[how] = make_loader(arguments, how == "stay")
        print(json.dumps(epochs(loaders[how], int(count), loaders.values())), flush=True)


if __name__ == "__main__":
    main()
