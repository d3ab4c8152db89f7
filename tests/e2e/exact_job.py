# SPDX-License-Identifier: MIT
"""
A job in default mode for exact.py: prints digests of its batches and what it draws itself.

Where many data sets are to be tried, they follow one another in one job.

usage: exact_job.py OPTIONS [--then OPTIONS]...     scenes, one after the other
"""

import hashlib
import multiprocessing
import random
import sys
import threading

import numpy
import torch
import torchvision
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, WeightedRandomSampler
from torchvision import transforms as T

import costs
import data_job
import exact_newer  # noqa: F401 (adds to what exact_zoo has)
import exact_stateful
import exact_zoo
import meeting


class Vouched(Dataset):
    """Of the user's own, and a function of index and generators only."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.rand(3, 32, 32) * random.random() + numpy.random.rand(), index


class Warming(Vouched):
    """Its first items take long, as where a cache is filled or a module imported; others do not."""

    slow = 3

    def __getitem__(self, index):
        return torch.rand(3), index


class Buffer(Vouched):
    """Gives the same memory again and again, each time filled anew."""

    def __init__(self):
        self.buffer = torch.zeros(3, 32, 32)

    def __getitem__(self, index):
        return self.buffer.copy_(torch.full((3, 32, 32), float(index))), index


class Constant(Vouched):
    """Gives the same target again and again, of which it has one."""

    def __init__(self):
        self.target = torch.ones(40)

    def __getitem__(self, index):
        return torch.full((3, 32, 32), float(index)), self.target


class Batches(Vouched):
    """Makes whole batches in one call, as torch offers from 2.0 on."""

    def __getitems__(self, indices):
        noise = torch.rand(())
        return [(torch.rand(3, 32, 32) + noise, index) for index in indices]


class Views(Dataset):
    """Hands out what it holds: who changes an item in place changes the next one."""

    def __init__(self):
        self.data = torch.ones(6, 3, 64, 64)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return self.data[index % 6], index


class Scheduled(Dataset):
    """Harmless, but in each worker a thread follows what the sampler says between batches."""

    def __init__(self):
        self.scale = 1
        self.table = list(range(24))

    def __len__(self):
        return 24

    def __getitem__(self, index):
        value = self.table[index] * self.scale
        return torch.full((3, 64, 64), float(value)), index


class Large(Dataset):
    """More memory than is read for a name before much work was done."""

    def __init__(self, size=161 << 20):
        self.data = numpy.zeros(size, numpy.uint8)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((3, 64, 64), float(index)), index


multiprocessing.set_start_method("fork", force=True)  # Python 3.14 would take another
ORDERS, ANSWERS = multiprocessing.Queue(), multiprocessing.Queue()


def follow(data):
    while True:
        data.scale = ORDERS.get()
        ANSWERS.put(data.scale)


def listen(_):
    data = torch.utils.data.get_worker_info().dataset
    threading.Thread(target=follow, args=(data,), daemon=True).start()


def curriculum(batches):
    """What the only worker has to do at a time; it has nothing else when the next is asked for."""
    for number in range(batches):
        ORDERS.put(number)
        ANSWERS.get()
        yield list(range(24))


def scheduled(options):
    loader = DataLoader(Scheduled(), batch_sampler=curriculum(options.epochs), num_workers=1,
                        prefetch_factor=1, worker_init_fn=listen)
    for number, batch in enumerate(loader):
        print(number, digest(batch))


def overlooked():
    """Draws from a generator, and the library was made to believe that it does not."""
    if "tsshim_torch" in sys.modules:
        from tsshim_torch.judge import judgement
        judgement.judge = lambda data: judgement.Judgement(frozenset(), False, True)
    return exact_zoo.Items(lambda index: (
        torch.from_numpy(numpy.asarray(exact_zoo.picture(index)).copy()), numpy.random.rand()))


def newer(name):
    """The library was made to believe that @name is of a version nobody has seen yet."""
    if "tsshim_torch" in sys.modules:
        from tsshim_torch.judge import versions
        found = versions.found
        assert name in found()
        versions.found = lambda: {**found(), name: "99.0"}


def soon():
    """Large, and the library was made to believe that reading takes little of the work."""
    if "tsshim_torch" in sys.modules:
        from tsshim_torch.sharing.batch import exact
        exact.ROOM_PART = 1
    return Large()


RANDOM = [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.ToTensor(),
          T.Normalize([.5, .5, .5], [.2, .2, .2])]


def two_crops(picture):
    """Two parts of one picture: who changes one in place changes the other one."""
    return picture[:, :40, :40], picture[:, 8:, 8:]


PIPELINES = {
    "crops": [*RANDOM, T.Lambda(two_crops)],
    "random": RANDOM,
    "free": [T.Resize(128), T.CenterCrop(96), T.ToTensor(), T.Normalize([.5] * 3, [.2] * 3)],
    "python": [T.RandomChoice([T.Resize(128), T.Resize(140)]), T.CenterCrop(96), T.ToTensor()],
    "many": [T.RandAugment(), T.ColorJitter(.2, .2), T.RandomRotation(9), *RANDOM[:3],
             T.RandomErasing()],
    "lambda": [*RANDOM, T.Lambda(lambda x: x * 2)],
}


def arguments(words):
    return data_job.options_of(
        words, images=str, workers=1, batch=8, epochs=3, seed=1, shuffle=1, persistent=False,
        pipeline="random", own=str, split=("fold", "twice"), patch=("function", "class", "instance", "hook"),
        collate=("inplace", "cutmix", "overlap"),
        zoo=("good", "refused", "changed"),  # many data sets in a row
        balanced=False,  # sampled by weights
        change=False,  # another transform in epoch 1
        newer=str)  # what is of a version that is not judged


def brighter(image):
    return torch.as_tensor(numpy.asarray(image).copy()).permute(2, 0, 1).float() / 200


def patch(where, data):
    """As users do who know better than the library."""
    if where == "function":
        torchvision.transforms.functional.to_tensor = brighter
    elif where == "class":
        T.ToTensor.__call__ = lambda self, image: brighter(image)
    elif where == "instance":
        data.transform.transforms[2] = brighter
    elif where == "hook":
        data.transform.transforms[0].register_forward_hook(
            lambda module, inputs, output: output.rotate(180))


def inplace(samples):
    batch = torch.utils.data.default_collate(samples)
    for sample in samples:
        sample[0].zero_()
    return batch


def cutmix(samples):
    images, labels = torch.utils.data.default_collate(samples)
    return images * torch.rand(()) + images.flip(0) * random.random(), labels


def overlap(samples):
    for (first, _), _ in samples:
        first.mul_(2)
    return [second.clone() for (_, second), _ in samples]


OWN = {"vouched": Vouched, "buffer": Buffer, "constant": Constant, "batches": Batches,
       "warming": Warming, "large": Large, "little": lambda: Large(1 << 20), "soon": soon}


def data_of(options):
    if options.own == "overlooked":
        return overlooked()
    if options.own == "views":
        return Views()
    if options.own:
        data = OWN[options.own]()
        return Subset(data, range(30)) if options.split else data
    data = torchvision.datasets.ImageFolder(options.images, T.Compose(
        list(PIPELINES[options.pipeline])))
    if options.patch:
        patch(options.patch, data)
    if options.split == "fold":
        return Subset(data, range(0, len(data), 2))
    return ConcatDataset([data, data]) if options.split else data


def digest(value):
    """A few digits for all of a batch: structure, types and bytes."""
    if isinstance(value, torch.Tensor):
        value = (str(value.dtype), value.shape, hashlib.md5(value.numpy().tobytes()).hexdigest())
    elif isinstance(value, dict):
        value = [(key, digest(part)) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        value = (type(value).__name__, [digest(part) for part in value])
    return hashlib.md5(repr(value).encode()).hexdigest()[:12]


def iterate(data, options, change=None):
    """All epochs of @data."""
    sampler = WeightedRandomSampler([1 + number % 3 for number in range(len(data))], len(data)) \
        if options.balanced else None
    loader = DataLoader(data, batch_size=options.batch, sampler=sampler,
                        shuffle=bool(options.shuffle) and not options.balanced,
                        num_workers=options.workers, persistent_workers=options.persistent,
                        collate_fn=globals()[options.collate] if options.collate else None)
    for epoch in range(options.epochs):
        meeting.arrive()
        if change is not None:
            change(data, epoch, -1)
        for number, batch in enumerate(loader):
            print(epoch, number, digest(batch))
            if change is not None:
                change(data, epoch, number)
        print("draw", torch.rand(()).item(), random.random(), numpy.random.rand())
        sys.stdout.flush()


def other_transform(data, epoch, number):
    """Changes a transform between two epochs, and in the middle of one."""
    if epoch == 1 and number == -1:
        data.transform.transforms[1] = T.RandomVerticalFlip()
    elif epoch == 1 and number == 1:
        data.transform.transforms[1] = T.RandomHorizontalFlip()


def zoo(options):
    """One data set after the other; what has a name of its own is known by it."""
    if options.zoo == "good":
        cases = [(name, lambda make=make: make(options.images), None)
                 for name, (_, make) in exact_zoo.GOOD.items()]
    else:
        cases = exact_stateful.cases(options.zoo)
    for name, make, change in cases:
        print("#", name)
        iterate(make(), options, change)


def play(options):
    """A scene, which begins with seeds of its own."""
    data_job.seed_all(options.seed)
    if options.zoo:
        zoo(options)
    elif options.own == "scheduled":
        scheduled(options)
    else:
        iterate(data_of(options), options, other_transform if options.change else None)


def main():
    first, *later = data_job.scenes(arguments)
    meeting.arrive()
    if first.own == "warming":
        costs.install(items=Warming.slow)
    else:  # a look is due after 20 ms of items: not in each batch of the scheduled ones
        costs.install(500_000 if first.own == "scheduled" else costs.ITEM_NS)
    if first.newer:
        newer(first.newer)
    data_job.play_all(first, later, play)


if __name__ == "__main__":
    main()
