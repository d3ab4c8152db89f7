# SPDX-License-Identifier: MIT
"""What jobs of tests have in common: their options, how they begin, and scenes one after the other."""

import argparse
import random
import sys

import numpy
import torch

import meeting


def options_of(words=None, kinds=None, **defaults):
    """What a job is told by @words, sys.argv unless given.  Each option has a default: False is that of
    a flag, a type that of none, a tuple has the words that may stand there, a list what may stand there
    several times.  With @kinds, names of data sets, one of them comes first."""
    parser = argparse.ArgumentParser()
    if kinds:
        parser.add_argument("kind", choices=sorted(kinds))
        defaults = {"workers": 1, "batch": 8, "seed": 1, "epochs": 2, "data": str, **defaults}
    for name, default in defaults.items():
        if default is False:
            how = {"action": "store_true"}
        elif isinstance(default, tuple):
            how = {"choices": default}
        elif isinstance(default, list):
            how = {"type": type(default[0]), "nargs": "+", "default": default}
        else:
            how = {"type": default} if isinstance(default, type) else {"type": type(default), "default": default}
        parser.add_argument("--" + name.replace("_", "-"), **how)
    return parser.parse_args(words)


def seed_all(seed):
    for each in (random.seed, numpy.random.seed, torch.manual_seed):
        each(seed)


def begin(options):
    """Meet the others, and seed everything, if the job was told how."""
    meeting.arrive()
    torch.set_num_threads(1)
    if options.seed is not None:
        seed_all(options.seed)


def scenes(parse):
    """The options of each scene, by @parse; "--then" stands between them."""
    found = [[]]
    for word in sys.argv[1:]:
        if word == "--then":
            found.append([])
        else:
            found[-1].append(word)
    return [parse(part) for part in found]


def play_all(first, later, play):
    """Each scene when all jobs are at it."""
    torch.set_num_threads(1)
    play(first)
    for options in later:
        meeting.scene()
        play(options)
    meeting.part()
