#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""One rank of a distributed job that loads nothing but the numbers of its samples.

    locality.py RANK RANKS MEETING SAMPLES SIZE EPOCHS FILE

MEETING: a file by which all ranks find each other, not there yet; SIZE: of a local batch.  Which node it
is on, GROUP_RANK says, as torchrun would.
Writes into FILE, as JSON, of each epoch the batches that it was given, and the CPU seconds of this
thread for all of their indices.  It knows nothing of tsshim.
"""
import json
import sys
import time

import torch
import torch.distributed
import torch.utils.data


class Numbers(torch.utils.data.Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return index


def epoch_of(loader):
    """(batches, CPU seconds for their indices); ranks go from step to step together."""
    batches, spent = [], 0.0
    iterator = iter(loader)
    together = torch.zeros(1)
    while True:
        before = time.thread_time()
        batch = next(iterator, None)
        spent += time.thread_time() - before
        if batch is None:
            return batches, spent
        batches.append(batch.tolist())
        torch.distributed.all_reduce(together)


def main():
    rank, ranks, meeting, samples, size, epochs, file = sys.argv[1:]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method="file://" + meeting, rank=int(rank),
                                         world_size=int(ranks))
    dataset = Numbers(int(samples))
    sampler = torch.utils.data.distributed.DistributedSampler(dataset)
    loader = torch.utils.data.DataLoader(dataset, int(size), sampler=sampler)
    found = []
    for epoch in range(int(epochs)):
        sampler.set_epoch(epoch)
        found.append(epoch_of(loader))
    with open(file, "w", encoding="ascii") as out:
        json.dump(found, out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
