#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A training loop without a model: what it costs is what its samples cost.

It knows nothing of tsshim.  bench/prepare.py and bench/peers.py start it with and without
`tsrun --` in front.  The target of a sample is its index, so that the loop can tell which
samples it was given.

In its --make form the same items are made without a loader, which tells what making them, copying
them and looking at them costs when nothing is handed from process to process.
"""
import argparse
import hashlib
import json
import sys
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate
from torchvision import datasets, transforms

NORMALIZE = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
BLOCK = 1024  # tokens of one item


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["train", "eval", "small", "tokens"],
                        help="of items: augmented photographs, the same as for validation, "
                        "images of 32 x 32, blocks of a token file")
    parser.add_argument("data", help="directory in ImageFolder layout, or the file of the items")
    parser.add_argument("--size", type=int, required=True, help="samples of one epoch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--make", nargs=2, type=int, metavar=("NUMBER", "OF"),
                        help="make every OF-th item, from NUMBER on, without a loader")
    return parser.parse_args()


class Small(Dataset):
    """Images of 32 x 32 in memory, with the augmentation that is usual for CIFAR-10."""

    def __init__(self, path):
        self.data = numpy.load(path)
        self.transform = transforms.Compose([
            transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(), NORMALIZE])

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.data[index])), index


class Tokens(Dataset):
    """Blocks of a file of 16-bit tokens, and the same blocks one token on."""

    def __init__(self, path):
        self.data = numpy.memmap(path, dtype=numpy.uint16, mode="r")

    def __len__(self):
        return (len(self.data) - 1) // BLOCK

    def __getitem__(self, index):
        at = index * BLOCK
        block = self.data[at:at + BLOCK + 1].astype(numpy.int64)
        return torch.from_numpy(block[:-1]), torch.from_numpy(block[1:])


class SliceSampler:
    """Each epoch the next part of the data, in an order of its own where it is trained on."""

    def __init__(self, count, size, shuffle):
        self.size, self.shuffle = size, shuffle
        self.parts, self.epoch = count // size, -1

    def __iter__(self):
        self.epoch += 1
        first = self.epoch % self.parts * self.size
        order = torch.randperm(self.size) if self.shuffle else torch.arange(self.size)
        return iter((order + first).tolist())

    def __len__(self):
        return self.size


def make_dataset(arguments):
    if arguments.kind == "small":
        return Small(arguments.data)
    if arguments.kind == "tokens":
        return Tokens(arguments.data)
    if arguments.kind == "train":
        steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    else:
        steps = [transforms.Resize(256), transforms.CenterCrop(224)]
    dataset = datasets.ImageFolder(
        arguments.data, transforms.Compose([*steps, transforms.ToTensor(), NORMALIZE]))
    # The index of a sample as its target, in the library's own class: default mode shares the
    # samples of classes that it knows, and of a subclass only the pixels.
    dataset.samples = [(path, number) for number, (path, _) in enumerate(dataset.samples)]
    return dataset


def make_loader(arguments):
    dataset = make_dataset(arguments)
    order = SliceSampler(len(dataset), arguments.size, arguments.kind != "eval")
    return DataLoader(dataset, arguments.batch_size, sampler=order,
                      num_workers=arguments.workers, persistent_workers=True)


class Look:
    """What the loop does with its batches: it reads every value, and notes who was there."""

    def __init__(self):
        self.check, self.indices, self.count = hashlib.sha256(), set(), 0

    def take(self, values, targets):
        words = values.numpy().reshape(len(values), -1).view("uint64")
        self.check.update(words.sum(axis=1).tobytes())
        if targets.ndim == 1:
            self.indices.update(targets.tolist())
        else:
            self.check.update(targets.numpy().sum(axis=1).tobytes())
        self.count += len(values)


def run_epochs(loader):
    """One epoch for every line on standard input, with one line of answer."""
    print("ready", flush=True)
    for epoch, _ in enumerate(sys.stdin):
        look, begin = Look(), time.monotonic()
        for values, targets in loader:
            look.take(values, targets)
        print(f"epoch {epoch} images {look.count} distinct {len(look.indices)} seconds "
              f"{time.monotonic() - begin:.3f} checksum {look.check.hexdigest()[:16]}", flush=True)


def run_maker(arguments):
    """For every line make the items of the next slice; the answer tells the CPU times."""
    number, of = arguments.make
    dataset = make_dataset(arguments)
    order = SliceSampler(len(dataset), arguments.size, arguments.kind != "eval")
    room = None
    print("ready", flush=True)
    for _ in sys.stdin:
        indices = list(order)[number::of]
        begin = time.process_time_ns()
        items = [dataset[index] for index in indices]
        made = time.process_time_ns() - begin
        # Several batches, or the processor's caches would hold what they look at.
        batches = [default_collate(items[at:at + 32]) for at in range(0, len(items), 32)]
        if room is None:
            room = torch.zeros_like(batches[0][0])
        begin = time.process_time_ns()
        for values, _ in batches:
            room[:len(values)].copy_(values)
        copied = time.process_time_ns() - begin
        look = Look()
        begin = time.process_time_ns()
        for values, targets in batches:
            look.take(values, targets)
        print(json.dumps({"images": len(indices), "make_ns": made, "copy_ns": copied,
                          "look_ns": time.process_time_ns() - begin}), flush=True)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    if arguments.make:
        run_maker(arguments)
    else:
        run_epochs(make_loader(arguments))


if __name__ == "__main__":
    main()
