# SPDX-License-Identifier: MIT
"""
Numbers that a program shares with its workers (multiprocessing.Value, a small tensor) are part of
what names a sample, as they are when it is made.
"""

import hashlib
import multiprocessing
import sys

COUNT, EPOCHS = 48, 3

if __name__ == "__main__":  # the job: prints of each WAY and epoch the number of items, the number and a digest
    import numpy
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    import costs
    import meeting

    class Told(Dataset):
        """The program tells the epoch."""

        def __init__(self):
            self.epoch = multiprocessing.Value("i", 0)

        def __len__(self):
            return COUNT

        def __getitem__(self, index):
            item = numpy.full((16, 256), self.epoch.value * 1000 + index, numpy.float32)
            item[0] += numpy.random.random(256)
            return item

    class Raw(Told):
        """Without a lock around it, in an array."""

        def __init__(self):
            self.epoch = self
            self.cells = multiprocessing.RawArray("d", 4)

        @property
        def value(self):
            return float(self.cells[2])

        @value.setter
        def value(self, number):
            self.cells[2] = number

    class Tensor(Raw):
        """In a tensor that processes share."""

        def __init__(self):
            super().__init__()
            self.cells = torch.zeros(4).share_memory_()

    class Counting(Told):
        """Each item counts itself."""

        def __getitem__(self, index):
            item = super().__getitem__(index)
            with self.epoch.get_lock():
                self.epoch.value += 1
            return item

    class Stream(IterableDataset):
        """The items of an epoch."""

        def __init__(self):
            self.epoch = multiprocessing.Value("i", 0)

        def __iter__(self):
            for index in range(COUNT):
                yield numpy.full((16, 256), self.epoch.value * 1000 + index, numpy.float32)

    class Lasting(Stream):
        """The same, in a worker that lives on: it looks once, when an iteration begins."""

        def __iter__(self):
            self.begun = self.epoch.value
            for index in range(COUNT):
                yield numpy.full((16, 256), self.begun * 1000 + index, numpy.float32)

    class Moving(Stream):
        """Counts the iteration behind its last item."""

        def __iter__(self):
            yield from super().__iter__()
            with self.epoch.get_lock():
                self.epoch.value += 1

    WAYS = {kind.__name__: kind for kind in (Told, Raw, Tensor, Counting, Stream, Lasting, Moving)}

    costs.install(50_000_000)
    torch.set_num_threads(1)
    turn = int(sys.argv[1])  # of the two in an epoch: the one in which this job goes through it
    for way in sys.argv[2:]:
        data = WAYS[way]()
        loader = DataLoader(data, 8, shuffle=not isinstance(data, Stream), num_workers=1,
                            persistent_workers=way in ("Raw", "Tensor", "Lasting"))
        for epoch in range(EPOCHS):
            meeting.arrive()
            if turn == 1:
                meeting.arrive()
            data.epoch.value = epoch * 7
            items = [item for batch in loader for item in batch]
            if turn == 0:
                meeting.arrive()
            print(way, epoch, len(items), data.epoch.value, hashlib.sha256(torch.stack(items).numpy().tobytes()).hexdigest(), flush=True)
    meeting.part()
    sys.exit()

import support
from aligned_common import aligned, counter, together, without_ring


def job(*ways, turn=-1):
    return [support.torch_python(), __file__, str(turn), *ways]


def of_two(*ways, turns=(-1, -1)):
    """How many samples two jobs, that are given what one alone is, took from each other; at the
    same time, or by @turns in each epoch."""
    wanted = support.facts(without_ring(job(*ways)).output)
    assert len(wanted) == len(ways) * EPOCHS
    with aligned() as group:
        outcomes = together([job(*ways, turn=turn) for turn in turns], group)
        taken = counter(group, "shared")
    for outcome in outcomes:
        assert "an error of tsshim's own" not in outcome.errors, outcome.errors
        assert support.facts(outcome.output) == wanted
    return taken


def test_an_epoch_that_the_program_tells():
    for way in "Told", "Raw", "Tensor", "Stream":
        taken = of_two(way)
        assert taken >= 0.5 * COUNT * EPOCHS, (way, taken)  # short, and the first item is made by all


def test_workers_that_live_on():
    """The program tells the next epoch before they begin it; what was left behind the last one is the same."""
    taken = of_two("Lasting", turns=(0, 1))  # so it does not count which one is slow to begin
    # Of the first epoch nobody has asked for anything yet; two items are made by all.
    assert taken >= 0.9 * COUNT * (EPOCHS - 1), taken


def test_items_that_count_themselves_are_nobody_elses():
    assert of_two("Counting") == 0
    assert of_two("Moving") > 0  # of those before
