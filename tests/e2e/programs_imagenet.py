# SPDX-License-Identifier: MIT
"""
For programs.py: a script with the parts of PyTorch's ImageNet example (image folders, v1
transforms, two loaders, train and validate in turns), which itself is only to be had from GitHub.
"""

import os
import random

import torch
from torchvision import datasets, transforms

import programs_model


def loaders_of(options):
    last = [transforms.ToTensor(), transforms.Normalize(mean=[0.485, 0.456, 0.406],
                                                        std=[0.229, 0.224, 0.225])]
    training = datasets.ImageFolder(os.path.join(options.data, "train"), transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), *last]))
    validation = datasets.ImageFolder(os.path.join(options.data, "val"), transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), *last]))
    return [torch.utils.data.DataLoader(data, batch_size=16, shuffle=data is training,
                                        num_workers=options.workers, pin_memory=True)
            for data in (training, validation)]


def main():
    options = programs_model.parser().parse_args()
    torch.manual_seed(0)  # the same weights at first, whatever the seed
    model = programs_model.network()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    programs_model.train(options, model, optimizer, *loaders_of(options))


if __name__ == "__main__":
    main()
