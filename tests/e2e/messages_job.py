# SPDX-License-Identifier: MIT
"""
A job of tests/e2e/messages.py: `messages_job.py DIRECTORY [WORD=VALUE...]` goes twice through the
pictures there, says so, and ends when its standard input does.
"""

import argparse
import glob
import sys
import threading

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data._utils.collate import default_collate


class Many:
    """More than options, for it changes itself; one of its parts is @rate."""

    def __init__(self, rate, depth=2):
        for number in range(12):
            setattr(self, "number%d" % number, number)
        self.inner, self.rate = Many(rate, depth - 1) if depth else None, 0 if depth else rate

    def note(self):
        self.rate += 1


class Collated(IterableDataset):
    """It gives whole batches, as loaders of fastai's do."""

    def __iter__(self):
        for number in range(4):
            yield default_collate([torch.full((512, 512), float(number)).sort(dim=0).values] * 4)


class Photos(Dataset):
    def __init__(self, directory, options, size, opens, is_cheap):
        self.files = sorted(glob.glob(directory + "/*.jpg"))
        self.options, self.size = options, size
        self.opens, self.is_cheap = opens, is_cheap

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        if self.is_cheap:
            return index
        with Image.open(self.files[index]) as image:
            data = torch.from_numpy(numpy.array(image.convert("RGB").resize((320, 320))))
        if isinstance(self.options, argparse.Namespace):
            assert self.options.lr > 0
        for _ in range(4):  # worth sharing
            data = data.float().sort(dim=0).values
        for path in self.opens:
            with open(path, encoding="utf-8") as file:
                file.read()
        return data if not self.size else torch.zeros(self.size)


class Walked(IterableDataset):
    """The same, iterated over."""

    def __init__(self, photos, run):
        self.photos, self.options = photos, argparse.Namespace(lr=0.1, run=run)

    def __iter__(self):
        for index in range(len(self.photos)):
            yield self.photos[index], self.options.run


def main(directory, *words):
    given = dict(word.split("=") for word in words)
    if "seed" in given:
        torch.manual_seed(int(given["seed"]))
    held = [float(given["held"])] if "held" in given else None
    if "read" in given:
        held = argparse.Namespace(lr=float(given["read"]), run=given["read"])
    if "lock" in given:
        held = threading.Condition()
    if "many" in given:
        held = Many(float(given["many"]))
    data = Photos(directory, held, int(given.get("size", 0)), [given["opens"]] if "opens" in given else [],
                  "cheap" in given)
    batch, shuffle = 4, True
    if "walked" in given:
        data, shuffle = Walked(data, given["walked"]), False
    if "collates" in given:
        data, batch, shuffle = Collated(), None, False
    for _ in range(0 if "idle" in given else 2):
        for _ in DataLoader(data, batch, shuffle=shuffle, num_workers=1):
            pass
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
