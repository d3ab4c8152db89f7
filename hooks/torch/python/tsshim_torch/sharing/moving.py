# SPDX-License-Identifier: MIT
"""
What collate functions of the program's make, in memory of the pool (handover).

Such a function gets samples with private memory and stacks them; torch then moves the result into
a new file of shared memory.  Both are new pages each time, which cost more than the copies.  So
torch.stack() is given memory of the pool to write to, and what was made by other ways is moved
there.
"""

import collections
import functools

import torch

try:
    from torch.overrides import TorchFunctionMode
except ImportError:  # before PyTorch 1.13: results are moved
    TorchFunctionMode = None
from torch.utils.data._utils import worker as torch_worker

from .. import any_torch, guard_importlib_bootstrap as guard
from ..handover import buffers, pool

MOVED_MIN = 1 << 20  # bytes of a tensor for which a copy is cheaper than the way that torch has


def _tensors(value, found):
    """All tensors in @value, as far as it is made of dictionaries, lists and tuples."""
    kind = type(value)
    if kind is torch.Tensor:
        found.append(value)
    elif kind is dict or kind is list or kind is tuple:
        for part in value.values() if kind is dict else value:
            _tensors(part, found)
    return found


def _is_whole(tensor):
    """Whether @tensor is a large one with plain memory of its own, all of which it shows."""
    size = tensor.numel() * tensor.element_size()
    return size >= MOVED_MIN and tensor.device.type == "cpu" and tensor.is_contiguous() and \
        not tensor.requires_grad and not tensor.is_quantized and \
        not any_torch.is_conj(tensor) and not any_torch.is_neg(tensor) and \
        not tensor.is_shared() and buffers.untyped(tensor).nbytes() == size and not vars(tensor)


def _moved(tensor, copy):
    size = tensor.numel() * tensor.element_size()
    storage = pool.new_storage(size)
    if storage is None:
        return tensor
    made = buffers.tensor_on(storage, tensor.dtype, tensor.shape)
    copy(made.data_ptr(), tensor.data_ptr(), size, size)
    return made


def _with(value, moved):
    """
    As @value, with the tensors that @moved has, by their ids, in the places of the old ones; what
    the program may have kept is left as it is.
    """
    kind = type(value)
    if kind is torch.Tensor:
        return moved.get(id(value), value)
    if kind is dict:
        return {key: _with(part, moved) for key, part in value.items()}
    if kind is list or kind is tuple:
        return kind([_with(part, moved) for part in value])
    return value


def to_pool(value, copy):
    """
    @value, which a collate function has made, with its large tensors in memory of the pool where
    there is some.  Torch would move each into a new file of shared memory: for 38 MB 55 ms, most
    of them for new pages.  What shares memory with something else in @value stays as it is.
    """
    if torch_worker._worker_info is None:
        return value
    tensors = _tensors(value, [])
    places = collections.Counter(buffers.untyped(tensor).data_ptr() for tensor in tensors
                                 if tensor.layout is torch.strided)
    moved = {id(tensor): _moved(tensor, copy) for tensor in tensors
             if tensor.layout is torch.strided and _is_whole(tensor)
             and places[buffers.untyped(tensor).data_ptr()] == 1}
    return _with(value, moved) if moved else value


# ---- torch.stack() ----


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
            first.numel() * first.element_size() * len(tensors) < MOVED_MIN:
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


def collated(collate_fn, samples, copy, asked):
    """What @asked(@collate_fn, @samples) gives, in memory of the pool as far as that can be."""
    if torch_worker._worker_info is None or TorchFunctionMode is None:
        made = asked(collate_fn, samples)
    else:
        with _Stacking():
            made = asked(collate_fn, samples)
    try:
        return to_pool(made, copy)
    except Exception as error:  # it is a batch all the same
        guard.failed(error)
        return made
