# SPDX-License-Identifier: MIT
"""
A training job for free.py: prints "epoch E index digest" for each sample in order of delivery.
Lines that begin with "~" say what may differ between two runs.

usage: free_job.py [OPTIONS] [--then OPTIONS]...     loaders, one after the other
"""

import argparse
import itertools
import os
import sys
import time

import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, SubsetRandomSampler
from torch.utils.data.distributed import DistributedSampler

import aligned_job
import meeting


def arguments(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=96)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--pause", type=float, default=[0], nargs="+",
                        help="seconds for each batch, of the epochs in turn")
    parser.add_argument("--until", help="more epochs, until there is this file")
    parser.add_argument("--leave", type=int, help="give each epoch up after so many batches")
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--opens", help="a file that each item opens, by a name relative to /")
    parser.add_argument("--alone", action="store_true", help="samples, not batches")
    parser.add_argument("--how", default="shuffle", choices=[
        "shuffle", "subset", "fold", "rank", "plain", "several",
        "weighted", "replaced", "own",
        "generator"])
    return parser.parse_args(words)


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
    words = sys.argv[1:]
    while "--then" in words:
        train(arguments(words[:words.index("--then")]))
        words = words[words.index("--then") + 1:]
    train(arguments(words))
    meeting.part()
    print("~ pid", os.getpid(), flush=True)


if __name__ == "__main__":
    main()
