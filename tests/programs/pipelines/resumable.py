# SPDX-License-Identifier: MIT
"""Loaders whose place in an epoch is kept, and samplers with seeds of their own."""

import torch
from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

from . import pipeline
from .vision import folders


Stateful = pipeline("torchdata's loader.",
    lambda options: [StatefulDataLoader(folders(options)[0], options.batch, shuffle=True,
    num_workers=options.workers)])


class Resumed:
    """The same, stopped and gone on with by another one in the middle of each epoch."""

    def make(self, options):

        class Halves:
            """One epoch, by two loaders."""

            state = None

            def __iter__(self):
                loader = self.loader()
                if self.state is not None:
                    loader.load_state_dict(self.state)  # the epoch was over: the next one begins
                given = 0
                for batch in loader:
                    given += 1
                    yield batch
                    if given == 3:
                        state = loader.state_dict()
                        break
                loader = self.loader()
                loader.load_state_dict(state)
                yield from loader
                self.state = loader.state_dict()

            @staticmethod
            def loader():
                return StatefulDataLoader(folders(options)[0], options.batch, shuffle=True,
                                          num_workers=options.workers)

        return [Halves()]


class Distributed:
    """A sampler with a seed of its own, and --align-orders."""

    SETTINGS = {"TSSHIM_ALIGN_ORDERS": "1"}

    def make(self, options):
        data = folders(options)[0]
        sampler = DistributedSampler(data, 1, 0, seed=options.seed)
        loader = DataLoader(data, options.batch, sampler=sampler, num_workers=options.workers)

        class Epochs:
            """Tells the sampler which one it is."""

            def set_epoch(self, epoch):
                sampler.set_epoch(epoch)

            def __iter__(self):
                return iter(loader)

        return [Epochs()]


class Generator:
    """A generator given to the loader, and one to a weighted sampler, with --align-orders."""

    SETTINGS = {"TSSHIM_ALIGN_ORDERS": "1"}

    def make(self, options):
        data = folders(options)[0]
        own = torch.Generator()
        own.manual_seed(options.seed)
        other = torch.Generator()
        other.manual_seed(options.seed)
        sampler = WeightedRandomSampler([1.0] * len(data), len(data), generator=other)
        return [DataLoader(data, options.batch, shuffle=True, generator=own,
                           num_workers=options.workers),
                DataLoader(data, options.batch, sampler=sampler, num_workers=options.workers)]
