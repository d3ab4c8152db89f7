# SPDX-License-Identifier: MIT
"""
Libraries as they were made: whether what their names are bound to now is their own.

Programs replace functions of libraries.  Fingerprints notice, but do not judge what took the
place; so where default mode relies on a table of what libraries do, anything of the user's in
the modules concerned refuses the data set.
"""

import collections
import functools
import io
import pathlib
import re
import sys
import types

from . import allowed_tables as tables
from . import fp_library, fp_walk
from .allowed_values import Refused

_CAPSULES = ("PyCapsule", "_VariableFunctionsClass")  # what functions of torch belong to
# Classes of functions made in C.
FUNCTION_CLASSES = ("numpy.ufunc", "numpy._ArrayFunctionDispatcher")
# What is no function, or made in C, where only C can change it.
_INERT = fp_library.DESCRIPTOR_IDS | fp_walk.ATOM_IDS | frozenset(map(id, (
    list, tuple, dict, set, types.ModuleType, types.BuiltinFunctionType)))

_checked = {}  # id(module) -> the Look at it when nothing in it was the user's


def check():
    """Raise Refused when something of the user's is where the tables expect a library's."""
    _check_builtins()
    for name in tables.MODULES:
        _check_module(sys.modules.get(name))
    if _has_global_hooks():
        raise Refused("a hook for all modules")
    for kind in _held_classes(_loaded_holders()):
        check_class(kind)
    _check_formats(sys.modules.get("PIL.Image"))
    if "torchvision.transforms.v2.functional" in sys.modules:
        _check_v2()


def _check_module(module):
    """Whether what the module was given by its library is still there."""
    if module is None:
        return
    look = fp_library.look(module)
    if _checked.get(id(module)) is look:
        return
    for value in list(fp_library.module_dict(module).values()):
        _check_member(value)
        if fp_library.inherits(type(value), type) and \
                fp_library.class_module(value) == module.__name__:
            check_class(value)
    _checked[id(module)] = look


def _check_formats(image):
    """Programs may teach Pillow to read formats of their own."""
    if image is None:
        return
    for openers in list(image.OPEN.values()):
        for opener in openers:
            _check_member(opener)
    for decoder in list(image.DECODERS.values()):
        _check_member(decoder)


def check_class(kind):
    """Raise Refused unless class @kind of a library is as it was made."""
    for value in list(fp_library.class_dict(kind).values()):
        _check_member(value)


def _check_member(value):
    """Raise Refused where @value, in a library's name space, is the user's and may be called."""
    kind = type(value)
    if id(kind) in _INERT:
        return
    if kind in (staticmethod, classmethod):
        value, kind = value.__func__, type(value.__func__)
    if kind is types.FunctionType:
        _check_function(value)
    elif kind is property:
        for function in (value.fget, value.fset):
            if type(function) is types.FunctionType:
                _check_function(function)
    elif kind is functools.partial:
        _check_member(value.func)
    elif kind is types.MethodType:
        _check_member(value.__func__)
    elif fp_library.is_user_class(kind) or \
            fp_library.inherits(kind, type) and fp_library.is_user_class(value):
        raise Refused("something of the user's in a library")


def _check_builtins():
    """Functions of libraries use these as well, and nothing else says when one is replaced."""
    names = fp_library.module_dict(sys.modules["builtins"])
    for _, text in tables.CALLS["builtins"]:
        for name in text.split():
            if not _is_original(names.get(name), "builtins", name, None):
                raise Refused("built-in " + name)
    for name, value in list(names.items()):
        if type(value) is types.FunctionType:
            _check_function(value)
        elif type(value) is types.BuiltinFunctionType and value.__name__ != name:
            raise Refused("built-in " + name)


def _check_function(function):
    if not fp_library.is_library_function(function):
        raise Refused("%s.%s" % (function.__module__, function.__qualname__))


def _has_global_hooks():
    module = sys.modules.get("torch.nn.modules.module")
    if any(getattr(module, name, None) for name in (
            "_global_forward_hooks", "_global_forward_pre_hooks")):
        return True
    # A mode rules over every function: a default device, or one of the user's.
    count = getattr(sys.modules["torch"]._C, "_len_torch_function_stack", None)
    return count is not None and count() > 0


def _check_v2():
    """The transforms of v2 find their functions in a registry that programs may add to."""
    for name in tables.V2_MODULES:
        _check_module(sys.modules.get(name))
    registry = sys.modules["torchvision.transforms.v2.functional._utils"]._KERNEL_REGISTRY
    for kernels in list(registry.values()):
        for kernel in list(kernels.values()):
            while type(kernel) is functools.partial:
                kernel = kernel.func
            if type(kernel) is not types.FunctionType:
                raise Refused("a kernel")
            for function in (kernel, getattr(kernel, "__wrapped__", kernel)):
                _check_function(function)
    helpers = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
    if getattr(helpers, "_TORCHFUNCTION_SUBCLASS", False):
        raise Refused("set_return_type")


class _Calls:
    """What is in tables.CALLS, is loaded, and is what its library made it."""

    def __init__(self):
        self.modules = _loaded()
        self.found = {}  # id -> Call
        self.bound = []  # (namespace, name, value, code) as they were looked at
        for module_name, module in self.modules:
            names = fp_library.module_dict(module)
            for call, text in tables.CALLS[module_name]:
                for name in text.split():
                    value = names.get(name)
                    self.bound.append((names, name, value, _code_of(value)))
                    if value is not None and _is_original(value, module_name, name, call.draws):
                        self.found[id(value)] = call

    def is_same(self):
        """Whether all names are still bound to the same objects with the same code."""
        return self.modules == _loaded() and all(
            names.get(name) is value and _code_of(value) is code
            for names, name, value, code in self.bound)


_known_calls = None


def find_calls():
    """{id: Call}, the caller's own, of what may be called by name."""
    global _known_calls
    if _known_calls is None or not _known_calls.is_same():
        _known_calls = _Calls()
    return dict(_known_calls.found)


def _loaded():
    return [(name, sys.modules[name]) for name in tables.CALLS
            if name in sys.modules and fp_library.is_library_name(name)]


def _code_of(value):
    if type(value) is types.MethodType:
        value = value.__func__
    return value.__code__ if type(value) is types.FunctionType else None


def _is_original(value, module_name, name, draws):
    kind = type(value)
    if fp_library.inherits(kind, type):
        return fp_library.is_library_class(value) and value.__name__.rstrip("_") == name
    names = (name, tables.ALIASES.get(name))
    if kind is types.FunctionType:
        return value.__name__ in names and fp_library.is_library_function(value) and (
            fp_library.bound(value.__module__, value.__qualname__) is value
            or fp_library.bound(module_name, name) is value)
    if kind is types.MethodType:
        return draws is not None and value.__self__ is _global_generator(draws) and (
            type(value.__func__) is not types.FunctionType
            or fp_library.is_library_function(value.__func__)) and value.__name__ == name
    if kind is types.BuiltinFunctionType:
        owner = value.__self__
        if draws in (tables.PYTHON, tables.NUMPY):
            return value.__name__ in names and owner is _global_generator(draws)
        return value.__name__ in names and (
            owner is None or type(owner) is types.ModuleType
            or getattr(type(owner), "__name__", "") in _CAPSULES)
    return fp_library.class_name(kind) in FUNCTION_CLASSES and value.__name__ in names


def _global_generator(draws):
    name, attribute = (("random", "_inst") if draws == tables.PYTHON else
                       ("numpy.random.mtrand", "_rand"))
    module = sys.modules.get(name)
    return None if module is None else fp_library.module_dict(module).get(attribute)


@functools.lru_cache(maxsize=8)
def _held_classes(loaded):
    """The classes of the libraries' @loaded, and those they are derived from."""
    found = {}
    for name in loaded:
        module, _, kind = name.rpartition(".")
        kind = getattr(sys.modules[module], kind, None)
        for base in fp_library.mro(kind) if isinstance(kind, type) else ():
            if base is not object and fp_library.is_library_class(base):
                found[id(base)] = base
    return tuple(found.values())


@functools.lru_cache(maxsize=8)
def _held_names(loaded):
    """Names of all that the classes have whose instances items work with."""
    kinds = [int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range,
             slice, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
             types.GeneratorType, enumerate, zip, map, filter, type({}.keys()), type({}.items()),
             io.TextIOWrapper, io.BufferedReader, io.FileIO, io.BytesIO, io.StringIO,
             pathlib.PosixPath, re.Pattern, re.Match, collections.OrderedDict,
             collections.defaultdict, collections.deque, collections.Counter, functools.partial]
    names = set()
    for kind in (*kinds, *_held_classes(loaded)):
        for base in fp_library.mro(kind):
            names.update(fp_library.class_dict(base))
    return frozenset(names)


_HOLDERS = ("torch.Tensor", "torch.Size", "torch.dtype", "torch.device", "torch.Generator",
            "torch.nn.Module", "numpy.ndarray", "numpy.generic", "numpy.float64", "numpy.int64",
            "numpy.str_", "numpy.dtype", "PIL.Image.Image", "PIL.ImageFile.ImageFile",
            "PIL.JpegImagePlugin.JpegImageFile", "PIL.PngImagePlugin.PngImageFile",
            "PIL.Image.Exif", "PIL.ImageEnhance.Color", "PIL.ImagePalette.ImagePalette")


def holders():
    """The names of all attributes of the libraries' classes that items work with."""
    return _held_names(_loaded_holders())


def _loaded_holders():
    return tuple(name for name in _HOLDERS if name.rpartition(".")[0] in sys.modules)
