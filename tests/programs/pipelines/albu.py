# SPDX-License-Identifier: MIT
"""
albumentations, which draws by generators of each transform's own; before 1.4.19 by the global ones,
and compositions take no seed.
"""

import inspect

import albumentations
import cv2
from albumentations.pytorch import ToTensorV2
from torch.utils.data import Dataset

import data
from .vision import loaders


class Augmented(Dataset):
    """OpenCV and albumentations."""

    def __init__(self, paths, transform):
        self.paths, self.transform = paths, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        return self.transform(image=picture)["image"], data.label(self.paths[index])


def _takes(function, name):
    return name in inspect.signature(function).parameters


def _augment(seed):
    a = albumentations
    crop = {"size": (128, 128)} if _takes(a.RandomResizedCrop, "size") else {"height": 128, "width": 128}
    seeded = {"seed": seed} if _takes(a.Compose, "seed") else {}
    return a.Compose([a.RandomResizedCrop(**crop), a.HorizontalFlip(p=.5),
                      a.RandomBrightnessContrast(p=.5), a.CoarseDropout(p=.3), a.Normalize(),
                      ToTensorV2()], **seeded)


def _plain(size):
    a = albumentations
    return a.Compose([a.Resize(size, size), a.Normalize(), ToTensorV2()])


class Albumentations:
    """albumentations 2 without a seed."""

    REPEATS = False

    def make(self, options):
        return loaders(options, Augmented(data.paths(options.data), _augment(None)),
                       Augmented(data.paths(options.data, "val"), _plain(128)))


class AlbumentationsSeeded:
    """albumentations 2 with the program's seed."""

    def make(self, options):
        return loaders(options, Augmented(data.paths(options.data), _augment(options.seed)),
                       Augmented(data.paths(options.data, "val"), _plain(128)))
