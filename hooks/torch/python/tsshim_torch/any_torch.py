# SPDX-License-Identifier: MIT
"""
What is asked of tensors, in words that each version of torch has.

For whoever has imported torch.  What an older torch has no word for, no tensor of it is.
"""

import torch


def _no(_tensor):
    return False


is_conj = getattr(torch.Tensor, "is_conj", _no)  # lazily conjugated, from torch 1.10 on
is_neg = getattr(torch.Tensor, "is_neg", _no)
is_inference = getattr(torch.Tensor, "is_inference", _no)  # from 1.9 on
is_inference_mode = getattr(torch, "is_inference_mode_enabled", bool)

if hasattr(torch.Tensor, "is_cpu"):  # from 1.8 on
    is_cpu = torch.Tensor.is_cpu.__get__
else:
    def is_cpu(tensor):
        """Whether @tensor is in memory of the CPU."""
        return tensor.device.type == "cpu"


def has_dispatch(kind):
    """Whether class @kind of tensors has a __torch_dispatch__() of its own."""
    return getattr(kind, "__torch_dispatch__", None) is not \
        getattr(torch.Tensor, "__torch_dispatch__", None)


def of_bytes(data):
    """A tensor of the bytes @data."""
    if hasattr(torch, "frombuffer"):  # from 1.10 on
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)
    return torch.tensor(list(data), dtype=torch.uint8)


def new_shared(dtype, nbytes):
    """A storage of @nbytes in shared memory, for tensors of this @dtype."""
    if hasattr(torch, "UntypedStorage"):  # from 1.13 on
        return torch.UntypedStorage._new_shared(nbytes)
    part = torch.empty(0, dtype=dtype, device="cpu")
    return part.storage()._new_shared(nbytes // part.element_size())
