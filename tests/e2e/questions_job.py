# SPDX-License-Identifier: MIT
"""
The train.py of docs/questions.md: pictures below the working directory, a model of one number.
With --stay it waits for a line of input before it ends, so that somebody can look at it.
"""

import argparse
import glob
import sys

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, directory):
        self.paths = sorted(glob.glob(directory + "/*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = numpy.asarray(Image.open(self.paths[index]).resize((256, 256)))
        return torch.from_numpy(picture.astype("float32") / 255).mean((0, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--stay", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    loader = DataLoader(Pictures("pictures"), batch_size=8, shuffle=True, num_workers=2)
    weight = 0.0
    for epoch in range(arguments.epochs):
        for batch in loader:
            weight += arguments.lr * (float(batch.mean()) - weight)
        print("epoch %d: %.6f" % (epoch, weight), flush=True)
    if arguments.stay:
        sys.stdin.readline()


if __name__ == "__main__":
    main()
