# SPDX-License-Identifier: MIT
"""
Classes of the user's: which of their methods code may reach, and whether these are harmless.

A method is reached by its name, by an operator (then its name is between underscores), or, where
the class is derived from one of a library, by the library.  The first kind is read when some code
asks for an attribute of that name, whatever it asks; the others always are.
"""

import abc
import collections
import dataclasses
import functools
import operator
import reprlib
import types

from ..fingerprint import library, walk
from ..fingerprint.classes import CLASS_NOISE
from . import tables
from .library import holders
from .state import check_asked
from .values import Refused

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
_UNUSED = CLASS_NOISE | {"__init__", "__slots__", "__match_args__", "__dataclass_fields__",
                         "__init_subclass__", "__set_name__", "__class_getitem__",
                         "__post_init__", "__classcell__", "__protocol_attrs__", "__replace__"}
# What a class made by collections.namedtuple() has besides its fields.
_NAMED_TUPLE = CLASS_NOISE | {"__slots__", "__match_args__", "__new__", "__repr__", "__replace__",
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


def user_parts(kind):
    """The classes of the user's among those @kind is derived from, itself included."""
    return [base for base in library.mro(kind) if library.is_user_class(base)]


class Classes:
    """What was met of classes, and the names by which code asks for attributes."""

    def __init__(self):
        self.classes = {}  # id -> class of the user's whose instances take part
        self.libraries = {}  # the same of libraries
        self.functions = {}  # (id, id of the owner) -> (function, owner) that was read
        self.names = set()  # asked of values
        self.unknown_names = set()  # those of them that are in no table
        self.own_names = set()  # (owner, name, whether of super) asked of the first argument
        self.new_names = set()  # of methods that are taken to give something new
        self.instance_names = set()
        self.signs = set()  # of operators that sets have
        self.has_array = self.has_resize = self.has_arithmetic = False
        self.has_code = self.code_holds = False
        self.checked = set()  # (id of a class, name, whether of super)

    # ---- what code does; called by Reader ----

    def name(self, name, known):
        """Code asks a value for an attribute."""
        self.names.add(name)
        if not known:
            if name in holders():
                raise Refused("." + name)
            self.unknown_names.add(name)

    def own_name(self, owner, name, is_super):
        """A method of class @owner asks its first argument, or super(), for an attribute."""
        if name.startswith("__") and name not in _LIBRARY_SPECIAL:
            raise Refused("." + name)
        self.own_names.add((owner, name, is_super))

    def new_name(self, name):
        """What a method of this name gives is taken for new."""
        self.new_names.add(name)

    def computes(self):
        """What an operator gives is taken for new."""
        self.has_arithmetic = True

    def combines(self, sign):
        """An operator that may combine sets."""
        self.signs.add(sign)

    def resizes(self):
        """resize() is called, which changes an array but no picture."""
        self.has_resize = True

    def uses_sets(self):
        """A set is made, whose order depends on the hashes of strings."""
        self.by_hash = True

    @staticmethod
    def asked_class(kind):
        """Whether a value is of class @kind is asked."""
        if type(kind) not in (type, abc.ABCMeta) and not library.is_library_class(kind):
            raise Refused("a class of a class")
        for base in user_parts(kind):
            if "__subclasshook__" in library.class_dict(base):
                raise Refused("__subclasshook__")
        if library.inherits(type(kind), abc.ABCMeta):
            check_asked(kind)

    # ---- classes ----

    def library_class(self, kind):
        """Objects of class @kind of a library take part."""
        self.libraries[id(kind)] = kind

    def user_class(self, kind, rows):
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
            row = rows.get(tuple(name.rpartition(".")[::2]))
            if not (row is not None or name in tables.BASES) or \
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
            if name not in _UNUSED and (special or name in holders()
                                        or is_driven and name not in tables.INIT_ONLY):
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
            elif own and name not in tables.ATTRIBUTES and name not in _LIBRARY_SPECIAL and \
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

    def exposes(self):
        """See judgement.Judgement."""
        return self.code_holds

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
