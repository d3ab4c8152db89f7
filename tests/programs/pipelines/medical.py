# SPDX-License-Identifier: MIT
"""Volumes with MONAI; its transforms draw by generators of their own, and kornia's by torch's."""

import os

import kornia.augmentation
import monai.data
import monai.transforms
import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional

import data
from . import pipeline


class Monai:
    """Volumes from files, MONAI's data set, transforms and loader."""

    def make(self, options):
        m = monai.transforms
        volumes = numpy.load(os.path.join(options.data, "volumes.npy"), mmap_mode="r")
        items = [{"image": numpy.array(volume)[None]} for volume in volumes]
        train = m.Compose([m.RandSpatialCropd("image", (24, 48, 48), random_size=False),
                           m.RandFlipd("image", .5, spatial_axis=0),
                           m.RandGaussianNoised("image", prob=.5),
                           m.RandRotate90d("image", .5, spatial_axes=(1, 2)),
                           m.EnsureTyped("image", track_meta=False)])
        return [monai.data.DataLoader(monai.data.Dataset(items, train), shuffle=True,
                                      batch_size=options.batch, num_workers=options.workers)]


class MonaiMeta:
    """The same with MONAI's own tensors, and a transform outside of Compose."""

    def make(self, options):
        m = monai.transforms
        volumes = numpy.load(os.path.join(options.data, "volumes.npy"))
        train = m.RandGaussianSmoothd("image", prob=.9)
        items = [{"image": monai.data.MetaTensor(torch.from_numpy(volume[None].copy()))}
                 for volume in volumes]
        return [monai.data.DataLoader(monai.data.Dataset(items, train), shuffle=True,
                                      batch_size=options.batch, num_workers=options.workers)]


class MonaiCrops:
    """Two crops of each volume, views of it, around what is labelled; MONAI's list_data_collate."""

    def make(self, options):
        m = monai.transforms
        volumes = numpy.load(os.path.join(options.data, "volumes.npy"))
        names = ("image", "label")
        train = m.Compose([m.EnsureChannelFirstd(names, channel_dim="no_channel"),
                           m.ScaleIntensityd("image"),
                           m.RandCropByPosNegLabeld(names, "label", (16, 40, 40), num_samples=2)])
        items = [{"image": volume, "label": (volume > 1).astype(numpy.float32)}
                 for volume in volumes]
        return [monai.data.DataLoader(monai.data.Dataset(items, train), shuffle=True,
                                      batch_size=options.batch, num_workers=options.workers)]

    def samples(self, batch):
        """Both crops of each volume."""
        images = batch["image"].as_tensor()
        return [images[row:row + 2] for row in range(0, len(images), 2)]


class InItem(Dataset):
    """kornia's augmentations on the CPU, in the worker."""

    def __init__(self, paths):
        self.paths = paths
        self.augment = kornia.augmentation.AugmentationSequential(
            kornia.augmentation.RandomHorizontalFlip(p=.5),
            kornia.augmentation.ColorJitter(.2, .2, .2, .1, p=.8))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = functional.to_tensor(
            Image.open(self.paths[index]).convert("RGB").resize((128, 128)))
        return self.augment(picture[None])[0], data.label(self.paths[index])


Kornia = pipeline("kornia inside the item.",
    lambda options: [DataLoader(InItem(data.paths(options.data)), options.batch, shuffle=True,
    num_workers=options.workers)])
