# SPDX-License-Identifier: MIT
"""
Aligned jobs whose data sets hold all options of their program, or read a global of that name; for
options.py.  For each of the ways to read them prints the way, the epoch, how many items there were,
(index, digest) of the few late ones that read them, and a digest of all others; what the digest of an
item is made of is what the data set reads, and numbers that it draws.
"""

import argparse
import builtins
import copy
import dataclasses
import functools
import hashlib
import inspect
import json
import multiprocessing
import os
import pickle
import queue
import sys
import threading
import types

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

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
parser.add_argument("--seed", type=int, help="of the program's own, for jobs in default mode")
parser.add_argument("--collate-reads", action="store_true", help="the collate function reads the option")
parser.add_argument("--change", action="store_true", help="what is an option, between two epochs, and by the collate function")
parser.add_argument("--cheap", action="store_true", help="items are, so that they go to nobody else")
parser.add_argument("--stream", action="store_true", help="they are iterated over")
parser.add_argument("ways", nargs="*")
args = parser.parse_args()
ELSEWHERE, WHERE = [None], "else".upper() + "WHERE"
OTHER = argparse.Namespace(**{**vars(args), "lr": 0.1, "run": "of-0.1"})
KIND = getattr(builtins, "ty" + "pe")
SETTINGS = sys.modules["sweep_settings"] = types.ModuleType("sweep_settings")
RATE = "l" + chr(ord("r"))  # a name that no code mentions


@dataclasses.dataclass
class Config:
    lr: float
    run: str
    size: int
    seed: int = 1


class Doubled(Config):
    @property
    def twice(self):
        return 2 * getattr(self, RATE)


@dataclasses.dataclass
class Defaults:
    """Its class has a value for each leaf as well."""

    lr: float = 0.5
    run: str = "none"
    size: int = 8


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Nothing assigns its leaves."""

    lr: float = 0.5
    run: str = "none"
    size: int = 8


class Easy(dict):
    """A dict of which the items are attributes, too."""

    def __init__(self, rate, run, size):
        super().__init__(run=run, size=size)
        self[RATE] = rate
        vars(self).update(self)

    def everything(self):
        return list(super().items())


class Dotted(dict):
    """And one without attributes of its own."""

    __getattr__ = dict.__getitem__

    def __init__(self, rate, run, size):
        super().__init__({"run": run, "size": size, RATE: rate})


class Settings:
    """A class that is never called."""

    lr, run, size = None, "", 16


class Methods:
    """Its leaves may be read by what it offers."""

    run = "none"

    def __init__(self, rate, run, size):
        self.size, self.run = size, run
        vars(self)[RATE] = rate

    def __getattr__(self, name):
        if name.startswith("no_"):
            return "no"
        raise AttributeError(name)

    def __getitem__(self, name):
        return getattr(self, name)

    def __contains__(self, name):
        return hasattr(self, name)

    @property
    def double(self):
        return 2 * getattr(self, RATE)

    def text(self, name):
        return self.no_text + repr(getattr(self, name))


def size_of(opt):
    return opt["size"] if isinstance(opt, dict) else opt.size


def reads_late(index):
    return index > LATE and index % 7 == 3


class Items(Dataset):
    """The base; of 16 KiB, so that they are worth sharing."""

    def __init__(self, opt):
        self.opt = opt
        self.scale = 1 if size_of(opt) else 2  # a constructor reads what it likes
        self.shape = size_of(opt), 256

    def __len__(self):
        return args.count

    def read(self, index):
        return None

    def __getitem__(self, index):
        item = numpy.zeros(self.shape, numpy.float32)
        item[:] = numpy.random.random()
        if reads_late(index):
            item[0] += int(hashlib.sha256(repr(self.read(index)).encode()).hexdigest()[:6], 16)
        return item, index


WAYS = {}


def way(name, base=Items, **methods):
    """A class of that name, whose items read their options by these @methods."""
    WAYS[name] = type(name, (base,), {**methods, "__module__": __name__})
    return WAYS[name]


Held = way("Held")


class Global(Items):
    def __init__(self, _):
        pass

    def __getitem__(self, index):
        item = numpy.full((args.size, 256), numpy.random.random(), numpy.float32)
        return item, index


class Judged(Dataset):
    """Of code that default mode knows for a function of what it refers to."""

    def __init__(self, opt):
        self.opt = opt

    def __len__(self):
        return args.count

    def __getitem__(self, index):
        item = torch.rand(16, 256) * self.size()
        return (item + self.read(index) if index > LATE and index % 7 == 3 else item), index

    def size(self):
        return self.opt.size

    def read(self, index):
        return 0


way("JudgedGlobal", Judged, size=lambda self: args.size)


class JudgedTable(Judged):
    def size(self):
        return self.opt["size"]


way("JudgedRate", Judged, read=lambda self, index: self.opt.lr)
way("JudgedEntry", JudgedTable, read=lambda self, index: self.opt[RATE])
way("JudgedEntries", JudgedTable,
    read=lambda self, index: sum([value for value in self.opt.values() if isinstance(value, float)]))
way("JudgedGot", JudgedTable, read=lambda self, index: self.opt.get(RATE, 7))
way("JudgedPassed", JudgedTable, read=lambda self, index: {**self.opt}[RATE])
way("JudgedText", Judged, read=lambda self, index: sum([ord(letter) for letter in str(self.opt)]))
way("JudgedFormat", Judged, read=lambda self, index: sum([ord(letter) for letter in f"{self.opt!r}"]))
way("JudgedCompared", Judged, read=lambda self, index: 1 if self.opt == OTHER else 2)
way("Mentioned", Items, read=lambda self, index: self.opt.lr)
way("Computed", Items, read=lambda self, index: getattr(self.opt, RATE))
way("Whole", Items, read=lambda self, index: vars(self.opt)[RATE])
way("Spread", Items, read=lambda self, index: dict(**self.opt.__dict__)[RATE])
way("Entry", Items, read=lambda self, index: self.opt[RATE])
way("Got", Items, read=lambda self, index: self.opt.get(RATE, 7))


class Evaluated(Items):
    def read(self, index):
        found = eval(RATE, self.opt, {})  # which looks it up past the class of a dict
        self.opt.pop("__builtins__", None)  # which it leaves there
        return found


way("Passed", Items, read=lambda self, index: ("%s" % dict(**self.opt)[RATE], {**self.opt}[RATE]))
way("Entries", Items, read=lambda self, index: [value for _, value in sorted(self.opt.items())])
way("Dumped", Items, read=lambda self, index: json.dumps(self.opt))
way("Formatted", Items,
    read=lambda self, index: "%(lr)s" % self.opt if not index else ("%(" + RATE + ")s") % self.opt)
way("Joined", Items, read=lambda self, index: (({} | self.opt)[RATE], list(self.opt)))
way("Everything", Items, read=lambda self, index: self.opt.everything())
# Of a class of settings: through an object, and a class that was derived.
way("Derived", Items,
    read=lambda self, index: (getattr(self.opt(), RATE), getattr(type("Other", (self.opt,), {}), RATE)))
way("Members", Items,
    read=lambda self, index: repr([pair for pair in inspect.getmembers(self.opt) if pair[0][:1] != "_"]))
way("Property", Items, read=lambda self, index: getattr(self.opt, "dou" + "ble"[:3 * index]))
way("Method", Items, read=lambda self, index: (self.opt.text(RATE), "run" in self.opt, self.opt.no_such))
way("Indexed", Items, read=lambda self, index: self.opt[RATE])


class Exact(Items):
    """It asks whether the class is exactly this one."""

    def read(self, index):
        assert type(self.opt) is Config or type(self.opt) is dict


class Reclassed(Items):
    """Its options become those of another class, and stay it."""

    def read(self, index):
        self.opt.__class__ = Doubled
        return getattr(self.opt, "twi" + "ce")


class Strict(Items):
    """Some library's: it raises where the class is not exactly this one, and asks in a way that nobody sees."""

    def read(self, index):
        if KIND(self.opt) not in (Config, dict):
            raise TypeError("options of class %s" % KIND(self.opt))
        return getattr(self.opt, RATE) if KIND(self.opt) is Config else self.opt[RATE]


way("Fields", Items, read=lambda self, index: dataclasses.asdict(self.opt)[RATE])
way("Replaced", Items, read=lambda self, index: getattr(dataclasses.replace(self.opt, size=7), RATE))
way("Text", Items, read=lambda self, index: str(self.opt))
way("Copied", Items, read=lambda self, index: getattr(copy.copy(self.opt), RATE))
way("Pickled", Items,
    read=lambda self, index: sorted(vars(pickle.loads(pickle.dumps(self.opt))).items()))


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
        return sys.modules["__ma" + "in__"[:3 + index]].__dict__[WHERE][0][RATE]


# Settings are a module.
way("Module", Items, read=lambda self, index: SETTINGS.size)
way("ModuleComputed", Items, read=lambda self, index: getattr(SETTINGS, RATE))
way("ModuleWhole", Items, read=lambda self, index: vars(SETTINGS)[RATE])
way("ModuleDict", Items, read=lambda self, index: SETTINGS.__dict__[RATE])
way("ModuleFound", Items, read=lambda self, index: getattr(sys.modules["sweep_settings"], RATE))


class Kind(Items):
    def read(self, index):
        kind = self.opt.__class__
        return kind.__qualname__, isinstance(self.opt, kind), hasattr(self.opt, "nothing")


class Stream(IterableDataset):
    """Of the items of another data set."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        for index in range(len(self.items)):
            yield self.items[index]


class Begun(Items):
    """What is iterated over reads it when that begins; a frame keeps it."""

    def begin(self):
        return getattr(self.opt, RATE)

    def late(self, kept):
        return kept

    def __iter__(self):
        kept = self.begin()
        for index in range(len(self)):
            item, _ = self[index]
            if reads_late(index):
                item[1] += int(hashlib.sha256(repr(self.late(kept)).encode()).hexdigest()[:6], 16)
            yield item, index


class Framed(Begun):
    def begin(self):
        return vars(self.opt)

    def late(self, kept):
        return kept[RATE]


class Closed(Begun):
    def begin(self):
        opt = self.opt
        return lambda: getattr(opt, RATE)

    def late(self, kept):
        return kept()


class Behind(Begun):
    """A thread reads it between two items."""

    def begin(self):
        asked, told = queue.Queue(), queue.Queue()

        def answer():
            for _ in iter(asked.get, None):
                told.put(getattr(self.opt, RATE))
        threading.Thread(target=answer, daemon=True).start()
        return asked, told

    def late(self, kept):
        kept[0].put(1)
        return kept[1].get()


class BegunStream(Stream):
    def __iter__(self):
        return iter(self.items)


WAYS.update({kind.__name__: kind for kind in (
    Evaluated, Global, Compared, Threaded, Forked, Nested, Changed, Kept, Elsewhere, Kind, Exact, Strict,
    Reclassed, Judged, JudgedTable, Begun, Framed, Closed, Behind)})


def forget():
    """Let no way know what another one has read; for it is known by name, wherever it lies."""
    if "tsshim_torch" in sys.modules:
        from tsshim_torch.sharing.naming import unread
        unread._told[:] = bytes(len(unread._told))
        unread._counted.clear()


def change(options, by):
    """As a schedule does it."""
    if isinstance(options, dict):
        options[RATE] += by
    else:
        setattr(options, RATE, getattr(options, RATE) + by)


def changing(options, batch):
    """What is collated follows from the batch alone, and what comes next from how many there were."""
    change(options, 1)
    return default_collate(batch)


def reading(options, batch):
    """The program's own, which reads in each batch what no item does."""
    assert getattr(options, RATE) == args.lr
    return default_collate(batch)


def main():
    costs.install(1000 if args.cheap else 50_000_000)  # so dear that a job alone offers each to others
    torch.set_num_threads(1)
    kinds = {kind.__name__.lower(): kind(args.lr, args.run, args.size)
             for kind in (Config, Defaults, Frozen, Methods, Easy, Dotted)}
    Settings.run, Settings.size = args.run, args.size
    setattr(Settings, RATE, args.lr)
    table = {"run": args.run, RATE: args.lr, "size": args.size, "model": {RATE: args.lr, "depth": 3}}
    kinds.update(settings=Settings, table=table, simple=types.SimpleNamespace(**table))
    vars(SETTINGS).update(table)
    where = copy.copy(args)
    for way in args.ways:
        name, _, kind = way.partition("/")
        options = kinds.get(kind, where)
        before, reads = type(options), (lambda: dict(vars(options))) if hasattr(options, "__dict__") \
            else options.copy
        whole = reads()
        forget()
        if args.seed is not None:
            torch.manual_seed(args.seed)
            numpy.random.seed(args.seed)
        data = WAYS[name](options)
        if args.stream:
            data = (BegunStream if isinstance(data, Begun) else Stream)(data)
        collate = changing if args.change else reading if args.collate_reads else None
        loader = DataLoader(data, BATCH, shuffle=not args.stream, num_workers=args.workers,
                            collate_fn=functools.partial(collate, options) if collate else None,
                            persistent_workers=args.stream and args.epochs > 1)
        for epoch in range(args.epochs):
            meeting.arrive()
            found = {}
            for items, indices in loader:
                for item, index in zip(items, indices.tolist()):
                    found[index] = hashlib.sha256(item.numpy().tobytes()).hexdigest()[:12]
            late = {index: digest for index, digest in found.items() if reads_late(index)}
            print(way, epoch, len(found), *sorted(late.items()), hashlib.sha256(repr(sorted(
                item for item in found.items() if item[0] not in late)).encode()).hexdigest(), flush=True)
            if args.change:
                change(options, 10)
                whole = reads()
        del loader
        ELSEWHERE[0] = None
        assert type(options) is before and list(reads()) == list(whole)
        if name != "Changed" or args.workers:
            assert reads() == whole, way
        assert not multiprocessing.active_children() or args.workers
    meeting.part()


if __name__ == "__main__":
    sys.exit(main())
