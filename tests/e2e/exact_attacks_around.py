# SPDX-License-Identifier: MIT
"""
Attacks on default mode by what stands around the code: patched libraries, classes that say less than
they do, memory that others write to, registries of the interpreter, and what libraries ask while they
work: codecs, tables, other objects.
"""

import abc
import codecs
import collections
import contextlib
import copy
import copyreg
import functools
import io
import json
import operator
import os
import pathlib
import random
import sys
import sysconfig
import tempfile
import time
import types
import typing
import warnings
from unittest import mock

import numpy as np
import PIL.Image
import PIL.JpegImagePlugin
import torch
import torchvision
import torchvision.transforms.functional as TF
from torch.utils.data import Dataset
from torchvision import datasets
from torchvision import transforms as T

from exact_attacks import (BUFFER, COUNTS, EVENTS, NORMALIZE, PATH, RANDOM, During, bad, during, patched, refused,
                           refused_item)
from exact_zoo import Items

try:
    import cv2
except ImportError:
    cv2 = None
try:
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.15
    v2 = None

HELD = []


def tracing(*_rest):
    """Called in the middle of items."""
    EVENTS.append(1)


during("profiler_of_the_users", lambda: Items(lambda index: np.ones(3)),
       lambda: sys.setprofile(tracing), lambda: sys.setprofile(None))


def counted(*rest, **more):
    """Not the same twice."""
    EVENTS.append(1)
    return len(EVENTS)


# ---- libraries that were changed ----

def hflip(image):
    EVENTS.append(1)
    return image


def rand(*rest, **more):
    EVENTS.append(1)
    return torch.ones(1) * len(EVENTS)


FLIP, CHOICE = T.RandomHorizontalFlip(), T.RandomChoice([T.RandomCrop(3), T.Resize(3)])
MODULE = types.ModuleType("faster")
vars(MODULE).update(vars(TF))
MODULE.hflip = hflip
TRANSFORMS = sys.modules["torchvision.transforms.transforms"]

patched("decorated_by_torch", TF, "hflip", torch.no_grad()(hflip), FLIP)
patched("decorated_by_torch_and_called", TF, "hflip", torch.no_grad()(hflip),
        lambda index: TF.hflip(index))
patched("decorated_twice", TF, "hflip", torch.no_grad()(contextlib.contextmanager(hflip)), FLIP)
patched("cached_by_the_library", TF, "hflip", functools.lru_cache(maxsize=None)(hflip), FLIP)
patched("argument_of_a_partial", TF, "hflip", functools.partial(functools.reduce, hflip), FLIP)
patched("method_of_a_list", TF, "hflip", EVENTS.append, FLIP)
patched("vectorized", TF, "hflip", np.vectorize(hflip), FLIP)
patched("another_module", TRANSFORMS, "F", MODULE, FLIP)
patched("choices_of_another", random, "choices", RANDOM.choices, CHOICE)
patched("generator_of_another", random, "_inst", RANDOM, CHOICE)
patched("random_of_torch", torch, "rand", rand, FLIP)
patched("generator_of_torch", torch, "default_generator", torch.Generator(), FLIP)
patched("state_of_numpy", np.random, "get_state", np.random.RandomState(3).get_state,
        lambda index: np.random.rand())
patched("decoder_of_json", json, "_default_decoder", json.JSONDecoder(object_hook=hflip),
        lambda index: json.loads("{}"))
patched("decorated_method", T.RandomHorizontalFlip, "forward",
        torch.no_grad()(lambda self, image: hflip(image)), FLIP)
patched("property_of_a_partial", T.RandomHorizontalFlip, "p", property(functools.partial(counted)),
        FLIP)
patched("cached_property_of_a_library", T.RandomHorizontalFlip, "p",
        functools.cached_property(counted), FLIP)
patched("method_for_one_type", T.RandomHorizontalFlip, "forward", functools.partialmethod(counted),
        FLIP)

# ---- named tuples ----


class Record(typing.NamedTuple):
    """With a method that is not harmless."""

    value: int

    def area(self):
        EVENTS.append(1)
        return self.value

    def __add__(self, other):
        return COUNTS


Plain = collections.namedtuple("Plain", "value")
Defaults = collections.namedtuple("Defaults", "value helper", defaults=[time.time])


refused("method_of_a_named_tuple", lambda index: HELD[0].area(), held=HELD.append(Record(1)))
refused("sum_of_a_named_tuple", lambda index: index, held=Record(1))


@bad
def method_given_later():
    later = collections.namedtuple("Later", "value")
    later.go = counted
    return Items(lambda index: RECORDS[0].go(), held=RECORDS.append(later(1)))


RECORDS = []


refused("default_of_a_named_tuple", lambda index: Defaults(index).helper())


# ---- attributes that stand for methods ----

def instance(**attributes):
    """An object of a class without anything, with these @attributes."""
    made = type("Bare", (), {"__module__": __name__})()
    vars(made).update(attributes)
    return made


COPIED = instance(__deepcopy__=lambda memo: COUNTS)
REDUCED = instance(__reduce_ex__=lambda version: "COUNTS")
ARRAY = instance(__array__=lambda *rest: BUFFER)
CLIPPED = instance(clip=lambda *rest, **more: BUFFER)


class Repeats:
    def repeat(self, *rest, **more):
        return BUFFER


REPEATED = Repeats()


refused("copied_by_the_instance", lambda index: copy.deepcopy(COPIED).append(index))
refused("reduced_by_the_instance", lambda index: copy.deepcopy(REDUCED).append(index))
refused("array_of_the_instance", lambda index: np.array(ARRAY).fill(index))
refused("clipped_by_the_instance", lambda index: np.clip(CLIPPED, 0, 1).fill(index))
refused("repeated_by_the_class", lambda index: np.repeat(REPEATED, 2).fill(index))
during("copied_by_a_registry", lambda: Items(lambda index: copy.deepcopy(REPEATED)),
       lambda: copyreg.pickle(Repeats, counted), lambda: copyreg.dispatch_table.pop(Repeats))


class Step(torch.nn.Module):
    def forward(self):
        return COUNTS


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("copy", Step())


STEPS = Steps()


refused("part_that_is_called_copy", lambda index: STEPS.copy().append(index))


class Hidden:
    """Its attributes are seen by nobody who asks for them."""

    __dict__ = property(lambda self: {})

    def __init__(self, value):
        self.value = value


COVERED = Hidden(1)
refused("hidden_attributes", lambda index: COVERED.value + index)


# ---- registries ----

class Kind(abc.ABC):
    pass


class Member(Kind):
    pass


@bad
def registered_for_a_class():
    kind = abc.ABCMeta("Registered", (), {"__module__": __name__})
    kind.register(Member)
    return Items(lambda index: isinstance(index, kind))


@bad
def registered_for_a_library():
    kind = abc.ABCMeta("Below", (collections.abc.Hashable,), {
        "__module__": __name__, "__subclasshook__": classmethod(counted), "__hash__": None})
    HELD.append(kind)
    names = types.SimpleNamespace(Hashable=collections.abc.Hashable)
    hashable = names.Hashable
    return During(lambda: Items(lambda index: isinstance(index, hashable)), lambda: None,
                  lambda: HELD.remove(kind))


if hasattr(Dataset, "register_function"):
    @bad
    def registered_for_data_sets():
        class Data(Items):
            def __getitem__(self, index):
                return self.extra()
        return During(lambda: Data(None), lambda: Dataset.register_function("extra", counted),
                      lambda: Dataset.functions.pop("extra"))


try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:
    TorchDispatchMode = None

if TorchDispatchMode is not None and "__enter__" in vars(TorchDispatchMode):
    class Noise(TorchDispatchMode):
        def __torch_dispatch__(self, function, kinds, arguments=(), keywords=None):
            EVENTS.append(1)
            return function(*arguments, **(keywords or {}))

    @bad
    def mode_of_dispatch():
        mode = Noise()
        return During(lambda: Items(lambda index: torch.ones(3)), mode.__enter__,
                      lambda: mode.__exit__(None, None, None))


@bad
def operator_of_the_users():
    held = []  # it is an operator for as long as the library lives

    def replace():
        held.append(torch.library.Library("aten", "IMPL"))
        held[0].impl("flip", lambda tensor, dims: tensor, "CPU")
    return During(lambda: Items(lambda index: torch.flip(index, (0,))), replace, held.clear)


patched("warning_shown_by_the_user", warnings, "showwarning", counted, lambda index: index)


BEFORE = {}
during("error_of_arithmetic", lambda: Items(lambda index: np.ones(1) / index),
       lambda: BEFORE.update(np.seterr(all="call"), call=np.seterrcall(counted)),
       lambda: (np.seterrcall(BEFORE.pop("call")), np.seterr(**BEFORE)))


# ---- memory that somebody else may write to ----

FILE = tempfile.NamedTemporaryFile()
FILE.write(bytes(64))
FILE.flush()


refused("view_of_a_mapped_file", lambda index: index, data=np.asarray(np.memmap(FILE.name, np.uint8, "r")))
refused("private_view_of_a_mapped_file", lambda index: index, data=np.asarray(np.memmap(FILE.name, np.uint8, "c")))
refused("tensor_of_a_mapped_file", lambda index: index,
        data=torch.from_numpy(np.memmap(FILE.name, np.uint8, "c")))


WHOLE = np.arange(9)
PART = WHOLE[2:5]
NAMED = torch.zeros(2)
NAMED.grad = torch.ones(2)
refused("whole_of_a_part", lambda index: PART.base[0])


if hasattr(torch.Tensor, "has_names"):
    refused("names_of_a_tensor", lambda index: index, data=torch.zeros(2, names=("one",)))


refused("gradient_of_a_tensor", lambda index: NAMED.grad + index)


# ---- what equal values may differ in ----

PAIR = [1e9, 1e9]


refused("same_object", lambda index: PAIR[0] is PAIR[1])


@bad
def arguments_in_a_closure():
    import sys
    return Items(lambda index: sys.argv[-1])


refused("arguments_by_name", lambda index: getattr(sys, "argv")[-1])
refused("set_in_two_orders", lambda index: index, one={0, 8}, two={8, 0})


# ---- what libraries ask while they work ----

TEMPLATE, MEMO = [1], {}
BLOB = np.arange(12, dtype=np.float32).tobytes()
NAMES = {name: value for name, value in vars(TF).items() if name[:2] != "__"}
Pair = collections.namedtuple("Pair", "one other")
Pair._make = classmethod(counted)
TWO = Pair(1, 2)


def read(index):
    return open(os.devnull, encoding="utf-8").read()


def custom(error):
    EVENTS.append(1)
    return str(len(EVENTS)), error.end


def searched(name):
    EVENTS.append(1)


# ---- text ----

during("strict_that_ignores", lambda: Items(read),
       lambda: codecs.register_error("strict", codecs.ignore_errors),
       lambda: codecs.register_error("strict", codecs.strict_errors))
during("handler_of_codecs", lambda: Items(lambda index: b"a\xff".decode("ascii", "ignore")),
       lambda: codecs.register_error("ignore", custom),
       lambda: codecs.register_error("ignore", codecs.ignore_errors))
if hasattr(codecs, "unregister"):  # from Python 3.10 on
    during("codec_of_the_users", lambda: Items(lambda index: b"a".decode("mine")),
           lambda: codecs.register(searched), lambda: codecs.unregister(searched))

# ---- libraries that were changed ----

for NAME in ("read_bytes", "read_text", "open"):
    patched("path_that_does_" + NAME, pathlib.Path, NAME, counted,
            lambda index: PATH.read_bytes())
patched("open_of_io", io, "open", counted, lambda index: PATH.read_text())
patched("fspath", os, "fspath", counted, lambda index: os.path.join("a", "b"))
patched("method_of_a_decoder", json.JSONDecoder, "decode", counted,
        lambda index: json.loads("[1]"))
patched("format_that_is_loaded_later", PIL.Image.preinit() or PIL.Image.OPEN["GIF"][0], "load_end",
        counted, lambda index: np.asarray(PIL.Image.open("x")))
patched("mock", TF, "hflip", mock.MagicMock(side_effect=counted), FLIP)
patched("caller_of_a_method", TF, "hflip", operator.methodcaller("transpose", 0), FLIP)
patched("function_of_torchscript", TF, "hflip", torch.jit.script(torch.nn.Identity()), FLIP)
patched("namespace", TRANSFORMS, "F", types.SimpleNamespace(**{**NAMES, "hflip": counted}), FLIP)
patched("object_of_no_module", TF, "hflip", type(
    "Flip", (), {"__module__": "nowhere", "__call__": counted})(), FLIP)
patched("below_the_border_of_torch", torch._C._nn, "upsample_nearest2d", counted,
        lambda index: torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2))
during("marker_of_jpeg", lambda: Items(lambda index: np.asarray(PIL.Image.open("x"))),
       lambda: PIL.JpegImagePlugin.MARKER.update({0xFFE1: ("APP1", "", counted)}),
       lambda: PIL.JpegImagePlugin.MARKER.update(MARKER))
MARKER = dict(PIL.JpegImagePlugin.MARKER)


class Stats(Items):
    """Asks for what was given to a class of torch."""

    def size(self):
        return self.stats[0]


during("attribute_of_all_data_sets", lambda: Stats(Stats(None).size),
       lambda: setattr(torch.utils.data.Dataset, "stats", (np.zeros(2),)),
       lambda: delattr(torch.utils.data.Dataset, "stats"))
refused("maker_of_a_named_tuple", lambda index: TWO._make([1, 2]))

if v2 is not None:
    NODES = sys.modules["torch.utils._pytree"].SUPPORTED_NODES
    KIND = next(iter(NODES.values()))
    during("node_of_a_tree", lambda: Items(v2.Resize(3)),
           lambda: NODES.update({Stats: KIND._replace(flatten_fn=counted)}), lambda: NODES.pop(Stats))

# ---- changes in place, and memory that nobody wrote ----

refused("median_in_place", lambda index: np.median(BUFFER, overwrite_input=True))
refused("memo_of_a_copy", lambda index: copy.deepcopy(TEMPLATE, memo=MEMO).append(index))
refused("renamed_by_keyword", lambda index: PATH.replace(target="/tmp/x"))
refused("descriptor_by_keyword", lambda index: open(file=3).read())
refused("bytes_in_place", lambda index: NORMALIZE(torch.from_numpy(
    np.frombuffer(BLOB, np.float32).reshape(1, 3, 4))))
refused("empty_margins", lambda index: np.pad(np.ones(3), 2, mode="empty"))
refused("empty_by_place", lambda index: np.pad(np.ones(3), 2, "empty"))
refused("empty_by_default", lambda index, mode="empty": np.pad(np.ones(3), 2, mode))
refused("empty_of_a_list", lambda index: np.pad(np.ones(3), 2, ["empty"][0]))
refused("empty_made", lambda index: np.pad(np.ones(3), 2, mode="%s" % "empty"))
refused("empty_unpacked", lambda index: np.pad(*(np.ones(3), 2, "empty")))
refused("empty_by_keywords", lambda index: np.pad(np.ones(3), 2, **{"mode": "empty"}))
refused("empty_partial", functools.partial(np.pad, pad_width=2, mode="empty"))
refused("clip_elsewhere", lambda index: np.ones(3).clip(0, 1, where=np.zeros(3, bool)))
refused("flags_of_a_part", lambda index: PART.flags["OWNDATA"])
if cv2 is not None:
    PARTS = [np.zeros((4, 4), np.uint8) for _ in range(3)]
    refused("parts_by_keyword", lambda index: cv2.split(np.ones((4, 4, 3), np.uint8), mv=PARTS))
    refused("read_into", lambda index: cv2.imread("x", BUFFER))
    refused("empty_border", lambda index: cv2.warpAffine(
        np.ones((9, 9)), np.eye(3)[:2], (9, 9), borderMode=cv2.BORDER_TRANSPARENT))
    refused("empty_border_with_a_flag", lambda index: cv2.warpAffine(
        np.ones((9, 9)), np.eye(3)[:2], (9, 9), borderMode=21))

# ---- orders that are nobody's ----

refused("tensors_in_a_set", lambda index: [x.item() for x in set(torch.arange(5))])
refused("nothing_in_a_set", lambda index: [str(x) for x in {None, index, "a"}])
refused("comprehension_of_a_set", lambda index: [str(x) for x in {y for y in COUNTS}])


# ---- found by who had not written the check ----

FOUR = torch.zeros(4)
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
refused("asked_for_keys", lambda index: dict(TALLY), held=named("keys"))
refused("asked_for_mean", lambda index: np.mean(MEAN))
refused("asked_for_getdata", lambda index: PIL.Image.new("L", (2, 2)).transform((1, 1), DATA))
refused("asked_for_read", lambda index: json.load(READ))
refused("second_argument", lambda index: np.array([1, 2, 3]).conj(BUFFER))
refused("fifth_argument", lambda index: torch.norm(torch.ones(4), 2, 0, False, FOUR))
refused("hook_of_json", lambda index: json.loads("{}", object_hook=lambda _: COUNTS).append(1))


class Store:
    def open(self):
        return COUNTS


@refused_item
def opened_by_the_user(index):
    file = STORE.open()
    file.append(index)


STORE = Store()
Copies = collections.namedtuple("Copies", "copy other")
COPIES = Copies(lambda: COUNTS, 1)


@refused_item
def field_called_copy(index):
    values = COPIES.copy()
    values += [index]


class Wrapped:
    def __init__(self):
        self.data = NUMBERS

    def __array__(self, dtype=None, copy=None):
        return self.data


class Universal:
    def __array_ufunc__(self, *rest, **more):
        return COUNTS


WRAPPED, UNIVERSAL = Wrapped(), Universal()


@refused_item
def array_of_the_users(index):
    values = np.array(WRAPPED)
    values += 1
    return values


@refused_item
def ufunc_of_the_users(index):
    values = np.ones(2) + UNIVERSAL
    values += 1
    return values


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

TALLY = {"n": 0}


@refused_item
def tile_that_is_a_view(index):
    tiled = np.tile(FOUR, 1)
    tiled += index
    return tiled


@refused_item
def list_that_is_a_dictionary(index):
    listed = np.array(TALLY).tolist()
    listed["n"] = index
    return listed


class Rounded:
    """NumPy asks objects for methods that are called like its functions."""

    def rint(self):
        return EVENTS.append(1)


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
