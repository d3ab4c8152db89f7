# SPDX-License-Identifier: MIT
"""More attacks on default mode's check of code, found by who had not written it."""

import collections
import io
import json
import os
import pathlib
import sys

import numpy as np
import PIL.Image
import torch
from torchvision import transforms as T

from exact_attacks import BUFFER, COUNTS, EVENTS, Patched
from exact_zoo import Items

BAD = {}
TENSOR = torch.zeros(4)
STRINGS = {"red": 1, "green": 2, "blue": 3}
NUMBERS = np.arange(3)


def refused(name, make, **attributes):
    """A data set that must be refused: an item is what @make gives."""
    BAD[name] = lambda: Items(make, **attributes)


def touched(self, *rest):
    EVENTS.append(1)
    return []


class Named:
    """An object with effects behind a name that only functions of libraries ask for."""

    def __init__(self, name):
        self.name = name

    def __call__(self, make):
        def data():
            kind = type("Named", (), {self.name: touched, "__module__": __name__})
            return Items(make, held=kind())
        return data


# ---- what libraries keep is in no key ----

refused("module_list", lambda index: open(os.path.join(sys.path[0], "labels")).read())
refused("module_dict", lambda index: json.__spec__)
refused("working_directory", lambda index: str(pathlib.Path("x").absolute()))
refused("fetched", lambda index: np.loadtxt("http://localhost/x"))

# ---- orders that are nobody's ----

refused("objects_in_a_set", lambda index: [len(str(one)) for one in set([index, None])],
        one=Items(None), other=Items(None))

# ---- changes in place ----

BAD["asked_for_keys"] = lambda: Named("keys")(lambda index: dict(HELD))()
HELD = type("Held", (), {"keys": touched, "__module__": __name__})()
MEAN = type("Mean", (), {"mean": touched, "__module__": __name__})()
DATA = type("Data", (), {"getdata": touched, "__module__": __name__})()
READ = type("Read", (), {"read": touched, "__module__": __name__})()
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


class Taught:
    """A data set that is judged while Pillow knows a format of the program's own."""

    def judged(self, judge):
        PIL.Image.register_open("MINE", MyFile)
        try:
            return judge(Items(lambda index: PIL.Image.open(io.BytesIO(b"x"))))
        finally:
            del PIL.Image.OPEN["MINE"]
            PIL.Image.ID.remove("MINE")


BAD["format_of_pillow"] = Taught
BAD["method_of_tensors"] = lambda: Patched(
    torch.Tensor, "mean", lambda self: EVENTS.append(1),
    lambda: T.Lambda(lambda x: x.mean()))
