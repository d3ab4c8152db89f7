# SPDX-License-Identifier: MIT
"""More attacks on default mode's check of code, found by who had not written it."""

import collections
import io
import json
import os
import pathlib
import sys
import sysconfig

import numpy as np
import PIL.Image
import torch
import torchvision
from torchvision import datasets
from torchvision import transforms as T

from exact_attacks import BUFFER, COUNTS, EVENTS, during, patched, refused
from exact_zoo import Items

TENSOR = torch.zeros(4)
STRINGS = {"red": 1, "green": 2, "blue": 3}
NUMBERS = np.arange(3)


def touched(self, *rest):
    EVENTS.append(1)
    return []


def named(name):
    """An object with effects behind a name that only functions of libraries ask for."""
    return type("Named", (), {name: touched, "__module__": __name__})()


# ---- what libraries keep is in no key ----

refused("module_list", lambda index: open(os.path.join(sys.path[0], "labels")).read())
refused("module_dict", lambda index: json.__spec__)
refused("working_directory", lambda index: str(pathlib.Path("x").absolute()))
refused("fetched", lambda index: np.loadtxt("http://localhost/x"))

# ---- orders that are nobody's ----

refused("objects_in_a_set", lambda index: [len(str(one)) for one in set([index, None])],
        one=Items(None), other=Items(None))

# ---- changes in place ----

MEAN, DATA, READ = map(named, ("mean", "getdata", "read"))
refused("asked_for_keys", lambda index: dict(HELD), held=named("keys"))
refused("asked_for_mean", lambda index: np.mean(MEAN))
refused("asked_for_getdata", lambda index: PIL.Image.new("L", (2, 2)).transform((1, 1), DATA))
refused("asked_for_read", lambda index: json.load(READ))
refused("second_argument", lambda index: np.array([1, 2, 3]).conj(BUFFER))
refused("fifth_argument", lambda index: torch.norm(torch.ones(4), 2, 0, False, TENSOR))
refused("hook_of_json", lambda index: json.loads("{}", object_hook=lambda _: COUNTS).append(1))


class Store:
    def open(self):
        return COUNTS


def opened(index):
    file = STORE.open()
    file.append(index)


STORE = Store()
refused("opened_by_the_user", opened)
Pair = collections.namedtuple("Pair", "copy other")
PAIR = Pair(lambda: COUNTS, 1)


def copied(index):
    values = PAIR.copy()
    values += [index]


refused("field_called_copy", copied)


class Wrapped:
    def __init__(self):
        self.data = NUMBERS

    def __array__(self, dtype=None, copy=None):
        return self.data


class Universal:
    def __array_ufunc__(self, *rest, **more):
        return COUNTS


WRAPPED, UNIVERSAL = Wrapped(), Universal()


def in_place_of_an_array(index):
    values = np.array(WRAPPED)
    values += 1
    return values


def in_place_of_a_sum(index):
    values = np.ones(2) + UNIVERSAL
    values += 1
    return values


refused("array_of_the_users", in_place_of_an_array)
refused("ufunc_of_the_users", in_place_of_a_sum)


# ---- libraries that were changed ----

class MyFile(PIL.Image.Image):
    pass


during("format_of_pillow", lambda: Items(lambda index: PIL.Image.open(io.BytesIO(b"x"))),
       lambda: PIL.Image.register_open("MINE", MyFile),
       lambda: (PIL.Image.OPEN.pop("MINE"), PIL.Image.ID.remove("MINE")))
patched("method_of_tensors", torch.Tensor, "mean", lambda self: EVENTS.append(1),
        lambda: T.Lambda(lambda x: x.mean()))


def of_a_package(text, name):
    """The function @name of an installed package with this source @text."""
    path = os.path.join(sysconfig.get_paths()["purelib"], "exact_attacks_package", "__init__.py")
    names = {"__name__": "exact_attacks_package", "EVENTS": EVENTS}
    exec(compile(text, path, "exec"), names)
    return names[name]


patched("method_of_a_package", torch.Tensor, "mean",
        of_a_package("def mean(self): return EVENTS.append(1)", "mean"),
        lambda: T.Lambda(lambda x: x.mean()))
patched("property_of_a_package", torch.Tensor, "T",
        property(of_a_package("def get(self): return EVENTS.append(1)", "get")),
        lambda: T.Lambda(lambda x: x.T))


during("kernel_of_torchvision", lambda: Items(lambda index: torchvision.io.read_image("x")),
       lambda: torch.library._impls.add("image/decode_image/CPU"),
       lambda: torch.library._impls.discard("image/decode_image/CPU"))


# ---- what is not new although it looks so ----

HELD = {"n": 0}


def changes_what_was_tiled(index):
    tiled = np.tile(TENSOR, 1)
    tiled += index
    return tiled


def changes_what_was_listed(index):
    listed = np.array(HELD).tolist()
    listed["n"] = index
    return listed


class Rounded:
    """NumPy asks objects for methods that are called like its functions."""

    def rint(self):
        return EVENTS.append(1)


refused("tile_that_is_a_view", changes_what_was_tiled)
refused("list_that_is_a_dictionary", changes_what_was_listed)
refused("method_called_like_a_function", lambda index: np.rint(np.array([ROUNDED])))
ROUNDED = Rounded()


# ---- what items of a library's data set share with it ----

def _with_targets(root, make):
    found = datasets.ImageFolder(root, T.ToTensor())
    found.samples = [(path, make(number)) for path, number in found.samples]
    return found


# {name: function(folder of pictures)}: collate functions can change these data sets.
EXPOSED = {"lists": lambda root: _with_targets(root, lambda number: [number]),
           "tensors": lambda root: _with_targets(root, torch.tensor),
           "arrays": lambda root: _with_targets(root, np.arange)}
HIDDEN = {"numbers": lambda root: _with_targets(root, lambda number: number),
          "tuples": lambda root: _with_targets(root, lambda number: (number, "name"))}
