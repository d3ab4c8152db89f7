#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A training loop without a model over items that cost a known CPU time and hold 300 KB.

It knows nothing of tsshim.  For each line on standard input it goes through the next slice of its
data, and says which samples it was given.
"""
import argparse
import hashlib
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SHAPE = 3, 160, 160


class Items(Dataset):
    """@count items; each draws a number, and takes @making_ns of its thread's CPU time."""

    def __init__(self, count, making_ns):
        self.count, self.making_ns = count, making_ns

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        begin = time.thread_time_ns()
        value = torch.full(SHAPE, float(index)).add_(torch.rand(1))
        while time.thread_time_ns() - begin < self.making_ns:
            pass
        return value, index


class Slices:
    """Each epoch the next @size of @count indices, shuffled."""

    def __init__(self, count, size):
        self.size, self.parts, self.epoch = size, count // size, -1

    def __iter__(self):
        self.epoch += 1
        first = self.epoch % self.parts * self.size
        return iter((torch.randperm(self.size) + first).tolist())

    def __len__(self):
        return self.size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=int, required=True, help="items of a slice")
    parser.add_argument("--making-ns", type=int, required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Items(options.count, options.making_ns), options.batch,
                        sampler=Slices(options.count, options.size),
                        num_workers=options.workers, persistent_workers=True)
    print("ready", flush=True)
    for epoch, _ in enumerate(sys.stdin):
        check, indices, begin = hashlib.sha256(), [], time.monotonic()
        for values, numbers in loader:
            check.update(values[:, 0, 0, 0].numpy().tobytes())
            indices += numbers.tolist()
        print(f"epoch {epoch} images {len(indices)} distinct {len(set(indices))} seconds "
              f"{time.monotonic() - begin:.3f} checksum {check.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
