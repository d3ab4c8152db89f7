# SPDX-License-Identifier: MIT
"""
A program whose loaders go on though something of ours raises: for each word MODULE:NAME, a function
of tsshim_torch, a child in which that raises; with #N behind it in its Nth call alone.  Prints a
line of JSON for each: what is wrong with what it was given, and what was said.  Without a word
prints what of ours is in use in a worker.
"""

import importlib
import json
import mmap
import os
import random
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

ITEMS, BATCH = 24, 4


class Items(Dataset):
    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return index, torch.rand(3) + sum(range(20000))


class Drawing(Dataset):
    """Cheap items, and a generator of its own."""

    def __init__(self):
        self.random = random.Random(1)

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return index, torch.tensor([self.random.random()])


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for index in range(info.id if info else 0, ITEMS, info.num_workers if info else 1):
            yield index, torch.rand(3)


def failing(original, only):
    calls = []

    def raising(*args, **kwargs):
        calls.append(None)
        if not only or len(calls) == int(only):
            raise RuntimeError("injected")
        return original(*args, **kwargs)
    return raising


def loaders():
    for workers in (0, 2):
        yield DataLoader(Items(), BATCH, shuffle=True, num_workers=workers)
        yield DataLoader(Items(), None, shuffle=True, num_workers=workers)
        yield DataLoader(Stream(), BATCH, num_workers=workers)
    yield DataLoader(Items(), BATCH, num_workers=2, persistent_workers=True)
    yield DataLoader(Drawing(), BATCH, shuffle=True)


def wrong():
    """What is not as it is without us."""
    found = []
    for number, loader in enumerate(loaders()):
        # New workers are as those of the first epoch were, and each costs a fork of all of torch.
        for epoch in range(1 if loader.num_workers and not loader.persistent_workers else 2):
            given = [int(index) for indices, _ in loader for index in
                     (indices.tolist() if torch.is_tensor(indices) else [indices])]
            if sorted(given) != list(range(ITEMS)):
                found.append((number, epoch, given))
    return found


def child(said_of):
    native = importlib.import_module("tsshim_torch.native")
    point, _, only = said_of.partition("#")
    module, name = point.split(":")
    owner = importlib.import_module("tsshim_torch." + module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    setattr(owner, last, failing(getattr(owner, last), only))
    native._has_failed = mmap.mmap(-1, 1)  # what another child said is nothing to this one
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            found = wrong()
        except BaseException as error:
            found = [repr(error)]
        said.seek(0)
        print(json.dumps([said_of, found, said.read().decode()]), flush=True)


class Uses(Dataset):
    """Its only item says what of ours the worker uses."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        from tsshim_torch.handover import pool
        from tsshim_torch.sharing.batch import ahead, aligned, collate
        from tsshim_torch.sharing.item import seeding
        fetchers = torch.utils.data._utils.fetch
        return {
            "queue": type(aligned.worker_queue) is ahead.QueueAhead,
            "pool": pool.new_storage(1 << 20) is not None,
            "stack": collate.TorchFunctionMode is not None,
            "generators": seeding.known.look() is not None,
            "items": hasattr(fetchers._MapDatasetFetcher.fetch, "tsshim"),
            "streams": hasattr(fetchers._IterableDatasetFetcher.fetch, "tsshim"),
        }


def main():
    if not sys.argv[1:]:
        print(json.dumps(next(iter(DataLoader(Uses(), None, num_workers=1)))))
    torch.set_num_threads(1)
    for point in sys.argv[1:]:
        pid = os.fork()
        if pid == 0:
            try:
                child(point)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)


main()
