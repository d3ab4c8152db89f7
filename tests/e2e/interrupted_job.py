# SPDX-License-Identifier: MIT
"""A trainer that goes on for ever: interrupted_job.py WORKERS PICTURE..., for interrupted.py."""

import sys
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

FILES = sys.argv[2:]


class Pictures(Dataset):
    """Each of them many times."""

    def __len__(self):
        return 1000000

    def __getitem__(self, index):
        picture = Image.open(FILES[index % len(FILES)]).convert("RGB").resize((32, 32))
        return torch.from_numpy(numpy.array(picture))


if __name__ == "__main__":
    for number, _ in enumerate(DataLoader(Pictures(), batch_size=4, num_workers=int(sys.argv[1]))):
        if number == 5:
            print("ready", flush=True)
        time.sleep(0.01)
