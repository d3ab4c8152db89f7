# SPDX-License-Identifier: MIT
"""Data sets, loaders and samples of libraries for one kind of data."""

import inspect
import os

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional

import data
from . import pipeline
from .vision import TRAIN, loaders


class Litdata:
    """litdata's streams of chunks, shuffled, by its own loader."""

    SHARES = "not aligned"

    def make(self, options):
        import litdata
        return [litdata.StreamingDataLoader(self.opened(options), batch_size=options.batch,
                                            num_workers=options.workers)]

    def opened(self, options):
        """The data set; older releases take no transform."""
        import litdata
        kind, item = litdata.StreamingDataset, self.item
        given = {"transform": item}
        if "transform" not in inspect.signature(kind).parameters:
            given = {}

            class kind(litdata.StreamingDataset):
                def __getitem__(self, index):
                    return item(super().__getitem__(index))

        return kind(os.path.join(options.data, "lit"), shuffle=True, seed=3, **given)

    @staticmethod
    def item(row):
        return TRAIN(functional.to_pil_image(row["image"])), row["label"]


class LitdataTorch(Litdata):
    """The same by torch's loader; how it splits chunks between workers follows from batches."""

    BY_BATCH = True
    SHARES = "/proc/meminfo"

    def make(self, options):
        return [DataLoader(self.opened(options), options.batch, num_workers=options.workers)]


class _Clouds(Dataset):
    """Points drawn at random, each joined with its neighbours."""

    def __len__(self):
        return data.TRAIN

    def __getitem__(self, index):
        from torch_geometric.data import Data
        points = torch.rand(400, 3)
        near = torch.cdist(points, points).topk(8, largest=False).indices
        edges = torch.stack([torch.arange(400).repeat_interleave(8), near.reshape(-1)])
        return Data(x=points, edge_index=edges, y=torch.tensor(index))


class Graphs:
    """Graphs of PyTorch Geometric, by its loader."""

    def make(self, options):
        from torch_geometric.loader import DataLoader
        return [DataLoader(_Clouds(), options.batch, shuffle=True, num_workers=options.workers)]

    @staticmethod
    def samples(batch):
        return [[part.x, part.edge_index, part.y] for part in batch.to_data_list()]


class _Encoded(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from transformers import BatchEncoding
        path = self.paths[index]
        return BatchEncoding({"pixel_values": TRAIN(Image.open(path).convert("RGB")),
                              "labels": data.label(path)})


Encodings = pipeline("Samples are a BatchEncoding of transformers.",
                     lambda options: loaders(options, _Encoded(data.paths(options.data))))
