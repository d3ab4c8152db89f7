# SPDX-License-Identifier: MIT
"""Classification of pictures with torchvision, Pillow and OpenCV."""

import os
import random

import cv2
import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, WeightedRandomSampler
from torchvision import transforms
from torchvision.transforms import v2

import data
from . import pipeline

NORMALIZE = transforms.Normalize([.5] * 3, [.5] * 3)
TRAIN = transforms.Compose([transforms.RandomResizedCrop(128), transforms.RandomHorizontalFlip(),
                            transforms.ToTensor(), NORMALIZE])
VALIDATE = transforms.Compose([transforms.Resize(144), transforms.CenterCrop(128),
                               transforms.ToTensor(), NORMALIZE])


def folders(options, kind="jpg", train=TRAIN, validate=VALIDATE):
    """The two data sets of an ImageFolder layout."""
    root = os.path.join(options.data, kind)
    return (torchvision.datasets.ImageFolder(os.path.join(root, "train"), train),
            torchvision.datasets.ImageFolder(os.path.join(root, "val"), validate))


def loaders(options, train, validate=None, **more):
    """As most programs have them."""
    made = [DataLoader(train, options.batch, shuffle="sampler" not in more,
                       num_workers=options.workers, **more)]
    more.pop("sampler", None)
    if validate is not None:
        made.append(DataLoader(validate, options.batch, num_workers=options.workers, **more))
    return made


Folder = pipeline("The ImageNet recipe.", lambda options: loaders(options, *folders(options)))
Png = pipeline("Pictures that no JPEG decoder sees.",
               lambda options: loaders(options, *folders(options, "png")))
Webp = pipeline("The same.", lambda options: loaders(options, *folders(options, "webp")))


class Version2:
    """Transforms of version 2, with a policy."""

    def make(self, options):
        train = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(128), v2.TrivialAugmentWide(),
                            v2.RandomErasing(), v2.ToDtype(torch.float32, scale=True)])
        validate = v2.Compose([v2.ToImage(), v2.Resize(128), v2.CenterCrop(128),
                               v2.ToDtype(torch.float32, scale=True)])
        return loaders(options, *folders(options, "jpg", train, validate))


class TwoViews:
    """Self-supervised: several crops of each picture, as a list."""

    class Crops:
        """Global and local crops, as DINO's."""

        def __init__(self):
            self.wide = transforms.Compose([transforms.RandomResizedCrop(128, (.4, 1)),
                                            transforms.ColorJitter(.4, .4, .2, .1),
                                            transforms.ToTensor()])
            self.local = transforms.Compose([transforms.RandomResizedCrop(64, (.05, .4)),
                                             transforms.RandomGrayscale(.2),
                                             transforms.ToTensor()])

        def __call__(self, picture):
            return [self.wide(picture) for _ in range(2)] + [self.local(picture)
                                                             for _ in range(4)]

    def make(self, options):
        return loaders(options, folders(options, "jpg", self.Crops())[0])

    @staticmethod
    def samples(batch):
        views, labels = batch
        return list(zip(*views, labels))


class Balanced:
    """A weighted sampler, with replacement."""

    def make(self, options):
        train, validate = folders(options)
        weights = [1. + label for _, label in train.samples]
        return loaders(options, train, validate,
                       sampler=WeightedRandomSampler(weights, len(train)))


class Folds:
    """Cross-validation: parts of one data set, put together again."""

    def make(self, options):
        train, _ = folders(options)
        parts = [Subset(train, range(part, len(train), 4)) for part in range(4)]
        return loaders(options, ConcatDataset(parts[:3]), parts[3])


Persistent = pipeline("Workers that live on.",
                      lambda options: loaders(options, *folders(options), persistent_workers=True))


class Paths(Dataset):
    """A list of paths and labels, read with OpenCV."""

    def __init__(self, paths):
        self.paths = paths
        self.labels = [data.label(path) for path in paths]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        picture = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        top, left = random.randint(0, 80), random.randint(0, 160)
        picture = cv2.resize(picture[top:top + 160, left:left + 160], (128, 128),
                             interpolation=cv2.INTER_AREA)
        if numpy.random.rand() < .5:
            picture = picture[:, ::-1]
        picture = cv2.GaussianBlur(numpy.ascontiguousarray(picture), (5, 5), 0)
        return torch.from_numpy(picture.transpose(2, 0, 1).astype(numpy.float32) / 255), \
            self.labels[index]


OpenCv = pipeline("What Kaggle has most of.",
                  lambda options: loaders(options, Paths(data.paths(options.data))))


class PilSamples(Dataset):
    """Samples that are pictures still, collated by the program."""

    def __init__(self, paths):
        self.paths = paths
        self.crop = transforms.RandomResizedCrop(128)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.crop(Image.open(self.paths[index]).convert("RGB")), data.label(
            self.paths[index])


class Pictures:
    """Its collate function makes tensors of them."""

    @staticmethod
    def collate(batch):
        return torch.stack([transforms.functional.to_tensor(picture) for picture, _ in batch]), \
            torch.tensor([label for _, label in batch])

    def make(self, options):
        return loaders(options, PilSamples(data.paths(options.data)), collate_fn=self.collate)


class Video(Dataset):
    """Clips of frames that are files."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths) - 8

    def __getitem__(self, index):
        step = random.randint(1, 2)
        frames = [torchvision.io.decode_jpeg(torchvision.io.read_file(self.paths[index + i]))
                  for i in range(0, 4 * step, step)]
        return transforms.functional.resize(torch.stack(frames), [112, 112], antialias=True), index


Clips = pipeline("Action recognition.",
                 lambda options: loaders(options, Video(data.paths(options.data))))


class Segmentation(Dataset):
    """A picture and its mask, under equal transforms."""

    def __init__(self, root):
        self.pictures = data.paths(root)
        self.masks = [os.path.join(root, "masks", "%03d.png" % n) for n in range(data.TRAIN)]

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = Image.open(self.pictures[index]).convert("RGB")
        mask = Image.open(self.masks[index])
        place = transforms.RandomCrop.get_params(picture, (128, 128))
        picture, mask = (transforms.functional.crop(part, *place) for part in (picture, mask))
        return transforms.functional.to_tensor(picture), torch.as_tensor(
            numpy.array(mask), dtype=torch.int64)


Masks = pipeline("Semantic segmentation.",
                 lambda options: loaders(options, Segmentation(options.data)))
