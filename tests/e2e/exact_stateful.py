# SPDX-License-Identifier: MIT
"""
Data sets whose items are no function of data set, index and generators, or not for long.

Jobs of exact.py iterate them with and without the library, and must get the same.  Those of
REFUSED may not be shared at all.  Those of CHANGED are harmless, until the program changes what
they are made of, between two epochs and in the middle of one.
"""

import os
import random
import tempfile
import time
import types

import numpy
import torch
from torch.utils.data import Dataset

try:
    import cv2
except ImportError:
    cv2 = None
try:
    import h5py
except ImportError:
    h5py = None

REFUSED, CHANGED = {}, {}
GLOBAL = 2
TABLE = [1, 2]


class Own(Dataset):
    """Its subclasses say what an item is."""

    limit = 3

    def __init__(self):
        self.calls = 0
        self.cache = {}
        self.seen = []
        self.step = 1
        if type(self).__name__ == "shared_tensor":
            self.shared = torch.zeros(1).share_memory_()

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.full((3, 32, 32), float(self.value(index))), index


def refused(function):
    """Decorator: items of this @function(self, index) depend on more than is known."""
    REFUSED[function.__name__] = type(function.__name__, (Own,), {
        "value": function, "__module__": __name__})
    return function


def changed(change):
    """Decorator: items of this function do until the program calls @change(data)."""
    def register(function):
        CHANGED[function.__name__] = type(function.__name__, (Own,), {
            "value": function, "__module__": __name__}), change
        return function
    return register


# ---- refused: one for each place of a state; exact_attacks.py has all ways to have one ----

@refused
def counter(self, index):
    self.calls += 1
    return self.calls


@refused
def caching(self, index):
    return self.cache.setdefault(index, random.random())


@refused
def shared_tensor(self, index):
    return float(self.shared[0]) + index


@refused
def drawn_by_opencv(self, index):
    noise = numpy.zeros((4, 4), numpy.uint8)
    cv2.randu(noise, 0, 1)
    return int(noise.max()) + index


@refused
def read_from_hdf5(self, index):
    if not self.cache:
        self.cache["file"] = h5py.File(os.path.join(FILES.name, "numbers.h5"), "r")
    return self.cache["file"]["numbers"][index] + self.cache["file"]["numbers"][0]


# Debian's Python has both; the other one, with PyPI's torch, need not.
if cv2 is None:
    del REFUSED["drawn_by_opencv"]
if h5py is None:
    del REFUSED["read_from_hdf5"]
else:
    FILES = tempfile.TemporaryDirectory()
    with h5py.File(os.path.join(FILES.name, "numbers.h5"), "w") as numbers:
        numbers["numbers"] = numpy.arange(16.0)


# ---- changed by the program ----

def set_global(data):
    """Anybody may."""
    global GLOBAL
    GLOBAL += 3


@changed(set_global)
def module_global(self, index):
    return GLOBAL + index


@changed(lambda data: setattr(type(data), "limit", type(data).limit + 1))
def class_attribute(self, index):
    return self.limit + index


@changed(lambda data: setattr(data, "step", data.step + 1))
def attribute(self, index):
    return self.step * index


@changed(lambda data: TABLE.append(7))
def global_list(self, index):
    return sum(TABLE) + index


@changed(lambda data: defaults.__defaults__[0].append(5))
def defaults(self, index, table=[1]):
    return sum(table) + index


@changed(lambda data: setattr(type(data), "value", lambda self, index: random.random()))
def replaced(self, index):
    return index


@changed(lambda data: setattr(own_code, "__code__", (
    lambda self, index: time.thread_time() * 0 + index * 5).__code__))
def own_code(self, index):
    return index


@changed(lambda data: setattr(data, "helper", lambda index: index + random.random() + len(
    data.seen) + [data.seen.append(1)].count(1)))
def method_of_the_instance(self, index):
    return self.helper(index)


@changed(lambda data: setattr(data, "__class__", REFUSED["counter"]))
def other_class(self, index):
    return index


def scaled(factor):
    """A closure."""
    def value(self, index):
        return index * factor
    value.__name__ = "closure"
    return value


@changed(lambda data: setattr(CLOSURE.__closure__[0], "cell_contents", 11))
def closure(self, index):
    return CLOSURE(self, index)


CLOSURE = scaled(2)
CHANGED["method_of_the_instance"][0].helper = lambda self, index: index
NAMES = types.SimpleNamespace(scale=1)


@changed(lambda data: setattr(NAMES, "scale", NAMES.scale * 3))
def namespace(self, index):
    return index * NAMES.scale


@changed(lambda data: data.cache.update({3: 1.5}))
def table(self, index):
    return self.cache.get(index, 0) + index


def cases(kind):
    """(name, how to make the data set, what the program does to it when) of this @kind."""
    if kind == "refused":
        return [(name, made, None) for name, made in REFUSED.items()]

    def now_and_then(change):
        def after(data, epoch, number):
            if (epoch, number) in ((1, -1), (1, 1)):
                change(data)
        return after
    return [(name, made, now_and_then(change)) for name, (made, change) in CHANGED.items()]
