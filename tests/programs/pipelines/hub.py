# SPDX-License-Identifier: MIT
"""Hugging Face's datasets."""

import os

import torch
from datasets import load_from_disk
from torch.utils.data import Dataset
from torchvision.transforms import functional

from . import pipeline
from .vision import TRAIN, VALIDATE, loaders


def transform(examples):
    """As the public image classification script has it."""
    examples["pixel_values"] = [TRAIN(image.convert("RGB")) for image in examples["image"]]
    del examples["image"]
    return examples


def padded(examples):
    """Fills up to the widest of the batch."""
    widths = [96 + 8 * label for label in examples["label"]]
    pictures = [functional.to_tensor(image.convert("RGB").resize((width, 96)))
                for image, width in zip(examples["image"], widths)]
    pictures = [functional.pad(picture, [0, 0, max(widths) - picture.shape[2], 0])
                for picture in pictures]
    return {"pixel_values": pictures, "label": examples["label"]}


def opened(options):
    """The table of pictures."""
    return load_from_disk(os.path.join(options.data, "arrow"))


Transform = pipeline("with_transform().",
                     lambda options: loaders(options, opened(options).with_transform(transform)))


class Split:
    """Parts of it, chosen by train_test_split() with one seed."""

    def make(self, options):
        parts = opened(options).train_test_split(test_size=.25, seed=3)
        return loaders(options, parts["train"].with_transform(transform),
                       parts["test"].with_transform(transform))


Padded = pipeline("A transform that pads; of jobs with equal batches.",
                  lambda options: loaders(options, opened(options).with_transform(padded)),
                  SHARES="torch_getitems", BY_BATCH=True)


class Wrapped(Dataset):
    """In a data set of the program's own."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        row = self.table[index]
        return VALIDATE(row["image"].convert("RGB")) + torch.rand(1), row["label"]


Inner = pipeline("An item at a time.", lambda options: loaders(options, Wrapped(opened(options))))
