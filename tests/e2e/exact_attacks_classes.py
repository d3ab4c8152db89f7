# SPDX-License-Identifier: MIT
"""Attacks on default mode's check of code by classes: methods that run when none is called."""

import collections
import functools
import random
import time
import types

import torch
import torchvision
from torchvision import transforms as T

from exact_attacks import BAD, COUNTS, EVENTS, bad, during, refused, refused_kind
from exact_zoo import Items

NAMESPACE = types.SimpleNamespace(copy=lambda: COUNTS)
SIZES, SCALES, TABLES = [], [], []


@bad
def cached():
    @functools.lru_cache(maxsize=None)
    def value(index):
        return random.random()
    return Items(value)


@refused_kind(None)
class cached_property(Items):
    @functools.cached_property
    def offset(self):
        return random.random()

    def __getitem__(self, index):
        return self.offset + index


@refused_kind(None, calls=0)
class counter(Items):
    def __getitem__(self, index):
        self.calls = self.calls + 1
        return self.calls


@refused_kind(None, cache={})
class caching(Items):
    def __getitem__(self, index):
        self.cache[index] = index
        return self.cache.setdefault(index, 1)


refused("missing_key", lambda index: index, table=collections.defaultdict(list))


@refused_kind(None)
class property_with_effects(Items):
    @property
    def size(self):
        EVENTS.append(1)
        return 3

    def __getitem__(self, index):
        return self.size


@bad
def property_met_by_another():
    class Size:
        @property
        def width(self):
            return time.time()
    return Items(lambda index: SIZES[0].width, held=SIZES.append(Size()))


@refused_kind(lambda index: index)
class attributes_by_name(Items):
    def __getattr__(self, name):
        return time.time()


@refused_kind(lambda index: index)
class attributes_of_all(Items):
    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@refused_kind(lambda index: index)
class hides_state(Items):
    def __getstate__(self):
        return {}


@refused_kind(lambda index: index)
class deleted(Items):
    def __del__(self):
        EVENTS.append(1)


@bad
def metaclass():
    class Meta(type):
        def __getattr__(cls, name):
            return time.time()

    class Data(Items, metaclass=Meta):
        pass
    return Data(lambda index: index)


def special(name, value):
    """A data set that holds an object whose special method @name has an effect."""
    def make():
        kind = type("Special", (), {name: value, "__module__": __name__})
        return Items(lambda index: index, held=kind())
    BAD["special" + name.strip("_")] = make


for NAME in ("__len__", "__getitem__", "__iter__", "__eq__", "__bool__", "__contains__", "__add__",
             "__rmul__", "__format__", "__str__", "__call__", "__enter__", "__array__", "__index__",
             "__fspath__", "__hash__", "__lt__", "__get__", "__torch_function__"):
    special(NAME, lambda self, *rest: EVENTS.append(1) or 1)
special("__call__", time.time)


@bad
def what_an_operator_gives():
    class Scale:
        def __add__(self, other):
            return COUNTS

    def make(index):
        values = SCALES[0] + 1
        values += [index]
        return values
    SCALES.append(Scale())
    return Items(make)


@bad
def what_a_copy_gives():
    class Table:
        def copy(self):
            return COUNTS
    return Items(lambda index: TABLES[0].copy().append(index), held=TABLES.append(Table()))


refused("what_a_copy_of_an_instance_gives", lambda index: NAMESPACE.copy().append(index))


@bad
def string_of_its_own():
    class Text(str):
        def lower(self):
            return str(time.time())
    return Items(lambda index: index, name=Text("a"))


@bad
def list_of_its_own():
    class Numbers(list):
        pass
    return Items(lambda index: index, numbers=Numbers())


@bad
def method_on_the_instance():
    data = Items(lambda index: index)
    data.helper = lambda: time.time()
    return data


@bad
def patched_class():
    class Data(Items):
        pass
    Data.__getitem__ = lambda self, index: time.time()
    return Data(None)


@bad
def pretends_to_be_a_library():
    kind = type("ImageFolder", (), {"__module__": "torchvision.datasets.folder",
                                    "__getitem__": lambda self, index: time.time()})
    return kind()


@bad
def module_with_state():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            return self.double().mean
    return Items(Layer())


@bad
def library_method():
    class Data(torchvision.datasets.VisionDataset):
        def __init__(self):
            self.transform = None

        def __getitem__(self, index):
            return self.__class__
    return Data()


@bad
def inherited_by_a_library():
    class Flip(T.RandomHorizontalFlip):
        def forward(self, image):
            EVENTS.append(image)
            return image
    return Items(Flip())


@bad
def called_by_a_library():
    class Crop(T.RandomCrop):
        @staticmethod
        def get_params(image, output_size):
            EVENTS.append(1)
            return 0, 0, 1, 1
    return Items(Crop(3))


@bad
def property_by_format():
    class Size:
        @property
        def width(self):
            return time.time()
    return Items(lambda index: "{0[0].width}".format(SIZES), held=SIZES.append(Size()))


@bad
def classmethod_for_a_library():
    class Crop(T.RandomCrop):
        @classmethod
        def get_params(cls, image, output_size):
            return 0, 0, 1, 1
    return Items(Crop(3))


@bad
def loader_by_the_class():
    class Data(torchvision.datasets.DatasetFolder):
        def __init__(self):
            self.samples, self.transform, self.target_transform = [("a", 0)], None, None

        def loader(self, path):
            return time.time()
    return Data()


@bad
def other_class():
    class Data(Items):
        def __getitem__(self, index):
            return time.time()
    data = Items(lambda index: index)
    data.__class__ = Data
    return data


@bad
def hook_of_a_module():
    step = T.Resize(3)
    step.register_forward_hook(lambda module, inputs, output: EVENTS.append(1))
    return Items(step)


@bad
def super_of_another():
    class Base(Items):
        def size(self):
            EVENTS.append(1)

    class Data(Base):
        def size(self):
            return 1

        def __getitem__(self, index):
            return super().size()
    return Data(None)


@bad
def method_called_with_another():
    class Data(Items):
        def go(self):
            return self.call()

        def call(self):
            return 1

        def __getitem__(self, index):
            return Data.go(SIZES[0])
    SIZES.append(types.SimpleNamespace(call=time.time))
    return Data(None)


try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.16
    pass
else:
    KERNELS = v2.functional._utils._KERNEL_REGISTRY[v2.functional.resize]
    during("registered_kernel", lambda: Items(v2.Resize(3)),
           lambda: KERNELS.update({Items: lambda image: time.time()}), lambda: KERNELS.pop(Items))
    during("other_return_type", lambda: Items(v2.Resize(3)),
           lambda: tv_tensors.set_return_type("TVTensor"),
           lambda: tv_tensors.set_return_type("Tensor"))
