#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A small CNN learns scikit-learn's handwritten digits; prints its accuracy on those held back.

Says "epoch N" after each epoch, and the accuracy as JSON at the end.  With --lead it learns
nothing, and only goes through the epochs until its standard input ends.
"""
import argparse
import json
import select
import sys

import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

SIDE = 96
LEARNED = 899  # of 1797; the others are held back


class Digits(Dataset):
    """Pictures of 8 x 8, enlarged; seen from elsewhere, lit otherwise, turned, moved, scaled and
    blurred at random where they are learned."""

    def __init__(self, learned):
        digits = load_digits()
        chosen = slice(LEARNED) if learned else slice(LEARNED, None)
        # The file goes by who wrote them; each half has some of everybody's.
        mixed = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(0))
        self.pictures = [(digits.images[at] * 255 / 16).astype("uint8") for at in mixed[chosen]]
        self.targets = [int(digits.target[at]) for at in mixed[chosen]]
        changed = [transforms.RandomPerspective(.25, 1), transforms.ColorJitter(.3, .3),
                   transforms.RandomAffine(12, (.12, .12), (.85, 1.15), 8),
                   transforms.GaussianBlur(5)] if learned else []
        self.transform = transforms.Compose([*changed, transforms.ToTensor()])

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        picture = Image.fromarray(self.pictures[index]).resize((SIDE, SIDE), Image.BICUBIC)
        return self.transform(picture), self.targets[index]


def make_model():
    layers = []
    for channels, more in ((1, 12), (12, 24), (24, 32)):
        layers += [nn.Conv2d(channels, more, 3, stride=2, padding=1), nn.BatchNorm2d(more),
                   nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 144, 10))


def measure(model):
    """The part of those held back that it recognises."""
    model.eval()
    right = 0
    with torch.no_grad():
        for pictures, targets in DataLoader(Digits(False), 256):
            right += int((model(pictures).argmax(1) == targets).sum())
    model.train()
    return right / (len(load_digits().target) - LEARNED)


def learn(loader, epochs):
    model, loss = make_model(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), .02, momentum=.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for epoch in range(epochs):
        for pictures, targets in loader:
            optimizer.zero_grad()
            loss(model(pictures), targets).backward()
            optimizer.step()
            schedule.step()
        print("epoch", epoch, flush=True)
    print(json.dumps({"accuracy": measure(model)}), flush=True)


def lead(loader):
    epoch = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in loader:
            pass
        print("epoch", epoch, flush=True)
        epoch += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lead", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    loader = DataLoader(Digits(True), 32, shuffle=True, num_workers=1, persistent_workers=True)
    if options.lead:
        lead(loader)
    else:
        learn(loader, options.epochs)


if __name__ == "__main__":
    main()
