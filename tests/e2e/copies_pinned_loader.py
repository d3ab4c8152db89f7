# SPDX-License-Identifier: MIT
"""A trainer with pin_memory=True, its torch without CUDA: what torch would ask the driver for is
asked by ctypes.

usage: copies_pinned_loader.py SCENARIO [LENT]     lines that begin with ~ may differ

It goes on until so many batches were lent, that is, not copied into pinned memory.
"""

import collections
import ctypes
import hashlib
import itertools
import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

warnings.simplefilter("ignore")
COUNT, SIDE = 96, 96
SIZE = 8 * 3 * SIDE * SIDE * 4  # bytes of a batch
Named = collections.namedtuple("Named", "image label")

cuda = ctypes.CDLL("libcuda.so.1")
context, stream = ctypes.c_void_p(), ctypes.c_void_p()


def well(result):
    assert result == 0, result


def enter():
    well(cuda.cuInit(0))
    well(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    well(cuda.cuCtxSetCurrent(context))
    well(cuda.cuStreamCreate(ctypes.byref(stream), 1))


def is_pinned(tensor):
    kind = ctypes.c_uint(0)
    address = ctypes.c_uint64(tensor.data_ptr())
    return cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, address) == 0 and kind.value == 1


copies = 0


def pin_memory(self, device=None):
    """torch.Tensor.pin_memory()"""
    global copies
    well(cuda.cuCtxSetCurrent(context))
    if is_pinned(self):
        return self
    copies += self.numel() > 1000
    host, size = ctypes.c_void_p(), self.numel() * self.element_size()
    well(cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), 0))
    holder = (ctypes.c_ubyte * size).from_address(host.value)
    return torch.frombuffer(holder, dtype=self.dtype).view(self.shape).copy_(self)


def pretend():
    """The loader's pinning thread needs no more of CUDA than this."""
    torch.Tensor.pin_memory = pin_memory
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    if hasattr(torch, "accelerator"):
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda *_: torch.device("cuda")
        torch.accelerator.current_device_index = lambda: 0
        torch.accelerator.set_device_index = lambda device: None


class Pictures(Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        values = torch.arange(3 * SIDE * SIDE, dtype=torch.float32).view(3, SIDE, SIDE)
        return values * (index + 1), index


class Keeps:
    """A collate function that writes to the batch before, which was sent long ago."""

    def __init__(self):
        self.last = None

    def __call__(self, samples):
        batch = torch.utils.data.default_collate(samples)
        time.sleep(.05)  # the one before is pinned by now, without us
        if self.last is not None:
            self.last.fill_(-1)
        self.last = batch[0]
        return batch


def twice(samples):
    batch = torch.utils.data.default_collate(samples)
    return {"a": batch[0], "b": batch[0], "label": batch[1]}


def views(samples):
    batch = torch.utils.data.default_collate(samples)
    return {"a": batch[0][:, :, :-1], "b": batch[0][:, :, 1:], "label": batch[1]}


def named(samples):
    batch = torch.utils.data.default_collate(samples)
    return [Named(*batch), {"text": ["a", "b"], "none": None}]


class Arrived:
    """What the GPU has got."""

    def __init__(self):
        self.places, self.digest = [], hashlib.sha256()

    def bring(self, tensor):
        """tensor.to("cuda", non_blocking=True)"""
        tensor = tensor if tensor.is_contiguous() else pin_memory(tensor.contiguous())
        to, size = ctypes.c_uint64(), tensor.numel() * tensor.element_size()
        well(cuda.cuMemAlloc_v2(ctypes.byref(to), ctypes.c_size_t(size)))
        well(cuda.cuMemcpyHtoDAsync_v2(to, ctypes.c_void_p(tensor.data_ptr()),
                                       ctypes.c_size_t(size), stream))
        self.places.append((to, size))

    def finish(self):
        well(cuda.cuStreamSynchronize(stream))
        for place, size in self.places:
            back = ctypes.create_string_buffer(size)
            well(cuda.cuMemcpyDtoH_v2(back, place, ctypes.c_size_t(size)))
            well(cuda.cuMemFree_v2(place))
            self.digest.update(back.raw)
        self.places = []


def train(epochs=4, edit=False, workers=2, least=0, **more):
    arrived, first, lent, odd = Arrived(), None, 0, 0
    loader = DataLoader(Pictures(), batch_size=8, num_workers=workers, pin_memory=True,
                        **more)
    for epoch in itertools.count():
        if epoch >= epochs:
            if not least or lent >= least:
                break
            arrived = Arrived()
        before = copies
        batches = 0
        for batch in loader:
            parts = batch if isinstance(batch, (list, tuple)) else list(batch.values())
            if hasattr(parts[0], "image"):
                parts = list(parts[0])
            batches += 1
            odd += not is_pinned(parts[0]) or parts[0].is_shared()
            if edit:
                parts[0].mul_(2)
            for part in parts:
                if part.numel() > 1000:
                    arrived.bring(part)
            del batch, parts, part
        lent += batches - (copies - before)
        arrived.finish()
        digest = arrived.digest.hexdigest()[:16]
        first = first or digest
        if epoch < epochs:
            print("epoch", epoch, digest)
        else:
            assert digest == first, epoch
    print("odd", odd if arrived else 0)
    print("~lent %d" % lent)


def main(scenario, lent="0"):
    enter()
    pretend()
    collate = {"twice": twice, "views": views, "named": named, "keeps": Keeps()}.get(scenario)
    more = {} if collate is None else {"collate_fn": collate}
    train(edit=scenario in ("edit", "twice", "views"), least=int(lent), persistent_workers=scenario != "renewed",
          **more)


if __name__ == "__main__":
    main(*sys.argv[1:])
