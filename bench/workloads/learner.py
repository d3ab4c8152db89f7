#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A learner without a GPU: ResNet-18 on one core, samples of 224 x 224 that are in memory.

    learner.py BATCH STEPS      prints JSON: samples, and seconds of CPU time for them

The first step, in which memory is touched for the first time, is not counted.
"""
import json
import sys
import time

import torch
import torchvision


def main():
    batch, steps = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torchvision.models.resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=.01)
    samples, labels = torch.rand(batch, 3, 224, 224), torch.randint(1000, (batch,))
    for step in range(steps + 1):
        if step == 1:
            begin = time.process_time()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(samples), labels).backward()
        optimizer.step()
    print(json.dumps({"samples": batch * steps, "cpu": time.process_time() - begin}))


if __name__ == "__main__":
    main()
