# SPDX-License-Identifier: MIT
"""
What gpu_torch.py starts: a torch with CUDA that brings something, and prints what arrived.

usage: gpu_torch_job.py runtime FUNCTION | loader | graph     lines that begin with ~ may differ
"""

import ctypes
import hashlib
import re
import sys

import torch
from torch.utils.data import DataLoader, Dataset

CALLS, SMALL = 50, 4096
HOST_TO_DEVICE, DEFAULT = 1, 4


def digest(*tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


# ---- copies of the runtime -------------------------------------------------------------------

def runtime():
    """The library that torch has loaded, wherever it lies."""
    torch.zeros(1, device="cuda")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = re.search(r"(/\S*libcudart\S*\.so\S*)", maps.read()).group(1)
    return ctypes.CDLL(path)


def call(function):
    """CALLS times @function of the runtime, or none for "none", each of SMALL bytes and more."""
    library = runtime()
    to = torch.zeros(SMALL, dtype=torch.uint8, device="cuda")
    source = bytes(range(256)) * (SMALL // 256)
    where, size = ctypes.c_void_p(to.data_ptr()), ctypes.c_size_t(SMALL)
    torch.cuda.synchronize()
    name, _, kind = function.partition(":")
    kind = DEFAULT if kind == "default" else HOST_TO_DEVICE
    for _ in range(0 if function == "none" else CALLS):
        if name == "cudaMemcpy2D":
            width, rows = ctypes.c_size_t(SMALL // 4), ctypes.c_size_t(4)
            result = library.cudaMemcpy2D(where, width, source, width, width, rows, kind)
        elif name == "cudaMemcpyAsync":
            result = library.cudaMemcpyAsync(where, source, size, kind, None)
        else:
            result = getattr(library, name)(where, source, size, kind)
        assert result == 0, (function, result)
    torch.cuda.synchronize()
    print("arrived", function == "none" or bytes(to.cpu().tolist()) == source)


# ---- a loader whose batches are pinned -------------------------------------------------------

class Pictures(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return torch.full((3, 128, 128), float(index)), index


def loader():
    """Copies that are late, from batches that go at once."""
    pinned, sums = 0, []
    batches = DataLoader(Pictures(), batch_size=16, num_workers=2, pin_memory=True,
                         persistent_workers=True)
    work = torch.randn(2048, 2048, device="cuda")
    for _ in range(4):
        for images, labels in batches:
            pinned += images.is_pinned()
            work = (work @ work).tanh()  # the copy is queued behind this
            there = images.to("cuda", non_blocking=True)
            del images
            sums.append(there.sum(dim=(1, 2, 3)).double().cpu() - labels * 3.0 * 128 * 128)
    print("pinned", pinned, "wrong", int(sum((each != 0).sum() for each in sums)))


# ---- a graph ---------------------------------------------------------------------------------

def graph():
    """A copy and a product in a graph, before and between copies that can be shared."""
    torch.manual_seed(3)
    host = torch.randn(512, 1024).pin_memory()
    there = torch.empty(512, 1024, device="cuda")
    weights = torch.ones(1024, 8, device="cuda")
    plain = torch.randn(1024, 1024)
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        there.copy_(host, non_blocking=True)
        product = there @ weights
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        there.copy_(host, non_blocking=True)
        product = there @ weights
    found = []
    for step in range(20):
        host.fill_(step)
        plain[0, 0] = step
        made.replay()
        found += [product.clone(), plain.cuda()]
        torch.cuda.synchronize()
    print("graph", digest(*found))


if __name__ == "__main__":
    scenarios = {"runtime": call, "loader": loader, "graph": graph}
    scenarios[sys.argv[1]](*sys.argv[2:])
