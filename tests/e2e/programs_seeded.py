# SPDX-License-Identifier: MIT
"""
python programs_seeded.py SEED SCRIPT ARGUMENT...: run an unmodified script that has no option for
a seed, with the global generators seeded before it begins.
"""

import argparse
import os
import random
import runpy
import sys

import numpy
import torch


def main():
    seed = int(sys.argv[1])
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    # torchvision's reference script puts its arguments into a checkpoint that newer releases of
    # torch do not read again without being told that this is right.
    torch.serialization.add_safe_globals([argparse.Namespace])
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
