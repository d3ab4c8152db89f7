# SPDX-License-Identifier: MIT
"""
A job for overlaps.py, whose iterators of a loader overlap in all ways: prints for each iteration that
it begins "KIND WAY NUMBER END|LEFT batch batch ...", a batch being "index=digest,...".

usage: overlaps_job.py KIND[:WAY,WAY...]...
"""

import contextlib
import gc
import hashlib
import random
import sys
import threading
import weakref

import numpy
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info
from torch.utils.data.distributed import DistributedSampler

import costs
import meeting

ITEMS, BATCH = 20, 3


def sample(index):
    drawn = torch.rand(64), numpy.random.rand(), random.random()
    return {"index": index, "drawn": drawn[0], "more": drawn[1] + drawn[2]}


class Items(Dataset):
    """Of each way another one, so that all its loaders are the first ones."""

    def __init__(self, way):
        self.way = way

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        return sample(index)


class Stream(IterableDataset):
    """Shuffled, and each worker's part."""

    def __init__(self, way):
        self.way = way

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        own = list(range(first, ITEMS, step))
        for place in torch.randperm(len(own)).tolist():
            yield sample(own[place])


# ---- loaders ----

def generator():
    return torch.Generator().manual_seed(5)


# Kind, which the number of workers stands behind: what its loader is made with.
KINDS = {
    "map": lambda data: {"shuffle": True},
    "persistent": lambda data: {"shuffle": True, "persistent_workers": True},
    "dropping": lambda data: {"shuffle": True, "drop_last": True},
    "stream": lambda data: {},
    "batches": lambda data: {"batch_sampler": BatchSampler(RandomSampler(data), BATCH, False), "batch_size": 1},
    "own": lambda data: {"sampler": RandomSampler(data, generator=generator())},
    # It draws again after 32 samples, from a generator that its iterators share.
    "lazy": lambda data: {"sampler": RandomSampler(data, replacement=True, num_samples=45, generator=generator())},
    # Of which the first is told its epochs.
    "ranks": lambda data: {"sampler": DistributedSampler(data, 2, 0), "batch_size": 2},
    "untold": lambda data: {"sampler": DistributedSampler(data, 2, 0), "batch_size": 2},
}


class Scene:
    """One way with loaders of one kind, and what its iterations were given."""

    def __init__(self, kind, way):
        self.kind, self.workers = kind[:-1], int(kind[-1])
        self.data = (Stream if self.kind == "stream" else Items)(kind + " " + way)
        self.given, self.ended = [], []
        self.number_of = {}  # id of an iterator -> number of the iteration that it is in
        self.epoch = 0
        self.loaders = []
        self.lock = threading.Lock()

    def loader(self):
        loader = DataLoader(self.data, **{"batch_size": BATCH, "num_workers": self.workers, **KINDS[self.kind](self.data)})
        self.loaders.append(weakref.ref(loader))
        return loader

    def begin(self, loader):
        """An iterator of it that notes what it gives."""
        if self.kind == "ranks":
            loader.sampler.set_epoch(self.epoch)
            self.epoch += 1
        iterator = iter(loader)
        with self.lock:
            # The one of workers that live on is the same, begun anew.
            self.number_of[id(iterator)] = len(self.given)
            self.given.append([])
            self.ended.append(False)
        return Noted(self, iterator)

    def show(self, name):
        for number, (given, ended) in enumerate(zip(self.given, self.ended)):
            lines = []
            for batch in given:
                drawn = ["%d=%s" % (index, hashlib.md5(
                    batch["drawn"][place].numpy().tobytes() + batch["more"][place].numpy().tobytes()
                ).hexdigest()[:8]) for place, index in enumerate(batch["index"].tolist())]
                lines.append(",".join(drawn))
            yield " ".join((name, str(number), "END" if ended else "LEFT", *lines))


class Noted:
    def __init__(self, scene, iterator):
        self.scene, self.iterator = scene, iterator

    def __iter__(self):
        return self

    def __next__(self):
        number = self.scene.number_of[id(self.iterator)]
        try:
            batch = next(self.iterator)
        except StopIteration:
            self.scene.ended[number] = True
            raise
        self.scene.given[number].append(batch)
        return batch


def take(iterator, count):
    for _ in range(count):
        next(iterator, None)


# ---- ways ----

def zip_itself(scene):
    loader = scene.loader()
    for _ in zip(scene.begin(loader), scene.begin(loader)):
        pass


def zip_two(scene):
    one, other = scene.loader(), scene.loader()
    for _ in zip(scene.begin(one), scene.begin(other)):
        pass


def nested_full(scene):
    loader = scene.loader()
    for number, _ in enumerate(scene.begin(loader)):
        if number == 1:
            list(scene.begin(loader))


def nested_broken(scene):
    loader = scene.loader()
    for number, _ in enumerate(scene.begin(loader)):
        if number in (0, 2):
            take(scene.begin(loader), 2)


def early(scene):
    """The next epoch is begun before the last batches of this one."""
    loader = scene.loader()
    now = scene.begin(loader)
    for _ in range(2):
        take(now, 5)
        later = scene.begin(loader)
        take(later, 1)
        list(now)
        now = later
    list(now)


def gone_on(scene):
    loader = scene.loader()
    first = scene.begin(loader)
    take(first, 2)
    list(scene.begin(loader))
    list(first)
    list(first)  # which is over
    list(scene.begin(loader))


def collected(scene):
    loader = scene.loader()
    first = scene.begin(loader)
    take(first, 3)
    first.cycle = first  # only the collector finds it
    del first
    gc.collect()
    list(scene.begin(loader))
    list(scene.begin(loader))


def three(scene):
    loader = scene.loader()
    each = [scene.begin(loader) for _ in range(3)]
    for number in range(12):
        for iterator in each[number % 2:]:
            take(iterator, 1 + number % 3)
    list(scene.begin(loader))


def thread(scene):
    loader = scene.loader()
    one, other = scene.begin(loader), scene.begin(loader)
    # Who draws first of the job's own generators would be chance.
    take(one, 1)
    take(other, 1)
    worker = threading.Thread(target=list, args=(other,))
    worker.start()
    list(one)
    worker.join()
    list(scene.begin(loader))


def functions(scene):
    loader = scene.loader()

    def give():
        yield from scene.begin(loader)

    closed, failed, whole = give(), give(), give()
    take(closed, 1)
    take(failed, 3)
    take(whole, 2)
    closed.close()
    with contextlib.suppress(ValueError):
        failed.throw(ValueError("the program's"))
    list(whole)
    list(give())


def restarts(scene):
    loader = scene.loader()
    unused = scene.begin(loader)
    if not isinstance(scene.data, IterableDataset):
        assert len(loader) == len(loader)
    for _ in range(3):
        take(scene.begin(loader), 1)
    list(scene.begin(loader))
    list(unused)


def deleted(scene):
    """While its workers are making what it would give next."""
    loader = scene.loader()
    for _ in range(2):
        first = scene.begin(loader)
        take(first, 1)
        del first
    list(scene.begin(loader))


WAYS = (zip_itself, zip_two, nested_full, nested_broken, early, gone_on, collected, three, thread,
        functions, restarts, deleted)


def main():
    meeting.arrive()
    costs.install()
    gc.disable()
    torch.set_num_threads(1)
    lines = []
    for kind, _, ways in (argument.partition(":") for argument in sys.argv[1:]):
        for way in WAYS:
            name = way.__name__
            if ways and name not in ways.split(","):
                continue
            if kind.startswith("persistent") and name == "thread":
                continue  # one iterator in two threads, for which torch's waits for ever
            if kind.endswith("2") and name == "collected":
                continue  # torch waits five seconds for each worker of what the collector finds
            torch.manual_seed(3)
            numpy.random.seed(3)
            random.seed(3)
            scene = Scene(kind, name)
            way(scene)
            # No collector is needed: until then workers that live on would wait for their end.
            assert not any(loader() for loader in scene.loaders), (kind, name)
            lines += scene.show(kind + " " + name)
    meeting.part()
    print(*lines, sep="\n")  # more than a pipe holds, and the other one may not be read yet


if __name__ == "__main__":
    main()
