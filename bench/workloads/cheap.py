#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Epochs over 50,000 images of 32 x 32 with the augmentation that is usual for CIFAR-10.

It knows nothing of tsshim.  For each line on standard input it goes through the epochs with a new
loader and answers with a line of JSON.
"""
import argparse
import json
import sys
import time

import torch
from samples import Small
from torch.utils.data import DataLoader


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="file of the images")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    dataset = Small(arguments.data)
    print("ready", flush=True)
    for _ in sys.stdin:
        loader = DataLoader(dataset, 128, shuffle=True, num_workers=1)
        begin, total, count = time.monotonic(), 0.0, 0
        for _ in range(arguments.epochs):
            for images, indices in loader:
                total += float((images[:, :, ::5, ::5].sum(dim=(1, 2, 3)) * indices).sum())
                count += len(indices)
        print(json.dumps({"items": count, "seconds": time.monotonic() - begin, "sum": total}),
              flush=True)


if __name__ == "__main__":
    main()
