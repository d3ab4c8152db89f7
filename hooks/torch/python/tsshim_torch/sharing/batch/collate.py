# SPDX-License-Identifier: MIT
"""
Building a batch from records and computed samples.

Where torch's own default_collate() would stack tensors, the rows go straight from the ring
into the batch: one copy.  The structure around them, and everything small, is collated by
default_collate() itself, with a string in the place of each large leaf (strings come through
as a list); so what a batch looks like is decided by the installed torch alone.

Any other collate_fn gets samples with private memory, as the data set would have made them.  It
stacks them in new pages each time, which cost more than the copy.  So torch.stack() is given memory
of the pool (handover) to write to.
"""

import ctypes
import functools
import hashlib
import struct
import types

import torch

try:
    from torch.overrides import TorchFunctionMode
except ImportError:  # before PyTorch 1.13
    TorchFunctionMode = None
from torch.utils.data._utils import collate as torch_collate
from torch.utils.data._utils import worker as torch_worker

from ... import any_torch, asking, guard_importlib_bootstrap as guard
from ...asking import Raised
from ...handover import buffers, pool
from ..item import codec, tensors

ROW_MIN = 4096  # bytes: what is smaller is collated by torch
STACKED_MIN = 1 << 20  # bytes of a result
ORIGIN_BYTES = 16  # of struct ts_sample_view

_HOLE = "tsshim leaf"


def is_default(collate_fn):
    """Whether @collate_fn is torch's own, and does with every type what it always did."""
    functions = getattr(torch_collate, "default_collate_fn_map", {})
    return collate_fn is torch_collate.default_collate and _is_own(collate_fn) and all(
        map(_is_own, functions.values())) and all(
            _is_own(getattr(torch_collate, name, collate_fn)) for name in _USED) and \
        functions.get(torch.Tensor) is getattr(torch_collate, "collate_tensor_fn", None)


# What default_collate() calls by these names, in one version of torch or another.
_USED = ("collate", "collate_tensor_fn", "collate_numpy_array_fn", "collate_str_fn")


def _is_own(function):
    # What wraps it has its name and says that it comes from its module.
    return type(function) is types.FunctionType and \
        function.__code__.co_filename == torch_collate.__file__ and \
        function.__globals__ is vars(torch_collate) and not function.__closure__


@functools.lru_cache(None)
def _collates_plain(kind):
    """Whether default_collate() makes plain tensors of leaves of @kind, as with torchvision's."""
    leaf = tensors.of_kind(torch.zeros(1, device="cpu"), kind)
    return type(torch_collate.default_collate([leaf, leaf])) is torch.Tensor


def _is_row(spec, least):
    kind, _, shape, strides, _ = spec
    return kind in tensors.KINDS and kind != tensors.PART and _collates_plain(kind) and \
        tensors.is_c_order(shape, strides, 1) and tensors.spec_bytes(spec) >= least


def _new_rows(count, spec):
    """Memory for @count rows: shared in a worker, where torch would share it, too."""
    dtype, shape = tensors.DTYPES[spec[1]], (count,) + spec[2]
    if torch_worker._worker_info is None:
        return torch.empty(shape, dtype=dtype, device="cpu")
    size = count * tensors.spec_bytes(spec)
    storage = pool.new_storage(size)
    if storage is None:
        storage = any_torch.new_shared(dtype, size)
    return buffers.tensor_on(storage, dtype, shape)


_structures = {}  # meta -> what _structure() gives; many samples have one of few labels
STRUCTURES = 4096


def _structure(meta):
    """(skeleton, places) of a record; neither is to be changed."""
    known = _structures.get(meta)
    if known is None:
        _, skeleton, _ = codec.parse(meta)
        codec.check(skeleton)  # its classes are known here
        if len(_structures) >= STRUCTURES:
            _structures.clear()
        known = _structures[meta] = (skeleton, codec.places(skeleton))
    return known


def _copy(target, source, size, _):
    ctypes.memmove(target, source, size)


class Batch:
    """The samples of one batch, put in any order."""

    def __init__(self, count, direct, copy=_copy):
        """@copy is native.copy(), or does the same where there is no library."""
        self.copy = copy
        self.moves = False  # what a collate function stacks goes into memory of the pool
        self.row_min = ROW_MIN
        self.values = [None] * count  # finished samples, where not direct
        self.parts = [None] * count  # (skeleton, leaves), None in the place of a row
        self.direct = self.is_default = direct
        self.specs = None  # of the leaves of the first sample put,
        self.layout = None  # of those that are rows,
        self.places = None  # and where the leaves are
        self.staging = []  # memory for the small leaves of many samples,
        self.staged = ()  # and per leaf where that is, None for rows
        self.flat = None  # types of the parts of samples like the first, where that is simple
        self.rows = []  # (tensor, address, bytes of a row)
        self.known = {}  # specs -> (layout, offsets, sizes, which are rows): they seldom change
        # Of each sample the record that its rows are equal to, where somebody may want to know.
        self.origins = bytearray(ORIGIN_BYTES * count) if direct and pool.names() else None

    # ---- putting ----

    def put_value(self, position, value, encoded):
        """A computed sample; @encoded is what codec.encode() made of it, or None."""
        if not self.direct or encoded is None or encoded.is_whole:
            self.put_plain(position, value)
            return
        self._note_origin(position, encoded.origin)
        addresses = [leaf.address for leaf in encoded.leaves]
        if self.flat is not None and encoded.specs == self.specs and \
                codec.flat_kinds(encoded.skeleton) == self.flat:  # all leaves are rows
            count = len(self.parts)
            for (_, base, size), address in zip(self.rows, addresses):
                self.copy(base + position * size, address, size, count * size)
            self.parts[position] = (encoded.skeleton, self.staged)
        else:
            self._place(position, encoded.specs, encoded.skeleton, addresses)

    def put_plain(self, position, value):
        """A sample as it is, in a batch that torch collates."""
        self.values[position] = value
        self.parts[position] = ()
        self.direct = False

    def put_values(self, position, values):
        """The same with several samples, the first of them at @position."""
        end = position + len(values)
        self.values[position:end] = values
        self.parts[position:end] = [()] * len(values)
        if values:
            self.direct = False

    def put_record(self, position, meta, payload, size, origin=None):
        """
        A record with @size bytes at @payload, whose memory is not referred to afterwards; gives
        its extra.  @origin is what its bytes are known by.  Raises when it is no sample here.
        """
        specs, skeleton, extra = codec.parse(meta)
        _, offsets, sizes, _ = self._layout_of(specs)
        if codec.payload_bytes(sizes) != size:
            raise ValueError("sizes")
        if not self.direct or not codec.is_flat(specs, skeleton):
            self.values[position] = codec.decode(meta, payload)
            self.parts[position] = ()
            self.direct = False
        else:
            self._place(position, specs, skeleton, [payload + offset for offset in offsets])
        self._note_origin(position, origin)
        return extra

    def put_rows(self, position, specs, skeletons, rows, payload, size, are_flat):
        """
        Samples of a chunk, the @rows of those with @skeletons: each leaf of all of them lies in one
        piece of the @size bytes at @payload.  The skeletons @are_flat, all of one kind, or may be
        any.  Raises when these are no samples here.
        """
        _, _, sizes, are_rows = self._layout_of(specs)
        all_sizes = [size * len(skeletons) for size in sizes]
        if codec.payload_bytes(all_sizes) != size:
            raise ValueError("sizes")
        addresses = [payload + offset + size * rows.start
                     for offset, size in zip(codec.offsets(all_sizes), sizes)]
        skeletons = skeletons[rows.start:rows.stop]
        if self.direct and are_flat and all(are_rows):
            self._place(position, specs, skeletons[0], addresses)
            flat = codec.flat_kinds(skeletons[0])
            if self.direct and (self.flat is None or self.flat == flat):
                self._place_rows(position, skeletons, addresses, flat)
                return
        for skeleton in skeletons:
            codec.check(skeleton)  # its classes are known here
        for at, skeleton in enumerate(skeletons):
            place = [address + size * at for address, size in zip(addresses, sizes)]
            if self.direct:
                self._place(position + at, specs, skeleton, place)
            else:
                leaves = map(tensors.make_leaf, specs, place, sizes)
                self.put_plain(position + at, codec.join(skeleton, iter(leaves)))

    def _place_rows(self, position, skeletons, addresses, flat):
        """Those with these @flat @skeletons, whose leaves are all rows and lie there as well."""
        count = len(skeletons)
        for (_, base, size), address in zip(self.rows, addresses):
            self.copy(base + position * size, address, count * size, len(self.parts) * size)
        if self.flat is None:
            self.staged, self.flat = [None] * len(addresses), flat
        self.parts[position:position + count] = [(skeleton, self.staged) for skeleton in skeletons]

    def _note_origin(self, position, origin):
        if self.origins is not None and origin is not None:
            at = position * ORIGIN_BYTES
            self.origins[at:at + ORIGIN_BYTES] = origin

    def destinations(self):
        """
        For each leaf of samples like the first: (place in the payload, bytes, address).  Those of
        sample i go to the address + i * bytes; then put_taken() makes it part of the batch.
        """
        result, rows = [], iter(self.rows)
        _, offsets, sizes, are_rows = self.known[self.specs]
        for offset, size, is_row in zip(offsets, sizes, are_rows):
            if is_row:
                address = next(rows)[1]
            else:
                self.staging.append(ctypes.create_string_buffer(size * len(self.parts) or 1))
                address = ctypes.addressof(self.staging[-1])
            result.append((offset, size, address))
        self.staged = [None if is_row else address
                       for (_, _, address), is_row in zip(result, are_rows)]
        if all(are_rows):
            first = next(part for part in self.parts if part)
            self.flat = codec.flat_kinds(first[0])
        return result

    def put_taken(self, position, meta, head_bytes):
        """A record with the leaves of the first sample, which lie at their destinations."""
        if self.flat is not None:  # an image and its label, as a rule: most samples are
            skeleton = codec.skeleton_of(meta, head_bytes)
            if codec.flat_kinds(skeleton) == self.flat:
                self.parts[position] = (skeleton, self.staged)
                return
        skeleton, places = _structure(meta)
        if places != self.places:
            self.direct = False
        _, _, sizes, _ = self.known[self.specs]
        self.parts[position] = (skeleton, [
            None if address is None else tensors.make_leaf(spec, address + position * size, size)
            for spec, address, size in zip(self.specs, self.staged, sizes)])

    def _layout_of(self, specs):
        known = self.known.get(specs)
        if known is None:
            sizes = [tensors.spec_bytes(spec) for spec in specs]
            are_rows = [_is_row(spec, self.row_min) for spec in specs]
            layout = tuple(spec for spec, is_row in zip(specs, are_rows) if is_row)
            known = self.known[specs] = (layout, codec.offsets(sizes), sizes, are_rows)
        return known

    def _place(self, position, specs, skeleton, addresses):
        layout, _, sizes, are_rows = self._layout_of(specs)
        places = codec.places(skeleton)
        if self.layout is None:
            self.specs, self.layout, self.places = specs, layout, places
            for spec in layout:
                rows = _new_rows(len(self.parts), spec)
                self.rows.append((rows, rows.data_ptr(), tensors.spec_bytes(spec)))
        if layout != self.layout or places != self.places:
            # default_collate() will refuse this batch, or knows better than we what to do.
            self.direct = False
        leaves, rows = [], iter(self.rows)
        for spec, address, size, is_row in zip(specs, addresses, sizes, are_rows):
            if self.direct and is_row:
                base = next(rows)[1]
                self.copy(base + position * size, address, size, len(self.parts) * size)
                leaves.append(None)
            else:
                leaves.append(tensors.make_leaf(spec, address, size))
        self.parts[position] = (skeleton, leaves)

    # ---- finishing ----

    def sample(self, position, is_kept=True):
        """The sample at @position; only to be looked at, before the batch is finished, unless @is_kept."""
        if not self.parts[position]:
            return self.values[position]
        skeleton, leaves = self.parts[position]
        rows = iter([(rows[position], spec[0]) for (rows, _, _), spec in zip(self.rows, self.layout)])
        made = []
        for leaf in leaves:
            if leaf is None:
                row, kind = next(rows)
                leaf = tensors.of_kind(row.clone(), kind) if is_kept else row
            made.append(leaf)
        return codec.join(skeleton, iter(made))

    def kinds(self, kind_of):
        """@kind_of each sample; those whose leaves all lie like the first one's are of one kind."""
        found, flat = [], None
        for position, part in enumerate(self.parts):
            is_flat = self.flat is not None and part != () and part[1] is self.staged
            if not is_flat or flat is None:
                found.append(kind_of(self.sample(position, False)))
                flat = found[-1] if is_flat else flat
            else:
                found.append(flat)
        return found

    def samples(self):
        if self.specs is None:  # all are whole
            return self.values
        return [self.sample(position) for position in range(len(self.parts))]

    def finish(self, collate_fn):
        if not self.direct or not self.rows:
            samples = self.samples()
            # Torch's own asks for shared memory itself, which is the pool's.
            moves = self.moves and not self.is_default
            return collated(collate_fn, samples) if moves else asked(collate_fn, samples)
        try:
            return self._finish_rows(collate_fn)
        except Exception:
            samples = self.samples()
        return asked(collate_fn, samples)  # whose exception it is if there is one

    def _finish_rows(self, collate_fn):
        shells = [self._shell(skeleton, leaves) for skeleton, leaves in self.parts]
        self._name_rows()
        return _put_back(shells[0], collate_fn(shells), iter([rows[0] for rows in self.rows]))

    def _name_rows(self):
        """
        Tell the pool what the rows are equal to: the same parts of the same records, in this
        order.  Whose batch has the same name has the same bytes, whatever made the samples.
        """
        if self.origins is None or 0 in struct.unpack("=" + "Q8x" * len(self.parts),
                                                      self.origins):
            return
        _, offsets, sizes, are_rows = self._layout_of(self.specs)
        places = [place for place, is_row in zip(zip(offsets, sizes), are_rows) if is_row]
        for (rows, _, _), (offset, size) in zip(self.rows, places):
            said = struct.pack("=2Q", offset, size) + self.origins
            pool.name(rows, hashlib.blake2b(said, digest_size=16, person=b"tsshim rows").digest())

    def _shell(self, skeleton, leaves):
        """A sample with holes for its rows."""
        if leaves is self.staged and self.flat is not None:
            if type(skeleton) is dict:
                return {key: _HOLE if part is Ellipsis else part for key, part in skeleton.items()}
            return tuple([_HOLE if part is Ellipsis else part for part in skeleton])
        return codec.join(skeleton, iter([_HOLE if leaf is None else leaf for leaf in leaves]))


def asked(collate_fn, samples):
    """What @collate_fn makes of @samples; Raised where that raises."""
    try:
        return asking.collate(collate_fn, samples)
    except Exception as error:
        raise Raised(asking.theirs(error)) from None


def _put_back(shell, result, rows):
    """@result with the rows where @shell, the structure of a sample, has its holes."""
    if shell is _HOLE:
        return next(rows)
    kind = type(shell)
    if kind is dict:
        for key, item in shell.items():
            result[key] = _put_back(item, result[key], rows)
        return result
    if kind is list or isinstance(shell, tuple):
        items = [_put_back(a, b, rows) for a, b in zip(shell, result)]
        if isinstance(result, list):
            return items
        return result._make(items) if hasattr(result, "_make") else type(result)(items)
    return result


# ---- what collate functions of the program's stack, in memory of the pool ----

@functools.lru_cache(1024)
def _stacks_plain(dtype, shape, stride, count):
    """Whether torch puts @count contiguous tensors like this into one that is contiguous, too."""
    part = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    made = torch.stack([part] * count)
    return part.is_contiguous() and made.is_contiguous() and \
        made.stride() == torch.empty((count, *shape), device="meta").stride()


def _can_be_stacked(tensors):
    """Whether @tensors are plain ones of one kind, which come to a large one."""
    if type(tensors) not in (list, tuple) or not tensors or set(map(type, tensors)) != {torch.Tensor}:
        return False
    first = tensors[0]
    if first.layout is not torch.strided or \
            first.numel() * first.element_size() * len(tensors) < STACKED_MIN:
        return False
    dtype, shape, stride = first.dtype, first.shape, first.stride()
    return all(tensor.dtype is dtype and tensor.shape == shape and any_torch.is_cpu(tensor)
               and tensor.layout is torch.strided and tensor.stride() == stride
               and not (tensor.requires_grad or tensor.is_quantized or any_torch.is_conj(tensor)
                        or any_torch.is_neg(tensor))
               for tensor in tensors) and _stacks_plain(dtype, shape, stride, len(tensors))


def _stacked(function, tensors):
    """What @function, torch.stack(), makes of @tensors."""
    storage = None
    try:
        if _can_be_stacked(tensors):
            first, count = tensors[0], len(tensors)
            storage = pool.new_storage(first.numel() * first.element_size() * count)
        if storage is not None:
            return function(tensors, out=buffers.tensor_on(storage, first.dtype, (count, *first.shape)))
    except Exception as error:  # ours: torch stacks what it was given
        guard.failed(error)
    return function(tensors)


if TorchFunctionMode is not None:
    class _Stacking(TorchFunctionMode):
        """While it is entered, large results of torch.stack() along a new first dimension."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is torch.stack and len(args) == 1 and not kwargs:
                return _stacked(function, args[0])
            return function(*args, **(kwargs or {}))


def collated(collate_fn, samples):
    """What asked() gives, stacked in memory of the pool."""
    if torch_worker._worker_info is None or TorchFunctionMode is None:
        return asked(collate_fn, samples)
    with _Stacking():
        return asked(collate_fn, samples)
