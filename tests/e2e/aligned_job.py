# SPDX-License-Identifier: MIT
"""
A small training job for aligned.py: prints what its loader delivered, and what it computed.

"epoch E index digest" for each sample in order of delivery; with --train also the loss, to
the last bit.  Lines that begin with "~" say what may differ between two runs.
"""

import functools
import hashlib
import os
import random
import sys
import time

import numpy
import torch
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler,
                              Subset, WeightedRandomSampler)

import costs
import data_job
import meeting

costs.install()  # in workers that do not inherit it, too


class Items(Dataset):
    """@count random crops and jitters of fixed pictures, with all three generators."""

    def __init__(self, count):
        generator = numpy.random.RandomState(1)
        self.pictures = generator.randint(0, 256, (16, 3, 40, 40)).astype(numpy.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        top, left = random.randrange(8), int(torch.randint(8, ()))
        picture = self.pictures[index % 16, :, top:top + 32, left:left + 32]
        noise = numpy.random.normal(size=picture.shape).astype(numpy.float32)
        sample = torch.from_numpy(picture / numpy.float32(255) + noise * numpy.float32(0.1))
        return {"picture": sample, "label": index % 4, "index": index,
                "name": "item %d" % index}


class Noted(Items):
    """Writes down who begins and ends which item.  As long as there are enough that nobody has
    begun an item ends only when another process has begun one as well."""

    FREE = 6

    def __init__(self, count, notes):
        super().__init__(count)
        self.notes = notes

    def note(self, what, index):
        os.write(self.notes, b"%s %d %d\n" % (what, index, os.getpid()))

    def has_company(self):
        lines = [line.split() for line in os.pread(self.notes, 1 << 20, 0).splitlines()]
        begun = {index for what, index, _ in lines if what == b"begin"}
        now = {}
        for what, index, pid in lines:
            now[pid] = what == b"begin"
        return sum(now.values()) > 1 or len(begun) > self.count - self.FREE

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        self.note(b"begin", index)
        end = time.monotonic() + 60  # a guard: then the test fails
        while not self.has_company() and time.monotonic() < end:
            time.sleep(0.002)
        self.note(b"end", index)
        return sample


class Files(Items):
    """What the files of a directory hold, one per item; noise as above."""

    def __init__(self, directory):
        self.paths = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
        super().__init__(len(self.paths))

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        try:
            with open(self.paths[index], "rb") as file:
                content = file.read()
        except OSError:  # as many data sets do
            content = b"missing"
        digest = hashlib.md5(content).digest() * 192
        sample["picture"] = torch.from_numpy(
            numpy.frombuffer(digest, dtype=numpy.uint8).astype(numpy.float32))
        return sample


@functools.lru_cache(maxsize=None)
def read_once(path):
    """Only the first item is seen to open the file."""
    with open(path) as file:
        return float(file.read())


class Kept(Items):
    """Items that depend on a file with a relative name, which is read once."""

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        sample["picture"] += read_once("offset")
        return sample


def arguments():
    return data_job.options_of(
        items=96, workers=1, batch=16, epochs=2, train=False, seed=int, context=str, persistent=False, drop_last=False,
        prefetch=2,  # batches queued per worker
        repeats=False,  # sample with replacement
        order=("early", "late", "pairs"),  # a sampler of its own, that draws then
        two_views=False, zip=False,  # iterate one loader twice at once
        bulk=False,  # lists as indices of one item each
        collate=False,  # a collate_fn of its own
        sanity=False,  # look at one batch first
        draw=False,  # print what the job draws
        subset=str,  # A:B, a Subset of these items; "twice" all two times
        files=str, kept=False,  # directory to read the items from; items that read ./offset, once
        notes=int,  # descriptor to note on who made which item
        linger=0.0, step=0.0)  # seconds to stay at the end, and per batch


def own_collate(samples):
    """Changes the samples in place, which must harm nobody."""
    for sample in samples:
        sample["picture"] += 0
    return {key: torch.stack([sample[key] for sample in samples]) if key == "picture"
            else [sample[key] for sample in samples] for key in samples[0]}


class Bulk(Dataset):
    """Makes a whole batch of what it is given as one index, with one draw for all."""

    def __init__(self, items):
        self.items = items

    def __getitem__(self, indices):
        samples = [self.items[index] for index in indices]
        noise = torch.rand(())
        for sample in samples:
            sample["picture"] += noise
        return torch.utils.data.default_collate(samples)


class Order:
    """A sampler of the program's own, and when it draws from the global generators."""

    def __init__(self, count, when):
        self.count, self.when = count, when

    def __len__(self):
        return self.count

    def _draw(self):
        """Any order would do for who is given these two."""
        return [random.random() + numpy.random.rand() + torch.rand(()).item(), random.random()]

    def _late(self):
        left = list(range(self.count))
        while left:
            yield left.pop(int(self._draw()[1] * len(left)))

    def __iter__(self):
        if self.when == "late":
            return self._late()
        if self.when == "pairs":
            numbers = iter(self._draw()[1] for _ in range(self.count // 2))
            return (2 * index + (number < 0.5) for index, number in enumerate(numbers))
        order = sorted((self._draw(), index) for index in range(self.count))
        return iter([index for _, index in order])


def loader_of(options, data):
    if options.bulk:
        order = BatchSampler(RandomSampler(data), options.batch, False)
        return DataLoader(Bulk(data), sampler=order, batch_size=None,
                          num_workers=options.workers)
    sampler = None
    if options.repeats:
        weights = [1.0 + (index % 7) ** 2 for index in range(len(data))]
        sampler = WeightedRandomSampler(weights, len(data))
    if options.order:
        sampler = Order(len(data), options.order)
    more = {"persistent_workers": options.persistent,
            "prefetch_factor": options.prefetch} if options.workers else {}
    return DataLoader(data, batch_size=options.batch, shuffle=sampler is None, sampler=sampler,
                      num_workers=options.workers, multiprocessing_context=options.context,
                      collate_fn=own_collate if options.collate else None,
                      drop_last=options.drop_last, **more)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Dropout(0.3),
            torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(128, 4))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.05)

    def step(self, batch):
        loss = torch.nn.functional.cross_entropy(
            self.layers(batch["picture"]), torch.as_tensor(batch["label"]))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss).hex()


def show(epoch, batch, view=""):
    for picture, index, name in zip(batch["picture"], batch["index"], batch["name"]):
        assert name == "item %d" % int(index)
        digest = hashlib.md5(picture.numpy().tobytes()).hexdigest()[:12]
        print("epoch", epoch, int(index), digest + view)


def main():
    options = arguments()
    data_job.begin(options)
    if options.notes is not None:
        data = Noted(options.items, options.notes)
    else:
        data = Files(options.files) if options.files \
            else (Kept if options.kept else Items)(options.items)
    if options.subset == "twice":
        data = ConcatDataset([data, data])
    elif options.subset:
        data = Subset(data, range(*map(int, options.subset.split(":"))))
    loaders = [loader_of(options, data) for _ in range(2 if options.two_views else 1)]
    model = Model() if options.train else None
    if options.zip:
        loaders *= 2
    if options.sanity:
        next(iter(loaders[0]))
    for epoch in range(options.epochs):
        meeting.arrive()
        for batches in zip(*loaders):
            for view, batch in enumerate(batches):
                show(epoch, batch, " view %d" % view if view else "")
            if model:
                print("loss", model.step(batches[0]))
            time.sleep(options.step)
        if options.draw:
            print("draw", torch.rand(()).item(), random.random(), numpy.random.rand())
        sys.stdout.flush()
    plan = getattr(loaders[0]._iterator or iter(loaders[0]), "_tsshim_plan", None) \
        if options.persistent else None
    meeting.part()
    print("~ pid", os.getpid(), "draws once", getattr(plan, "draws_once", None), flush=True)
    time.sleep(options.linger)


if __name__ == "__main__":
    main()
