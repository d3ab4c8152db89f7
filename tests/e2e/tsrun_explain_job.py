# SPDX-License-Identifier: MIT
"""A job with loaders for tsrun_explain.py: goes through those named, says so, and waits."""

import sys
import threading

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Pure(Dataset):
    def __init__(self):
        self.files = list(range(48))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.full((8, 256), float(sum(range(100000)) + index))


class Short(Pure):
    def __init__(self):
        self.files = list(range(8))


class Locked(Pure):
    def __init__(self):
        super().__init__()
        self.lock = threading.Condition()


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(8.0))


def collate(batch):
    return batch


def loaders(words):
    """(loader, times it is gone through, is it kept) of each of @words: NAME or NAME:WORKERS."""
    for word in words:
        name, _, workers = word.partition(":")
        more = {"num_workers": int(workers or 0)}
        if more["num_workers"]:
            more["persistent_workers"] = True
        if name == "many":
            yield from [(DataLoader(Short(), batch_size=number), 1, True) for number in range(1, 19)]
        elif name == "anew":
            for _ in range(20):
                yield DataLoader(Short(), batch_size=24), 1, False
        elif name == "strange":
            kind = type("\u00e9" * 200 + "\x1b[31mred\u202e\x9b\n", (Pure,), {})
            yield DataLoader(kind(), batch_size=4), 1, True
        else:
            dataset = {"pure": Pure, "locked": Locked, "stream": Stream, "collated": Pure}[name]()
            if name == "collated":
                more["collate_fn"] = collate
            yield DataLoader(dataset, batch_size=4, shuffle=name == "locked", **more), 2, True


def main():
    kept = []
    for loader, times, is_kept in loaders(sys.argv[1:]):
        if is_kept:
            kept.append(loader)
        for _ in range(times):
            for _ in loader:
                pass
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
