# SPDX-License-Identifier: MIT
"""
Parts of samples that are not builtin, as builtin ones: what codec.py writes in their place.

In the structure of a sample stands (StopIteration, kind, constant, parts) for each: the constant
is plain, the parts are built first.  Classes are found by their names among the modules that are
loaded here; where there is none of that name the sample is not understood.

Which objects can be told: those that are nothing but their attributes, and a few of libraries.
"""

import collections
import enum
import pathlib
import sys
import types
import weakref

import torch

from ... import any_torch
from ...fingerprint import traced

MARK = StopIteration
AGAIN = "again"  # in the place of a kind: a list or dict that was met before, by its number

# While it is entered, what a class of tensors has in the place of torch's own is not called.
without_overrides = getattr(torch._C, "DisableTorchFunctionSubclass", None) or \
    torch._C.DisableTorchFunction
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_MODES = frozenset(("1", "L", "LA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV", "I", "F",
                    "I;16"))
# Attributes of an image that are told by its mode, size and bytes, or are its info.
_IMAGE = frozenset(("im", "_im", "mode", "_mode", "_size", "palette", "info", "readonly",
                    "_readonly", "pyaccess", "_exif", "_category"))


# These say how they are pickled, by nothing but their attributes.
_PICKLED = frozenset((("transformers.tokenization_utils_base", "BatchEncoding"),
                      ("transformers.feature_extraction_utils", "BatchFeature")))


class Unshareable(Exception):
    """The sample holds something that could not be given back exactly."""


# ---- names ----

def _named(module, qualname):
    """The class of that name, or None; imports nothing, which could run a script."""
    found = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _name(kind):
    """(module, qualified name) of @kind, if it is found there."""
    name = (kind.__module__, kind.__qualname__)
    if _named(*name) is not kind:
        raise Unshareable(kind.__qualname__)
    return name


def _class(name):
    found = _named(*name)
    if found is None:
        raise Unshareable(".".join(name))
    return found


# ---- what is told by its attributes ----

def _is_plain_class(kind):
    """Whether instances of @kind are nothing but a dict of attributes, and may be copied so."""
    for base in kind.__mro__[:-1]:
        if not base.__flags__ & _HEAP_TYPE or any(
                type(part) is types.MemberDescriptorType for part in vars(base).values()):
            return False
    if (kind.__module__, kind.__qualname__) in _PICKLED:
        return True
    return (kind.__dictoffset__ != 0 and kind.__mro__[-1] is object
            and kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__ and not hasattr(kind, "__setstate__")
            and getattr(kind, "__getstate__", None) is getattr(object, "__getstate__", None)
            and kind.__basicsize__ <= object.__basicsize__ + 16 and not hasattr(kind, "__del__"))


def _is_open_tensor(kind):
    """Whether @kind of tensor is a plain one with attributes."""
    return (issubclass(kind, torch.Tensor) and not kind.__module__.startswith("torch.")
            and not any_torch.has_dispatch(kind)
            and not any(type(part) is types.MemberDescriptorType for base in kind.__mro__
                        if base is not torch.Tensor and issubclass(base, torch.Tensor)
                        for part in vars(base).values()))


def _as(tensor, kind):
    with without_overrides():
        return tensor.as_subclass(kind)


def _is_image(kind):
    module = sys.modules.get("PIL.Image")
    return module is not None and kind is module.Image


# ---- graphs of PyTorch Geometric ----

_GRAPH = ("torch_geometric.data.data", "Data")
_STORE = ("torch_geometric.data.storage", "GlobalStorage")
_SAYS = ("torch_geometric.data.storage", "AttrType")  # in a cache: what an attribute belongs to


def _is_graph(kind):
    return (kind.__module__, kind.__qualname__) == _GRAPH and _named(*_GRAPH) is kind


def _cache(table):
    """The cache @table of a graph's store as a constant."""
    says = _class(_SAYS)
    if type(table) is not collections.defaultdict or table.default_factory is not set or not all(
            type(key) is says and type(names) is set and all(type(name) is str for name in names)
            for key, names in table.items()):
        raise Unshareable("graph")
    return tuple((key.name, tuple(sorted(names))) for key, names in table.items())


def _tell_graph(graph):
    """
    A graph is a store, which refers back to it, and classes; a store is a dict and whatever the
    program has set that begins with an underscore.
    """
    own = dict(vars(graph))
    store = own.get("_store")
    if type(store) is not _class(_STORE):
        raise Unshareable("graph")
    own["_store"] = None
    kinds = tuple((name, part and _name(part)) for name, part in own.items()
                  if part is None or isinstance(part, type))
    parts = dict(vars(store))
    parent, table = parts.pop("_parent", None), parts.pop("_cached_attr", None)
    if len(kinds) != len(own) or type(parent) is not weakref.ref or parent() is not graph or \
            type(parts.get("_mapping")) is not dict:
        raise Unshareable("graph")
    constant = (*_GRAPH, kinds, tuple(vars(store)), _cache(table) if table is not None else ())
    return "graph", constant, parts, None


def _graph(constant, parts, _):
    _, _, kinds, names, table = constant
    graph, store = (object.__new__(_class(name)) for name in (_GRAPH, _STORE))
    says = _class(_SAYS)
    parts["_parent"] = weakref.ref(graph)
    parts["_cached_attr"] = collections.defaultdict(
        set, ((says[name], set(words)) for name, words in table))
    vars(store).update((name, parts[name]) for name in names)
    vars(graph).update((name, kind and _class(kind)) for name, kind in kinds)
    vars(graph)["_store"] = store
    return graph


# ---- sparse tensors ----

_SPARSE = {  # layout -> (name of what makes one, names of what tells its parts)
    torch.sparse_coo: ("sparse_coo_tensor", ("_indices", "_values")),
    getattr(torch, "sparse_csr", None): ("sparse_csr_tensor", ("crow_indices", "col_indices", "values")),
}


def _tell_sparse(tensor):
    maker, names = _SPARSE.get(tensor.layout, (None, ()))
    if maker is None or tensor.requires_grad or tensor.__dict__:
        raise Unshareable("tensor")
    is_coalesced = tensor.is_coalesced() if tensor.layout is torch.sparse_coo else None
    return "sparse", (maker, tuple(tensor.shape), is_coalesced), tuple(
        [getattr(tensor, name)() for name in names]), None


def _sparse(constant, parts, _):
    maker, shape, is_coalesced = constant
    if maker not in [name for name, _ in _SPARSE.values()]:
        raise Unshareable("sparse")
    made = getattr(torch, maker)(*parts, shape, device="cpu")
    return made if is_coalesced is None else made._coalesced_(is_coalesced)


# ---- addresses of transforms ----

MOST = 64  # data sets whose transforms are kept
_transforms = {}  # name of a data set -> its transforms, in an order that is the same in all jobs
_in_use = ()  # names of those whose samples are made or taken now


def learn_transforms(name, transforms):
    """The data set of this @name has these @transforms, which leave their addresses in what they make."""
    if len(_transforms) >= MOST:
        _transforms.clear()
    _transforms[name] = transforms


def use_transforms(names):
    """From now on samples are of the data sets of these @names."""
    global _in_use
    _in_use = names


def is_address(key, value):
    """Whether an item of a dict with a @key that is no text tells where a transform is."""
    return type(value) is int and isinstance(key, enum.Enum) and key.value == traced.KEY


def address(value):
    """
    The structure for this address.  One that is of no transform that a data set holds was of one that
    lived for an item: nothing has it any more.  Unshareable where a data set is not known.
    """
    if not _in_use or not all(name in _transforms for name in _in_use):
        raise Unshareable("address")
    for name in _in_use:
        for number, transform in enumerate(_transforms[name]):
            if id(transform) == value:
                return MARK, "address", (name, number), None, ()
    return MARK, "address", None, None, ()


def _address(constant, *_):
    if constant is None:
        return id(MARK)
    name, number = constant
    transforms = _transforms.get(name, ())
    if number >= len(transforms):
        raise Unshareable("address")
    return id(transforms[number])


def tell(value, kind):
    """
    (kind, constant, parts, tensor or None) of @value, which is of no builtin type: the parts are
    to be told in turn, and the tensor is what is a leaf of it.  Raises Unshareable.
    """
    if kind.__bases__ == (tuple,) and hasattr(kind, "_fields"):
        return "namedtuple", _name(kind), tuple(value), None
    if issubclass(kind, enum.Enum):
        if kind.__members__.get(value.name) is not value:  # several flags at once
            raise Unshareable("enumerator")
        return "enum", (*_name(kind), value.name), None, None
    if kind is torch.Tensor and value.layout is not torch.strided:
        return _tell_sparse(value)
    if _is_open_tensor(kind):
        return "tensor", _name(kind), dict(vars(value)), _as(value, torch.Tensor)
    if kind is pathlib.PosixPath:
        return "path", str(value), None, None
    if _is_image(kind):
        if value.mode not in _MODES or not vars(value).keys() <= _IMAGE or any(
                vars(value).get(name) is not None for name in ("palette", "_exif", "pyaccess")):
            raise Unshareable("image")
        pixels = torch.frombuffer(bytearray(value.tobytes() or b"\0"), dtype=torch.uint8)
        return "image", (value.mode, value.size), value.info, pixels
    if _is_graph(kind):
        return _tell_graph(value)
    if _is_plain_class(kind):
        return "object", _name(kind), dict(vars(value)), None
    raise Unshareable(kind.__qualname__)


def key(value):
    """@value, a dict's key, if another one that is equal does as well."""
    kind = type(value)
    if kind is tuple:
        return tuple(map(key, value))
    if kind not in (type(None), bool, int, float, complex, str, bytes) and \
            not issubclass(kind, enum.Enum):
        raise Unshareable("key")
    return value


# ---- what comes back ----

def _tensor(name, parts, tensor):
    made = _as(tensor, _class(name))
    vars(made).update(parts)
    return made


def _image(constant, parts, pixels):
    mode, size = constant
    module = sys.modules.get("PIL.Image")
    if module is None:
        raise Unshareable("image")
    if 0 in size:
        made = module.new(mode, size)
    else:
        made = module.frombytes(mode, size, pixels.numpy().tobytes())
    made.info = parts
    return made


def _object(name, parts, _):
    kind = _class(name)
    made = object.__new__(kind)
    vars(made).update(parts)
    return made


def _array(shape, parts, _):
    numpy = sys.modules["numpy"]
    made = numpy.empty(len(parts), dtype=object)
    for number, part in enumerate(parts):
        made[number] = part
    return made.reshape(shape)


_BUILDERS = {  # kind -> what makes one of (constant, parts, tensor)
    "namedtuple": lambda name, parts, _: _class(name)._make(parts),
    "enum": lambda name, *_: _class(name[:2])[name[2]],
    "path": lambda text, *_: pathlib.PosixPath(text),
    "dict": lambda _, parts, __: dict(parts),
    "tensor": _tensor, "image": _image, "object": _object, "graph": _graph, "array": _array,
    "sparse": _sparse, "address": _address}
IMMUTABLE = frozenset(("namedtuple", "enum", "path"))  # the same one in two places may be two
_WITH_CLASS = frozenset(("namedtuple", "enum", "tensor", "object", "graph"))


def build(kind, constant, parts, tensor):
    """What tell() was told; Unshareable where its class is not known here."""
    return _BUILDERS[kind](constant, parts, tensor)


def check(kind, constant):
    """Raise Unshareable unless build() will find the class."""
    if kind == "address":
        _address(constant)
    if kind in _WITH_CLASS:
        found = _class(constant[:2])
        if kind == "enum" and constant[2] not in found.__members__:
            raise Unshareable("enumerator")
