# SPDX-License-Identifier: MIT
"""
A training job for across.py: aligned_job.py with items that cost so much that other nodes are
worth asking, and that may read files.
"""

import os
import sys
import time
import zlib

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import aligned_job
import data_job
import meeting


class Costly(aligned_job.Items):
    """@cost_ms of CPU time for each item, which has @floats numbers and @directory's files; with
    @of_node it is another one on each node."""

    def __init__(self, count, cost_ms, floats, directory, of_node):
        super().__init__(count)
        self.cost, self.floats, self.of_node = cost_ms / 1e3, floats, of_node
        self.files = aligned_job.Files(directory) if directory else None
        if directory:
            self.count = self.files.count

    def __getitem__(self, index):
        end = time.thread_time() + self.cost
        sample = (self.files or super()).__getitem__(index)
        sample["more"] = torch.from_numpy(
            numpy.random.randint(0, 1 << 30, self.floats, dtype=numpy.int32))
        sample["picture"] = sample["picture"] + sample["more"][0]
        if self.of_node:
            sample["picture"] += zlib.crc32(os.uname().nodename.encode()) % 97
        while time.thread_time() < end:
            sum(range(100))
        return sample


class Stream(IterableDataset):
    """The same items, one after the other."""

    def __init__(self, items):
        super().__init__()
        self.items = items

    def __iter__(self):
        worker = get_worker_info()
        return (self.items[index] for index in range(worker.id, len(self.items), worker.num_workers))


def main():
    options = data_job.options_of(
        items=96, workers=1, batch=16, epochs=2, floats=20000, seed=int, iterable=False,
        cost=6.0,  # ms of CPU time for an item
        files=str,  # directory to read the items from
        node=False,  # items that depend on the node
        scenes=False)  # one behind the first batch of each epoch
    data_job.begin(options)
    data = Costly(options.items, options.cost, options.floats, options.files, options.node)
    loader = DataLoader(Stream(data) if options.iterable else data, batch_size=options.batch,
                        shuffle=not options.iterable, num_workers=options.workers)
    model = None if options.files else aligned_job.Model()
    for epoch in range(options.epochs):
        meeting.arrive()
        for number, batch in enumerate(loader):
            if options.scenes and number == 0:
                meeting.scene()
            aligned_job.show(epoch, batch)
            if model:
                print("loss", model.step(batch))
        sys.stdout.flush()
    meeting.part()
    print("~ cpu", sum(time.process_time() for _ in "1"), flush=True)


if __name__ == "__main__":
    main()
