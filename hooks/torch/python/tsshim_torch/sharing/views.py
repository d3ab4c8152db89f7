# SPDX-License-Identifier: MIT
"""
Leaves of one sample that lie on one memory: crops of one volume, sliding windows, a tensor and
its array.

What such leaves cover is written once, as a leaf behind all others; in their own places stand
views of it.  What comes back lies on one memory as well, so whoever writes into one leaf changes
the others just where he would change them in the sample as it was made.

Torch sends a storage to another process as a whole, so two storages on one memory (of arrays that
overlap, say) are apart from there on: which tensors have one storage is kept.  So is which are views
of one tensor: for autograd what is written into one of them is a change of all.
"""

import ctypes
import sys

import torch

from ..handover import buffers
from . import tensors
from .objects import Unshareable, without_overrides
from .tensors import SAME, UNION, VIEW

# Specs are (VIEW, that of the leaf, which union, offset in that, root as _Roots has it), for the very
# object of another leaf (SAME, which, None, None, None), and (UNION, bytes written, bytes, None, None).
BLOCK = 16  # bytes; no number is larger

HOLES = 2  # times what its views have in them that a union may take, or these are written one by one


def are_in(specs):
    """Whether there are views among the leaves that have these @specs."""
    return len(specs) > 0 and specs[-1][0] == UNION


# ---- taking apart ----

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
    if spec[0] in tensors.KINDS:
        return tensors.DTYPE_BYTES[spec[1]]
    import numpy
    return numpy.dtype(spec[1]).alignment


class _Roots:
    """What the leaves on one memory belong to, by numbers that follow from their order."""

    def __init__(self):
        self._storages, self._bases, self._kept = {}, {}, []

    def of(self, leaf):
        """(storage, tensor of which others are views, whether it is such a view); None: an array."""
        if leaf.spec[0] not in tensors.KINDS:
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
    made = tensors.packed(leaf) if is_packed else \
        tensors.Leaf(leaf.keep, leaf.address, 0, tensors.unpacked(leaf.spec))
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
        tensors.packed_bytes(leaves[number].spec) for number in first.values())
    roots = _Roots()
    for number, leaf in zip(numbers, old):
        if first[id(leaf.keep)] != number:
            spec = (SAME, first[id(leaf.keep)], None, None, None)
            leaves[number] = tensors.Leaf(leaf.keep, leaf.address, 0, spec)
        else:
            leaves[number] = _view(leaf, len(leaves), start, roots.of(leaf), is_packed)
    written = 0 if is_packed else size
    leaves.append(tensors.Leaf(old, start, written, (UNION, written, size, None, None)))


def united(leaves):
    """@leaves as they are written, of which some lie on one memory."""
    groups = _groups(leaves)
    together = {number for numbers in groups for number in numbers}
    result = [leaf if number in together else tensors.written(leaf)
              for number, leaf in enumerate(leaves)]
    for numbers in groups:
        _unite(result, numbers)
    return result


# ---- putting together ----

def _parts(specs):
    """{storage: (beginning, end) of what its tensors cover} of the views by @specs."""
    parts = {}
    for _, leaf, _, offset, root in specs:
        if root is not None:
            begin, end = parts.get(root[0], (offset, 0))
            parts[root[0]] = (min(begin, offset) // BLOCK * BLOCK,
                              max(end, offset + tensors.span_bytes(leaf)))
    return parts


class _Memory:
    """What the UNION (spec, address, bytes) covers again, for views by @specs."""

    def __init__(self, specs, union):
        (_, _, size, _, _), address, written = union
        self._bases = {}  # tensors that others are views of
        parts = _parts(specs)
        is_torchs = len(parts) == 1 and all(root is not None for *_, root in specs)
        numpy = sys.modules.get("numpy")
        if is_torchs or numpy is None:
            whole = self._bytes = torch.empty(size, dtype=torch.uint8, device="cpu")
        else:
            self._bytes = numpy.empty(size, dtype=numpy.uint8)
            whole = torch.frombuffer(self._bytes, dtype=torch.uint8)
        ctypes.memmove(whole.data_ptr(), address, min(size, written))
        self._storages = {0: (0, buffers.untyped(whole))} if is_torchs else {
            storage: (begin, buffers.untyped(torch.frombuffer(
                self._bytes, dtype=torch.uint8, offset=begin, count=end - begin)))
            for storage, (begin, end) in parts.items()}

    def make(self, spec, address, size):
        """The leaf of a VIEW."""
        _, (kind, dtype, shape, strides, flags), _, offset, root = spec
        if root is not None:
            made = self._tensor(dtype, shape, strides, offset, root)
            if flags & tensors.PACKED:
                tensors.fill(made, address, size)
            return tensors.of_kind(made, kind)
        import numpy
        _, before = tensors.extent_of(shape, strides)
        array = numpy.ndarray(shape, numpy.dtype(dtype), self._bytes, offset + before, strides)
        if flags & tensors.PACKED:
            tensors.fill(array, address, size)
        array.flags.writeable = bool(flags & tensors.WRITEABLE)
        return array

    def _tensor(self, dtype, shape, strides, offset, root):
        number, base, is_view = root
        begin, storage = self._storages[number]
        place = (offset - begin) // tensors.DTYPE_BYTES[dtype]
        empty = torch.empty(0, dtype=tensors.DTYPES[dtype], device="cpu")
        if not is_view:
            made = self._bases[base] = empty.set_(storage, place, shape, strides)
            return made
        if base not in self._bases:  # it is not in the sample
            self._bases[base] = empty.set_(
                storage, 0, (storage.nbytes() // tensors.DTYPE_BYTES[dtype],), (1,))
        return self._bases[base].as_strided(shape, strides, place)


def make_leaves(found):
    """The leaves, of which @found are (spec, address, bytes), with private memory of their own."""
    made, groups = [], {}
    for number, (spec, address, size) in enumerate(found):
        is_apart = spec[0] not in (VIEW, SAME, UNION)
        made.append(tensors.make_leaf(spec, address, size) if is_apart else None)
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
