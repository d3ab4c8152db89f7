# SPDX-License-Identifier: MIT
"""
The training program of sweeps.py: pictures in a folder, usual transforms, a small network.

    python sweeps_train.py DIRECTORY --lr 0.1 [--number 1]

prints the loss of each epoch to the last bit.  It is also a module whose train() the tools of
sweeps_tools.py call.  Trials of a test meet (SWEEP_MEET=COUNT:DIRECTORY) at the beginning of each
epoch and at the end, so that they run side by side however long each took to start.
"""

import argparse
import glob
import os
import threading
import time

import PIL.Image
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler
from torchvision import transforms

import programs_model

EPOCHS = 3
BATCH = 8
FIRST = threading.Lock()  # while weights are drawn from torch's generator, which all threads have
GUARD = 200  # seconds; only a trial that is lost does not come


class Pictures(Dataset):
    def __init__(self, directory):
        self.paths = sorted(glob.glob(os.path.join(directory, "*.jpg")))
        self.transform = transforms.Compose([
            transforms.RandomResizedCrop(96), transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.2, 0.2, 0.2), transforms.ToTensor()])

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with PIL.Image.open(self.paths[index]) as picture:
            return self.transform(picture.convert("RGB")), index % 6


def meet(stage, who):
    """Wait until as many trials as the test has at once have come to this @stage, or further."""
    count, _, place = os.environ.get("SWEEP_MEET", "").partition(":")
    if not place:
        return
    open(os.path.join(place, "%s.%s" % (stage, who)), "w").close()
    end = time.monotonic() + GUARD
    while sum(name.startswith(stage + ".") for name in os.listdir(place)) < int(count):
        assert time.monotonic() < end, "the others did not come to " + stage
        time.sleep(0.01)


def seed_of(number):
    """Of a trial: one for all, or with SWEEP_SEEDS=own each its own."""
    return 1 + number if os.environ.get("SWEEP_SEEDS") == "own" else 1


def loader_of(data, generator=None, sampler=None, start=None):
    return DataLoader(data, batch_size=BATCH, shuffle=sampler is None, sampler=sampler,
                      num_workers=1, generator=generator, multiprocessing_context=start)


def epoch_of(model, optimizer, loader):
    """Train for an epoch; the mean loss."""
    total = 0.0
    for pictures, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        if os.environ.get("SWEEP_FORWARD_ONLY") != "1":
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += float(loss.detach())
    return total / len(loader)


def train(directory, lr, number=0, report=None, threads=False, start=None):
    """The loss after some epochs of trial @number, of which each calls @report.  Where trials are
    @threads of one process torch's generator is not a trial's own, so it takes one for itself.
    @start is how workers are started, if not as usual."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed_of(number)) if threads else None
    with FIRST:
        torch.manual_seed(seed_of(number))
        model = programs_model.network()
    data = Pictures(directory)
    rank = os.environ.get("RANK")
    sampler = DistributedSampler(data) if rank else None
    loader = loader_of(data, generator, sampler, start)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    who = "%s.%s" % (number, rank)
    for epoch in range(EPOCHS):
        meet("epoch%d" % epoch, who)
        if sampler:
            sampler.set_epoch(epoch)
        loss = epoch_of(model, optimizer, loader)
        if report:
            report(epoch, loss)
    meet("end", who)
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--number", type=int, default=0)
    options = parser.parse_args()
    rank = os.environ.get("RANK", "")
    if rank:
        torch.distributed.init_process_group("gloo")

    def report(epoch, loss):
        # In one piece: trials that run side by side write into one pipe.
        os.write(1, b"lr %g%s epoch %d loss %s\n" % (
            options.lr, (rank and " rank " + rank).encode(), epoch, loss.hex().encode()))

    train(options.directory, options.lr, options.number, report)
    if rank:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
