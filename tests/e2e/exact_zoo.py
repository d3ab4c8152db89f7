# SPDX-License-Identifier: MIT
"""
Data sets with code of the user's own that default mode shares: judged, and run as jobs.

Run as a program, it prints the verdict on each of these and of the attacks on the check.
"""

import abc
import collections
import functools
import json
import math
import os
import random
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as functional
import torchvision
import torchvision.transforms.functional as TF
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import Dataset
from torchvision import transforms as T

GOOD = {}
SIZE = 16
PALETTE = {"red": [1, 2, 3], "blue": (4, 5, 6)}


class Items(Dataset):
    """Of the user's own; an item is what @make gives for an index."""

    def __init__(self, make, **attributes):
        self.make = make
        self.__dict__.update(attributes)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.make(index)


def good(draws=""):
    """Decorator: the function gives data sets that draw from these generators."""
    def register(function):
        GOOD[function.__name__] = (draws, function)
        return function
    return register


def picture(index):
    """Something to work on, which costs a little."""
    ramp = np.arange(128 * 128 * 3, dtype=np.int64).reshape(128, 128, 3)
    return Image.fromarray(((ramp * (index + 3)) % 251).astype(np.uint8)).resize((400, 300))


class Folder(torchvision.datasets.ImageFolder):
    """Reads the sizes as well."""

    scale = 2

    def __init__(self, root, transform):
        super().__init__(root, transform)
        self.seen = len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = self.load(path)
        if self.transform is not None:
            image = self.transform(image)
        return {"image": image, "target": target * self.scale, "name": os.path.basename(path)}

    @staticmethod
    def load(path):
        with open(path, "rb") as file:
            return Image.open(file).convert("RGB")


class Through(torchvision.datasets.ImageFolder):
    """Uses what it inherits."""

    def __getitem__(self, index):
        image, target = super().__getitem__(index)
        return image, target, index


class Noise:
    """A transform of the user's own."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return x + torch.randn(x.shape) * self.scale


class Swap(torch.nn.Module):
    """The same as a module."""

    def forward(self, x):
        return x.flip(0) if torch.rand(()) < 0.5 else x


def loader(path):
    """As given to ImageFolder."""
    with open(path, "rb") as file:
        image = Image.open(file)
        return ImageOps.mirror(image.convert("RGB"))


CHAIN = T.Compose([T.RandomCrop(64), T.ToTensor()])


@good()
def names_types(_root):
    """The first one that is judged in its process, before any was looked at."""
    return Items(lambda index: (torch.tensor(np.asarray(picture(index)), dtype=torch.float32),
                                torch.ones(3).to(torch.long)))


@good()
def margins(root):
    return Items(lambda index: np.pad(np.asarray(picture(index)), ((1, 2), (0, 0), (0, 0)),
                                      mode="edge"))


@good()
def subclass_of_folder(root):
    return Folder(root, T.Compose([T.Resize(64), T.CenterCrop(64), T.ToTensor()]))


@good("torch")
def subclass_with_super(root):
    return Through(root, T.Compose([T.RandomCrop(64), T.ToTensor(), Noise(0.1), Swap()]))


@good("torch")
def lambdas(root):
    scale = 3.0
    return torchvision.datasets.ImageFolder(root, T.Compose([
        T.RandomCrop(64), T.Lambda(lambda x: x.rotate(90)), T.ToTensor(),
        T.Lambda(lambda x: x * scale + SIZE)]), target_transform=lambda y: y + 1)


@good()
def own_loader(root):
    return torchvision.datasets.ImageFolder(
        root, T.Compose([T.Resize((64, 64)), T.ToTensor()]), loader=loader)


class Annotated(Dataset):
    """As many detection data sets are written."""

    COLOURS = ("red", "blue")

    def __init__(self, root):
        self.root = root
        self.names = ["class%d/%02d.jpg" % (number % 3, number) for number in range(24)]
        self.boxes = {name: [[1, 2, 3 + at, 9]] for at, name in enumerate(self.names)}

    def __len__(self):
        return len(self.names)

    @property
    def colours(self):
        return [PALETTE[name] for name in self.COLOURS]

    def read(self, name):
        return Image.open(os.path.join(self.root, name)).convert("RGB")

    def __getitem__(self, index):
        name = self.names[index]
        image = self.read(name)
        width, height = image.size
        boxes = []
        for x, y, *rest in self.boxes[name]:
            boxes.append([x / width, y / height, rest[0] / width, rest[1] / height])
        if random.random() < 0.5:
            image = TF.hflip(image)
            boxes = [[1 - b[2], b[1], 1 - b[0], b[3]] for b in boxes]
        top, left, rows, columns = T.RandomCrop.get_params(image, output_size=(64, 64))
        array = np.array(TF.crop(image, top, left, rows, columns), dtype=np.float32)
        array -= np.random.rand()
        array[0, 0] = self.colours[0][0]
        sample = {"image": torch.from_numpy(array).permute(2, 0, 1)}
        sample["boxes"] = torch.tensor(boxes)
        sample["area"] = sum((b[2] - b[0]) * (b[3] - b[1]) for b in boxes)
        sample["key"] = f"{index:04d}-{name.split('/')[0].upper()}"
        assert sample["area"] is not None, "no area"
        return sample


@good("numpy python torch")
def annotated(root):
    return Annotated(root)


@dataclass
class Options:
    """Settings."""

    size: int = 48
    names: tuple = ("a", "b")


Pair = collections.namedtuple("Pair", "image label")


@good()
def settings(root):
    options, pair = Options(), Pair(2, "b")
    table = {name: number for number, name in enumerate(sorted(os.listdir(root)))}

    def make(index, factor=2):
        image = picture(index).resize((options.size, options.size))
        x = functional.one_hot(torch.tensor(index % 4), 4).float() * factor
        y = torch.as_tensor(np.asarray(image).copy()).float().mean(dim=0)
        return Pair(y, x), max(table.values()), math.sqrt(index), "{:03d}".format(
            len(options.names) + pair.image)
    return Items(make)


@good("torch")
def partials(root):
    def shifted(x, by):
        return x + by + torch.rand(1)

    def wrapped(function):
        @functools.wraps(function)
        def call(*arguments):
            return function(*arguments)
        return call

    return Items(wrapped(functools.partial(lambda by, index: shifted(
        TF.to_tensor(picture(index)), by), 3)))


@good()
def made_in_the_item(root):
    def make(index):
        image = picture(index).filter(ImageFilter.GaussianBlur(2))
        with torch.no_grad():
            x = T.Compose([T.Resize((32, 32)), T.ToTensor()])(image)
        total = 0
        while total < 3 and not (x.numel() == 0):
            total += 1
        return x, total, [n for n in range(index, index + 9) if n > index + 2], json.loads("[1]")
    return Items(make)


class TwoViews(torchvision.datasets.ImageFolder):
    """As for contrastive training."""

    def __getitem__(self, index):
        path, target = self.samples[index]
        image = self.loader(path)
        return self.transform(image), self.transform(image), target


@good("torch")
def two_views(root):
    return TwoViews(root, T.Compose([T.RandomCrop(64), T.ColorJitter(.2), T.ToTensor()]))


class Base(abc.ABC, Dataset):
    """What attributes of objects are called does not matter where these are no functions."""

    @abc.abstractmethod
    def load(self, index):
        """To be defined."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.clip(self.load(index)), self.split.split("-")[0]

    def clip(self, value):
        return value


class Loaded(Base):
    def __init__(self):
        self.split, self.convert, self.copy = "train-a", True, None

    def load(self, index):
        return np.asarray(picture(index).convert("L")).copy()


@good()
def attributes_that_are_no_functions(root):
    return Loaded()


TABLE = {"red": 1, "green": 2, "blue": 3}


@good()
def goes_through_a_set(root):
    # In order at last, or plain runs would differ as well.
    return Items(lambda index: sorted([TABLE[name] + picture(index).size[0]
                                       for name in {"red", "green", "blue"}]))


@good()
def asks_a_set(root):
    return Items(lambda index: [picture(index).size[0] for name in TABLE
                                if name in {"red", "green"}])


try:
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.15
    v2 = None

if v2 is not None:
    class Halve(v2.Transform):
        """A v2 transform of the user's own."""

        def transform(self, inpt, params):
            return inpt * 0.5

    @good("torch")
    def version_two(root):
        return torchvision.datasets.ImageFolder(root, v2.Compose([
            v2.RandomResizedCrop(64), v2.RandomHorizontalFlip(), v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True), v2.Normalize([.5] * 3, [.5] * 3),
            v2.RandomChoice([v2.Identity(), v2.GaussianBlur(3)]), v2.ToPureTensor(), Halve()]))


def verdict(judgement, data):
    """What is said of @data: the generators it draws from, or "refused", and why."""
    judged = vars(type(data)).get("judged")
    try:
        found = judged(data, judgement.judge) if judged else judgement.judge(data)
    except judgement.Refused as refusal:
        return "refused", str(refusal)
    return " ".join(sorted(found.generators)), found.by_hash


def main(root):
    """Print all verdicts."""
    import exact_apart
    import exact_attacks
    import exact_attacks_around  # as the next one, adds to exact_attacks
    import exact_newer  # noqa: F401
    from tsshim_torch.judge import judgement, versions
    versions.check()  # or everything of the user's would be refused
    for name, (draws, make) in GOOD.items():
        print("good|%s|%s|%s|%s" % (name, draws, *verdict(judgement, make(root))))
    for name, make in exact_attacks.BAD.items():
        print("bad|%s|refused|%s|%s" % (name, *verdict(judgement, make())))
    for exposes, table in ((True, exact_attacks_around.EXPOSED), (False, exact_attacks_around.HIDDEN)):
        for name, make in table.items():
            print("exposes|%s|%s|%s|" % (name, exposes, judgement.judge(make(root)).exposes))
    for name in exact_apart.APART:
        print("apart|%s|apart|%s|" % (name, exact_apart.verdict(name)))
    print("loads|pillow|True|%s|" % exact_apart.LOADS_ITSELF)


if __name__ == "__main__":
    import exact_zoo  # as those know it that add to what it has
    exact_zoo.main(sys.argv[1])
