# SPDX-License-Identifier: MIT
"""Arrays and pictures in files of many, opened before or by the first item."""

import io
import os
import random
import tarfile
import zipfile

import h5py
import lmdb
import numpy
import torch
from PIL import Image
from torch.utils.data import Dataset

import data
from . import pipeline
from .vision import loaders


def augment(picture):
    """Flips and noise, by Python's and NumPy's generators."""
    picture = picture.astype(numpy.float32) / 255
    if random.random() < .5:
        picture = picture[:, ::-1]
    picture = picture + numpy.random.normal(0, .05, picture.shape).astype(numpy.float32)
    return torch.from_numpy(numpy.ascontiguousarray(picture.transpose(2, 0, 1)))


def unpacked(file):
    """The picture in an open @file, as an array."""
    return numpy.array(Image.open(file).convert("RGB").resize((160, 160)))


class Lazily(Dataset):
    """Opens its file in the worker, as is recommended."""

    def __init__(self, root, name):
        self.path = os.path.join(root, name)
        self.file = None

    def __len__(self):
        return data.TRAIN

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.open()
        return augment(self.read(index)), index


class Hdf5Items(Lazily):
    """One file of chunks."""

    def open(self):
        return h5py.File(self.path, "r")

    def read(self, index):
        return self.file["x"][index]


class LmdbItems(Lazily):
    """A data base of encoded pictures."""

    def open(self):
        return lmdb.open(self.path, readonly=True, lock=False, readahead=False, meminit=False)

    def read(self, index):
        with self.file.begin(write=False) as transaction:
            return unpacked(io.BytesIO(transaction.get(b"%03d" % index)))


class ZipItems(Lazily):
    """An archive with an index."""

    def open(self):
        return zipfile.ZipFile(self.path)

    def read(self, index):
        with self.file.open("%03d.jpg" % index) as file:
            return unpacked(file)


class TarItems(Lazily):
    """An archive without one."""

    def open(self):
        return tarfile.open(self.path)

    def read(self, index):
        return unpacked(self.file.extractfile("%03d.jpg" % index))


class RawItems(Lazily):
    """One file of records of a fixed size."""

    def open(self):
        return open(self.path, "rb")

    def read(self, index):
        size = 160 * 160 * 3
        self.file.seek(128 + index * size)
        return numpy.frombuffer(self.file.read(size), dtype=numpy.uint8).reshape(160, 160, 3)


Hdf5 = pipeline("h5py, opened lazily.",
                lambda options: loaders(options, Hdf5Items(options.data, "pictures.h5")))
Lmdb = pipeline("lmdb, opened lazily.",
                lambda options: loaders(options, LmdbItems(options.data, "pictures.lmdb")))
Zip = pipeline("zipfile, opened lazily.",
               lambda options: loaders(options, ZipItems(options.data, "pictures.zip")))
Tar = pipeline("tarfile, opened lazily.",
               lambda options: loaders(options, TarItems(options.data, "pictures.tar")))
Raw = pipeline("An open file, and positions in it.",
               lambda options: loaders(options, RawItems(options.data, "pictures.npy")))


class Opened(Dataset):
    """An archive that was opened before the workers were made."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path)
        self.names = sorted(self.archive.namelist())

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return augment(unpacked(io.BytesIO(self.archive.read(self.names[index])))), index


ZipOpened = pipeline("With one worker that works.",
    lambda options: loaders(options, Opened(os.path.join(options.data, "pictures.zip"))))


class Mapped(Dataset):
    """numpy.load(mmap_mode="r")."""

    def __init__(self, path):
        self.pictures = numpy.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return augment(numpy.array(self.pictures[index])), index


MemoryMap = pipeline("A mapped array.",
    lambda options: loaders(options, Mapped(os.path.join(options.data, "pictures.npy"))))


class Packed(Dataset):
    """A compressed file for each item."""

    def __init__(self, root):
        self.files = sorted(os.path.join(root, "npz", name)
                            for name in os.listdir(os.path.join(root, "npz")))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = numpy.load(self.files[index])
        return augment(file["x"]), int(file["y"])


Npz = pipeline("numpy.load() of an archive.",
               lambda options: loaders(options, Packed(options.data)))
