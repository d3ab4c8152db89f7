# SPDX-License-Identifier: MIT
"""
Samples as bytes: a small structure ("meta") and the bytes of the large leaves ("payload").

Encoded are exactly: None, bool, int, float, complex, str, bytes, tuple, list, dict, torch.Tensor,
torchvision's Image, Mask and Video, numpy.ndarray and NumPy scalars, and what objects.py can tell.
Whatever comes back is equal in type, value, dtype, strides and order; anything that could not be
(other objects, gradients, two leaves on one memory, one list in two places) raises Unshareable,
and the sample is not shared.

The meta is marshal's: it knows these builtin types exactly, is fast, and cannot run code.
Two singletons that no sample may hold mark what is not builtin: Ellipsis stands for the next
leaf, a tuple that begins with StopIteration for an object.
"""

import ctypes
import marshal
import sys

import torch

from .. import any_torch
from . import objects
from .objects import Unshareable

VERSION = 2  # of marshal: floats binary; later ones tell equal values of other identity apart

FORMAT = 4  # of records; part of the key

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
_FLAT = _PLAIN | {type(Ellipsis)}
DTYPES = {str(value)[6:]: value for value in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8,
    torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128)}
_DTYPE_NAMES = {value: name for name, value in DTYPES.items()}
_DTYPE_BYTES = {name: torch.empty((), dtype=value, device="cpu").element_size()
                for name, value in DTYPES.items()}

# torchvision's subclasses of tensors that hold nothing else, by the kind of their leaves.
_VISION = {"i": "Image", "m": "Mask", "v": "Video"}
PART = "o"  # the leaf of an object: whoever collates is to see the object
TENSORS = frozenset(("t", PART)).union(_VISION)

# Tensors whose dimensions have names were given up in later releases of torch.
_HAS_NAMES = hasattr(torch.Tensor, "has_names")


class Leaf:
    """Where the bytes of a leaf are; kinds: 't' or one of _VISION, 'a' array, 's' NumPy scalar."""

    __slots__ = ("address", "bytes", "keep", "spec")

    def __init__(self, keep, address, size, spec):
        self.keep = keep  # what owns the memory
        self.address = address
        self.bytes = size
        self.spec = spec  # (kind, dtype, shape, strides, flag)


def _align(offset):
    return (offset + 63) & ~63


def _extent(shape, strides):
    """
    (elements or bytes from the first in memory to the last, those before the one at zero), as
    @strides count them.  There may be holes between, and some may be in several places.
    """
    if 0 in shape:
        return 0, 0
    ends = [(size - 1) * stride for size, stride in zip(shape, strides)]
    before = -sum(end for end in ends if end < 0)
    return before + sum(end for end in ends if end > 0) + 1, before


SPARSE = 4  # times the bytes that a leaf may take if there are holes in it


def _vision_class(kind):
    """torchvision's class for the @kind of a leaf, or None where it is not loaded."""
    return getattr(sys.modules.get("torchvision.tv_tensors"), _VISION[kind], None)


def _vision_leaf(value, kind):
    if value.__dict__:
        raise Unshareable("attribute")
    leaf = _tensor_leaf(value.as_subclass(torch.Tensor))
    leaf.spec = (kind, *leaf.spec[1:])
    return leaf


_shapes = {}  # (dtype, shape, strides) of tensors that can be given back -> (spec, bytes)
SHAPES = 1024


def _shape_of(value, key):
    """(spec, bytes) of a strided tensor; few shapes come again and again."""
    dtype, shape, strides = key
    if dtype not in _DTYPE_NAMES or value.is_quantized:
        raise Unshareable("tensor")
    extent, _ = _extent(shape, strides)
    if extent > SPARSE * value.numel():
        raise Unshareable("strides")
    if len(_shapes) >= SHAPES:
        _shapes.clear()
    known = _shapes[key] = (("t", _DTYPE_NAMES[dtype], tuple(shape), strides, False),
                            extent * value.element_size())
    return known


def _tensor_leaf(value):
    # Each of these costs a microsecond where the item has just emptied the processor's caches.
    if (value.layout is not torch.strided or not any_torch.is_cpu(value) or value.requires_grad
            or any_torch.is_conj(value) or any_torch.is_neg(value)
            or any_torch.is_inference(value) != any_torch.is_inference_mode()
            or value.__dict__ or _HAS_NAMES and value.has_names()):
        raise Unshareable("tensor")
    key = (value.dtype, value.shape, value.stride())
    spec, size = _shapes.get(key) or _shape_of(value, key)
    return Leaf(value, value.data_ptr(), size, spec)


def _array_leaf(value, numpy):
    kept, kind = (value, "a") if type(value) is numpy.ndarray else (numpy.asarray(value), "s")
    if kept.dtype.hasobject or kept.dtype.fields or kept.dtype.metadata or kept.dtype.subdtype:
        raise Unshareable("dtype")
    item = kept.dtype.itemsize
    strides = tuple(kept.strides)
    extent, before = _extent(kept.shape, strides)
    extent += item - 1 if extent else 0
    if extent > SPARSE * kept.nbytes:
        raise Unshareable("strides")
    if item == 0 or numpy.dtype(kept.dtype.str) != kept.dtype:
        raise Unshareable("dtype")
    return Leaf(kept, kept.__array_interface__["data"][0] - before, extent,
                (kind, kept.dtype.str, tuple(kept.shape), strides, bool(kept.flags.writeable)))


class _Encoder:
    def __init__(self):
        self.leaves = []
        self.containers = set()
        self.has_objects = False

    def once(self, value):
        """The same list in two places would come back as two lists."""
        if id(value) in self.containers:
            raise Unshareable("aliased container")
        self.containers.add(id(value))

    def strip(self, value):
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is torch.Tensor:
            self.leaves.append(_tensor_leaf(value))
            return Ellipsis
        if kind is tuple:
            return tuple([self.strip(item) for item in value])
        if kind is list:
            self.once(value)
            return [self.strip(item) for item in value]
        if kind is dict:
            self.once(value)
            if not all(type(key) in _PLAIN for key in value):
                return self.strip_pairs(value)
            return {key: self.strip(item) for key, item in value.items()}
        return self.strip_rare(value, kind)

    def strip_rare(self, value, kind):
        numpy = sys.modules.get("numpy")
        if numpy is not None and (kind is numpy.ndarray or
                                  isinstance(value, numpy.generic) and kind.__module__ == "numpy"):
            if kind is numpy.ndarray and value.dtype == object:
                return self.strip_objects(value)
            self.leaves.append(_array_leaf(value, numpy))
            return Ellipsis
        for letter in _VISION:
            if kind is _vision_class(letter):
                self.leaves.append(_vision_leaf(value, letter))
                return Ellipsis
        name, constant, parts, tensor = objects.tell(value, kind)
        self.has_objects |= name != "namedtuple"
        if name not in objects.IMMUTABLE:
            self.once(value)
        place = None
        if tensor is not None:
            leaf = _tensor_leaf(tensor)
            leaf.spec = (PART, *leaf.spec[1:])
            self.leaves.append(leaf)
            place = Ellipsis
        return objects.MARK, name, constant, place, self.strip(parts)

    def strip_pairs(self, table):
        """A dict whose keys are enumerators or tuples, too."""
        self.has_objects = True
        return objects.MARK, "dict", None, None, tuple(
            [(self.strip(objects.key(key)), self.strip(item)) for key, item in table.items()])

    def strip_objects(self, array):
        """An array of Python's objects."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise Unshareable("strides")
        self.once(array)
        self.has_objects = True
        return objects.MARK, "array", array.shape, None, self.strip(array.ravel().tolist())

    def check_apart(self):
        """Two leaves on one memory are one object to who changes it in place."""
        spans = sorted((leaf.address, leaf.address + leaf.bytes)
                       for leaf in self.leaves if leaf.bytes)
        for (_, end), (start, _) in zip(spans, spans[1:]):
            if start < end:
                raise Unshareable("aliased leaves")


class Encoded:
    """A sample as bytes; the leaves refer to its memory."""

    __slots__ = ("meta", "specs", "skeleton", "leaves", "bytes", "origin", "has_objects")

    def __init__(self, specs, skeleton, leaves, extra, has_objects):
        self.meta = marshal.dumps((specs, skeleton, extra), VERSION)
        self.specs = specs
        self.skeleton = skeleton
        self.has_objects = has_objects
        self.leaves = leaves  # leaf i goes to offsets(sizes of the leaves)[i] of the payload
        self.bytes = payload_bytes([leaf.bytes for leaf in leaves])
        self.origin = None  # of the record that was published with it: native.Sample.publish()


def head(specs):
    """What the meta of every sample with these leaves begins with."""
    return marshal.dumps((specs, None, None), VERSION)[:-2]


def _of_pair(sample):
    """(skeleton, leaves, False) of a tensor and its target, as most samples are; None: of another one."""
    if type(sample) is not tuple or len(sample) != 2:
        return None
    tensor, target = sample
    if type(tensor) is not torch.Tensor or type(target) not in _PLAIN:
        return None
    return (Ellipsis, target), [_tensor_leaf(tensor)], False


def _of_any(sample):
    encoder = _Encoder()
    try:
        skeleton = encoder.strip(sample)
    except RecursionError:
        raise Unshareable("depth") from None
    if len(encoder.leaves) > 1:
        encoder.check_apart()
    return skeleton, encoder.leaves, encoder.has_objects


def encode(sample, extra=None):
    """@sample Encoded.  @extra, plain values, goes along.  Raises Unshareable."""
    skeleton, leaves, has_objects = _of_pair(sample) or _of_any(sample)
    return Encoded(tuple([leaf.spec for leaf in leaves]), skeleton, leaves, extra, has_objects)


def payload_bytes(sizes):
    total = 0
    for size in sizes:
        total = _align(total) + size
    return total


def offsets(sizes):
    """Where each leaf begins in the payload."""
    result, at = [], 0
    for size in sizes:
        at = _align(at)
        result.append(at)
        at += size
    return result


def spec_bytes(spec):
    """Of a leaf."""
    extent, _ = _extent(spec[2], spec[3])
    if spec[0] in TENSORS:
        return extent * _DTYPE_BYTES[spec[1]]
    import numpy
    return extent + numpy.dtype(spec[1]).itemsize - 1 if extent else 0


def fill(leaves, address, copy=ctypes.memmove):
    """Copy the bytes of the leaves into the payload at @address."""
    at = 0
    for leaf in leaves:
        at = _align(at)
        if leaf.bytes:
            copy(address + at, leaf.address, leaf.bytes)
        at += leaf.bytes


def parse(meta):
    """(specs, skeleton, extra) of a meta that encode() made."""
    return marshal.loads(meta)


def skeleton_of(meta, head_bytes):
    """The skeleton alone, of a meta whose head() has @head_bytes."""
    return marshal.loads(meta[head_bytes:])  # which ignores what follows: the extra


def flat_kinds(skeleton):
    """
    What samples without structure in them have in common, if @skeleton is one: the types of the
    parts of a tuple, and of a dict's the keys before these.  None: it is another one.
    """
    kind = type(skeleton)
    if kind is tuple:
        kinds = tuple(map(type, skeleton))
        return kinds if _FLAT.issuperset(kinds) else None
    if kind is dict:
        kinds = tuple(map(type, skeleton.values()))
        return (tuple(skeleton), kinds) if _FLAT.issuperset(kinds) else None
    return None


def make_leaf(spec, address, size):
    """A leaf with private memory of its own, filled from @address."""
    kind, dtype, shape, strides, flag = spec
    if kind in TENSORS:
        tensor = torch.empty_strided(shape, strides, dtype=DTYPES[dtype], device="cpu")
        if size:
            ctypes.memmove(tensor.data_ptr(), address, size)
        return of_kind(tensor, kind)
    import numpy
    item = numpy.dtype(dtype).itemsize
    if is_c_order(shape, strides, item) or is_c_order(shape[::-1], strides[::-1], item):
        order = "C" if is_c_order(shape, strides, item) else "F"
        array = numpy.empty(shape, dtype=numpy.dtype(dtype), order=order)
        if size:
            ctypes.memmove(array.__array_interface__["data"][0], address, size)
    else:
        _, before = _extent(shape, strides)
        array = numpy.ndarray(shape, numpy.dtype(dtype),
                              bytearray(ctypes.string_at(address, size)), before, strides)
    if kind == "s":
        return array[()]
    array.flags.writeable = flag
    return array


def of_kind(tensor, kind):
    """The plain @tensor as what leaves of @kind, one of TENSORS, are."""
    if kind == "t" or kind == PART:
        return tensor
    made = _vision_class(kind)
    if made is None:
        raise Unshareable("torchvision")
    return tensor.as_subclass(made)


def is_c_order(shape, strides, item):
    """Whether items of this size with these @strides lie one behind the other."""
    expected = item
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def places(skeleton, path=()):
    """Where the leaves are: a path for each, in order; all of them begin with @path."""
    if skeleton is Ellipsis:
        return [path]
    kind = type(skeleton)
    if kind is tuple or kind is list:
        items = enumerate(skeleton)
    elif kind is dict:
        items = skeleton.items()
    else:
        return []
    return [found for key, item in items for found in places(item, (*path, key))]


def check(skeleton):
    """Whether there are no objects but namedtuples; Unshareable when one's class is not known."""
    kind = type(skeleton)
    if kind is tuple:
        if skeleton and skeleton[0] is objects.MARK:
            _, name, constant, _, parts = skeleton
            objects.check(name, constant)
            return check(parts) and name == "namedtuple"
        return all([check(item) for item in skeleton])
    if kind is list:
        return all([check(item) for item in skeleton])
    if kind is dict:
        return all([check(item) for item in skeleton.values()])
    return True


def join(skeleton, leaves):
    """Put the leaves (an iterator) back into their places."""
    kind = type(skeleton)
    if skeleton is Ellipsis:
        return next(leaves)
    if kind is tuple:
        if skeleton and skeleton[0] is objects.MARK:
            _, name, constant, place, parts = skeleton
            tensor = join(place, leaves)
            return objects.build(name, constant, join(parts, leaves), tensor)
        return tuple([join(item, leaves) for item in skeleton])
    if kind is list:
        return [join(item, leaves) for item in skeleton]
    if kind is dict:
        return {key: join(item, leaves) for key, item in skeleton.items()}
    return skeleton


def decode(meta, address):
    """The sample, with private memory of its own."""
    specs, skeleton, _ = parse(meta)
    sizes = [spec_bytes(spec) for spec in specs]
    leaves = [make_leaf(spec, address + offset, size)
              for spec, offset, size in zip(specs, offsets(sizes), sizes)]
    return join(skeleton, iter(leaves))
