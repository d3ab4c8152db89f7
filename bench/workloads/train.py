#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An ordinary training script: torchvision's ImageFolder, the usual augmentation, a small model.

It knows nothing of tsshim.  The demonstration and the benchmarks start it with and without
`tsrun --` in front, and compare the checksums it prints.
"""
import argparse
import hashlib
import resource
import sys
import time

import torch
from torch.utils.data import DataLoader, RandomSampler
from torchvision import datasets, transforms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="directory in ImageFolder layout")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, help="of the order of the samples "
                        "(default: they are shuffled as torch does, by --augment-seed)")
    parser.add_argument("--augment-seed", type=int, default=0, help="of crops and flips")
    parser.add_argument("--model", choices=["none", "tiny"], default="tiny")
    parser.add_argument("--delay-ms", type=float, default=0, help="slow storage, per image")
    parser.add_argument("--step-ms", type=float, default=0,
                        help="what a step of training takes, per image: a GPU that is busy")
    parser.add_argument("--slices", type=int, default=0, metavar="N",
                        help="cut the order into N parts, one for each of N epochs")
    parser.add_argument("--wait", action="store_true",
                        help="say 'ready', start each epoch when a line arrives on standard input")
    return parser.parse_args()


class SlowLoader:
    """The default loader on storage that answers after a fixed time."""

    def __init__(self, delay_ms):
        self.delay = delay_ms / 1000

    def __call__(self, path):
        time.sleep(self.delay)
        return datasets.folder.default_loader(path)


class SliceSampler:
    """A random order of all samples, of which each epoch takes the next part."""

    def __init__(self, count, slices, seed):
        self.order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        self.size, self.epoch = count // slices, -1

    def __iter__(self):
        self.epoch += 1
        return iter(self.order[self.epoch * self.size:][:self.size].tolist())

    def __len__(self):
        return self.size


def make_loader(arguments):
    transform = transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ])
    load = datasets.folder.default_loader
    if arguments.delay_ms:
        load = SlowLoader(arguments.delay_ms)
    dataset = datasets.ImageFolder(arguments.data, transform, loader=load)
    if arguments.slices:
        order = SliceSampler(len(dataset), arguments.slices, arguments.seed or 0)
    elif arguments.seed is None:
        order = RandomSampler(dataset)
    else:
        order = RandomSampler(dataset, generator=torch.Generator().manual_seed(arguments.seed))
    return DataLoader(dataset, arguments.batch_size, sampler=order,
                      num_workers=arguments.workers, persistent_workers=bool(arguments.slices))


def make_model(classes):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(8), torch.nn.Flatten(),
                               torch.nn.Linear(3 * 8 * 8, classes))


def fingerprint(images):
    """One number per sample from the exact bits of all its values."""
    words = images.numpy().view("uint64").reshape(len(images), -1)
    return words.sum(axis=1)


def cpu_seconds():
    """Of this process and of those of its workers that have ended."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


def train_epoch(loader, model, optimizer, step):
    check = hashlib.sha256()
    count, total, anyhow = 0, 0.0, 0
    for images, labels in loader:
        numbers = fingerprint(images)
        anyhow += int(numbers.sum())  # the same in any order
        check.update(numbers.tobytes())
        check.update(labels.numpy().tobytes())
        time.sleep(step * len(images))
        if model is not None:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(images)
        count += len(images)
        print(f"progress {count}", flush=True)
    samples = check.hexdigest()[:16]
    check.update(repr(total).encode())
    return count, total / max(count, 1), samples, f"{anyhow % 2**64:x}", check.hexdigest()[:16]


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.augment_seed)
    loader = make_loader(arguments)
    model = optimizer = None
    if arguments.model == "tiny":
        model = make_model(len(loader.dataset.classes))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if arguments.wait:
        print("ready", flush=True)
    for epoch in range(arguments.slices or arguments.epochs):
        if arguments.wait and not sys.stdin.readline():
            return
        cpu, wall = cpu_seconds(), time.monotonic()
        count, loss, samples, anyhow, check = train_epoch(loader, model, optimizer,
                                                          arguments.step_ms / 1000)
        print(f"epoch {epoch} images {count} seconds {time.monotonic() - wall:.3f} "
              f"cpu {cpu_seconds() - cpu:.3f} loss {loss:.9g} samples {samples} "
              f"set {anyhow} checksum {check}", flush=True)


if __name__ == "__main__":
    main()
