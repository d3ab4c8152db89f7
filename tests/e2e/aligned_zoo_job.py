# SPDX-License-Identifier: MIT
"""
aligned_zoo_job.py KIND [--workers N] [--batch N] [--seed S] [--epochs N] [--data PATH]

A job over one of the data sets below; prints "epoch E index digest" for each sample, as
aligned_job.py does.
"""

import contextlib
import functools
import gc
import hashlib
import io
import random
import tarfile
import threading
import weakref
import zipfile

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler

import costs
import data_job
import meeting

costs.install()
ITEMS = 48


class Many(Dataset):
    """Has as many items as all of them."""

    def __init__(self, options):
        pass

    def __len__(self):
        return ITEMS


class Own(Many):
    """Draws by all kinds of generators, each seeded with what the job was given."""

    kept = numpy.random.RandomState(5)

    def __init__(self, options):
        seed = options.seed
        bits = (numpy.random.PCG64, numpy.random.Philox, numpy.random.SFC64, numpy.random.MT19937)
        self.python, self.state = random.Random(seed), numpy.random.RandomState(seed)
        self.numpy = [numpy.random.Generator(kind(seed)) for kind in bits]
        self.again = {"the same": self.numpy[0], "others": (numpy.random.default_rng(seed),)}
        self.torch = torch.Generator()
        self.torch.manual_seed(seed)
        self.lazy = None

    def all(self):
        return [*self.numpy, *self.again["others"]]

    def states(self):
        """What each would draw next."""
        return repr((self.python.getstate(), self.state.get_state(), Own.kept.get_state(),
                     [each.bit_generator.state for each in self.all()],
                     self.torch.get_state().tolist()))

    def __getitem__(self, index):
        if self.lazy is None:
            self.lazy = numpy.random.default_rng()
        drawn = [self.python.random(), self.state.normal(), Own.kept.rand(), self.lazy.random(),
                 *[each.random() for each in self.all()], *[each.random() for each in self.all()],
                 float(torch.rand((), generator=self.torch)), random.random(), numpy.random.rand()]
        assert len(set(drawn)) == len(drawn), drawn
        return {"index": index, "x": torch.tensor(drawn, dtype=torch.float64)}



class Strange(Many):
    """Draws by a generator that cannot be seeded, among others that can."""

    class Generator(random.Random):
        """Counts."""

        def random(self):
            return super().random() + 1

    def __init__(self, options):
        self.event = threading.Event()  # cannot be told either, and is met before
        self.parts = {"strange": self.Generator(options.seed), "known": random.Random(options.seed)}

    def __getitem__(self, index):
        self.parts["strange"].random()
        return {"index": index, "x": torch.tensor([self.parts["known"].random()])}


class Locked(Many):
    """Guards its items by locks; one that is held from the beginning they do without."""

    def __init__(self, options):
        self.locks = {"lock": threading.Lock(), "rlock": threading.RLock()}
        self.free = [lock for word, lock in self.locks.items() if word != options.held]
        if options.held is not None:
            self.locks[options.held].acquire()

    def __getitem__(self, index):
        with self.free[0], self.free[-1] if len(self.free) > 1 else contextlib.nullcontext():
            return {"index": index, "x": torch.rand(8)}


class Array(Many):
    """Holds numbers: to name it, it is looked up whether these are a file's."""

    def __init__(self, options):
        self.numbers = numpy.arange(ITEMS, dtype=numpy.float32)

    def __getitem__(self, index):
        return {"index": index, "x": torch.rand(8) + float(self.numbers[index])}


def open_hdf5(path):
    """By h5py, which PyPI's torch is tested without."""
    import h5py
    return h5py.File(path, "r")


# How a file is opened, and a number of it read.
FORMATS = {
    "Hdf5": (open_hdf5, lambda file, index: file["x"][index]),
    "Zip": (zipfile.ZipFile, lambda file, index: file.read("%d" % index)),
    "Tar": (tarfile.open, lambda file, index: file.extractfile("%d" % index).read()),
    "Raw": (lambda path: open(path, "rb"),
            lambda file, index: (file.seek(8 * index), numpy.frombuffer(file.read(8))[0])[1]),
}


class Lazily(Many):
    """Opens the file at options.data with the first item; a number from it, and one drawn."""

    def __init__(self, options):
        self.path, self.file = options.data, None
        self.open, self.read = FORMATS[options.kind]

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.open(self.path)
        return {"index": index, "x": torch.tensor([float(self.read(self.file, index)), random.random()])}


class Batches(Many):
    """Makes whole batches, of which each item is drawn for by itself."""

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def one(self, index):
        return {"index": index, "x": torch.rand(3) + random.random()}

    def __getitems__(self, indices):
        return [self.one(index) for index in indices]


class Padded(Batches):
    """Fills up to the longest of a batch."""

    def __getitems__(self, indices):
        items = [{"index": index, "x": torch.rand(2 + index % 5)} for index in indices]
        longest = max(len(item["x"]) for item in items)
        for item in items:
            item["x"] = torch.cat([item["x"], torch.zeros(longest - len(item["x"]))])
        return items


class Lists(Batches):
    """Items of several lengths, which the collate function fills up."""

    def one(self, index):
        return {"index": index, "x": torch.rand(2 + index % 5)}


class Normed(Batches):
    """Takes the mean of the batch away; draws nothing."""

    def __getitems__(self, indices):
        mean = sum(indices) / len(indices)
        return [{"index": index, "x": torch.tensor([index - mean])} for index in indices]


class NotAlone(Batches):
    """Cannot make an item by itself."""

    def __getitems__(self, indices):
        if len(indices) < 2:
            raise ValueError("one item")
        return super().__getitems__(indices)


class Pictures(Many):
    """Pictures in samples that cannot be shared."""

    def __init__(self, options):
        self.paths = options.data.split(":")

    def __getitem__(self, index):
        picture = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        return {"index": index, "x": torch.tensor([numpy.array(picture).mean()]), "bad": {1}}


class Crops(Many):
    """Two crops of one volume, as MONAI's num_samples=2 gives them, and two of an array."""

    def crops(self, volume, side):
        starts = [random.randrange(8) for _ in range(2)]
        return [volume[:, a:a + side, a:a + side, a:a + side] for a in starts]

    def __getitem__(self, index):
        volume = torch.rand(3, 28, 28, 28)
        mask = (volume > 0.5).numpy().astype(numpy.float32)
        side = 8 if index % 2 else 20  # where it is small, most is holes
        return [{"index": index, "image": image, "mask": label}
                for image, label in zip(self.crops(volume, side), self.crops(mask, side))]


def changed(crops):
    """All numbers of @crops, after a change of the first ones."""
    crops[0]["image"] *= 2
    crops[0]["mask"] += 1
    return {"index": crops[0]["index"], "x": torch.cat([
        torch.as_tensor(crop[name]).flatten() for crop in crops for name in ("image", "mask")])}


class Told(Many):
    """Is told a factor after it was handed to its loader: in the worker, by the sampler, ..."""

    def __init__(self, _):
        self.factor = 0.0

    def __getitem__(self, index):
        return {"index": index, "x": torch.rand(8) + self.factor + 1}


class Telling:
    """Gives batches, and tells the data set as its iterator is made: before workers are forked."""

    def __init__(self, data, options):
        self.data, self.factor = data, options.factor
        self.batches = [list(range(first, min(first + options.batch, ITEMS)))
                        for first in range(0, ITEMS, options.batch)]

    def __iter__(self):
        self.data.factor = self.factor
        return iter(self.batches)


def tell_in_worker(factor, _):
    torch.utils.data.get_worker_info().dataset.factor = factor


def tell(data, options, more):
    """Let the loader be one that tells @data its factor, in one of several ways."""
    if options.told == "worker":
        more["worker_init_fn"] = functools.partial(tell_in_worker, options.factor)
    elif options.told == "sampler":
        del more["shuffle"], more["batch_size"]
        more["batch_sampler"] = Telling(data, options)


KINDS = {kind.__name__: kind for kind in (
    Own, Strange, Locked, Array, Told, Batches, Padded, Lists, Normed, NotAlone, Pictures, Crops)}
KINDS.update(dict.fromkeys(FORMATS, Lazily))


def collate(batch):
    """Fills up, and keeps the indices."""
    batch = [changed(item) if isinstance(item, list) else item for item in batch]
    longest = max(len(item["x"]) for item in batch)
    return {"index": torch.tensor([item["index"] for item in batch]), "x": torch.stack([
        torch.cat([item["x"], item["x"].new_zeros(longest - len(item["x"]))]) for item in batch])}


def write(kind, path, base):
    """A file for @kind at @path, whose numbers are those from @base on."""
    numbers = [float(base + index) for index in range(ITEMS)]
    if kind == "Hdf5":
        import h5py
        with h5py.File(path, "w") as file:
            file["x"] = numbers
    elif kind == "Zip":
        with zipfile.ZipFile(path, "w") as archive:
            for index, number in enumerate(numbers):
                archive.writestr("%d" % index, repr(number))
    elif kind == "Tar":
        with tarfile.open(path, "w") as archive:
            for index, number in enumerate(numbers):
                member = tarfile.TarInfo("%d" % index)
                member.size = len(repr(number))
                archive.addfile(member, io.BytesIO(repr(number).encode()))
    else:
        numpy.array(numbers).tofile(path)


def main():
    options = data_job.options_of(
        kinds=KINDS, told=("worker", "sampler", "epoch"), held=("lock", "rlock"), factor=float,
        generator=False, untold=False)  # the sampler has one of its own, is never told the epoch
    data_job.begin(options)
    data = KINDS[options.kind](options)
    more = {"batch_size": options.batch}
    if options.generator:
        generator = torch.Generator()
        generator.manual_seed(options.seed)
        more["sampler"] = RandomSampler(data, generator=generator)
    elif options.untold:
        more["sampler"] = DistributedSampler(data, 1, 0, seed=3)
    else:
        more["shuffle"] = True
    tell(data, options, more)
    before = data.states() if options.kind == "Own" else None
    loader = DataLoader(data, num_workers=options.workers, collate_fn=collate, **more)
    for epoch in range(options.epochs):
        meeting.arrive()
        if options.told == "epoch":
            data.factor = options.factor * epoch
        for batch in loader:
            for index, x in zip(batch["index"], batch["x"]):
                own = x[x != 0]  # what it was filled up with depends on its neighbours
                print("epoch", epoch, int(index),
                      hashlib.md5(own.numpy().tobytes()).hexdigest()[:12])
    if before is not None:
        print("put back", data.states() == before)
    known = weakref.ref(data)
    del data, loader, more
    gc.collect()
    print("let go", known() is None)
    meeting.part()
    print("~", flush=True)


if __name__ == "__main__":
    main()
