#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What it costs to choose each sample of an epoch of 1.3 million in free order; as JSON.

Run under tsrun with --align --order free.  Before, so many notes of other samples are written that
the journal is full of them, each of which is looked at.
"""
import array
import json
import os
import random
import time

import torch
import torch.utils.data  # noqa: F401  (the glue starts with it)
from tsshim_torch import native
from tsshim_torch.sharing.order import align

ITEMS, BATCH, NOTES, TAG = 1_300_000, 64, 20_000, 99


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def write_notes():
    """Of samples that somebody made alone, who is in the same epoch."""
    sample, scope = native.Sample(), bytes(16)
    for index in range(NOTES):
        sample.name(scope, scope, align.index_bytes(index), 0)
        sample.note(TAG, index, 0, 0)
        sample.take()
        sample.begin(True)
        sample.end(False)
    sample.drop()


def main():
    torch.set_num_threads(1)
    write_notes()
    own = array.array("q", range(ITEMS))
    random.Random(1).shuffle(own)
    indices = array.array("q", bytes(8 * BATCH))
    occurrences, draws = (array.array("I", bytes(4 * BATCH)) for _ in range(2))
    wanted = array.array("I", [0])
    where = [each.buffer_info()[0] for each in (indices, occurrences, draws, wanted)]
    before, begin = resident(), time.thread_time()
    order = native.orders.tsshim_order_create(None)
    if native.orders.tsshim_order_begin(order, own.buffer_info()[0], ITEMS, 0, TAG) != 0:
        raise SystemExit("the epoch did not begin")
    begun = time.thread_time()
    count = 0
    while count < ITEMS:
        chosen = native.orders.tsshim_order_choose(order, 0, BATCH, *where)
        if wanted[0] != 0xffffffff:
            native.orders.tsshim_order_scope(order, wanted[0], bytes(16))
            chosen = native.orders.tsshim_order_choose(order, chosen, BATCH, *where)
        list(indices[:chosen])
        count += chosen
    end = time.thread_time()
    print(json.dumps({"choose_us": (end - begun) / ITEMS * 1e6,
                      "begin_us": (begun - begin) / ITEMS * 1e6,
                      "bytes": resident() - before}), flush=True)


if __name__ == "__main__":
    main()
