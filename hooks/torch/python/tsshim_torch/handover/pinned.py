# SPDX-License-Identifier: MIT
"""Buffers of the hand-over pool in pinned memory, for loaders with pin_memory=True.

Torch's pinning thread copies each batch into pinned memory.  Where a batch lies in a buffer of
the pool, and the buffer is pinned a second time in this process (its twin;
hooks/cuda/pinned.h), the thread delivers that in the place of the copy.  Only where
copies may be shared, and only where nobody can tell them apart: a copy is nobody else's, so
nobody else may have the buffer.

What the program has of a twin, the count of references to its holder says; what the GPU still
reads, the C side.
"""

import collections
import ctypes
import errno
import functools
import sys
import threading

from .. import guard_importlib_bootstrap as guard
from . import buffers

MIN_BYTES = 256 << 10  # hooks/cuda/cost.h, TS_COPY_BYTES_MIN
MOST_ITEMS = 10000     # of a batch that are looked at
# What a batch may consist of besides plain containers and tensors.
_LEAVES = frozenset([str, bytes, int, float, bool, complex, type(None)])
_CUDA = (None, "", "cuda")

_local = threading.local()
_library = None


def wanted():
    """Whether there may be twins in this program; asks nothing of a GPU."""
    global _library
    try:
        if _library is None:
            library = ctypes.PyDLL(None)
            library.tsshim_pinned_offer.argtypes = [ctypes.c_int, ctypes.c_uint64]
            library.tsshim_pinned_take.restype = ctypes.c_void_p
            library.tsshim_pinned_name.argtypes = [ctypes.c_int, ctypes.c_char_p]
            _library = library
        return _library.tsshim_pinned_offer(-1, 0) == -errno.EINVAL
    except (AttributeError, OSError):
        return False


def _storage_on(holder):
    import torch
    return buffers.untyped(torch.frombuffer(holder, dtype=torch.uint8))


@functools.lru_cache(None)
def _holders_tell():
    """Does this torch refer to the holder for as long as anything is on its memory?"""
    import torch
    twin = Twin(-1, 64)
    twin.holder = (ctypes.c_ubyte * 64)()
    twin.settle()
    storage = _storage_on(twin.holder)
    first = twin.busy()
    tensor = buffers.tensor_on(storage, torch.float32, (16,))
    del storage
    second = twin.busy() and tensor.data_ptr() == ctypes.addressof(twin.holder)
    view = tensor[3:5].numpy()
    del tensor
    third = twin.busy() and len(view) == 2
    del view
    return first and second and third and not twin.busy()


class Twin:
    """A place of hooks/cuda/pinned.h, for one buffer."""

    def __init__(self, number, nbytes):
        self.number = number
        self.nbytes = nbytes
        self.holder = None
        self._alone = 0

    def _references(self):
        return sys.getrefcount(self.holder)

    def settle(self):
        """From now on references are others'."""
        self._alone = self._references()

    def busy(self):
        """Is there anything on its memory?"""
        return self._references() != self._alone

    def take(self):
        """A storage on it, if it is pinned and free."""
        address = _library.tsshim_pinned_take(self.number)
        if not address:
            return None
        if self.holder is None:
            self.holder = (ctypes.c_ubyte * self.nbytes).from_address(address)
            self.settle()
        return _storage_on(self.holder)


# ---- for the Inbox, which holds its lock ------------------------------------------------------


def _is_ordinary(tensor, nbytes):
    """Would a copy have the same of everything, and all of the storage?"""
    import torch
    return (tensor.layout is torch.strided and tensor.device.type == "cpu"
            and not tensor.requires_grad and tensor.is_contiguous()
            and tensor.storage_offset() == 0
            and tensor.numel() * tensor.element_size() == nbytes
            and not tensor.is_conj() and not tensor.is_neg() and not vars(tensor))


def lend(buffer, tensor):
    """@tensor, which is all that is on @buffer, on its twin; None where there is none (yet)."""
    if buffer.twin is None and buffer.nbytes >= MIN_BYTES and _holders_tell():
        number = _library.tsshim_pinned_offer(buffer.fd(), buffer.nbytes)
        buffer.twin = Twin(number, buffer.nbytes) if number >= 0 else False
        return None
    if not buffer.twin or not _is_ordinary(tensor, buffer.nbytes):
        return None
    storage = buffer.twin.take()
    if storage is None:
        return None
    buffer.lent = True
    made = buffers.tensor_on(storage, tensor.dtype, tensor.shape)
    if buffer.name is not None:
        # Before the program has it: from now on, what is written to it is noticed.
        _library.tsshim_pinned_name(buffer.twin.number, buffer.name)
    return made if made.stride() == tensor.stride() else None


def returned(buffer):
    """True when nothing is on the twin any more, False: not yet, None: nobody will ever know."""
    if not buffer.lent:
        return True
    if buffer.twin.busy():
        return False
    said = _library.tsshim_pinned_done(buffer.twin.number)
    if said == 0:
        return False
    if said < 0:
        buffer.twin = False
        return None
    buffer.lent = False
    return True


def left(buffer):
    """Unmap the twin of a buffer that is of no use any more. Whether that is settled."""
    said = returned(buffer)
    if not said:
        return said is None
    return _library.tsshim_pinned_drop(buffer.twin.number) != -errno.EAGAIN


# ---- in the pinning thread --------------------------------------------------------------------


def plan(data, twin):
    """
    {id: tensor to deliver in its place} for a batch.  A copy is made of every occurrence of a
    tensor, so only what occurs once is its own copy; nothing is known of objects of other kinds.
    """
    import torch
    stack, found, count = [data], {}, 0
    while stack:
        item = stack.pop()
        kind = type(item)
        count += 1
        if count > MOST_ITEMS:
            return {}
        if kind is torch.Tensor:
            found.setdefault(id(item), []).append(item)
        elif kind in (dict, collections.OrderedDict):
            if kind is not dict and vars(item):
                return {}
            stack.extend(item.keys())
            stack.extend(item.values())
        elif kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields")
                                       and not hasattr(item, "__dict__")):
            stack.extend(item)
        elif kind not in _LEAVES:
            return {}
    made = {}
    for key, occurrences in found.items():
        other = twin(occurrences[0]) if len(occurrences) == 1 else None
        if other is not None:
            made[key] = other
    return made


def wrap(module, twin):
    """Put us into torch's module of the pinning thread; in other threads it stays as it is."""
    def _pin_memory_loop(*_args, **_kwargs):
        _local.inside = True
        yield

    def pin_memory(data, *args, **kwargs):
        device = args[0] if args else kwargs.get("device")
        if not getattr(_local, "inside", False) or device not in _CUDA:
            return (yield)[0]
        made = getattr(_local, "plan", None)
        if made is not None:  # a part of the batch
            return made[id(data)] if id(data) in made else (yield)[0]
        _local.plan = {}
        try:
            made = _local.plan = plan(data, twin)
            return made[id(data)] if id(data) in made else (yield)[0]
        finally:
            _local.plan = None

    for ours in (_pin_memory_loop, pin_memory):
        guard.wrap(module, ours.__name__, ours)
