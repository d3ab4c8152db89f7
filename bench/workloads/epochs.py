#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Epochs over small images, each with new workers, as torch does unless it is told otherwise.

What is printed at the end as JSON is the CPU time of all of them, without the start of the program.
"""
import argparse
import json
import resource

import torch
from samples import Small
from torch.utils.data import DataLoader


def spent():
    """CPU seconds of this process and of its workers that have ended."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="file of the images")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Small(arguments.data), 128, shuffle=True, num_workers=arguments.workers)
    cpu, total, count = -spent(), 0.0, 0
    for _ in range(arguments.epochs):
        for images, indices in loader:
            total += float(images.sum(dtype=torch.float64)) + float((images[:, 0, 0, 0]
                                                                     * indices).sum())
            count += len(indices)
    print(json.dumps({"cpu": cpu + spent(), "sum": total, "images": count}), flush=True)


if __name__ == "__main__":
    main()
