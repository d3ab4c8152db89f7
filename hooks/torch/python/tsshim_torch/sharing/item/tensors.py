# SPDX-License-Identifier: MIT
"""
The leaves of samples, whose bytes lie in memory: tensors of torch, torchvision's Image, Mask and
Video, numpy.ndarray and NumPy scalars.  Whatever comes back is equal in type, value, dtype,
strides and order; what could not be raises Unshareable.

Leaves of one sample may lie on one memory: crops of one volume, sliding windows, a tensor and its
array.  What such leaves cover is written once, as a leaf behind all others; in their own places
stand views of it.  What comes back lies on one memory as well, so a write into one leaf changes
the others just where it would in the sample as it was made.

Torch sends a storage to another process as a whole, so two storages on one memory (of arrays that
overlap, say) are apart from there on: which tensors have one storage is kept.  So is which are views
of one tensor: for autograd what is written into one of them is a change of all.
"""

import ctypes
import math
import sys

import torch

from ... import any_torch
from ...handover import buffers
from .objects import Unshareable, without_overrides

DTYPES = {str(value)[6:]: value for value in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8,
    torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128)}
DTYPE_NAMES = {value: name for name, value in DTYPES.items()}
DTYPE_BYTES = {name: torch.empty((), dtype=value, device="cpu").element_size()
                for name, value in DTYPES.items()}

# torchvision's subclasses of tensors that hold nothing else, by the kind of their leaves.
VISION = {"i": "Image", "m": "Mask", "v": "Video"}
PART = "o"  # the leaf of an object: whoever collates is to see the object
KINDS = frozenset(("t", PART)).union(VISION)

# Of leaves that lie on one memory; see the views below.
VIEW, SAME, UNION = "w", "=", "u"

# Tensors whose dimensions have names were given up in later releases of torch.
_HAS_NAMES = hasattr(torch.Tensor, "has_names")


class Leaf:
    """
    Where the bytes of a leaf are; kinds: 't', PART or one of VISION, 'a' array, 's' NumPy scalar,
    and those of views.
    """

    __slots__ = ("address", "bytes", "keep", "spec")

    def __init__(self, keep, address, size, spec):
        self.keep = keep  # what keeps the memory: the leaf itself, but of a PART and a scalar
        self.address = address
        self.bytes = size
        self.spec = spec  # (kind, dtype, shape, strides, flags)

    @property
    def place(self):
        """Where it lies in the sample."""
        return self.address


class Packed(Leaf):
    """@leaf in order, without its holes: a copy, made once somebody asks where it is."""

    __slots__ = ("place", "_copy")

    def __init__(self, leaf, spec):
        self.keep, self.spec, self.place = leaf.keep, spec, leaf.address
        self.bytes = packed_bytes(spec)
        self._copy = None

    @property
    def address(self):
        if self._copy is None and isinstance(self.keep, torch.Tensor):
            with without_overrides():
                self._copy = self.keep.contiguous()
        elif self._copy is None:
            self._copy = sys.modules["numpy"].ascontiguousarray(self.keep)
        return self._copy.data_ptr() if isinstance(self._copy, torch.Tensor) else \
            self._copy.__array_interface__["data"][0]


def extent_of(shape, strides):
    """
    (elements or bytes from the first in memory to the last, those before the one at zero), as
    @strides count them.  There may be holes between, and some may be in several places.
    """
    if 0 in shape:
        return 0, 0
    ends = [(size - 1) * stride for size, stride in zip(shape, strides)]
    before = -sum(end for end in ends if end < 0)
    return before + sum(end for end in ends if end > 0) + 1, before


SPARSE = 4  # times the bytes that a leaf may take with the holes in it; else it is written without

# Flags: of arrays, and that what is written is the leaf in order, without its holes.
WRITEABLE, PACKED = 1, 2


def vision_class(kind):
    """torchvision's class for the @kind of a leaf, or None where it is not loaded."""
    return getattr(sys.modules.get("torchvision.tv_tensors"), VISION[kind], None)


def leaf_of_vision(value, kind):
    """The Leaf of @value, a tensor of torchvision's of this @kind."""
    if value.__dict__:
        raise Unshareable("attribute")
    leaf = leaf_of(value.as_subclass(torch.Tensor))
    leaf.keep, leaf.spec = value, (kind, *leaf.spec[1:])
    return leaf


_shapes = {}  # (dtype, shape, strides) of tensors that can be given back -> (spec, bytes)
SHAPES = 1024


def _shape_of(value, key):
    """(spec, bytes) of a strided tensor; few shapes come again and again."""
    dtype, shape, strides = key
    if dtype not in DTYPE_NAMES or value.is_quantized:
        raise Unshareable("tensor")
    extent, _ = extent_of(shape, strides)
    flags = PACKED if extent > SPARSE * value.numel() else 0
    if len(_shapes) >= SHAPES:
        _shapes.clear()
    known = _shapes[key] = (("t", DTYPE_NAMES[dtype], tuple(shape), strides, flags),
                            extent * value.element_size())
    return known


def is_bare(value):
    """Whether a tensor is nothing but its elements, in their places."""
    return value.layout is torch.strided and not value.__dict__


def leaf_of(value):
    """The Leaf of a plain tensor that is_bare()."""
    # Each of these costs a microsecond where the item has just emptied the processor's caches.
    if (not any_torch.is_cpu(value) or value.requires_grad
            or any_torch.is_conj(value) or any_torch.is_neg(value)
            or any_torch.is_inference(value) != any_torch.is_inference_mode()
            or _HAS_NAMES and value.has_names()):
        raise Unshareable("tensor")
    try:
        key = (value.dtype, value.shape, value.stride())
    except RuntimeError:  # a nested one
        raise Unshareable("tensor") from None
    spec, size = _shapes.get(key) or _shape_of(value, key)
    return Leaf(value, value.data_ptr(), size, spec)


def leaf_of_array(value, numpy):
    """The Leaf of an array or of one of NumPy's scalars."""
    kept, kind = (value, "a") if type(value) is numpy.ndarray else (numpy.asarray(value), "s")
    if kept.dtype.hasobject or kept.dtype.fields or kept.dtype.metadata or kept.dtype.subdtype:
        raise Unshareable("dtype")
    item = kept.dtype.itemsize
    strides = tuple(kept.strides)
    extent, before = extent_of(kept.shape, strides)
    extent += item - 1 if extent else 0
    flags = (WRITEABLE if kept.flags.writeable else 0) | \
        (PACKED if extent > SPARSE * kept.nbytes else 0)
    if item == 0 or numpy.dtype(kept.dtype.str) != kept.dtype:
        raise Unshareable("dtype")
    return Leaf(kept, kept.__array_interface__["data"][0] - before, extent,
                (kind, kept.dtype.str, tuple(kept.shape), strides, flags))


def has_holes(leaf):
    """Whether @leaf is to be written without its holes."""
    return leaf.spec[4] & PACKED != 0


def written(leaf):
    """@leaf as it is written."""
    return packed(leaf) if has_holes(leaf) else leaf


def packed(leaf):
    """@leaf as it is written without its holes."""
    kind, dtype, shape, strides, flags = leaf.spec
    if not hasattr(torch, "frombuffer") or any(
            stride == 0 and size > 1 for size, stride in zip(shape, strides)):
        raise Unshareable("strides")
    return Packed(leaf, (kind, dtype, shape, strides, flags | PACKED))


def spec_bytes(spec):
    """What is written of a leaf."""
    kind, dtype, shape, strides, flags = spec
    if kind in KINDS and not flags & PACKED:  # most are
        return extent_of(shape, strides)[0] * DTYPE_BYTES[dtype]
    if kind == VIEW:
        return spec_bytes(dtype) if dtype[4] & PACKED else 0
    if kind == UNION:
        return dtype
    if kind == SAME:
        return 0
    return packed_bytes(spec) if flags & PACKED else span_bytes(spec)


def packed_bytes(spec):
    """What a leaf has in it."""
    kind, dtype, shape, _, _ = spec
    return math.prod(shape) * _item_bytes(kind, dtype)


def span_bytes(spec):
    """From the first byte of a leaf to the last."""
    kind, dtype, shape, strides, _ = spec
    extent, _ = extent_of(shape, strides)
    if kind in KINDS:
        return extent * DTYPE_BYTES[dtype]
    return extent + _item_bytes(kind, dtype) - 1 if extent else 0


def unpacked(spec):
    """@spec of a leaf that is written with its holes."""
    return (*spec[:4], spec[4] & ~PACKED)


def _item_bytes(kind, dtype):
    if kind in KINDS:
        return DTYPE_BYTES[dtype]
    import numpy
    return numpy.dtype(dtype).itemsize


def fill(made, address, size):
    """Give @made, a tensor or an array, the @size bytes at @address, which are in order."""
    room = (ctypes.c_char * size).from_address(address)
    if isinstance(made, torch.Tensor):
        made.copy_(torch.frombuffer(room, dtype=made.dtype).view(made.shape))
    else:
        made[...] = type(made)(made.shape, made.dtype, room)


def make_leaf(spec, address, size):
    """A leaf with private memory of its own, filled from @address."""
    kind, dtype, shape, strides, flags = spec
    if kind in KINDS:
        tensor = torch.empty_strided(shape, strides, dtype=DTYPES[dtype], device="cpu")
        if flags & PACKED:
            fill(tensor, address, size)
        elif size:
            ctypes.memmove(tensor.data_ptr(), address, size)
        return of_kind(tensor, kind)
    array = _make_array(spec, address, size)
    if kind == "s":
        return array[()]
    array.flags.writeable = bool(flags & WRITEABLE)
    return array


def _make_array(spec, address, size):
    import numpy
    _, dtype, shape, strides, flags = spec
    dtype = numpy.dtype(dtype)
    for order, axis in ("C", 1), ("F", -1):
        if is_c_order(shape[::axis], strides[::axis], dtype.itemsize):
            array = numpy.empty(shape, dtype=dtype, order=order)
            if array.strides != strides:  # where there is one item, or none
                break
            if size:
                ctypes.memmove(array.__array_interface__["data"][0], address, size)
            return array
    _, before = extent_of(shape, strides)
    if not flags & PACKED:
        return numpy.ndarray(shape, dtype, bytearray(ctypes.string_at(address, size)), before, strides)
    array = numpy.ndarray(shape, dtype, numpy.empty(span_bytes(spec), numpy.uint8), before, strides)
    fill(array, address, size)
    return array


def of_kind(tensor, kind):
    """The plain @tensor as what leaves of @kind, one of KINDS, are."""
    if kind == "t" or kind == PART:
        return tensor
    made = vision_class(kind)
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


# ---- views ----

# Specs are (VIEW, that of the leaf, which union, offset in that, root as _Roots has it), for the very
# object of another leaf (SAME, which, None, None, None), and (UNION, bytes written, bytes, None, None).
BLOCK = 16  # bytes; no number is larger

HOLES = 2  # times what its views have in them that a union may take, or these are written one by one


def are_views(specs):
    """Whether there are views among the leaves that have these @specs."""
    return len(specs) > 0 and specs[-1][0] == UNION


def _groups(leaves):
    """The numbers of those @leaves that lie on one memory, for each memory."""
    spans = sorted((leaf.address, leaf.address + leaf.bytes, number)
                   for number, leaf in enumerate(leaves) if leaf.bytes)
    groups, end = [], 0
    for start, stop, number in spans:
        if start >= end:
            groups.append([])
        groups[-1].append(number)
        end = max(end, stop)
    return sorted(sorted(group) for group in groups if len(group) > 1)  # not by address


def _unit(spec):
    """What a leaf's place in memory is to be a multiple of."""
    if spec[0] in KINDS:
        return DTYPE_BYTES[spec[1]]
    import numpy
    return numpy.dtype(spec[1]).alignment


class _Roots:
    """What the leaves on one memory belong to, by numbers that follow from their order."""

    def __init__(self):
        self._storages, self._bases, self._kept = {}, {}, []

    def of(self, leaf):
        """(storage, tensor of which others are views, whether it is such a view); None: an array."""
        if leaf.spec[0] not in KINDS:
            return None
        tensor = leaf.keep
        with without_overrides():
            if not hasattr(torch, "UntypedStorage"):  # before 1.13
                raise Unshareable("storage")
            storage = buffers.untyped(tensor)._cdata
            base = tensor._base if tensor._is_view() else tensor
        self._kept.append(base)  # or another one may get its id
        return (self._storages.setdefault(storage, len(self._storages)),
                self._bases.setdefault((id(base), leaf.spec[1]), len(self._bases)),
                base is not tensor)


def _view(leaf, union, start, root, is_packed):
    """The view that stands in the place of @leaf."""
    offset = leaf.address - start
    if offset % _unit(leaf.spec):
        raise Unshareable("offset")
    made = packed(leaf) if is_packed else \
        Leaf(leaf.keep, leaf.address, 0, unpacked(leaf.spec))
    made.spec = (VIEW, made.spec, union, offset, root)
    return made


def _unite(leaves, numbers):
    """
    Let those @leaves that have these @numbers be views of a union, which goes behind all.  Where most
    of that are holes nothing is written of it, and each view has its own bytes with it.
    """
    old = [leaves[number] for number in numbers]
    first = {}
    for number, leaf in zip(numbers, old):
        first.setdefault(id(leaf.keep), number)
    start = min(leaf.address for leaf in old)
    size = max(leaf.address + leaf.bytes for leaf in old) - start
    is_packed = size > HOLES * sum(
        packed_bytes(leaves[number].spec) for number in first.values())
    roots = _Roots()
    for number, leaf in zip(numbers, old):
        if first[id(leaf.keep)] != number:
            spec = (SAME, first[id(leaf.keep)], None, None, None)
            leaves[number] = Leaf(leaf.keep, leaf.address, 0, spec)
        else:
            leaves[number] = _view(leaf, len(leaves), start, roots.of(leaf), is_packed)
    count = 0 if is_packed else size
    leaves.append(Leaf(old, start, count, (UNION, count, size, None, None)))


def united(leaves):
    """@leaves as they are written, of which some lie on one memory."""
    groups = _groups(leaves)
    together = {number for numbers in groups for number in numbers}
    result = [leaf if number in together else written(leaf)
              for number, leaf in enumerate(leaves)]
    for numbers in groups:
        _unite(result, numbers)
    return result


def _parts(specs):
    """{storage: (beginning, end) of what its tensors cover} of the views by @specs."""
    parts = {}
    for _, leaf, _, offset, root in specs:
        if root is not None:
            begin, end = parts.get(root[0], (offset, 0))
            parts[root[0]] = (min(begin, offset) // BLOCK * BLOCK,
                              max(end, offset + span_bytes(leaf)))
    return parts


class _Memory:
    """What the UNION (spec, address, bytes) covers again, for views by @specs."""

    def __init__(self, specs, union):
        (_, _, size, _, _), address, count = union
        self._bases = {}  # tensors that others are views of
        parts = _parts(specs)
        is_torchs = len(parts) == 1 and all(root is not None for *_, root in specs)
        numpy = sys.modules.get("numpy")
        if is_torchs or numpy is None:
            whole = self._bytes = torch.empty(size, dtype=torch.uint8, device="cpu")
        else:
            self._bytes = numpy.empty(size, dtype=numpy.uint8)
            whole = torch.frombuffer(self._bytes, dtype=torch.uint8)
        ctypes.memmove(whole.data_ptr(), address, min(size, count))
        self._storages = {0: (0, buffers.untyped(whole))} if is_torchs else {
            storage: (begin, buffers.untyped(torch.frombuffer(
                self._bytes, dtype=torch.uint8, offset=begin, count=end - begin)))
            for storage, (begin, end) in parts.items()}

    def make(self, spec, address, size):
        """The leaf of a VIEW."""
        _, (kind, dtype, shape, strides, flags), _, offset, root = spec
        if root is not None:
            made = self._tensor(dtype, shape, strides, offset, root)
            if flags & PACKED:
                fill(made, address, size)
            return of_kind(made, kind)
        import numpy
        _, before = extent_of(shape, strides)
        array = numpy.ndarray(shape, numpy.dtype(dtype), self._bytes, offset + before, strides)
        if flags & PACKED:
            fill(array, address, size)
        array.flags.writeable = bool(flags & WRITEABLE)
        return array

    def _tensor(self, dtype, shape, strides, offset, root):
        number, base, is_view = root
        begin, storage = self._storages[number]
        place = (offset - begin) // DTYPE_BYTES[dtype]
        empty = torch.empty(0, dtype=DTYPES[dtype], device="cpu")
        if not is_view:
            made = self._bases[base] = empty.set_(storage, place, shape, strides)
            return made
        if base not in self._bases:  # it is not in the sample
            self._bases[base] = empty.set_(
                storage, 0, (storage.nbytes() // DTYPE_BYTES[dtype],), (1,))
        return self._bases[base].as_strided(shape, strides, place)


def make_leaves(found):
    """The leaves, of which @found are (spec, address, bytes), with private memory of their own."""
    made, groups = [], {}
    for number, (spec, address, size) in enumerate(found):
        is_apart = spec[0] not in (VIEW, SAME, UNION)
        made.append(make_leaf(spec, address, size) if is_apart else None)
        if spec[0] == VIEW:
            groups.setdefault(spec[2], []).append(number)
    for union, numbers in groups.items():
        memory = _Memory([found[number][0] for number in numbers], found[union])
        # First those that others are views of.
        for number in sorted(numbers, key=lambda number: (found[number][0][4] or (0, 0, False))[2]):
            made[number] = memory.make(*found[number])
    for number, (spec, _, _) in enumerate(found):
        if spec[0] == SAME:
            made[number] = made[spec[1]]
    return made
