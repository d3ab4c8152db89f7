# SPDX-License-Identifier: MIT
"""
What stands around code: whether libraries are as they were made, and what is set for a whole process.

Programs replace functions of libraries.  Fingerprints notice, but do not judge what took the
place; so where default mode relies on a table of what libraries do, anything of the user's in
the modules concerned refuses the data set.  So does what the code of libraries asks besides:
generators that take the place of the global ones, modes and kernels that programs put in front of
PyTorch's functions, registries of the interpreter, whoever is told of warnings and errors.
"""

import bisect
import codecs
import collections
import copy
import copyreg
import encodings
import functools
import gc
import io
import operator
import os
import pathlib
import random
import re
import sys
import types
import warnings
from _abc import _get_dump

from ..fingerprint import arrays, drawing, environment, library, walk
from . import Refused, allowed

_CAPSULES = ("PyCapsule", "_VariableFunctionsClass")  # what functions of torch belong to
# What is no function, or made in C, where only C can change it.
_INERT = library.DESCRIPTOR_IDS | walk.ATOM_IDS | frozenset(map(id, (list, dict, set)))
DEPTH = 4  # of decorators around a function, and containers around it
# What functools puts around a function, by the name of the attribute that it is found at.
_AROUND = {library.CACHED: "__wrapped__", functools.cached_property: "func",
           functools.partialmethod: "func", functools.singledispatchmethod: "func"}
# Replaced there, even a function of another installed package's is not known.
_READ = ("torchvision", "PIL")
_KNOWN = frozenset(_READ + ("torch", "numpy", "cv2") + environment.PACKAGES)

_checked = {}  # id(module) -> the Look at it when nothing in it was the user's


def check(met):
    """
    Raise Refused when something of the user's is where the tables expect a library's; @met is
    that of check_modules().
    """
    _check_builtins()
    for name in allowed.MODULES:
        check_modules(name, met)
    _check_process()
    if io.open is not library.module_dict(sys.modules["builtins"]).get("open"):
        raise Refused("io.open")  # which pathlib asks
    if os.fspath is not sys.modules["posix"].fspath:
        raise Refused("os.fspath")
    for kind in _held_classes(_loaded_holders()):
        check_class(kind)
        for value in list(library.class_dict(kind).values()):
            _check_origin(value.fget if type(value) is property else value)
    _check_formats(sys.modules.get("PIL.Image"), met)
    if "torchvision.transforms.v2.functional" in sys.modules:
        _check_v2(met)


def _check_module(module):
    """The Look at the module, which holds what its library gave it; else Refused."""
    look = library.look(module)
    if library.module_name(module).partition(".")[0] in _READ:
        _check_tables(library.module_dict(module))
    if _checked.get(id(module)) is look:
        return look
    name = library.module_name(module)
    for value in list(library.module_dict(module).values()):
        check_member(value)
        if name.partition(".")[0] in _READ:
            _check_origin(value)
            _check_callable(value)
        if library.inherits(type(value), type) and library.class_module(value) == name:
            check_class(value)
    _checked[id(module)] = look
    return look


_tables = {}  # id -> (dict or list of a module's, what was in it and nobody's of the user's)


def _check_tables(names):
    """Tables of functions are edited in place, which no name tells."""
    for name, value in list(names.items()):
        if type(value) in (dict, list) and name[:2] != "__":
            parts = list(value.values()) if type(value) is dict else list(value)
            known = _tables.get(id(value))
            if known is None or len(known[1]) != len(parts) or \
                    not all(map(operator.is_, known[1], parts)):
                _check_parts(parts, 0)
                _tables[id(value)] = (value, parts)


def check_modules(name, met):
    """
    Raise Refused unless library module @name, and those it uses, are as they were made; @met
    are names of those that were looked at.
    """
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in met and name in sys.modules:
            met.add(name)
            look = _check_module(sys.modules[name])
            waiting += map(library.module_name, look.modules)


def _check_origin(value):
    """A function in the place of one that was read for the tables."""
    if type(value) is types.FunctionType:
        home = value.__globals__.get("__name__")
        if type(home) is not str or home.partition(".")[0] not in _KNOWN and \
                not (home in sys.modules and library.is_standard(home)):
            raise Refused("%s.%s" % (value.__module__, value.__qualname__))


# Modules of what is called there besides functions, methods and classes.
_CALLED = frozenset(("builtins", "collections.abc", "functools", "types", "typing"))


def _check_callable(value):
    """Something that is called in the place of a function, and shows nothing of what it does."""
    kind = type(value)
    if kind is types.SimpleNamespace or not library.inherits(kind, type) and \
            library.class_module(kind) not in _CALLED and any(
                "__call__" in library.class_dict(base) for base in library.mro(kind)):
        raise Refused("a %s in a library" % library.class_name(kind))


def _check_formats(image, met):
    """Programs may teach Pillow to read formats of their own."""
    if image is None:
        return
    for openers in list(image.OPEN.values()):
        for opener in openers:
            check_member(opener)
            check_modules(getattr(opener, "__module__", None), met)
    for decoder in list(image.DECODERS.values()):
        check_member(decoder)


def check_class(kind):
    """Raise Refused unless class @kind of a library is as it was made."""
    is_read = library.class_module(kind).partition(".")[0] in _READ
    for value in list(library.class_dict(kind).values()):
        if is_read and type(value) in (dict, list, tuple):  # such as RandAugment's operations
            _check_parts(value, 0)
        if is_read:
            _check_callable(value)
        check_member(value)


def check_member(value, depth=0):
    """Raise Refused where @value, in a library's name space, is the user's and may be called."""
    kind = type(value)
    if id(kind) in _INERT or depth > DEPTH:
        return
    if kind in (staticmethod, classmethod):
        value, kind = value.__func__, type(value.__func__)
    if kind is types.FunctionType:
        _check_function(value, depth)
    elif kind is types.BuiltinFunctionType:
        _check_owner(value)
    elif kind is types.ModuleType:
        _check_loaded(value)
    elif kind is property:
        check_member(value.fget, depth + 1)
        check_member(value.fset, depth + 1)
    elif kind is functools.partial:
        _check_parts((value.func, value.args, value.keywords), depth)
    elif kind is types.MethodType:
        _check_parts((value.__func__, value.__self__), depth)
    elif kind in _AROUND:
        check_member(getattr(value, _AROUND[kind]), depth + 1)
    elif kind is type:  # as nearly all classes are
        if library.is_user_class(value):
            raise Refused("something of the user's in a library")
    elif library.class_name(kind) in ("json.decoder.JSONDecoder", "json.encoder.JSONEncoder"):
        _check_parts(vars(value), depth)
    elif library.class_name(kind) == "numpy.vectorize":
        check_member(value.pyfunc, depth + 1)
    elif library.is_user_class(kind) or \
            library.inherits(kind, type) and library.is_user_class(value):
        raise Refused("something of the user's in a library")


def _check_parts(values, depth):
    """The same for what a container holds, and a container in it."""
    for value in list(values.values()) if type(values) is dict else list(values):
        if type(value) in (dict, list, tuple, set) and depth < DEPTH:
            _check_parts(value, depth + 1)
        else:
            check_member(value, depth + 1)


def _check_owner(method):
    """A method made in C, of an object that remembers."""
    kind = type(method.__self__)
    if library.inherits(kind, type):
        return
    changes = kind in (list, dict, set, collections.deque, collections.OrderedDict) and \
        method.__name__ not in ("__getitem__", "__contains__", "get")
    if changes or library.is_user_class(kind):
        raise Refused("a method of the user's in a library")


def _check_loaded(module):
    """A module that is no library's, or no more the one of that name."""
    name = library.module_name(module)
    spec = library.module_dict(module).get("__spec__")
    if type(getattr(spec, "name", None)) is str and sys.modules.get(spec.name) is module:
        name = spec.name  # _io says that it is io
    home, _, last = name.rpartition(".")
    known = sys.modules.get(name)
    if known is None and library.is_library_name(home):  # made by the extension module @home
        known = library.module_dict(sys.modules[home]).get(last)
    if known is not module or name in sys.modules and not library.is_library_name(name):
        raise Refused("module %s in a library" % name)


def _check_builtins():
    """Functions of libraries use these as well, and nothing else says when one is replaced."""
    names = library.module_dict(sys.modules["builtins"])
    for _, text in allowed.CALLS["builtins"]:
        for name in text.split():
            if not _is_original(names.get(name), "builtins", name, None):
                raise Refused("built-in " + name)
    for name, value in list(names.items()):
        if type(value) is types.FunctionType:
            _check_function(value)
        elif type(value) is types.BuiltinFunctionType and value.__name__ != name:
            raise Refused("built-in " + name)


_untouched = {}  # id(function) -> (function, what made it) where nothing in it is the user's
_made_of = operator.attrgetter("__code__", "__closure__", "__defaults__", "__kwdefaults__")


def _check_function(function, depth=0):
    """Decorators of libraries hold what they decorate in their closures."""
    if not library.is_library_function(function):
        raise Refused("%s.%s" % (function.__module__, function.__qualname__))
    parts = _made_of(function)
    known = _untouched.get(id(function))
    if known is not None and all(map(operator.is_, known[1], parts)):
        return
    for cell in function.__closure__ or ():
        try:
            _check_parts((cell.cell_contents,), depth)
        except ValueError:
            pass  # not assigned
    _check_parts(function.__defaults__ or (), depth)
    _untouched[id(function)] = (function, parts)


def _is_untouched(function):
    try:
        _check_function(function)
    except Refused:
        return False
    return True


def _check_v2(met):
    """The transforms of v2 find their functions in a registry that programs may add to."""
    for name in allowed.V2_MODULES:
        check_modules(name, met)
    registry = sys.modules["torchvision.transforms.v2.functional._utils"]._KERNEL_REGISTRY
    for kernels in list(registry.values()):
        for kernel in list(kernels.values()):
            while type(kernel) is functools.partial:
                kernel = kernel.func
            if type(kernel) is not types.FunctionType:
                raise Refused("a kernel")
            for function in (kernel, getattr(kernel, "__wrapped__", kernel)):
                _check_function(function)
    for node in list(sys.modules["torch.utils._pytree"].SUPPORTED_NODES.values()):
        _check_parts(list(node), 0)
    helpers = sys.modules.get("torchvision.tv_tensors._torch_function_helpers")
    if getattr(helpers, "_TORCHFUNCTION_SUBCLASS", False):
        raise Refused("set_return_type")


class _Calls:
    """What is in allowed.CALLS, is loaded, and is what its library made it."""

    def __init__(self):
        self.modules = _loaded()
        self.found = {}  # id -> Call
        self.homes = {}  # id -> name of the module
        self.bound = []  # (namespace, name, value, code) as they were looked at
        for module_name, module in self.modules:
            names = library.module_dict(module)
            for call, text in allowed.CALLS[module_name]:
                for name in text.split():
                    value = names.get(name)
                    self.bound.append((names, name, value, _code_of(value)))
                    if value is not None and _is_original(value, module_name, name, call.draws):
                        self.found[id(value)] = call
                        self.homes[id(value)] = module_name

    def is_same(self):
        """Whether all names are still bound to the same objects with the same code."""
        return self.modules == _loaded() and all(
            names.get(name) is value and _code_of(value) is code
            for names, name, value, code in self.bound)


_known_calls = None


def find_calls():
    """({id: Call}, the caller's own, {id: module}) of what may be called by name."""
    global _known_calls
    if _known_calls is None or not _known_calls.is_same():
        _known_calls = _Calls()
    return dict(_known_calls.found), _known_calls.homes


def _loaded():
    return [(name, sys.modules[name]) for name in allowed.CALLS
            if name in sys.modules and library.is_library_name(name)]


def _code_of(value):
    if type(value) is types.MethodType:
        value = value.__func__
    return value.__code__ if type(value) is types.FunctionType else None


def _is_original(value, module_name, name, draws):
    kind = type(value)
    if library.inherits(kind, type):
        return library.is_library_class(value) and value.__name__.rstrip("_") == name
    names = (name, allowed.ALIASES.get(name))
    if kind is types.FunctionType:
        return value.__name__ in names and _is_untouched(value) and (
            library.bound(value.__module__, value.__qualname__) is value
            or library.bound(module_name, name) is value)
    if kind is types.MethodType:
        return draws is not None and value.__self__ is drawing.behind(draws) and (
            type(value.__func__) is not types.FunctionType
            or library.is_library_function(value.__func__)) and value.__name__ == name
    if kind is types.BuiltinFunctionType:
        owner = value.__self__
        if draws in (allowed.PYTHON, allowed.NUMPY):
            return value.__name__ in names and owner is drawing.behind(draws)
        return value.__name__ in names and (
            owner is None or type(owner) is types.ModuleType
            or getattr(type(owner), "__name__", "") in _CAPSULES)
    return library.class_name(kind) in library.NAMED and value.__name__ in names


@functools.lru_cache(maxsize=8)
def _held_classes(loaded):
    """The classes of the libraries' @loaded, and those they are derived from."""
    found = {}
    for name in loaded:
        module, _, kind = name.rpartition(".")
        kind = getattr(sys.modules[module], kind, None)
        for base in library.mro(kind) if isinstance(kind, type) else ():
            if base is not object and library.is_library_class(base):
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
    names = _names_of_ufuncs(sys.modules.get("numpy"))
    for kind in (*kinds, *_held_classes(loaded)):
        for base in library.mro(kind):
            names.update(library.class_dict(base))
    return frozenset(names)


def _names_of_ufuncs(numpy):
    """What NumPy asks the objects in an array for: a method called like the function."""
    return {name for name, value in library.module_dict(numpy).items()
            if type(value) is numpy.ufunc} if numpy is not None else set()


_HOLDERS = ("torch.Tensor", "torch.Size", "torch.dtype", "torch.device", "torch.Generator",
            "torch.nn.Module", "numpy.ndarray", "numpy.generic", "numpy.float64", "numpy.int64",
            "numpy.str_", "numpy.dtype", "PIL.Image.Image", "PIL.ImageFile.ImageFile",
            "PIL.JpegImagePlugin.JpegImageFile", "PIL.PngImagePlugin.PngImageFile",
            "PIL.Image.Exif", "PIL.ImageEnhance.Color", "PIL.ImagePalette.ImagePalette",
            "pathlib.PosixPath", "json.decoder.JSONDecoder")


def holders():
    """The names of all attributes of the libraries' classes that items work with."""
    return _held_names(_loaded_holders())


def _loaded_holders():
    return tuple(name for name in _HOLDERS if name.rpartition(".")[0] in sys.modules)


# ---- what is set for the process ----

# Keys of the dispatcher that tensors of the CPU come by.
_OPERATORS = ("aten/", "image/")  # torchvision registers kernels for its others itself
_DISPATCHED = ("/CPU", "/AutogradCPU", "/Autograd", "/ADInplaceOrView", "/AutocastCPU",
               "/CompositeImplicitAutograd", "/CompositeExplicitAutograd", "/BackendSelect")

_TOOLS = 6  # of sys.monitoring, by number

_harmless = set()  # keys of torch.library that are harmless


def _check_process():
    """The same of what is set for the process.  Takes some ten microseconds."""
    _check_generators()
    _check_modes()
    _check_kernels()
    _check_tracing()
    _check_copies()
    _check_codecs()
    for name in ("showwarning", "_showwarnmsg", "_showwarnmsg_impl", "formatwarning"):
        _check_made(getattr(warnings, name, None), "warnings." + name)
    numpy = sys.modules.get("numpy")
    if numpy is not None and {"call", "log"} & set(numpy.geterr().values()):
        raise Refused("a function for errors of arithmetic")


def _check_made(value, name):
    if value is not None and not (type(value) is types.FunctionType
                                  and library.is_library_function(value)):
        raise Refused(name)


# ---- generators ----

def _check_generators():
    """Keys name the states of the global generators; nothing else may be under their names."""
    names = library.module_dict(random)
    _check_methods(names, names.get("_inst"), random.Random)
    legacy = sys.modules.get("numpy.random.mtrand")
    if legacy is not None and "numpy.random" in sys.modules:
        owner = library.module_dict(legacy).get("_rand")
        for module in (legacy, sys.modules["numpy.random"]):
            _check_methods(library.module_dict(module), owner, legacy.RandomState)
    torch = sys.modules["torch"]
    for module in (torch, sys.modules["torch.random"]):
        if module.default_generator is not torch._C.default_generator:
            raise Refused("torch.default_generator")


def _check_methods(names, owner, kind):
    """All methods of generators of this @kind among @names are the @owner's."""
    if type(owner) is not kind:
        raise Refused("the generator of a library")
    for value in list(names.values()):
        if type(value) in (types.MethodType, types.BuiltinFunctionType) or \
                library.class_name(type(value)).endswith("cython_function_or_method"):
            bound = getattr(value, "__self__", None)
            if bound is not owner and library.inherits(type(bound), kind):
                raise Refused("%s of another generator" % value.__name__)


# ---- PyTorch ----

def _check_modes():
    module = sys.modules.get("torch.nn.modules.module")
    if any(getattr(module, name, None) for name in (
            "_global_forward_hooks", "_global_forward_pre_hooks")):
        raise Refused("a hook for all modules")
    # A mode rules over every function: a default device, or one of the user's.
    core = sys.modules["torch"]._C
    for name in ("_len_torch_function_stack", "_len_torch_dispatch_stack"):
        if getattr(core, name, int)() > 0:
            raise Refused("a mode of torch")
    for name in ("_get_torch_function_mode", "_get_torch_dispatch_mode"):  # until torch 1.13
        if getattr(core, name, dict)():
            raise Refused("a mode of torch")


def _check_kernels():
    """Functions in Python in the place of operators."""
    global _harmless
    keys = getattr(sys.modules.get("torch.library"), "_impls", set())
    if keys != _harmless:
        for key in keys:
            if key.startswith(_OPERATORS) and key.endswith(_DISPATCHED):
                raise Refused("operator " + key)
        _harmless = set(keys)
    dataset = sys.modules["torch.utils.data"].Dataset
    for function in library.class_dict(dataset).get("functions", {}).values():
        _check_made(function, "a function of all data sets")


# ---- the interpreter ----

def _check_tracing():
    """Functions that the interpreter calls in the middle of items."""
    for function in (sys.getprofile(), sys.gettrace()):
        function = getattr(function, "__func__", function)
        if type(function) is types.FunctionType:
            _check_made(function, "a function that traces")
    # From Python 3.12 on; nobody tells whose functions these call.
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and any(
            monitoring.get_tool(number) is not None for number in range(_TOOLS)):
        raise Refused("a tool that monitors")


def _tables_of_codecs():
    """The handlers of errors, and the functions that are asked for codecs."""
    found = gc.get_referrers(codecs.ignore_errors, encodings.search_function)
    errors = [each for each in found
              if type(each) is dict and {"strict", "surrogatepass"} <= each.keys()]
    searches = [each for each in found
                if type(each) is list and any(one is encodings.search_function for one in each)]
    return errors, searches


_ERRORS, _SEARCHES = _tables_of_codecs()  # looks at all objects: 10 ms


# Handlers that libraries add under names of their own: they compute, for who asks for them by name.
# Alembic, which SQLAlchemy's programs keep their tables by, loads Mako.
_HANDLERS = {"htmlentityreplace": ("mako.filters", "htmlentityreplace_errors")}


def _is_of_a_library(name, handler):
    """Whether @handler is the one that a known library has registered as @name."""
    return name in _HANDLERS and type(handler) is types.FunctionType and \
        library.bound(*_HANDLERS[name]) is handler and library.is_library_function(handler)


def _check_codecs():
    """Whatever makes text of bytes asks these: open(), str(), .decode(), .read_text()."""
    if len(_ERRORS) != 1 or not _SEARCHES:
        raise Refused("codecs")
    for name, handler in list(_ERRORS[0].items()):
        if _is_of_a_library(name, handler):
            continue
        if type(handler) is not types.BuiltinFunctionType or \
                handler.__name__ not in (name, name + "_errors"):
            raise Refused("a handler of codecs")
    for searches in _SEARCHES:
        for search in list(searches):
            _check_made(search, "a search for codecs")


def _check_copies():
    """deepcopy() asks these for classes of anybody's."""
    for function in (*copyreg.dispatch_table.values(), *copy._deepcopy_dispatch.values()):
        if type(function) is types.FunctionType:
            _check_made(function, "a function that copies")


def check_asked(kind):
    """Raise Refused where isinstance(x, @kind) asks code, or a registry, of the user's."""
    waiting, met = [kind], set()
    while waiting:
        each = waiting.pop()
        if id(each) in met:
            continue
        met.add(id(each))
        if library.is_user_class(each) and "__subclasshook__" in library.class_dict(each):
            raise Refused("__subclasshook__")
        if "_abc_impl" not in library.class_dict(each):
            continue
        for reference in _get_dump(each)[0]:
            registered = reference()
            if registered is not None and (library.is_user_class(each)
                                           or not library.is_library_class(registered)):
                raise Refused("a class that was registered")
        waiting += type.__subclasses__(each)


# ---- memory ----

_LINE = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ...(.) \S+ \S+ (\d+)", re.M)


def check_memory(addresses):
    """
    Raise Refused where one of the @addresses lies in a mapped file or in shared memory: others
    write to it, and no look here can be often enough.
    """
    found = [(int(begin, 16), int(end, 16)) for begin, end, way, inode in _LINE.findall(arrays.maps())
             if way == b"s" or inode != b"0"]
    begins = [begin for begin, _ in found]  # in order
    for address in addresses:
        place = bisect.bisect_right(begins, address)
        if place and address < found[place - 1][1]:
            raise Refused("memory of a file, or shared")
