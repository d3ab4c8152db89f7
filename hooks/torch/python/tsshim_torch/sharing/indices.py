# SPDX-License-Identifier: MIT
"""The name of an index, as it is part of a sample's name and told apart from others in an epoch."""

import marshal
import sys

import torch

_INDEX_TYPES = (int, str, float, bool)


def index_bytes(index):
    """The index with its type as bytes, or None where it cannot be named."""
    kind = type(index)
    if kind is int and -(1 << 63) <= index < 1 << 63:
        return b"i" + index.to_bytes(8, "little", signed=True)
    if kind in _INDEX_TYPES:
        return marshal.dumps(index, 0)
    if kind in (tuple, list):
        parts = [index_bytes(part) for part in index]
        if None in parts:
            return None
        return (b"(" if kind is tuple else b"[") + b"".join(
            [len(part).to_bytes(4, "little") + part for part in parts])
    if kind.__module__ == "numpy" and isinstance(index, sys.modules["numpy"].generic) \
            and not index.dtype.hasobject:
        return b"n" + index.dtype.str.encode() + b" " + index.tobytes()
    if kind is torch.Tensor and index.dim() == 0 and index.device.type == "cpu":
        return b"t" + str(index.dtype).encode() + b" " + repr(index.item()).encode()
    return None
