# SPDX-License-Identifier: MIT
"""
A training job for across.py: aligned_job.py with items that cost so much that other nodes are
worth asking, and that may read files.
"""

import argparse
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader

import aligned_job
import meeting


class Costly(aligned_job.Items):
    """@cost_ms of CPU time for each item, which has @floats numbers and @directory's files."""

    def __init__(self, count, cost_ms, floats, directory):
        super().__init__(count)
        self.cost, self.floats = cost_ms / 1e3, floats
        self.files = aligned_job.Files(directory) if directory else None
        if directory:
            self.count = self.files.count

    def __getitem__(self, index):
        end = time.thread_time() + self.cost
        sample = (self.files or super()).__getitem__(index)
        sample["more"] = torch.from_numpy(
            numpy.random.randint(0, 1 << 30, self.floats, dtype=numpy.int32))
        sample["picture"] = sample["picture"] + sample["more"][0]
        while time.thread_time() < end:
            sum(range(100))
        return sample


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=96)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--cost", type=float, default=6, help="ms of CPU time for an item")
    parser.add_argument("--floats", type=int, default=20000)
    parser.add_argument("--files", help="directory to read the items from")
    parser.add_argument("--seed", type=int, default=None, help="of the job itself")
    options = parser.parse_args()
    meeting.arrive()
    torch.set_num_threads(1)
    if options.seed is not None:
        torch.manual_seed(options.seed)
    data = Costly(options.items, options.cost, options.floats, options.files)
    loader = DataLoader(data, batch_size=options.batch, shuffle=True, num_workers=options.workers)
    model = aligned_job.Model() if not options.files else None
    for epoch in range(options.epochs):
        meeting.arrive()
        for batch in loader:
            aligned_job.show(epoch, batch)
            if model:
                print("loss", model.step(batch))
        sys.stdout.flush()
    meeting.part()
    print("~ cpu", sum(time.process_time() for _ in "1"), flush=True)


if __name__ == "__main__":
    main()
