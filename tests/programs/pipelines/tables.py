# SPDX-License-Identifier: MIT
"""Data sets that hold tables: pandas, Arrow, Polars, arrays of strings."""

import os

import numpy
import pandas
import polars
import pyarrow.csv
from PIL import Image
from torch.utils.data import Dataset

from . import pipeline
from .vision import TRAIN, VALIDATE, loaders


def frame(options):
    """The table of pictures."""
    return pandas.read_csv(os.path.join(options.data, "train.csv"))


class Rows(Dataset):
    """A picture by a row of a data frame."""

    def __init__(self, table, transform):
        self.table = table.reset_index(drop=True)
        self.transform = transform

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        picture = Image.open(self.table.loc[index, "file"]).convert("RGB")
        return self.transform(picture), self.table.loc[index, "label"]


class DataFrame:
    """A frame is held, split by folds."""

    def make(self, options):
        table = frame(options)
        return loaders(options, Rows(table[table.fold != 0], TRAIN),
                       Rows(table[table.fold == 0], VALIDATE))


class Columns(Dataset):
    """Two columns, in whatever they come."""

    def __init__(self, files, labels):
        self.files, self.labels = files, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        picture = Image.open(str(self.files[index])).convert("RGB")
        return TRAIN(picture), int(self.labels[index])


class SeriesHeld:
    """Series."""

    def make(self, options):
        table = frame(options)
        return loaders(options, Columns(table["file"], table["label"]))


class Values:
    """df["file"].values, which is an Arrow array or one of objects."""

    def make(self, options):
        table = frame(options)
        return loaders(options, Columns(table["file"].values, table["label"].values))


class Objects:
    """An array of Python's strings."""

    def make(self, options):
        table = frame(options)
        files = numpy.array(list(table["file"]), dtype=object)
        return loaders(options, Columns(files, numpy.array(table["label"])))


class Arrow:
    """Columns of an Arrow table."""

    def make(self, options):
        table = pyarrow.csv.read_csv(os.path.join(options.data, "train.csv"))
        return loaders(options, Columns(table["file"], table["label"].to_numpy()))


class PolarsRows(Dataset):
    """A row of a Polars frame."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return self.table.height

    def __getitem__(self, index):
        row = self.table.row(index, named=True)
        return TRAIN(Image.open(row["file"]).convert("RGB")), row["label"]


Polars = pipeline("A Polars frame is held.",
                  lambda options: loaders(options, PolarsRows(polars.read_csv(os.path.join(options.data,
                  "train.csv")))))


class Configured(Rows):
    """Asks a configuration for what to do."""

    def __init__(self, table, config):
        super().__init__(table, None)
        self.config = config

    def __getitem__(self, index):
        picture = Image.open(self.table.loc[index, "file"]).convert("RGB")
        size = self.config.data.size
        return TRAIN(picture.resize((size, size))), self.table.loc[index, self.config.data.target]


class OmegaConf:
    """A configuration of OmegaConf's, as Hydra's programs hold one, with an interpolation."""

    def make(self, options):
        import omegaconf
        config = omegaconf.OmegaConf.create(
            {"size": 160, "data": {"size": "${size}", "target": "label"}, "paths": ["a", "b"]})
        return loaders(options, Configured(frame(options), config))
