# SPDX-License-Identifier: MIT
"""
Aligned loaders over items that cost next to nothing and draw from all generators; for
aligned_cheap.py.  For each way to load them prints "way digest" of all that was delivered, whatever
the order; with --dear the items cost so much that they are shared.
"""

import hashlib
import random
import threading

import numpy
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import costs
import data_job
import meeting

COUNT, EPOCHS = 70, 2

# Of loaders: (name, workers, batch size, options).
WAYS = (("main", 0, 16, {}), ("one", 1, 7, {}), ("two", 2, 32, {}), ("alone", 1, None, {}),
        ("stay", 2, 16, {"persistent_workers": True}), ("own", 1, 16, {"collate_fn": list}))


class Draws(Dataset):
    """Each item draws a number of its own of each generator; @name is part of its identity only."""

    def __init__(self, name, count=COUNT):
        self.name, self.count = name, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        drawn = [random.random(), random.gauss(0, 1), random.getrandbits(40),
                 numpy.random.random(), numpy.random.normal(), numpy.random.randint(1 << 30),
                 torch.rand(1).item(), torch.rand(1, dtype=torch.float64).item()]
        if index % 5 == 0:  # one that draws many: past the end of the words
            drawn += [random.random() for _ in range(700)] + numpy.random.random(700).tolist()
            drawn += torch.rand(700).tolist()
        return self.say(index, drawn)

    def say(self, index, drawn):
        return "%d %s" % (index, hashlib.sha256(repr(drawn).encode()).hexdigest())


class Own(Draws):
    """It draws from generators of its own as well."""

    def __init__(self, name):
        super().__init__(name)
        self.python, self.state = random.Random(1), numpy.random.RandomState(2)
        self.generator, self.torch = numpy.random.default_rng(3), torch.Generator()

    def __getitem__(self, index):
        return self.say(index, [self.python.random(), self.state.random_sample(),
                                self.generator.random(), random.random(),
                                torch.rand(1, generator=self.torch).item()])


class Late(Draws):
    """A generator that is there from the item of this number on, and another one from there on."""

    def __getitem__(self, index):
        if not hasattr(self, "python"):
            self.python = random.Random()
        return self.say(index, [self.python.random(), random.random(), torch.rand(1).item()])


class Nested(Draws):
    """An item that goes through a loader."""

    def __init__(self, name):
        super().__init__(name, 24)
        self.inside = Draws(name + " inside", 3)

    def __getitem__(self, index):
        before = random.random()
        inside = [sorted(batch) for batch in DataLoader(self.inside, 3, shuffle=True)]
        return self.say(index, [before, inside[0][-1][0] != "", random.random(),
                                numpy.random.random(), torch.rand(1).item()])


class Exchanging(Draws):
    """An item that puts other generators in the place of the global ones, which stay there."""

    def __getitem__(self, index):
        drawn = random.random(), numpy.random.random(), torch.rand(1).item()
        if index % 7 == 3:
            other = random.Random(index)
            random.seed, random.random = other.seed, other.random
            random.getstate, random.setstate = other.getstate, other.setstate
        return self.say(index, drawn)


def datasets():
    for name, workers, size, options in WAYS:
        yield "draws " + name, Draws(name), workers, size, options
    # The two ways to put data sets together; indices are those of what is inside.
    yield "subset", Subset(Draws("parts"), range(COUNT - 1, -1, -1)), 1, 16, {}
    yield "concatenation", ConcatDataset([Draws("parts a", 30), Draws("parts b", 30)]), 1, 16, {}
    for workers in 0, 1:
        yield "own %d" % workers, Own("own %d" % workers), workers, 16, {}
        yield "late %d" % workers, Late("late %d" % workers), workers, 16, {}
    yield "nested", Nested("nested"), 1, 16, {}
    yield "exchanging", Exchanging("exchanging"), 1, 16, {}
    # The same index several times: each time is another item.
    yield "again", Draws("again"), 1, 16, {"sampler": [3, 5, 3, 9, 3, 5] * 8}


class Holding(Draws):
    """Its array is read for its name."""

    def __init__(self, name):
        super().__init__(name)
        self.array = numpy.zeros(2 << 20, numpy.uint8)


def count_calls(owner, name):
    """A list that gets an element with each call of the function @name of @owner from now on."""
    calls, function = [], getattr(owner, name)

    def counted(*arguments, **options):
        calls.append(name)
        return function(*arguments, **options)

    setattr(owner, name, counted)
    return calls


def look_at_looks():
    """What each epoch costs before its first item: a look at the array, and no verdict."""
    from tsshim_torch import native
    from tsshim_torch.judge import judgement

    reads, verdicts = count_calls(native, "digest_at"), count_calls(judgement, "judge")
    loader = DataLoader(Holding("holding"), 16, num_workers=1)
    for epoch in range(EPOCHS):
        for _ in loader:
            pass
        assert len(reads) == epoch + 1 and not verdicts, (epoch, reads, verdicts)


def draw():
    """Numbers of which each generator makes two at once: one is left over for the next call."""
    return [random.gauss(0, 1), numpy.random.normal(), torch.randn(1).item(), random.random()]


def leave_the_programs_own():
    """What the program draws between batches is what it draws without them, once begun."""
    for number in range(3):
        batches = iter(DataLoader(Draws("between"), 16))
        for each in random.seed, numpy.random.seed, torch.manual_seed:
            each(number)
        wanted = [draw() for _ in range(6)]
        for each in random.seed, numpy.random.seed, torch.manual_seed:
            each(number)
        found = []
        for _ in batches:
            found.append(draw())
        assert found == wanted[:len(found)] and len(found) == 5, (number, found, wanted)


def in_a_thread():
    """What a loader without workers gives there, for whose batches one look is enough."""
    from tsshim_torch.sharing.naming import aligned_names

    scopes, found = count_calls(aligned_names.Scope, "__init__"), []
    loader = DataLoader(Draws("thread"), 16, shuffle=True)

    def iterate():
        for epoch in range(EPOCHS):
            items = sorted(item for batch in loader for item in batch)
            found.append(repr((epoch, items)))

    thread = threading.Thread(target=iterate)
    thread.start()
    thread.join()
    assert len(scopes) == EPOCHS, len(scopes)
    print("thread", hashlib.sha256("".join(found).encode()).hexdigest()[:16], flush=True)


def main():
    # The size of batches, in the place of each loader's own.
    options = data_job.options_of(dear=False, size=int)
    costs.install(2_000_000 if options.dear else 200_000)
    torch.set_num_threads(1)
    meeting.arrive()
    for name, dataset, workers, size, more in datasets():
        if size is not None and options.size:
            size = options.size
        shuffle = {} if "sampler" in more else {"shuffle": True}
        loader = DataLoader(dataset, size, num_workers=workers, **shuffle, **more)
        hasher = hashlib.sha256()
        for epoch in range(EPOCHS):
            items = [item for batch in loader for item in ([batch] if size is None else batch)]
            hasher.update(repr((epoch, sorted(items))).encode())
        print(name, hasher.hexdigest()[:16], flush=True)
    leave_the_programs_own()
    in_a_thread()
    look_at_looks()
    meeting.part()


if __name__ == "__main__":
    main()
