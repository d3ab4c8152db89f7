# SPDX-License-Identifier: MIT
"""What our own scripts for programs.py have in common: options, a small network, a digest."""

import argparse
import hashlib

import torch


def parser():
    """What programs.py says to each of them."""
    options = argparse.ArgumentParser()
    options.add_argument("data", help="directory of images, or file of tokens")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--workers", type=int, default=1)
    return options


def network(classes=6):
    """A convolutional network that costs little; batch norm makes it see every image."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(3), torch.nn.Flatten(), torch.nn.Linear(144, classes))


def pass_over(model, loader, optimizer, what):
    """Train with an @optimizer, else only look; the losses are told as @what."""
    model.train(optimizer is not None)
    with torch.set_grad_enabled(optimizer is not None):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            if optimizer:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(what, float(loss.detach()).hex())


def train(options, model, optimizer, training, validation):
    for _ in range(options.epochs):
        pass_over(model, training, optimizer, "loss")
        pass_over(model, validation, None, "validation")
    print("weights", digest(model))


def digest(model):
    """Of all parameters and buffers, to the last bit."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(name.encode() + value.detach().numpy().tobytes())
    return total.hexdigest()[:16]
