# SPDX-License-Identifier: MIT
"""
A job of the soak (soak.py): "epoch E INDEX DIGEST" for each sample in order of delivery.  Lines that begin
with "~" may differ between two runs; "~ at T" is when an epoch begins, and when a batch is there.

usage: soak_job.py map|stream|hf --data DIR [OPTIONS]
       soak_job.py make --data DIR         makes the table of hf
"""

import hashlib
import itertools
import os
import select
import sys
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import data_job  # noqa: E402 -- of the tests beside

TRAIN = transforms.Compose([transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(),
                            transforms.ToTensor()])
VALIDATE = transforms.Compose([transforms.Resize(64), transforms.ToTensor()])


class Pictures(Dataset):
    """The pictures of a directory, by their names."""

    def __init__(self, directory, transform):
        self.paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(Image.open(self.paths[index]).convert("RGB")), index


def map_style(options):
    data = Pictures(options.data, VALIDATE if options.fixed else TRAIN)
    return DataLoader(data, options.batch, shuffle=not options.fixed, num_workers=options.workers)


def stream(options):
    """Shards, shuffled, whose samples have their numbers for labels."""
    import webdataset
    shards = sorted(os.path.join(options.data, name) for name in os.listdir(options.data))
    found = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(16).decode("pil")
    return DataLoader(found.to_tuple("jpg", "cls").map_tuple(TRAIN, int), options.batch,
                      num_workers=options.workers)


def load(examples):
    examples["picture"] = [TRAIN(image.convert("RGB")) for image in examples.pop("image")]
    return examples


def hf(options):
    import datasets
    table = datasets.load_from_disk(options.data).with_transform(load)
    return DataLoader(table, options.batch, shuffle=True, num_workers=options.workers)


def make(options):
    """Pictures within the table, for a taker reads no other file than that."""
    import datasets
    names = sorted(os.listdir(options.pictures))
    rows = []
    for name in names:
        with open(os.path.join(options.pictures, name), "rb") as file:
            rows.append({"bytes": file.read(), "path": None})
    table = datasets.Dataset.from_dict({"image": rows, "index": list(range(len(names)))},
                                       datasets.Features(image=datasets.Image(), index=datasets.Value("int64")))
    table.save_to_disk(options.data)


def show(epoch, batch):
    print("~ at", time.monotonic())
    pictures, numbers = (batch["picture"], batch["index"]) if isinstance(batch, dict) else batch
    for picture, number in zip(pictures, numbers):
        print("epoch", epoch, int(number), hashlib.md5(picture.numpy().tobytes()).hexdigest()[:12])


KINDS = {"map": map_style, "stream": stream, "hf": hf, "make": make}


def main():
    options = data_job.options_of(
        kinds=KINDS, pictures=str, pause=0.0, fixed=False,
        until=str)  # epochs without end, until there is this file
    torch.set_num_threads(1)
    data_job.seed_all(options.seed)
    loader = KINDS[options.kind](options)
    if loader is None:
        return
    for epoch in itertools.count() if options.until else range(options.epochs):
        if options.until and os.path.exists(options.until):
            break
        print("~ at", time.monotonic(), flush=True)
        for batch in loader:
            show(epoch, batch)
            sys.stdout.flush()
            select.select([], [], [], options.pause)  # libfaketime spoils time.sleep() where it steps the clock
    print("end", flush=True)


if __name__ == "__main__":
    main()
