# SPDX-License-Identifier: MIT
"""Loaders that are no DataLoader of torch's."""

import data
from .vision import TRAIN

from PIL import Image


class Fastai:
    """fastai's `ImageDataLoaders`: `RandomResizedCrop` of items, shuffled; its loaders give whole batches"""

    BY_BATCH = True  # which samples draw together follows from batches and workers
    TAKEN = .04  # of samples; what is counted are batches

    def make(self, options):
        from fastai.vision.data import ImageBlock, CategoryBlock, DataBlock
        from fastai.vision.augment import RandomResizedCrop
        block = DataBlock(blocks=(ImageBlock, CategoryBlock),
                          get_items=lambda source: data.paths(source),
                          get_y=lambda path: data.label(path),
                          splitter=lambda items: (list(range(64)), list(range(64, len(items)))),
                          item_tfms=RandomResizedCrop(64))
        loaders = block.dataloaders(options.data, bs=options.batch, num_workers=options.workers,
                                    device="cpu")
        return [loaders.train, loaders.valid]


class Nodes:
    """torchdata's nodes: a sampler, a map in threads, a batcher"""

    SHARES = "not aligned"

    def make(self, options):
        from torch.utils.data import RandomSampler
        from torchdata.nodes import Batcher, Loader, Mapper, ParallelMapper, SamplerWrapper
        from torch.utils.data import default_collate
        paths = data.paths(options.data)

        def item(index):
            return TRAIN(Image.open(paths[index]).convert("RGB")), data.label(paths[index])

        node = SamplerWrapper(RandomSampler(range(len(paths))))
        node = ParallelMapper(node, item, num_workers=1, method="thread")
        return [Loader(Mapper(Batcher(node, options.batch), default_collate))]


class FastaiOnce:
    """A loader of fastai's whose order may be asked for but once an epoch: it stays the job's own"""

    BY_BATCH = True
    SHARES = "not aligned"

    def make(self, options):
        from fastai.data.load import DataLoader

        class Once(DataLoader):
            """Raises where it is asked again."""

            asked = False

            def randomize(self):
                super().randomize()
                self.asked = False

            def get_idxs(self):
                assert not self.asked
                self.asked = True
                return super().get_idxs()

        return [Once(list(range(64)), bs=options.batch, shuffle=True, num_workers=options.workers)]
