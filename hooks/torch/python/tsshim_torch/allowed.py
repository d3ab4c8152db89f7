# SPDX-License-Identifier: MIT
"""
Data sets whose items are a function of the data set, its files and known generators alone.

Sharing whole samples by default needs more than an equal fingerprint: an item may ask a clock,
keep a counter, or have a generator of its own.  So every object that takes part must be of a
class in the table below, as its library made it; anything else, all code of the user's
included, is not shared (but its pixels are).  Each row was read: what it draws is named.
"""

import collections
import itertools
import sys
import types

from . import fp_classes, fp_library

TORCH, PYTHON = "torch", "python"  # generators

_TRANSFORMS = {
    "torchvision.transforms.transforms": {
        (): ("Compose ToTensor PILToTensor ConvertImageDtype ToPILImage Normalize Resize "
             "CenterCrop Pad FiveCrop TenCrop LinearTransformation Grayscale"),
        (TORCH,): ("RandomApply RandomCrop RandomHorizontalFlip RandomVerticalFlip "
                   "RandomResizedCrop ColorJitter RandomRotation RandomAffine "
                   "RandomGrayscale RandomPerspective RandomErasing GaussianBlur RandomInvert "
                   "RandomPosterize RandomSolarize RandomAdjustSharpness RandomAutocontrast "
                   "RandomEqualize ElasticTransform"),
        (PYTHON,): "RandomChoice RandomOrder",
    },
    "torchvision.transforms.autoaugment": {
        (TORCH,): "AutoAugment RandAugment TrivialAugmentWide AugMix",
    },
}
_DATASETS = {
    "torchvision.datasets.folder": {(): "ImageFolder DatasetFolder"},
    "torchvision.datasets.imagenet": {(): "ImageNet"},
    "torchvision.datasets.cifar": {(): "CIFAR10 CIFAR100"},
    "torchvision.datasets.mnist": {(): "MNIST FashionMNIST KMNIST EMNIST"},
    "torchvision.datasets.food101": {(): "Food101"},
    "torchvision.datasets.flowers102": {(): "Flowers102"},
    "torchvision.datasets.vision": {(): "StandardTransform"},
    "torch.utils.data.dataset": {(): "Subset ConcatDataset"},
}
_FUNCTIONS = {"torchvision.datasets.folder": "default_loader pil_loader"}

# What the classes above work with: no function of these may have been replaced.
_MODULES = ("torchvision.transforms.functional", "torchvision.transforms.functional_pil",
            "torchvision.transforms._functional_pil", "torchvision.transforms.functional_tensor",
            "torchvision.transforms._functional_tensor", "torchvision.datasets.folder",
            "torchvision.datasets.vision", "PIL.Image", "PIL.ImageFile", "PIL.ImageOps",
            "PIL.ImageEnhance", "PIL.ImageFilter", "PIL.JpegImagePlugin", "PIL.PngImagePlugin")

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def _rows():
    rows = {}
    for table in (_TRANSFORMS, _DATASETS):
        for module, groups in table.items():
            for generators, names in groups.items():
                rows.update({(module, name): generators for name in names.split()})
    return rows


_CLASSES = _rows()


def _name(kind):
    return type.__dict__["__qualname__"].__get__(kind)


class Refused(Exception):
    """Something takes part that is not in the tables; the argument says what."""


def judge(dataset):
    """
    The set of generators that items of @dataset draw from.  Raises Refused.  Runs no code of
    the user's.
    """
    for name in _MODULES:
        _check_module(sys.modules.get(name))
    if _has_global_hooks():
        raise Refused("a hook for all modules")
    return _Judge().all_of(dataset)


def _check_module(module):
    """Whether what the module was given by its library is still there."""
    if module is None:
        return
    for value in list(fp_library.module_dict(module).values()):
        if type(value) is types.FunctionType:
            _check_function(value)
        elif isinstance(value, type) and fp_library.class_module(value) == module.__name__:
            _check_class(value)


def _check_class(kind):
    for value in list(fp_library.class_dict(kind).values()):
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        if type(value) is types.FunctionType:
            _check_function(value)


def _check_function(function):
    if not fp_library.is_library_function(function):
        raise Refused("%s.%s" % (function.__module__, function.__qualname__))


def _has_global_hooks():
    module = sys.modules.get("torch.nn.modules.module")
    return any(getattr(module, name, None) for name in (
        "_global_forward_hooks", "_global_forward_pre_hooks"))


class _Judge:
    def __init__(self):
        self.generators = set()
        self.met = {}  # id -> value, which keeps the id its own

    def all_of(self, value):
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if type(value) in _PLAIN or id(value) in self.met:
                continue
            self.met[id(value)] = value
            waiting.extend(self.parts(value))
        return frozenset(self.generators)

    def parts(self, value):
        """What @value, which is allowed itself, refers to."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            return () if _is_plain(value) else list(value)
        if kind in (dict, collections.OrderedDict):
            return [*value.keys(), *value.values()]
        if kind is types.FunctionType:
            return self.function(value)
        module = fp_library.class_module(kind)
        row = _CLASSES.get((module, _name(kind)))
        if row is not None:
            return self.instance(value, kind, row)
        if self.is_value(kind, module):
            return ()
        raise Refused("%s.%s" % (module, _name(kind)))

    @staticmethod
    def is_value(kind, module):
        """Whether instances of this class only hold numbers or names."""
        numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
        return (kind in (torch.Tensor, torch.dtype, torch.device, torch.Size)
                or numpy is not None and kind is numpy.ndarray
                or (module, _name(kind)) in (
                    ("torchvision.transforms.functional", "InterpolationMode"),
                    ("torchvision.transforms.autoaugment", "AutoAugmentPolicy"))
                or module == "pathlib" or kind is range)

    def function(self, function):
        names = _FUNCTIONS.get(function.__module__, "").split()
        if function.__qualname__ not in names or \
                fp_library.bound(function.__module__, function.__qualname__) is not function:
            raise Refused("%s.%s" % (function.__module__, function.__qualname__))
        _check_function(function)
        return ()

    def instance(self, value, kind, row):
        if not fp_library.is_library_class(kind):
            raise Refused(kind.__name__)
        for base in fp_library.mro(kind):
            if base is not object and not fp_library.class_module(base).startswith("torch.nn"):
                _check_class(base)
        self.generators.update(row)
        return list(fp_classes.instance_dict(value).values())


def _is_plain(items):
    """Whether a large list holds plain values, or tuples of such, only; fast."""
    kinds = set(map(type, items))
    if kinds <= set(_PLAIN):
        return True
    if kinds <= {tuple}:
        return set(map(type, itertools.chain.from_iterable(items))) <= set(_PLAIN)
    return False
