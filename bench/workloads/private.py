#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What it costs to seed each kind of generator of a data set's own for an item; as JSON.

Run under tsrun with --align.  Between two items a block of memory is gone through that empties
the processor's caches, as an item does.
"""
import json
import random
import time

import numpy
import torch
import torch.utils.data  # noqa: F401  (the glue starts with it)
from tsshim_torch.sharing.batch import aligned  # noqa: F401  (which speeds up NumPy's)
from tsshim_torch.sharing.item import private  # noqa: F401  (which speeds up NumPy's)

ITEMS = 2000
CACHES = numpy.ones(4 << 20, dtype=numpy.uint8)

OWNERS = {
    "random.Random": random.Random(1),
    "RandomState": numpy.random.RandomState(1),
    "PCG64": numpy.random.PCG64(1),
    "Philox": numpy.random.Philox(1),
    "SFC64": numpy.random.SFC64(1),
    "MT19937": numpy.random.MT19937(1),
    "torch.Generator": torch.Generator(),
}


def price(owner):
    """Microseconds of CPU time to seed @owner, an item."""
    own = private.Private([("dataset.generator", owner)])
    spent = 0
    for item in range(ITEMS):
        CACHES.sum()
        numbers = item.to_bytes(20, "little")
        begin = time.thread_time_ns()
        own.seed(numbers)
        spent += time.thread_time_ns() - begin
    own.restore()
    return spent / ITEMS / 1000


def main():
    torch.set_num_threads(1)
    print(json.dumps({name: price(owner) for name, owner in OWNERS.items()}), flush=True)


if __name__ == "__main__":
    main()
