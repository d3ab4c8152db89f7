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


class Photos(Dataset):
    def __init__(self, directory, options, size):
        self.files = sorted(glob.glob(directory + "/*.jpg"))
        self.options, self.size = options, size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with Image.open(self.files[index]) as image:
            data = torch.from_numpy(numpy.array(image.convert("RGB").resize((320, 320))))
        if isinstance(self.options, argparse.Namespace):
            assert self.options.lr > 0
        for _ in range(4):  # worth sharing
            data = data.float().sort(dim=0).values
        return data if not self.size else torch.zeros(self.size)


class Walked(IterableDataset):
    """The same, iterated over."""

    def __init__(self, photos, run):
        self.photos, self.options = photos, argparse.Namespace(lr=0.1, run=run)

    def __iter__(self):
        for index in range(len(self.photos)):
            yield self.photos[index]


def main(directory, *words):
    given = dict(word.split("=") for word in words)
    if "seed" in given:
        torch.manual_seed(int(given["seed"]))
    held = [float(given["held"])] if "held" in given else None
    if "read" in given:
        held = argparse.Namespace(lr=float(given["read"]), run=given["read"])
    if "lock" in given:
        held = threading.Condition()
    photos = Photos(directory, held, int(given.get("size", 0)))
    data = Walked(photos, given["walked"]) if "walked" in given else photos
    for _ in range(0 if "idle" in given else 2):
        for _ in DataLoader(data, batch_size=4, shuffle=data is photos, num_workers=1):
            pass
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
