#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Jobs whose data sets hold all options of the program, of which an item reads one.

It knows nothing of tsshim but in its form `name`, which times how a data set gets its name.  For each
line on standard input it does its work once and answers with a line of JSON.
"""
import argparse
import dataclasses
import hashlib
import importlib
import json
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

FEW, ITEM_NS = 100, 1_200_000
ARGS = argparse.Namespace()


class CFG:
    """Settings as they stand at the head of many notebooks."""

    size = 224


@dataclasses.dataclass
class Config:
    """As tyro, simple_parsing or HfArgumentParser fill it."""

    size: int = 224
    rest: dict = dataclasses.field(default_factory=dict)


class Photos(datasets.ImageFolder):
    """Photographs; @self.opt is what main() has made, as the ways to hold it are."""

    def __init__(self, root, options, way):
        super().__init__(root, transforms.RandomHorizontalFlip())
        self.cut, self.end = transforms.RandomResizedCrop(options["size"]), transforms.ToTensor()
        self.opt = {"nothing": None, "namespace": argparse.Namespace(**options), "dict": options,
                    "dataclass": Config(options["size"], options)}.get(way)
        if way == "global":
            vars(ARGS).update(options)
        if way == "class":
            for name, value in options.items():
                setattr(CFG, name, value)
        self.size = {"nothing": self.of_mine, "namespace": self.of_attribute, "dict": self.of_item,
                     "dataclass": self.of_attribute, "global": of_global, "class": of_class}[way]

    def of_mine(self):
        return 224

    def of_attribute(self):
        return self.opt.size

    def of_item(self):
        return self.opt["size"]

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        assert self.size() == 224
        return self.end(self.cut(image)), label


def of_global():
    return ARGS.size


def of_class():
    return CFG.size


class Paths(Dataset):
    """Has a million paths, of which it opens none."""

    def __init__(self, count):
        self.samples = [("/data/train/%03d/%08d.jpg" % (i % 1000, i), i % 1000) for i in range(count)]
        self.classes = ["class %d" % i for i in range(1000)]
        self.transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])

    def __getitem__(self, index):
        return self.transform(self.samples[index][0]), ARGS.begin(index)

    def __len__(self):
        return len(self.samples)


class Busy(Dataset):
    """Items that take as much CPU time each, so that what is done around them can be told; @options are held, or None."""

    def __init__(self, options, count):
        self.opt, self.count = options, count

    def __getitem__(self, index):
        end = time.thread_time_ns() + ITEM_NS
        while time.thread_time_ns() < end:
            pass
        return torch.full((64,), index + (self.opt.size if self.opt else 224))

    def __len__(self):
        return self.count


def options_of(seed):
    """What differs between the jobs of a sweep, forty of them, and one that does not."""
    found = {"lr": 0.1 * (seed + 1), "seed": seed, "run": "run-%d" % seed, "size": 224}
    return {**found, **{"more%d" % i: i + seed for i in range(36)}}


def modules(where, count):
    """Write @count modules that call each other; the first one's function."""
    os.makedirs(where, exist_ok=True)
    for number in range(count):
        last = number == count - 1
        text = "" if last else "from part%d import f%d\n" % (number + 1, number + 1)
        text += "X = %d\n\n\ndef f%d(i):\n    found = [i, X]\n" % (number, number)
        text += "    return found\n" if last else "    return f%d(i + X), found\n" % (number + 1)
        text += "\n\nclass C%d:\n    def f(self):\n        return X\n" % number
        with open(os.path.join(where, "part%d.py" % number), "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, where)
    return importlib.import_module("part0").f0


def name(arguments):
    """Milliseconds of CPU time to name a data set for the first time, and again."""
    sys.path.insert(0, arguments.glue)
    from tsshim_torch.fingerprint import datasets as fingerprints
    from tsshim_torch.fingerprint import walk
    ARGS.begin = modules(arguments.data, arguments.modules) if arguments.modules else len
    dataset, kept = Paths(arguments.size), []
    # Aligned, with what is left out, where this version leaves anything out.
    words = {"read": set()} if "read" in walk.Notes.__init__.__code__.co_varnames else {}

    def once():
        notes = walk.Notes(seeds=True, **words)
        begin = time.thread_time()
        fingerprints.fingerprint(dataset, kept, notes=notes)
        return (time.thread_time() - begin) * 1e3

    first = once()
    return lambda: {"first": first, "again": min(once() for _ in range(5))}


def items(arguments):
    """Epochs of Busy, with workers that stay."""
    options = argparse.Namespace(**options_of(arguments.seed)) if arguments.way != "nothing" else None
    loader = DataLoader(Busy(options, arguments.size), arguments.batch, num_workers=1,
                        persistent_workers=True)

    def epoch():
        return {"items": sum(len(batch) for batch in loader)}
    return epoch


def train(arguments):
    """Epochs over photographs in an order of its own, with new workers each."""
    dataset = Photos(arguments.data, options_of(arguments.seed), arguments.way)

    def epochs():
        begin, seen = time.monotonic(), hashlib.md5()
        for _ in range(arguments.epochs):
            for images, labels in DataLoader(dataset, 32, shuffle=True, num_workers=1):
                seen.update(images.numpy().tobytes() + labels.numpy().tobytes())
        return {"seconds": time.monotonic() - begin, "sum": seen.hexdigest(),
                "items": len(dataset) * arguments.epochs}
    return epochs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=["name", "items", "train"])
    parser.add_argument("--data", help="photographs as ImageFolder wants them, or a place for modules")
    parser.add_argument("--glue", help="directory of the Python half of the library")
    parser.add_argument("--way", default="nothing", help="how the options are held")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=FEW, help="of the data set")
    parser.add_argument("--modules", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    work = {"name": name, "items": items, "train": train}[arguments.work](arguments)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(work()), flush=True)


if __name__ == "__main__":
    main()
