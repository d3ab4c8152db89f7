# SPDX-License-Identifier: MIT
"""What jobs over one of several kinds of data sets have in common: options, and how they begin."""

import argparse
import random

import numpy
import torch

import meeting


def parser_of(kinds):
    """A parser of what all of them are told; @kinds are names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=sorted(kinds))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--data")
    return parser


def begin(options):
    """Meet the others, and seed everything as the job was told."""
    meeting.arrive()
    torch.set_num_threads(1)
    random.seed(options.seed)
    numpy.random.seed(options.seed)
    torch.manual_seed(options.seed)
