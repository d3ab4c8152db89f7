# SPDX-License-Identifier: MIT
"""A job in default mode for exact.py: prints digests of its batches and what it draws itself."""

import argparse
import hashlib
import os
import random
import sys
import time

import numpy
import torch
import torchvision
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset
from torchvision import transforms as T


def spend(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Own(Dataset):
    """A data set of the user's own; what it does in an item is @recipe."""

    limit = 3

    def __init__(self, recipe):
        self.recipe = recipe
        self.calls = 0
        self.cache = {}
        self.generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(4), "little"))
        self.shared = torch.zeros(1).share_memory_()

    def __len__(self):
        return 40

    def __getitem__(self, index):
        spend(0.001)
        value = getattr(self, self.recipe)(index)
        return torch.full((3, 32, 32), float(value)), index

    def default_rng(self, index):
        return float(numpy.random.default_rng().random() >= 0) + index

    def own_generator(self, index):
        return float(torch.rand((), generator=self.generator) >= 0) + index

    def system_random(self, index):
        return float(random.SystemRandom().random() >= 0) + index

    def clock(self, index):
        return float(time.time() > 0) + index

    def counter(self, index):
        self.calls += 1
        return self.calls

    def caching(self, index):
        return self.cache.setdefault(index, random.random())

    def module_global(self, index):
        return GLOBAL + index

    def environment(self, index):
        return float(os.environ.get("EXACT_VALUE", "0")) + index

    def class_attribute(self, index):
        return self.limit + index

    def worker_info(self, index):
        info = torch.utils.data.get_worker_info()
        return (info.id if info else 9) + index

    def swallowed_error(self, index):
        try:
            return float(open("/nonexistent/%d" % index).read())
        except OSError:
            return index

    def forked_generator(self, index):
        with torch.random.fork_rng(devices=[]):
            return float(torch.rand(()) >= 0) + index

    def shared_tensor(self, index):
        return float(self.shared) + index


class Vouched(Dataset):
    """Of the user's own, and a function of index and generators only."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        spend(0.002)
        return torch.rand(3, 32, 32) * random.random() + numpy.random.rand(), index


class Batches(Vouched):
    """Makes whole batches in one call, as torch offers from 2.0 on."""

    def __getitems__(self, indices):
        spend(0.002 * len(indices))
        noise = torch.rand(())
        return [(torch.rand(3, 32, 32) + noise, index) for index in indices]


GLOBAL = 2

RANDOM = [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.ToTensor(),
          T.Normalize([.5, .5, .5], [.2, .2, .2])]
PIPELINES = {
    "random": RANDOM,
    "free": [T.Resize(128), T.CenterCrop(96), T.ToTensor(), T.Normalize([.5] * 3, [.2] * 3)],
    "python": [T.RandomChoice([T.Resize(128), T.Resize(140)]), T.CenterCrop(96), T.ToTensor()],
    "many": [T.RandAugment(), T.ColorJitter(.2, .2), T.RandomRotation(9), *RANDOM[:3],
             T.RandomErasing()],
    "lambda": [*RANDOM, T.Lambda(lambda x: x * 2)],
}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images")
    parser.add_argument("--pipeline", default="random", choices=sorted(PIPELINES))
    parser.add_argument("--own", help="recipe of the user's own data set")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shuffle", type=int, default=1)
    parser.add_argument("--split", choices=("fold", "twice"))
    parser.add_argument("--patch", choices=("function", "class", "instance", "hook"))
    parser.add_argument("--collate", choices=("inplace", "cutmix"))
    parser.add_argument("--change", action="store_true", help="another transform in epoch 1")
    return parser.parse_args()


def brighter(image):
    return torch.as_tensor(numpy.asarray(image).copy()).permute(2, 0, 1).float() / 200


def patch(where, data):
    """As users do who know better than the library."""
    if where == "function":
        torchvision.transforms.functional.to_tensor = brighter
    elif where == "class":
        T.ToTensor.__call__ = lambda self, image: brighter(image)
    elif where == "instance":
        data.transform.transforms[2] = brighter
    elif where == "hook":
        data.transform.transforms[0].register_forward_hook(
            lambda module, inputs, output: output.rotate(180))


def inplace(samples):
    batch = torch.utils.data.default_collate(samples)
    for sample in samples:
        sample[0].zero_()
    return batch


def cutmix(samples):
    images, labels = torch.utils.data.default_collate(samples)
    return images * torch.rand(()) + images.flip(0) * random.random(), labels


def data_of(options):
    if options.own in ("vouched", "batches"):
        data = Vouched() if options.own == "vouched" else Batches()
        return Subset(data, range(30)) if options.split else data
    if options.own:
        return Own(options.own)
    data = torchvision.datasets.ImageFolder(options.images, T.Compose(
        list(PIPELINES[options.pipeline])))
    if options.patch:
        patch(options.patch, data)
    if options.split == "fold":
        return Subset(data, range(0, len(data), 2))
    return ConcatDataset([data, data]) if options.split else data


def main():
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    numpy.random.seed(options.seed)
    data = data_of(options)
    loader = DataLoader(data, batch_size=options.batch, shuffle=bool(options.shuffle),
                        num_workers=options.workers,
                        collate_fn=globals()[options.collate] if options.collate else None)
    for epoch in range(options.epochs):
        if epoch == 1 and options.change:
            data.transform.transforms[1] = T.RandomVerticalFlip()
        for number, (images, labels) in enumerate(loader):
            print(epoch, number, hashlib.md5(images.numpy().tobytes()).hexdigest(),
                  labels.tolist())
            if options.change and epoch == 1 and number == 1:
                data.transform.transforms[1] = T.RandomHorizontalFlip()
        print("draw", torch.rand(()).item(), random.random(), numpy.random.rand())
        sys.stdout.flush()

if __name__ == "__main__":
    main()
