# SPDX-License-Identifier: MIT
"""A JAX program that loads its data with PyTorch's DataLoader, as many do."""

import random

import common
import jax
import numpy
import torch


class Pictures(torch.utils.data.Dataset):
    """Crops of pictures, as NumPy arrays."""

    def __init__(self, root):
        self.paths = common.pictures(root)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = common.with_pillow(common.read(self.paths[index]))
        top = random.randrange(picture.shape[0] - common.SIDE + 1)
        left = random.randrange(picture.shape[1] - common.SIDE + 1)
        return picture[top:top + common.SIDE, left:left + common.SIDE]


def collate(samples):
    """A batch of NumPy arrays."""
    return numpy.stack(samples)


class TorchLoader:
    """PyTorch's DataLoader with two workers and a collate function that gives NumPy arrays."""

    def batches(self, options):
        torch.manual_seed(options.seed)
        random.seed(options.seed)
        loader = torch.utils.data.DataLoader(
            Pictures(options.data), options.batch, shuffle=True, num_workers=2,
            collate_fn=collate)
        for _ in range(options.epochs):
            for batch in loader:
                yield numpy.asarray(jax.device_put(batch))
