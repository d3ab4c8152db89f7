# SPDX-License-Identifier: MIT
"""
For programs.py: data set, augmentation and loader as the training script of timm makes them with
its library (prefetcher, RandAugment); that script itself is only to be had from GitHub.
"""

import timm.data
import timm.utils
import torch

import programs_model


def loader_of(options, split, training):
    more = {"auto_augment": "rand-m9-mstd0.5", "hflip": 0.5, "color_jitter": 0.4} \
        if training else {}
    return timm.data.create_loader(
        timm.data.create_dataset("", root=options.data, split=split), input_size=(3, 128, 128),
        batch_size=16, is_training=training, num_workers=options.workers, use_prefetcher=True,
        device=torch.device("cpu"), pin_memory=False, **more)


def main():
    options = programs_model.parser().parse_args()
    timm.utils.random_seed(0)  # the same weights at first, whatever the seed
    is_there = timm.is_model("test_resnet")  # from 1.0 on
    model = timm.create_model("test_resnet", num_classes=6) if is_there else programs_model.network()
    timm.utils.random_seed(options.seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    programs_model.train(options, model, optimizer, loader_of(options, "train", True), loader_of(options, "val", False))


if __name__ == "__main__":
    main()
