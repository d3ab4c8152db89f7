# SPDX-License-Identifier: MIT
"""Generators of random numbers that a data set has of its own."""

import random

import numpy
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision.transforms import functional

import data
from .vision import loaders


class Own(Dataset):
    """Draws by a generator that somebody made."""

    def __init__(self, paths, generator, draw):
        self.paths, self.generator, self.draw = paths, generator, draw

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = functional.to_tensor(Image.open(self.paths[index]).convert("RGB"))
        top, left = self.draw(self.generator, 100), self.draw(self.generator, 180)
        return picture[:, top:top + 128, left:left + 128].contiguous(), data.label(
            self.paths[index])


def draw_python(generator, end):
    """random.Random."""
    return generator.randrange(end)


def draw_numpy(generator, end):
    """numpy.random.Generator."""
    return int(generator.integers(end))


def draw_state(generator, end):
    """numpy.random.RandomState, also of the normal distribution."""
    return int(abs(generator.normal())) + generator.randint(end - 8)


def draw_torch(generator, end):
    """torch.Generator."""
    return int(torch.randint(end, (), generator=generator))


class Python:
    """random.Random(seed)."""

    def make(self, options):
        return loaders(options, Own(data.paths(options.data), random.Random(options.seed),
                                    draw_python))


class Numpy:
    """numpy.random.default_rng(seed)."""

    def make(self, options):
        return loaders(options, Own(data.paths(options.data),
                                    numpy.random.default_rng(options.seed), draw_numpy))


class State:
    """numpy.random.RandomState(seed)."""

    def make(self, options):
        return loaders(options, Own(data.paths(options.data),
                                    numpy.random.RandomState(options.seed), draw_state))


class Torch:
    """torch.Generator()."""

    def make(self, options):
        generator = torch.Generator()
        generator.manual_seed(options.seed)
        return loaders(options, Own(data.paths(options.data), generator, draw_torch))


class LazyOwn(Own):
    """Makes its generator in the worker, when it is first needed."""

    def __getitem__(self, index):
        if self.generator is None:
            self.generator = numpy.random.default_rng()
        return super().__getitem__(index)


class Lazy:
    """Made in the worker, as is recommended against equal draws in all of them."""

    REPEATS = False  # from the system's own randomness

    def make(self, options):
        return loaders(options, LazyOwn(data.paths(options.data), None, draw_numpy))
