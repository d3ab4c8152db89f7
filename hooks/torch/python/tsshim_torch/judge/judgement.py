# SPDX-License-Identifier: MIT
"""
Data sets whose items are a function of the data set, its files and known generators alone.

Sharing whole samples by default needs more than an equal fingerprint: an item may ask a clock,
keep a counter, or have a generator of its own.  So every object that takes part must be of a
class in allowed.py, as its library made it, or of a class of the user's; and every function
must be in these tables, or the user's and made of harmless instructions (reader.py says why
that is enough).  Anything else is not shared (but its pixels are).

A method of a class of the user's is reached by its name, by an operator (then its name is between
underscores), or, where the class is derived from one of a library, by the library.  The first kind
is read when some code asks for an attribute of that name, whatever it asks; the others always are.
"""

import abc
import collections
import dataclasses
import enum
import functools
import hashlib
import operator
import reprlib
import sys
import types

from .. import collecting
from ..fingerprint import classes, library, walk
from ..fingerprint import frames  # noqa: F401 -- registers what it knows
from . import Refused, allowed, surroundings, versions
from .instructions import Value
from .reader import Reader

__all__ = ("Judgement", "PYTHON", "Refused", "TORCH", "NUMPY", "judge")

TORCH, PYTHON, NUMPY = allowed.TORCH, allowed.PYTHON, allowed.NUMPY


# (module, name) of a class of a library whose objects may take part -> generators that they draw from
ROWS = {(module, name): generators for table in (allowed.TRANSFORMS, allowed.DATASETS)
        for module, groups in table.items() for generators, names in groups.items()
        for name in names.split()}
# Attributes that are named like methods and called by nobody.
_NOTES = frozenset(("__wrapped__", "__name__", "__qualname__", "__doc__", "__module__",
                    "__annotations__", "__type_params__", "__orig_class__"))
# Built in, and harmless whatever they are called with: they may be values.
_BUILT_IN = frozenset(map(id, (int, float, bool, str, bytes, complex, list, dict, tuple, range)))
# What runs in the middle of something else, or hides what an object is.
_FORBIDDEN = frozenset((
    "__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__del__", "__new__",
    "__enter__", "__exit__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__",
    "__getnewargs__", "__getnewargs_ex__", "__copy__", "__deepcopy__", "__getitems__",
    "__instancecheck__", "__subclasscheck__", "__subclasshook__", "__mro_entries__",
    # NumPy and torch ask for these, and may take what they give for new.
    "__array__", "__array_interface__", "__array_struct__", "__array_ufunc__",
    "__array_function__", "__array_wrap__", "__torch_function__", "__buffer__",
    "__release_buffer__"))
# What no item runs: it makes objects or classes, or documents them.
_UNUSED = classes.CLASS_NOISE | {"__init__", "__slots__", "__match_args__", "__dataclass_fields__",
                         "__init_subclass__", "__set_name__", "__class_getitem__",
                         "__post_init__", "__classcell__", "__protocol_attrs__", "__replace__"}
# What a class made by collections.namedtuple() has besides its fields.
_NAMED_TUPLE = classes.CLASS_NOISE | {"__slots__", "__match_args__", "__new__", "__repr__", "__replace__",
                              "__getnewargs__", "_fields", "_field_defaults", "_make", "_replace",
                              "_asdict", "_fields_defaults", "_field_types", "__orig_bases__"}
_ARITHMETIC = frozenset("__%s%s__" % (kind, name) for kind in ("", "r", "i") for name in (
    "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor").split())
_LIBRARY_SPECIAL = frozenset(("__getitem__", "__len__", "__call__", "forward"))


def _codes_in(code):
    found = [part for part in code.co_consts if type(part) is types.CodeType]
    return found + [inner for part in found for inner in _codes_in(part)]


# What dataclasses put around a __repr__: until Python 3.12 a function of their own.
_WRAPPERS = _codes_in(getattr(
    dataclasses, "_recursive_repr", reprlib.recursive_repr).__code__)
_FIELD = type(collections.namedtuple("_Pair", "one").one)


def _is_of_dataclass(kind, name):
    """Whether @name of class @kind is the comparison that dataclasses made: it asks objects of it for fields."""
    own = library.class_dict(kind)
    fields, function = own.get("__dataclass_fields__"), own[name]
    if name != "__eq__" or type(fields) is not dict or type(function) is not types.FunctionType:
        return False
    compared = tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    return _comparison(compared) == _written(function.__code__)


_written = operator.attrgetter("co_code", "co_names", "co_consts", "co_freevars")


@functools.lru_cache(64)
def _comparison(names):
    """How dataclasses compare objects by the fields of these @names."""
    return _written(dataclasses.make_dataclass("_Made", names).__eq__.__code__)


def _is_immutable(values):
    return all(id(type(value)) in walk.ATOM_IDS or type(value) is types.FunctionType
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


def _row_of(kind):
    """That of class @kind in ROWS, or None."""
    row = ROWS.get((library.class_module(kind), library.qualified_name(kind)))
    return row if row is not None and library.is_library_class(kind) else None


def user_parts(kind):
    """The classes of the user's among those @kind is derived from, itself included."""
    return [base for base in library.mro(kind) if library.is_user_class(base)]


# What is known of the items of a data set.
# .generators  what they draw from
# .by_hash     whether the order of a set may decide, which depends on the hashes of strings
# .exposes     whether an item may be, or refer to, what the data set holds: whoever changes
#              the item, as a collate function might, changes the data set, and what comes
#              from another job is a copy
# .by_threads  whether the number of threads of a BLAS may decide, by the order of its sums
# .orders      16 bytes for the orders of the sets that the data set holds: equal sets may
#              differ in that, by how they were made
Judgement = collections.namedtuple(
    "Judgement", "generators by_hash exposes by_threads orders", defaults=(False, b""))


@collecting.put_off()
def judge(dataset):
    """
    The Judgement on items of @dataset.  Raises Refused, or where code or classes of the user's
    take part, and not the libraries' alone, versions.Unjudged.  Runs no code of the user's.
    """
    walk.register()
    found = Judge()
    surroundings.check(found.modules)
    return found.all_of(dataset)


# ---- what the data set refers to ----

class Judge:
    """What reader.Reader tells of what code may do, and all that the data set refers to."""

    def __init__(self):
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
        self.has_array = False
        self.has_state = False  # a module with parameters
        self.in_place = False  # a transform that changes its argument
        self.user_objects = 0  # that were met
        self._calls = None
        self.homes = {}
        self.classes = {}  # id -> class of the user's whose instances take part
        self.libraries = {}  # the same of libraries
        self.functions = {}  # (id, id of the owner) -> (function, owner) that was read
        self.checked = set()  # (id of a class, name, whether of super)
        self.has_code = self.code_holds = False
        # What code does:
        self.names = set()  # it asks values for
        self.unknown_names = set()  # those of them that are in no table
        self.own_names = set()  # (owner, name, whether of super) it asks the first argument for
        self.new_names = set()  # of methods that are taken to give something new
        self.instance_names = set()
        self.signs = set()  # of operators that sets have
        self.has_arithmetic = False  # what an operator gives is taken for new
        self.has_resize = False  # resize() is called, which changes an array but no picture

    @property
    def calls(self):
        """{id: Call} of what may be called by name."""
        if self._calls is None:
            self._calls, self.homes = surroundings.find_calls()
        return self._calls

    def all_of(self, value):
        """The Judgement on @value; Refused when something it refers to is not allowed."""
        self.value(value)
        while self.waiting or self.close():
            while self.waiting:
                self._one(self.waiting.pop())
        self.conclude()
        if self.by_hash and self.user_objects > 1:
            raise Refused("a set, perhaps of objects, whose order depends on where they lie")
        if self.has_base and self.names & {"base", "owndata", "flags"}:
            raise Refused("what an array is part of")
        if self.addresses:
            surroundings.check_memory(self.addresses)
        orders = b"".join(walk.joined(order) for _, order in sorted(self.orders.items()))
        return Judgement(frozenset(self.generators), self.by_hash, self.code_holds, self.by_threads,
                         hashlib.blake2b(orders, digest_size=16).digest() if orders else b"")

    def value(self, value):
        """@value may be anywhere from now on."""
        if id(type(value)) not in walk.ATOM_IDS and id(value) not in self.met:
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
        self.by_threads |= name in allowed.BY_BLAS
        self.has_memory |= name == "frombuffer"  # of bytes, which torch writes to all the same

    def called_by_name(self, target):
        """@target, which is in .calls, takes part."""
        self.computes_by(getattr(target, "__name__", None))
        if id(target) in self.homes:
            surroundings.check_modules(self.homes[id(target)], self.modules)

    def _call_as_value(self, call, value):
        self.called_by_name(value)
        if call.limit is not None or call.rule is not None:
            raise Refused("%s as a value" % getattr(value, "__name__", type(value)))
        if call.draws:
            self.generators.add(call.draws)

    def _partial(self, value):
        if value.__dict__ or allowed.CHANGING_KEYWORDS & set(value.keywords):
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
        module, name = library.class_module(kind), library.qualified_name(kind)
        if kind is types.BuiltinFunctionType or library.class_name(kind) in library.NAMED:
            if id(value) not in self.calls:
                raise Refused("%s.%s" % (value.__module__, value.__name__))
            self._call_as_value(self.calls[id(value)], value)
            return
        row = _row_of(kind)
        if row is not None:
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
            self.user_class(kind)
            self._attributes(value)
        elif kind is types.SimpleNamespace or (module, name) == ("argparse", "Namespace") and \
                library.is_library_class(kind):
            self._attributes(value)
        elif not self._is_value(value, kind, module, name):
            raise Refused("%s.%s" % (module, name))

    def row(self, kind, generators):
        """Objects of class @kind of a library take part."""
        self.computes_by(library.qualified_name(kind))
        for base in library.mro(kind):
            if base is not object:
                self.check_class(base)
                surroundings.check_modules(library.class_module(base), self.modules)
        self.generators.update(generators)
        self.libraries[id(kind)] = kind

    def check_class(self, kind):
        """Raise Refused unless class @kind of a library is as it was made."""
        if id(kind) not in self.met:
            self.met[id(kind)] = kind
            surroundings.check_class(kind)

    def _names(self, attributes):
        """An object has these @attributes, or parts; numbers and strings nobody calls."""
        for name, value in attributes.items():
            if type(name) is not str:
                raise Refused("attribute %s" % (name,))
            if id(type(value)) in walk.ATOM_IDS:
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
                or (module, name) in allowed.VALUES)

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
        """Code calls @target, which is not in allowed.CALLS."""
        if not library.inherits(type(target), type):
            self.value(target)
            return
        row = _row_of(target)
        if row is None:
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
        row = _row_of(kind)
        if row is not None and name == "get_params":
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
                self.calls[id(found.__func__)] = allowed.Call(draws=row[0] if row else None)
                return found.__func__
        return None

    # ---- what reader.Reader tells of code ----

    def name(self, name, known):
        """Code asks a value for an attribute."""
        self.names.add(name)
        if not known:
            if name in surroundings.holders():
                raise Refused("." + name)
            self.unknown_names.add(name)

    def own_name(self, owner, name, is_super):
        """A method of class @owner asks its first argument, or super(), for an attribute."""
        if name.startswith("__") and name not in _LIBRARY_SPECIAL:
            raise Refused("." + name)
        self.own_names.add((owner, name, is_super))

    @staticmethod
    def asked_class(kind):
        """Whether a value is of class @kind is asked."""
        if type(kind) not in (type, abc.ABCMeta) and not library.is_library_class(kind):
            raise Refused("a class of a class")
        for base in user_parts(kind):
            if "__subclasshook__" in library.class_dict(base):
                raise Refused("__subclasshook__")
        if library.inherits(type(kind), abc.ABCMeta):
            surroundings.check_asked(kind)

    # ---- classes ----

    def user_class(self, kind):
        """Objects of class @kind of the user's take part."""
        if id(kind) in self.classes:
            return
        self.classes[id(kind)] = kind
        self.code_holds = True  # each of its methods has the object itself
        if type(kind) not in (type, abc.ABCMeta):
            raise Refused("the class of " + library.class_name(kind))
        is_driven = False
        for base in library.mro(kind):
            if library.is_user_class(base):
                continue
            name = library.class_name(base)
            row = ROWS.get(tuple(name.rpartition(".")[::2]))
            if not (row is not None or name in allowed.BASES) or \
                    base is not object and not library.is_library_class(base):
                raise Refused("a subclass of " + name)
            if row is not None:
                self.row(base, row)
            elif base is not object:
                self.check_class(base)
            is_driven |= row is not None or name == "torch.nn.modules.module.Module"
        for base in user_parts(kind):
            self._special_methods(base, is_driven)

    def _special_methods(self, base, is_driven):
        for name, value in list(library.class_dict(base).items()):
            special = name.startswith("__") and name.endswith("__")
            if _is_of_dataclass(base, name):
                continue
            if name in _FORBIDDEN or name == "__dict__" and \
                    type(value) is not types.GetSetDescriptorType:
                raise Refused("%s of %s" % (name, library.class_name(base)))
            # Functions of libraries ask for names of what they expect: numpy.mean() for .mean.
            if name not in _UNUSED and (special or name in surroundings.holders()
                                        or is_driven and name not in allowed.INIT_ONLY):
                self.member(base, value)

    def member(self, owner, value):
        """@value, of the dict of class @owner of the user's, may be used."""
        if type(value) is types.FunctionType:
            self.function(value, owner)
        elif type(value) is staticmethod:
            self.value(value.__func__)
        elif type(value) is property:
            if type(value.fget) is not types.FunctionType:
                raise Refused("a property")
            self.function(value.fget, owner)
        elif type(value) is not types.MemberDescriptorType:
            self.value(value)

    # ---- what follows from names and classes together ----

    def close(self):
        """Read what became reachable since the last call; whether there was anything."""
        before = len(self.checked)
        for kind in list(self.classes.values()):
            for name in list(self.names):
                self._reach(kind, name, False)
            for owner, name, is_super in list(self.own_names):
                if library.inherits(kind, owner):
                    self._reach(kind, name, is_super, own=True)
        return len(self.checked) > before

    def _reach(self, kind, name, is_super, own=False):
        key = (id(kind), name, is_super, own)
        if key in self.checked:
            return
        self.checked.add(key)
        for base in library.mro(kind):
            found = library.class_dict(base)
            if name not in found:
                continue
            if library.is_user_class(base):
                self.member(base, found[name])
            elif own and name not in allowed.ATTRIBUTES and name not in _LIBRARY_SPECIAL and \
                    not walk.is_plain((found[name],)):
                raise Refused(".%s of %s" % (name, library.class_name(base)))
            if not is_super:
                return

    def conclude(self):
        """Raise Refused when what code does cannot be done to what was met."""
        for kind in (*self.libraries.values(), *self.classes.values()):
            for base in library.mro(kind):
                of_user = library.is_user_class(base)
                found = library.class_dict(base).keys()
                if not of_user and found & self.unknown_names:
                    raise Refused("an attribute of " + library.class_name(base))
                if of_user and (found & self.new_names
                                or self.has_arithmetic and found & _ARITHMETIC):
                    raise Refused("what %s gives" % library.class_name(base))
        if self.instance_names & self.new_names:
            raise Refused("a function that is called .copy")
        if self.has_resize and self.has_array:
            raise Refused(".resize")
        if self.has_code and (self.has_state or self.in_place and self.has_memory):
            raise Refused("a change in place")
        if self.signs and "keys" in self.names or self.signs - {"-"} and "items" in self.names:
            self.by_hash = True

    # ---- parts of classes that are not instances ----

    def constant_of(self, kind, name):
        """A number, string or static function that a class of the user's has; None: refused."""
        if type(kind) not in (type, abc.ABCMeta):
            return None
        for base in library.mro(kind):
            if name in library.class_dict(base):
                found = library.class_dict(base)[name]
                if not library.is_user_class(base) or name.startswith("__"):
                    return None
                if type(found) is staticmethod:
                    return found.__func__
                return found if type(found) in (bool, int, float, str, bytes, tuple, list,
                                                dict) else None
        return None

    @staticmethod
    def is_named_tuple(kind):
        """Whether @kind was made by collections.namedtuple() and nothing was added."""
        if type(kind) is not type or library.mro(kind)[1:] != (tuple, object):
            return False
        members = library.class_dict(kind)
        made = members.get("__new__")
        made = made.__func__ if type(made) is staticmethod else None
        fields = members.get("_fields")
        maker = members.get("_make")
        if type(maker) is not classmethod or type(maker.__func__) is not types.FunctionType or \
                not library.is_library_function(maker.__func__):
            return False
        if type(fields) is not tuple or type(made) is not types.FunctionType:
            return False
        # typing.NamedTuple adds the methods of its class to what collections made.
        return (made.__globals__.get("__name__") == "namedtuple_" + kind.__name__
                and made.__code__.co_filename.startswith("<string>")
                and all(name in _NAMED_TUPLE or name in fields and type(value) is _FIELD
                        for name, value in members.items())
                and all(type(members[name]) is not types.FunctionType
                        or library.is_library_function(members[name])
                        for name in _NAMED_TUPLE.intersection(members)))

    def named_tuple(self, kind):
        """Named tuples of class @kind take part, or are made by an item."""
        members = library.class_dict(kind)
        self.instance_names.update(members["_fields"])
        for value in members["__new__"].__func__.__defaults__ or ():
            self.value(value)
            self.holds(value)

    @staticmethod
    def of_dataclass(function):
        """The function of the user's inside of a __repr__ made by dataclasses, or None."""
        if not any(function.__code__ is code for code in _WRAPPERS):
            return None
        for cell in function.__closure__ or ():
            if type(cell.cell_contents) is types.FunctionType:
                return cell.cell_contents
        return None
