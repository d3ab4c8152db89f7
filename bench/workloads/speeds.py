#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A trainer that takes so many samples a second and no more, as one whose GPU is its limit does.

Says "ready" once it has a batch; is told "go BEGIN END BEGIN END ...", windows of the monotonic
clock in which it takes samples, between which it rests.  It says at the end as JSON how many it was
given in each, and how many indices had each epoch that it finished.  Then it goes on until it is
told something.
"""
import argparse
import json
import select
import sys
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


class Clock:
    """Says when the job may go on, and counts what it was given in each window that it is told."""

    def __init__(self, speed):
        self.speed = speed
        self.due, self.windows, self.given = 0.0, None, []

    def wait_for_begin(self):
        print("ready", flush=True)
        times = [float(word) for word in input().split()[1:]]
        self.windows = list(zip(times[::2], times[1::2]))
        self.given = [0] * len(self.windows)
        self._rest()

    def _rest(self):
        """Until the next window begins: nothing is taken."""
        time.sleep(max(0, self.windows[0][0] - time.monotonic()))
        self.due = self.windows[0][0]

    def take(self, count):
        """So many samples were given, in a window; returns whether there are more windows."""
        self.given[-len(self.windows)] += count
        if self.speed:
            self.due += count / self.speed
            time.sleep(max(0, self.due - time.monotonic()))
            # A GPU does not make up for what it was not given in time.
            self.due = max(self.due, time.monotonic() - .05)
        if time.monotonic() >= self.windows[0][1]:
            _, end = self.windows.pop(0)
            if self.windows and self.windows[0][0] > end:
                self._rest()
        return bool(self.windows)


def train(loader, options):
    """Epochs of @loader until the end that is told; then the answer."""
    clock, whole = Clock(options.speed), []
    while True:
        distinct = set()
        for _, indices in loader:
            if clock.windows is None:
                clock.wait_for_begin()
            distinct.update(indices.tolist())
            if clock.windows and not clock.take(len(indices)):
                print(json.dumps({"given": clock.given, "distinct": list(whole)}), flush=True)
            # It goes on: others may wait for the slowest, and have not yet answered.
            if not clock.windows and select.select([sys.stdin], [], [], 0)[0]:
                return
        whole.append(len(distinct))


def make_loader(items, batch):
    return DataLoader(Pictures(items), batch, shuffle=True, num_workers=1,
                      persistent_workers=True)


def add_options(parser):
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--speed", type=float, default=0, help="samples a second; 0: all it gets")
    parser.add_argument("--batch", type=int, default=16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    train(make_loader(options.items, options.batch), options)


if __name__ == "__main__":
    main()
