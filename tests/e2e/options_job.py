# SPDX-License-Identifier: MIT
"""
Aligned jobs whose data sets hold all options of their program, or read a global of that name; for
options.py.  For each of the ways to read them prints "way epoch index digest" of all items; what the
digest of an item is made of is what the data set reads, and numbers that it draws.
"""

import argparse
import copy
import dataclasses
import hashlib
import multiprocessing
import os
import pickle
import sys
import threading

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

import costs
import meeting

BATCH = 8
LATE = 29  # item from which on some of them read what the others do not

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--run")
parser.add_argument("--size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--count", type=int, default=48)
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("ways", nargs="*")
args = parser.parse_args()
ELSEWHERE, WHERE = [None], "else".upper() + "WHERE"
RATE = "l" + chr(ord("r"))  # a name that no code mentions


@dataclasses.dataclass
class Config:
    lr: float
    run: str
    size: int


@dataclasses.dataclass
class Defaults:
    """Its class has a value for each leaf as well."""

    lr: float = 0.5
    run: str = "none"
    size: int = 8


class Items(Dataset):
    """The base; of 16 KiB, so that they are worth sharing."""

    def __init__(self, opt):
        self.opt = opt
        self.scale = 1 if opt.lr else 2  # a constructor reads what it likes

    def __len__(self):
        return args.count

    def read(self, index):
        return None

    def __getitem__(self, index):
        item = numpy.zeros((self.opt.size, 256), numpy.float32)
        item[:] = numpy.random.random()
        if index > LATE and index % 7 == 3:
            item[0] += int(hashlib.sha256(repr(self.read(index)).encode()).hexdigest()[:6], 16)
        return item, index


class Held(Items):
    pass


class Global(Items):
    def __init__(self, _):
        pass

    def __getitem__(self, index):
        item = numpy.full((args.size, 256), numpy.random.random(), numpy.float32)
        return item, index


class Mentioned(Items):
    def read(self, index):
        return self.opt.lr


class Computed(Items):
    def read(self, index):
        return getattr(self.opt, RATE)


class Whole(Items):
    def read(self, index):
        return vars(self.opt)[RATE]


class Spread(Items):
    def read(self, index):
        return dict(**self.opt.__dict__)[RATE]


class Text(Items):
    def read(self, index):
        return str(self.opt)


class Copied(Items):
    def read(self, index):
        return getattr(copy.copy(self.opt), RATE)


class Pickled(Items):
    def read(self, index):
        return sorted(vars(pickle.loads(pickle.dumps(self.opt))).items())


class Compared(Items):
    def read(self, index):
        other = copy.deepcopy(self.opt)
        setattr(other, RATE, 0.1)
        return other == self.opt


class Threaded(Items):
    def read(self, index):
        found = []
        thread = threading.Thread(target=lambda: found.append(getattr(self.opt, RATE)))
        thread.start()
        thread.join()
        return found


class Forked(Items):
    def read(self, index):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(theirs, repr(getattr(self.opt, RATE)).encode())
            os._exit(0)
        os.close(theirs)
        os.waitpid(pid, 0)
        with os.fdopen(ours) as end:
            return end.read()


class Nested(Items):
    """A loader inside of the item has a data set of its own, and the item goes on behind it."""

    def read(self, index):
        for _ in DataLoader(Held(self.opt), BATCH):
            break
        return getattr(self.opt, RATE)


class Changed(Items):
    def read(self, index):
        setattr(self.opt, RATE, getattr(self.opt, RATE) + 1)
        return getattr(self.opt, RATE)


class Kept(Items):
    """It keeps the dict itself."""

    def __init__(self, opt):
        super().__init__(opt)
        self.kept = vars(opt)

    def read(self, index):
        return self.kept[RATE]


class Elsewhere(Items):
    """So does somebody whom no walk finds."""

    def __init__(self, opt):
        super().__init__(opt)
        ELSEWHERE[0] = vars(opt)

    def read(self, index):
        return sys.modules["__main__"].__dict__[WHERE][0][RATE]


class Kind(Items):
    def read(self, index):
        kind = self.opt.__class__
        return kind.__qualname__, isinstance(self.opt, kind), hasattr(self.opt, "nothing")


WAYS = {kind.__name__: kind for kind in (
    Held, Global, Mentioned, Computed, Whole, Spread, Text, Copied, Pickled, Compared, Threaded,
    Forked, Nested, Changed, Kept, Elsewhere, Kind)}


def forget():
    """Let no way know what another one has read; for it is known by name, wherever it lies."""
    if "tsshim_torch" in sys.modules:
        from tsshim_torch.sharing import unread
        unread._told[:] = bytes(len(unread._told))
        unread._counted.clear()


def main():
    costs.install(50_000_000)  # so dear that a job alone offers each to others
    torch.set_num_threads(1)
    kinds = {"config": Config(args.lr, args.run, args.size),
             "defaults": Defaults(args.lr, args.run, args.size)}
    where = copy.copy(args)
    for way in args.ways:
        name, _, kind = way.partition("/")
        options = kinds.get(kind, where)
        order = list(vars(options))
        forget()
        loader = DataLoader(WAYS[name](options), BATCH, shuffle=True, num_workers=args.workers)
        for epoch in range(args.epochs):
            meeting.arrive()
            for items, indices in loader:
                for item, index in zip(items, indices.tolist()):
                    digest = hashlib.sha256(item.numpy().tobytes()).hexdigest()[:12]
                    print(way, epoch, index, digest, flush=True)
        del loader
        ELSEWHERE[0] = None
        assert list(vars(options)) == order and type(options) in (Config, Defaults, argparse.Namespace)
        if name != "Changed" or args.workers:
            assert options.lr == args.lr, way
        assert not multiprocessing.active_children() or args.workers
    meeting.part()


if __name__ == "__main__":
    sys.exit(main())
