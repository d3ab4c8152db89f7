# SPDX-License-Identifier: MIT
"""
Attacks on default mode by what stands around the code: patched libraries, classes that say less
than they do, memory that others write to, registries of the interpreter.
"""

import abc
import collections
import contextlib
import copy
import copyreg
import functools
import json
import random
import sys
import tempfile
import time
import types
import typing
import warnings

import numpy as np
import torch
import torchvision.transforms.functional as TF
from torch.utils.data import Dataset
from torchvision import transforms as T

from exact_attacks import BUFFER, COUNTS, EVENTS, RANDOM, During, bad, during, patched, refused
from exact_zoo import Items

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


HIDDEN = Hidden(1)
refused("hidden_attributes", lambda index: HIDDEN.value + index)


# ---- registries ----

class Kind(abc.ABC):
    pass


class Member(Kind):
    pass


class Hooked(collections.abc.Sized):
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


@bad
def error_of_arithmetic():
    before = {}
    return During(lambda: Items(lambda index: np.ones(1) / index),
                  lambda: before.update(np.seterr(all="call"), call=np.seterrcall(counted)),
                  lambda: (np.seterrcall(before.pop("call")), np.seterr(**before)))


# ---- memory that somebody else may write to ----

FILE = tempfile.NamedTemporaryFile()
FILE.write(bytes(64))
FILE.flush()


@bad
def view_of_a_mapped_file():
    mapped = np.memmap(FILE.name, np.uint8, "r")
    return Items(lambda index: index, data=np.asarray(mapped))


@bad
def private_view_of_a_mapped_file():
    mapped = np.memmap(FILE.name, np.uint8, "c")
    return Items(lambda index: index, data=np.asarray(mapped))


refused("tensor_of_a_mapped_file", lambda index: index,
        data=torch.from_numpy(np.memmap(FILE.name, np.uint8, "c")))


WHOLE = np.arange(9)
PART = WHOLE[2:5]
NAMED = torch.zeros(2)
NAMED.grad = torch.ones(2)
refused("whole_of_a_part", lambda index: PART.base[0])


if hasattr(torch.Tensor, "has_names"):
    @bad
    def names_of_a_tensor():
        return Items(lambda index: index, data=torch.zeros(2, names=("one",)))


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
