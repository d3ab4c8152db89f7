# SPDX-License-Identifier: MIT
"""Samples that are more than tensors: boxes, classes of the program's, pictures, objects."""

import collections
import dataclasses
import os
import pathlib

import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import Dataset
from torchvision import tv_tensors
from torchvision.transforms import functional, v2

import data
from . import pipeline
from .vision import TRAIN, loaders


class Coco:
    """Detection, as torchvision documents it."""

    pure = False

    @staticmethod
    def collate(batch):
        return tuple(zip(*batch))

    @staticmethod
    def samples(batch):
        return list(zip(*batch))

    def make(self, options):
        steps = [v2.ToImage(), v2.RandomPhotometricDistort(p=1),
                 v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104), "others": 0}),
                 v2.RandomIoUCrop(), v2.RandomHorizontalFlip(p=1), v2.SanitizeBoundingBoxes(),
                 v2.ToDtype(torch.float32, scale=True)]
        if self.pure:
            steps.append(v2.ToPureTensor())
        found = torchvision.datasets.CocoDetection(
            options.data, os.path.join(options.data, "boxes.json"), transforms=v2.Compose(steps))
        found = torchvision.datasets.wrap_dataset_for_transforms_v2(
            found, target_keys=("boxes", "labels", "masks"))
        return loaders(options, found, collate_fn=self.collate)


class CocoPure(Coco):
    """The same without classes of torchvision's in the samples."""

    pure = True


@dataclasses.dataclass
class Sample:
    """What an item is."""

    picture: torch.Tensor
    label: int
    name: str
    path: pathlib.Path


Pair = collections.namedtuple("Pair", "picture label")


class Items(Dataset):
    """Pictures, made into whatever is wanted."""

    def __init__(self, paths, make):
        self.paths, self.make = paths, make

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = TRAIN(Image.open(self.paths[index]).convert("RGB"))
        return self.make(picture, self.paths[index])


def as_dataclass(picture, path):
    """A dataclass."""
    return Sample(picture, data.label(path), os.path.basename(path), pathlib.Path(path))


def as_pair(picture, path):
    """A named tuple."""
    return Pair(picture, data.label(path))


def as_mixture(picture, path):
    """Text, bytes and nothing at all beside."""
    name = os.path.basename(path)
    return {"picture": picture, "text": name if data.label(path) else None,
            "raw": name.encode(), "numbers": [1, data.label(path), None]}


def as_objects(picture, path):
    """An array of objects."""
    words = numpy.empty(2, dtype=object)
    words[0], words[1] = os.path.basename(path), data.label(path)
    return {"picture": picture, "words": words}


class Dataclass:
    """Samples are of a class of the program's."""

    @staticmethod
    def collate(batch):
        return torch.stack([sample.picture for sample in batch]), torch.tensor(
            [sample.label for sample in batch]), [(sample.name, str(sample.path))
                                                  for sample in batch]

    def make(self, options):
        return loaders(options, Items(data.paths(options.data), as_dataclass),
                       collate_fn=self.collate)


NamedTuple = pipeline("Samples and batches are named tuples.",
                      lambda options: loaders(options, Items(data.paths(options.data), as_pair)))


def listed(batch):
    """Keeps the samples as they are."""
    return batch


class Mixture:
    """A list of samples is the batch."""

    @staticmethod
    def samples(batch):
        return batch

    def make(self, options):
        return loaders(options, Items(data.paths(options.data), as_mixture), collate_fn=listed)


class ObjectArray(Mixture):
    """The same with arrays of objects."""

    def make(self, options):
        return loaders(options, Items(data.paths(options.data), as_objects), collate_fn=listed)


class Boxes(Dataset):
    """Boxes and key points of torchvision's classes, without a detection data set."""

    def __init__(self, paths):
        self.paths = paths
        self.transform = v2.Compose([v2.RandomHorizontalFlip(.5), v2.RandomCrop(200)])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = tv_tensors.Image(functional.pil_to_tensor(
            Image.open(self.paths[index]).convert("RGB")))
        boxes = tv_tensors.BoundingBoxes(torch.tensor([[10., 20., 60. + index, 90.]]),
                                         format="XYXY", canvas_size=tuple(picture.shape[-2:]))
        return self.transform(picture, boxes)


class BoundingBoxes(Mixture):
    """Their format and canvas are delivered, too."""

    @staticmethod
    def samples(batch):
        return [(picture, boxes, str(boxes.format), boxes.canvas_size) for picture, boxes in batch]

    def make(self, options):
        return loaders(options, Boxes(data.paths(options.data)), collate_fn=listed)
