# SPDX-License-Identifier: MIT
"""
Classes whose objects are those of another one, and say when somebody reads them: for unread.py.

An object is given such a class for a while.  Where Python itself refuses to, for classes in C, its
type is written into its head, where bags.has_plain_heads() says that it is there.
"""

import copy
import ctypes
import functools
import json
import pickle
import sys
import types

from ...fingerprint import bags

_TYPE = 8  # where its type lies in an object, behind how often it is referred to

_class = object.__dict__["__class__"]
_kinds = {}  # (class, names, who is asked) -> its class that notices

# Of a dict, by the name of the method: the key comes first; all else but these reads everything.
_KEYED = frozenset(("__getitem__", "get", "pop", "setdefault", "__setitem__", "__delitem__"))
# These tell no value, and keys are part of a name.
_BLIND = frozenset(("__new__", "__init__", "__doc__", "__getattribute__", "__hash__", "__len__",
                    "__contains__", "keys", "__class_getitem__", "fromkeys", "__reversed__"))


def set_class(value, kind):
    """Let @value be of class @kind, which has no fields of its own."""
    try:
        _class.__set__(value, kind)
    except TypeError:  # one of them is C's, which does not count its objects
        for counted, change in ((kind, 1), (type(value), -1)):
            if not bags.is_in_c(counted):
                ctypes.c_ssize_t.from_address(id(counted)).value += change
        ctypes.c_void_p.from_address(id(value) + _TYPE).value = id(kind)


def is_a_tree(kind):
    """Let torch's trees, of which torchvision's transforms are made, take @kind for what dict is: they ask for exactly that."""
    nodes = getattr(sys.modules.get("torch.utils._pytree"), "SUPPORTED_NODES", {})
    if dict in nodes:
        nodes.setdefault(kind, nodes[dict])
    return kind


def noticing(kind, names, armed):
    """
    A class as @kind, whose objects notice; asked for an attribute of these @names they would give the
    class's.  @armed(object) gives what is told: .hidden, .notice(name), .notice_all(); or None.
    """
    known = _kinds.get((kind, names, armed))
    if known is None:
        body = {"__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__,
                "__doc__": kind.__doc__}
        if issubclass(kind, dict):
            body.update(_items(kind, armed))
        if issubclass(kind, types.SimpleNamespace):
            body.update(_in_c(kind, types.SimpleNamespace, armed))
        body.update(_common(kind, armed))
        if bags.dict_of(kind) is not None:
            body.update(_attributes(kind, armed), **{name: _of_both(kind, name, armed) for name in names})
        known = _kinds[kind, names, armed] = type(kind.__name__, (kind,), body)
    return known


def _whole(name, kind, armed):
    """The method @name of @kind, which reads everything."""
    def method(self, *words, **named):
        told = armed(self)
        if told is not None:
            told.notice_all()
        return getattr(kind, name)(self, *words, **named)
    return method


def _of_key(name, kind, armed):
    """The method @name of @kind, a dict, which is about one key."""
    def method(self, *words, **named):
        told = armed(self)
        if told is not None:
            told.notice_item(words[0] if words else named.get("key"))
        return getattr(kind, name)(self, *words, **named)
    return method


def _in_c(kind, base, armed):
    """The methods of @base, in C, which read past what is watched."""
    return {name: _whole(name, kind, armed) for name, method in vars(base).items()
            if callable(method) and name not in _BLIND}


def _reads_past(value):
    """Whether @value, of a class derived from dict, may call the methods of dict."""
    return any(not {"super", "dict"}.isdisjoint(function.__code__.co_names)
               for function in bags.functions(value))


def _items(kind, armed):
    found = {name: _whole(name, kind, armed) for base in kind.__mro__ if not bags.is_in_c(base)
             for name, value in vars(base).items() if not name.startswith("__") and _reads_past(value)}
    keyed = {name: _of_key(name, kind, armed) for name in _KEYED}

    def __iter__(self):  # of keys; who finds it to be dict's own does not ask at all
        return kind.__iter__(self)
    return {**found, **_in_c(kind, dict, armed), **keyed, "__iter__": __iter__}


def _common(kind, armed):
    def set_kind(self, other):
        told = armed(self)
        if told is not None:
            told.notice_all()
        _class.__set__(self, other)
    return {"__class__": property(lambda _: kind, set_kind),
            **{name: _whole(name, kind, armed) for name in ("__reduce_ex__", "__sizeof__")}}


def _attributes(kind, armed):
    reads = bags.dict_of(kind)
    gives = kind.__getattr__ if hasattr(kind, "__getattr__") else object.__getattribute__

    def notice(self, name):
        told = armed(self)
        if told is not None:
            told.notice(name)

    def whole(self):
        told = armed(self)
        if told is not None:
            told.notice_all()

    def __getattr__(self, name):  # one that is not in its dict
        told = armed(self)
        if told is not None and (name in told.names or name in told.hidden):
            told.notice(name)
            found = reads.__get__(self)
            if name in found:
                return found[name]
        return gives(self, name)

    def __setattr__(self, name, value):
        notice(self, name)
        kind.__setattr__(self, name, value)

    def __delattr__(self, name):
        notice(self, name)
        kind.__delattr__(self, name)

    def get_dict(self):
        whole(self)
        return reads.__get__(self)

    def set_dict(self, attributes):
        whole(self)
        reads.__set__(self, attributes)
    return {"__getattr__": __getattr__, "__setattr__": __setattr__, "__delattr__": __delattr__,
            "__dict__": property(get_dict, set_dict)}


def _of_both(kind, name, armed):
    """The attribute @name of objects of @kind that hide theirs, where the class has one as well."""
    def attributes(self):
        told = armed(self)
        if told is not None:
            told.notice(name)
        return bags.dict_of(kind).__get__(self)

    def get(self):
        found = attributes(self)
        if name in found:
            return found[name]
        value = bags.in_class(kind, name)
        give = getattr(type(value), "__get__", None)
        return value if give is None else give(value, self, kind)

    def put(self, value):
        attributes(self)[name] = value

    def remove(self):
        if attributes(self).pop(name, _class) is _class:
            raise AttributeError(name)
    return property(get, put, remove)


class _Try:
    """A dict that is to be read."""

    names, hidden = ("a",), {}

    def __init__(self):
        self.table, self.is_seen = {"a": 1}, False
        _tried[id(self.table)] = self
        set_class(self.table, noticing(dict, frozenset(), _tried_of))

    def notice_item(self, _):
        self.notice_all()

    def notice_all(self):
        del _tried[id(self.table)]
        set_class(self.table, dict)
        self.is_seen = True


_tried = {}  # id(dict) -> _Try


def _tried_of(table):
    return _tried.get(id(table))


@functools.lru_cache(None)
def are_tables_seen():
    """Whether this Python asks dicts of a derived class for what it reads, in each of the usual ways."""
    def spread(**named):
        return named
    return all(_is_seen(read) for read in (
        lambda table: table["a"], lambda table: table.get("a"), dict, lambda table: {**table},
        lambda table: spread(**table), lambda table: {}.update(table), str, lambda table: "%(a)s" % table,
        "{a}".format_map, lambda table: table.copy(), json.dumps, pickle.dumps,
        copy.copy, copy.deepcopy, lambda table: table == {"a": 1}, lambda table: {"a": 1} == table,
        lambda table: list(table.items()), lambda table: list(table.values())))


def _is_seen(read):
    tried = _Try()
    read(tried.table)
    is_seen = tried.is_seen
    if not is_seen:
        tried.notice_all()
    return is_seen
