#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A loop over ready samples of 602 KB: what it costs is their way from worker to trainer.

Every line on standard input starts an epoch; it is answered with one line of JSON.
"""
import argparse
import json
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SHAPE = (3, 224, 224)
DISTINCT = 256  # samples in memory, 154 MB: more than any cache holds


class Ready(Dataset):
    """Samples that cost nothing to make."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(0)
        self.samples = torch.rand((DISTINCT, *SHAPE), generator=generator)
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.samples[index % DISTINCT], index


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, required=True, help="samples of one epoch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Ready(arguments.size), batch_size=arguments.batch_size,
                        num_workers=arguments.workers)
    print("ready", flush=True)
    for _ in sys.stdin:
        begin, total, count = time.monotonic(), 0.0, 0
        for images, labels in loader:
            total += float(images.sum(dtype=torch.float32))
            count += len(labels)
        print(json.dumps({"seconds": time.monotonic() - begin, "samples": count,
                          "sum": total}), flush=True)


if __name__ == "__main__":
    main()
