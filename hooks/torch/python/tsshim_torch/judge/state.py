# SPDX-License-Identifier: MIT
"""
What is set for a whole process and would be asked by the code of libraries: generators that
take the place of the global ones, modes and kernels that programs put in front of PyTorch's
functions, registries of the interpreter, whoever is told of warnings and errors.
"""

import bisect
import codecs
import copy
import copyreg
import encodings
import gc
import random
import re
import sys
import types
import warnings
from _abc import _get_dump

from ..fingerprint import library
from .values import Refused

# Keys of the dispatcher that tensors of the CPU come by.
_OPERATORS = ("aten/", "image/")  # torchvision registers kernels for its others itself
_DISPATCHED = ("/CPU", "/AutogradCPU", "/Autograd", "/ADInplaceOrView", "/AutocastCPU",
               "/CompositeImplicitAutograd", "/CompositeExplicitAutograd", "/BackendSelect")

_TOOLS = 6  # of sys.monitoring, by number

_known = set()  # keys of torch.library that are harmless


def check():
    """Raise Refused when something of this kind is the user's.  Takes some ten microseconds."""
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
    _check_owners(names, names.get("_inst"), random.Random)
    legacy = sys.modules.get("numpy.random.mtrand")
    if legacy is not None and "numpy.random" in sys.modules:
        owner = library.module_dict(legacy).get("_rand")
        for module in (legacy, sys.modules["numpy.random"]):
            _check_owners(library.module_dict(module), owner, legacy.RandomState)
    torch = sys.modules["torch"]
    for module in (torch, sys.modules["torch.random"]):
        if module.default_generator is not torch._C.default_generator:
            raise Refused("torch.default_generator")


def _check_owners(names, owner, kind):
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
    global _known
    keys = getattr(sys.modules.get("torch.library"), "_impls", set())
    if keys != _known:
        for key in keys:
            if key.startswith(_OPERATORS) and key.endswith(_DISPATCHED):
                raise Refused("operator " + key)
        _known = set(keys)
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
    with open("/proc/self/maps", "rb", buffering=0) as file:
        text = file.readall()
    found = [(int(begin, 16), int(end, 16)) for begin, end, way, inode in _LINE.findall(text)
             if way == b"s" or inode != b"0"]
    begins = [begin for begin, _ in found]  # in order
    for address in addresses:
        place = bisect.bisect_right(begins, address)
        if place and address < found[place - 1][1]:
            raise Refused("memory of a file, or shared")
