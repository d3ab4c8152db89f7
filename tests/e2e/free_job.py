# SPDX-License-Identifier: MIT
"""
A training job for free.py: prints "epoch E index digest" for each sample in order of delivery.
Lines that begin with "~" say what may differ between two runs.

usage: free_job.py [OPTIONS] [--then OPTIONS]...     loaders, one after the other
"""

import itertools
import os
import sys
import time

import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, SubsetRandomSampler
from torch.utils.data.distributed import DistributedSampler

import aligned_job
import data_job
import meeting


def arguments(words):
    return data_job.options_of(
        words, items=96, workers=1, batch=16, epochs=3, persistent=False, drop_last=False,
        pause=[0.0],  # seconds for each batch, of the epochs in turn
        until=str,  # more epochs, until there is this file
        leave=int,  # give each epoch up after so many batches
        opens=str,  # a file that each item opens, by a name relative to /
        alone=False,  # samples, not batches
        how=("subset", "fold", "rank", "plain", "several", "weighted", "replaced", "own", "generator"))  # or shuffled


class Turns(torch.utils.data.Sampler):
    """The program's own: neighbours stay together, as where a loss compares what is in a batch."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        begin = int(torch.randint(len(self.data), ()))
        return iter([(begin + number) % len(self.data) for number in range(len(self.data))])

    def __len__(self):
        return len(self.data)


class Opening(aligned_job.Items):
    """Which opens a file for each item, by a relative name, and does what cannot be judged."""

    def __init__(self, count, name):
        super().__init__(count)
        self.name = name

    def __getitem__(self, index):
        with open(self.name, "rb") as file:
            file.read(64)
        time.thread_time()
        return super().__getitem__(index)


def items(options):
    if not options.opens:
        return aligned_job.Items(options.items)
    os.chdir("/")
    return Opening(options.items, options.opens)


def sampler_of(options, data):
    """(data set, sampler or None) that options.how means."""
    numbers = range(len(data))
    if options.how == "subset":
        return data, SubsetRandomSampler(list(numbers[::3]))
    if options.how == "fold":
        return Subset(Subset(data, numbers[1:]), numbers[:-1:2]), None
    if options.how == "rank":
        return data, DistributedSampler(data, num_replicas=5, rank=2)
    if options.how == "several":
        return ConcatDataset([data, data]), None
    if options.how == "weighted":
        weights = [1.0 + index % 3 for index in numbers]
        return data, torch.utils.data.WeightedRandomSampler(weights, len(data))
    if options.how == "replaced":
        return data, torch.utils.data.RandomSampler(data, replacement=True)
    if options.how == "own":
        return data, Turns(data)
    return data, None


def train(options):
    data, sampler = sampler_of(options, items(options))
    loader = DataLoader(
        data, sampler=sampler, shuffle=sampler is None and options.how != "plain",
        generator=torch.Generator() if options.how == "generator" else None,
        batch_size=None if options.alone else options.batch, num_workers=options.workers,
        drop_last=options.drop_last, persistent_workers=options.persistent)
    for epoch in itertools.count():
        if epoch >= options.epochs and (not options.until or os.path.exists(options.until)):
            break
        if options.how == "rank":
            sampler.set_epoch(epoch)
        for number, batch in enumerate(loader):
            if number == options.leave:
                break
            if options.alone:
                batch = {key: [value] for key, value in batch.items()}
            aligned_job.show(epoch, batch)
            time.sleep(options.pause[epoch % len(options.pause)])
        sys.stdout.flush()


def main():
    meeting.arrive()
    torch.set_num_threads(1)
    for options in data_job.scenes(arguments):
        train(options)
    meeting.part()
    print("~ pid", os.getpid(), flush=True)


if __name__ == "__main__":
    main()
