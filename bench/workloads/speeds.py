#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A trainer that takes so many samples a second and no more, as one whose GPU is its limit does.

Says "ready" once it has a batch; is told "go BEGIN MIDDLE END", seconds of the monotonic clock,
and says at the end as JSON how many samples it was given from BEGIN and from MIDDLE on, and what
the process and its workers spent on them from MIDDLE on.  With --once it was never given an index
twice in an epoch, nor a sample twice, or it fails.
"""
import argparse
import hashlib
import json
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

SIDE = 64  # of a sample; 48 KiB


class Pictures(Dataset):
    """@count pictures that are made anew, and cropped, turned and coloured at random."""

    def __init__(self, count):
        generator = numpy.random.RandomState(1)
        self.noise = generator.randint(0, 256, (256, 3 * SIDE), dtype=numpy.uint8)
        self.count = count
        self.transform = transforms.Compose([
            transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(.2, .2), transforms.ToTensor()])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        picture = numpy.roll(self.noise, index, axis=index % 2)[:192, :192]
        return self.transform(Image.fromarray(picture).convert("RGB")), index


class Had:
    """What a job was given: each index once in an epoch, each sample once."""

    def __init__(self):
        self.samples, self.indices = set(), set()

    def begin(self):
        self.indices = set()

    def note(self, images, indices):
        for image, index in zip(images, indices.tolist()):
            digest = hashlib.md5(image.numpy().tobytes()).digest()
            if index in self.indices or (index, digest) in self.samples:
                raise SystemExit(f"index {index} came twice")
            self.indices.add(index)
            self.samples.add((index, digest))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--speed", type=float, required=True, help="samples a second; 0: all it gets")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--once", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Pictures(arguments.items), arguments.batch, shuffle=True, num_workers=1,
                        persistent_workers=True)
    had, given, marks, due = Had(), 0, None, 0.0
    while True:
        had.begin()
        for images, indices in loader:
            if marks is None:
                print("ready", flush=True)
                marks = [float(word) for word in input().split()[1:]]
                time.sleep(max(0, marks[0] - time.monotonic()))
                counts, due = [], marks[0]
            if arguments.once:
                had.note(images, indices)
            given += len(indices)
            if arguments.speed:
                due += len(indices) / arguments.speed
                time.sleep(max(0, due - time.monotonic()))
                # A GPU does not make up for what it was not given in time.
                due = max(due, time.monotonic() - .05)
            while marks and time.monotonic() >= marks[0]:
                counts.append(given)
                marks.pop(0)
            if not marks:
                print(json.dumps({"all": counts[2] - counts[0],
                                  "given": counts[2] - counts[1]}), flush=True)
                input()
                return


if __name__ == "__main__":
    main()
