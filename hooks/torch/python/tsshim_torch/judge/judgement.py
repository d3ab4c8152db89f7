# SPDX-License-Identifier: MIT
"""
Data sets whose items are a function of the data set, its files and known generators alone.

Sharing whole samples by default needs more than an equal fingerprint: an item may ask a clock,
keep a counter, or have a generator of its own.  So every object that takes part must be of a
class in tables.py, as its library made it, or of a class of the user's; and every function
must be in these tables, or the user's and made of harmless instructions (code.py says why
that is enough).  Anything else is not shared (but its pixels are).
"""

import collections
import enum
import functools
import hashlib
import sys
import types

from .. import collecting
from ..fingerprint import arrays, classes, frames, library, walk
from . import state, tables, versions
from .classes import Classes, user_parts
from .code import Reader
from .library import FUNCTION_CLASSES, check, check_class, check_modules, find_calls
from .values import Refused, Value

__all__ = ("Judgement", "PYTHON", "Refused", "TORCH", "NUMPY", "judge")

TORCH, PYTHON, NUMPY = tables.TORCH, tables.PYTHON, tables.NUMPY


def _rows():
    rows = {}
    for table in (tables.TRANSFORMS, tables.DATASETS):
        for module, groups in table.items():
            for generators, names in groups.items():
                rows.update({(module, name): generators for name in names.split()})
    return rows


ROWS = _rows()
_PLAIN = walk.ATOMS
# Attributes that are named like methods and called by nobody.
_NOTES = frozenset(("__wrapped__", "__name__", "__qualname__", "__doc__", "__module__",
                    "__annotations__", "__type_params__", "__orig_class__"))
# Built in, and harmless whatever they are called with: they may be values.
_BUILT_IN = frozenset(map(id, (int, float, bool, str, bytes, complex, list, dict, tuple, range)))


def _name(kind):
    return type.__dict__["__qualname__"].__get__(kind)


def _is_immutable(values):
    return all(type(value) in _PLAIN or type(value) is types.FunctionType
               or type(value) is tuple and _is_immutable(value) for value in values)


def _hands_out(dataset, module):
    """
    Whether items of @dataset, of a class of a library's @module, may be parts of it that can be
    changed: targets are given as they are.
    """
    if not module.startswith("torchvision.datasets."):
        return False
    of_mnist = module.endswith(".mnist")  # makes numbers of its targets
    for name, value in (classes.instance_dict(dataset) or {}).items():
        kind = type(value)
        if kind in (list, tuple) and not walk.is_plain(tuple(value), walk.TUPLE_ID):
            return True
        if name != "data" and not of_mnist and getattr(value, "ndim", 0) > 0 and (
                kind is sys.modules["torch"].Tensor or value.ndim > 1):
            return True
    return False


class Judgement:
    """
    What is known of the items of a data set.

    .generators  what they draw from
    .by_hash     whether the order of a set may decide, which depends on the hashes of strings
    .by_threads  whether the number of threads of a BLAS may decide, by the order of its sums
    .orders      16 bytes for the orders of the sets that the data set holds: equal sets may
                 differ in that, by how they were made
    .exposes     whether an item may be, or refer to, what the data set holds: whoever changes
                 the item, as a collate function might, changes the data set, and what comes
                 from another job is a copy
    """

    def __init__(self, generators, by_hash, exposes, by_threads=False, orders=b""):
        self.generators, self.by_hash, self.exposes = generators, by_hash, exposes
        self.by_threads, self.orders = by_threads, orders


@collecting.put_off()
def judge(dataset):
    """
    The Judgement on items of @dataset.  Raises Refused, or where code or classes of the user's
    take part, and not the libraries' alone, versions.Unjudged.  Runs no code of the user's.
    """
    arrays.register()
    frames.register()
    judge_ = Judge()
    check(judge_.modules)
    return judge_.all_of(dataset)


# ---- what the data set refers to ----

class Judge(Classes):
    """What code.Reader tells of what code may do, and all that the data set refers to."""

    def __init__(self):
        super().__init__()
        self.generators = set()
        self.modules = set()  # names of those that were looked at
        self.met = {}  # id -> value, which keeps the id its own
        self.waiting = []
        self.builtins = library.module_dict(sys.modules["builtins"])
        self.by_hash = self.by_threads = False
        self.orders = {}  # elements of a set, sorted -> in their order
        self.addresses = []  # of arrays and tensors
        self.has_base = False  # arrays that are part of others, which no name tells
        self.has_memory = False  # arrays or tensors of the data set itself
        self.has_state = False  # a module with parameters
        self.in_place = False  # a transform that changes its argument
        self.user_objects = 0  # that were met
        self._calls = None
        self.homes = {}

    @property
    def calls(self):
        """{id: Call} of what may be called by name."""
        if self._calls is None:
            self._calls, self.homes = find_calls()
        return self._calls

    def all_of(self, value):
        """The Judgement on @value; Refused when something it refers to is not allowed."""
        self.value(value)
        return self.judgement()

    def judgement(self):
        """The Judgement on all that was added."""
        while self.waiting or self.close():
            while self.waiting:
                self._one(self.waiting.pop())
        self.conclude()
        if self.by_hash and self.user_objects > 1:
            raise Refused("a set, perhaps of objects, whose order depends on where they lie")
        if self.has_base and self.names & {"base", "owndata", "flags"}:
            raise Refused("what an array is part of")
        if self.addresses:
            state.check_memory(self.addresses)
        orders = b"".join(walk.joined(order) for _, order in sorted(self.orders.items()))
        return Judgement(frozenset(self.generators), self.by_hash, self.exposes(),
                         self.by_threads,
                         hashlib.blake2b(orders, digest_size=16).digest() if orders else b"")

    def value(self, value):
        """@value may be anywhere from now on."""
        if type(value) not in _PLAIN and id(value) not in self.met:
            self.met[id(value)] = value
            self.waiting.append(value)

    def _one(self, value):
        kind = type(value)
        if kind in (list, tuple, dict):
            if not walk.is_plain(value):
                for part in (*value.keys(), *value.values()) if kind is dict else value:
                    self.value(part)
        elif kind in (set, frozenset):
            self._set(value)
        elif kind is collections.OrderedDict:
            if classes.instance_dict(value):
                raise Refused("attributes of an OrderedDict")
            for part in (*dict.keys(value), *dict.values(value)):
                self.value(part)
        elif kind is types.FunctionType:
            self.function(value)
        elif kind is types.MethodType:
            self._method(value)
        elif kind is functools.partial:
            self._partial(value)
        elif library.inherits(type(value), type):
            self._class_as_value(value)
        else:
            self._instance(value, kind)

    def _set(self, value):
        self.by_hash |= any(type(part) is not int for part in value)
        self.set_order(value)
        for part in value:
            self.value(part)

    def set_order(self, value):
        """Somebody may go through the set @value."""
        order = [walk.inline(part) or b"?" for part in value]
        if self.orders.setdefault(tuple(sorted(order)), order) != order:
            raise Refused("equal sets of different orders")

    def _method(self, method):
        owner, function = method.__self__, method.__func__
        call = self.calls.get(id(method))
        if call is not None:
            self._call_as_value(call, method)
            return
        self.value(owner)
        for base in library.mro(type(owner)):
            if library.is_user_class(base) and any(
                    value is function for value in library.class_dict(base).values()):
                self.function(function, base)
                return
        self.value(function)

    def computes_by(self, name):
        """A function or method of this @name takes part."""
        self.by_threads |= name in tables.BY_BLAS
        self.has_memory |= name == "frombuffer"  # of bytes, which torch writes to all the same

    def called_by_name(self, target):
        """@target, which is in .calls, takes part."""
        self.computes_by(getattr(target, "__name__", None))
        if id(target) in self.homes:
            check_modules(self.homes[id(target)], self.modules)

    def _call_as_value(self, call, value):
        self.called_by_name(value)
        if call.limit is not None or call.rule is not None:
            raise Refused("%s as a value" % getattr(value, "__name__", type(value)))
        if call.draws:
            self.generators.add(call.draws)

    def _partial(self, value):
        if value.__dict__ or tables.CHANGING_KEYWORDS & set(value.keywords):
            raise Refused("functools.partial")
        self.holds(value.args)
        self.holds(tuple(value.keywords.values()))
        for part in (value.func, *value.args, *value.keywords.values()):
            self.value(part)

    def _class_as_value(self, kind):
        call = self.calls.get(id(kind))
        if call is not None:
            self._call_as_value(call, kind)
        elif id(kind) not in _BUILT_IN and not self._is_type_key(kind):
            raise Refused("class " + library.class_name(kind))

    @staticmethod
    def _is_type_key(kind):
        """Classes that v2 transforms tell their inputs by; making one changes nothing."""
        return library.class_module(kind).startswith("torchvision.tv_tensors") and \
            library.is_library_class(kind)

    def _instance(self, value, kind):
        module, name = library.class_module(kind), _name(kind)
        if kind is types.BuiltinFunctionType or library.class_name(kind) in FUNCTION_CLASSES:
            if id(value) not in self.calls:
                raise Refused("%s.%s" % (value.__module__, value.__name__))
            self._call_as_value(self.calls[id(value)], value)
            return
        row = ROWS.get((module, name))
        if row is not None and library.is_library_class(kind):
            self.code_holds |= name == "TensorDataset" or _hands_out(value, module)
            self.row(kind, row)
            self._attributes(value)
        elif self.is_named_tuple(kind):
            self.named_tuple(kind)
            for part in tuple.__iter__(value):
                self.value(part)
        elif library.is_user_class(kind):
            self.user_objects += 1
            versions.check()
            self.user_class(kind, ROWS)
            self._attributes(value)
        elif kind is types.SimpleNamespace or (module, name) == ("argparse", "Namespace") and \
                library.is_library_class(kind):
            self._attributes(value)
        elif not self._is_value(value, kind, module, name):
            raise Refused("%s.%s" % (module, name))

    def row(self, kind, generators):
        """Objects of class @kind of a library take part."""
        self.computes_by(_name(kind))
        for base in library.mro(kind):
            if base is not object:
                self.check_class(base)
                check_modules(library.class_module(base), self.modules)
        self.generators.update(generators)
        self.library_class(kind)

    def check_class(self, kind):
        """Raise Refused unless class @kind of a library is as it was made."""
        if id(kind) not in self.met:
            self.met[id(kind)] = kind
            check_class(kind)

    def _names(self, attributes):
        """An object has these @attributes, or parts; numbers and strings nobody calls."""
        for name, value in attributes.items():
            if type(name) is not str:
                raise Refused("attribute %s" % (name,))
            if type(value) in _PLAIN:
                continue
            self.instance_names.add(name)
            # Many a library asks the object, not its class, for what should be a method.
            if name[:2] == name[-2:] == "__" and name not in _NOTES:
                raise Refused("attribute " + name)

    def _attributes(self, value):
        attributes = classes.instance_dict(value) or {}
        self._names(attributes)
        for name in ("_modules", "_parameters", "_buffers"):
            if type(attributes.get(name)) in (dict, collections.OrderedDict):
                self._names(attributes[name])
        self.in_place |= bool(attributes.get("inplace"))
        self.has_state |= any(attributes.get(name) for name in ("_parameters", "_buffers"))
        for part in list(attributes.values()):
            self.value(part)
        for base in user_parts(type(value)):
            for member in list(library.class_dict(base).values()):
                if type(member) is types.MemberDescriptorType:
                    try:
                        self.value(member.__get__(value))
                    except AttributeError:
                        pass  # not set

    def _is_value(self, value, kind, module, name):
        """Whether @value only holds numbers or names."""
        numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
        if kind is torch.Tensor or numpy is not None and kind is numpy.ndarray:
            if kind is torch.Tensor and (classes.instance_dict(value) or value.requires_grad
                                         or value.grad is not None
                                         or getattr(value, "has_names", bool)()):
                raise Refused("attributes of a tensor")
            self.has_base |= kind is not torch.Tensor and value.base is not None
            if kind is not torch.Tensor and value.dtype.hasobject:
                raise Refused("objects in an array")
            self.has_memory = True
            if kind is torch.Tensor and value.layout is torch.strided and \
                    value.device.type == "cpu":
                self.addresses.append(value.data_ptr())
            elif kind is not torch.Tensor:
                self.addresses.append(value.__array_interface__["data"][0])
            self.has_array |= kind is not torch.Tensor
            return True
        return (kind in (torch.dtype, torch.device, torch.Size)
                or numpy is not None and library.inherits(kind, numpy.dtype)
                or numpy is not None and library.inherits(kind, numpy.generic)
                and module == "numpy"
                or library.inherits(kind, enum.Enum) and library.is_library_class(kind)
                or (module, name) in tables.VALUES)

    # ---- code ----

    def function(self, function, owner=None):
        """@function may be called, with anything; by @owner's instances alone when given."""
        key = (id(function), id(owner))
        if key in self.functions:
            return
        self.functions[key] = (function, owner)
        call = self.calls.get(id(function))
        if call is not None:
            self._call_as_value(call, function)
            return
        inner = self.of_dataclass(function)
        if inner is not None:
            self.function(inner, owner)
            return
        if library.is_library_function(function):
            raise Refused("%s.%s" % (function.__module__, function.__qualname__))
        versions.check()  # before any of it is read
        self._check_names(function)
        for value in (function.__defaults__, function.__kwdefaults__, function.__dict__ or None):
            self.value(value)
            self.holds(value)
        self._names(function.__dict__)
        reader = Reader(self, function.__code__, function.__globals__, {}, owner)
        reader.cells = {name: self._cell(reader, name, cell) for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or ())}
        self.has_code = True
        reader.read()

    def holds(self, value):
        """Code of the user's can get at @value, and so may its items."""
        if value is not None and not self.is_callable(value) and not (
                type(value) is tuple and _is_immutable(value)):
            self.code_holds = True

    def _check_names(self, function):
        names = function.__globals__
        builtins = getattr(function, "__builtins__", None)
        if builtins is None:
            builtins = names.get("__builtins__", self.builtins)
            builtins = builtins if type(builtins) is dict else builtins.__dict__
        if type(names) is not dict or builtins is not self.builtins:
            raise Refused("the globals of " + function.__qualname__)

    @staticmethod
    def _cell(reader, name, cell):
        try:
            content = cell.cell_contents
        except ValueError:
            return None  # not assigned yet
        if name == "__class__":
            return Value("known", content)
        return reader.outside(content)

    def is_callable(self, value):
        """Whether @value is to be told by what it is rather than walked at once."""
        return (type(value) in (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
                or library.inherits(type(value), type) or id(value) in self.calls)

    def called(self, target, arguments, keywords):
        """Code calls @target, which is not in tables.CALLS."""
        if not library.inherits(type(target), type):
            self.value(target)
            return
        row = ROWS.get((library.class_module(target), _name(target)))
        if row is None or not library.is_library_class(target):
            if not self.is_named_tuple(target):
                raise Refused("a new %s" % library.class_name(target))
            self.named_tuple(target)
        elif keywords is None or arguments is None or len(arguments) > 2 or \
                "inplace" in keywords or issubclass(target, sys.modules[
                    "torch.utils.data"].Dataset):
            raise Refused("a new %s" % library.class_name(target))
        else:
            self.row(target, row)

    def class_attribute(self, kind, name):
        """What code finds as @kind.@name, a class of its own or a library's; None: refused."""
        if not library.inherits(type(kind), type):
            return None
        row = ROWS.get((library.class_module(kind), _name(kind)))
        if row is not None and name == "get_params" and library.is_library_class(kind):
            return self._parameters_of(kind, row)
        if library.is_library_class(kind):
            members = library.class_dict(kind).get("_member_map_")
            is_enum = library.inherits(kind, enum.Enum) and type(members) is dict
            return members.get(name) if is_enum else None
        return self.constant_of(kind, name)

    def _parameters_of(self, kind, row):
        """RandomCrop.get_params and the like, which people call for images and masks at once."""
        for base in library.mro(kind):
            found = library.class_dict(base).get("get_params")
            if type(found) is staticmethod and library.is_library_function(found.__func__):
                self.row(kind, row)
                self.calls[id(found.__func__)] = tables.Call(draws=row[0] if row else None)
                return found.__func__
        return None
