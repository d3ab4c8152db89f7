# SPDX-License-Identifier: MIT
"""A trainer under --align with pin_memory=True, its torch without CUDA (copies_pinned_loader.py).
What the GPU has of each batch must be what the batch held when it was copied.

usage: copies_named_job.py SCENARIO EPOCHS [PAUSE]     lines that begin with ~ may differ

More epochs, which the digest does not have, until there is the file that UNTIL names.
"""

import ctypes
import hashlib
import itertools
import os
import random
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import copies_pinned_loader as trainer
import meeting
from copies_pinned_loader import cuda, well

COUNT, SIDE, BATCH = 64, 128, 8
WORK_SECONDS = .002  # what is cheaper is not shared


class Drawn(Dataset):
    """Samples that are drawn, so that no two jobs make the same ones by chance."""

    def __init__(self, odd):
        self.odd = odd  # its samples are no function of the generators

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        image = torch.rand(3, SIDE, SIDE) + index
        until = time.thread_time() + WORK_SECONDS
        while time.thread_time() < until:
            pass
        if self.odd:
            image[0, 5, 5] = random.SystemRandom().random()
        return image, index


class Device:
    """What the GPU has got, and what it should have."""

    def __init__(self, waits=False):
        self.places, self.wrong, self.digest = [], 0, hashlib.sha256()
        self.waits = waits  # for each copy

    def bring(self, tensor, checked=True):
        """tensor.to("cuda", non_blocking=not self.waits)"""
        to, size = ctypes.c_uint64(), tensor.numel() * tensor.element_size()
        well(cuda.cuMemAlloc_v2(ctypes.byref(to), ctypes.c_size_t(size)))
        wanted = ctypes.string_at(tensor.data_ptr(), size)
        words = (to, ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(size))
        if self.waits:
            well(cuda.cuMemcpyHtoD_v2(*words))
        else:
            well(cuda.cuMemcpyHtoDAsync_v2(*words, trainer.stream))
        self.places.append((to, size, wanted if checked else None))

    def finish(self):
        well(cuda.cuStreamSynchronize(trainer.stream))
        for place, size, wanted in self.places:
            back = ctypes.create_string_buffer(size)
            well(cuda.cuMemcpyDtoH_v2(back, place, ctypes.c_size_t(size)))
            well(cuda.cuMemFree_v2(place))
            self.wrong += wanted is not None and back.raw != wanted
            self.digest.update(back.raw)
        self.places = []


def child_writes(tensor):
    """A fork child that has the batch changes it."""
    pid = os.fork()
    if pid == 0:
        ctypes.memset(tensor.data_ptr() + 40000, 77, 100)
        os._exit(0)
    os.waitpid(pid, 0)


def gpu_writes(tensor):
    """A copy back from the GPU, as of a result, into the batch."""
    place = ctypes.c_uint64()
    well(cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(4096)))
    well(cuda.cuMemsetD8_v2(place, ctypes.c_ubyte(33), ctypes.c_size_t(4096)))
    well(cuda.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(tensor.data_ptr() + 100000), place,
                                   ctypes.c_size_t(4096), trainer.stream))
    well(cuda.cuStreamSynchronize(trainer.stream))
    well(cuda.cuMemFree_v2(place))


# What the program does to a batch before it copies it, seldom enough not to be given up.
BEFORE = {
    "edit": lambda tensor: tensor[3].mul_(2),
    "numpy": lambda tensor: tensor.numpy().__setitem__((2, 1, 7, 7), 5),
    "fork": child_writes,
    "back": gpu_writes,
}


def train(scenario, epochs, pause):
    device, seen = Device(scenario == "waits"), 0
    rng = random.Random(os.getpid())  # not those of the data set
    loader = DataLoader(Drawn(scenario == "odd"), batch_size=BATCH, num_workers=1, shuffle=True,
                        pin_memory=True, persistent_workers=True)
    racing = scenario == "race" and os.environ.get("RACES")
    until = os.environ.get("UNTIL")
    for epoch in itertools.count():
        if epoch == epochs:
            digest = device.digest.hexdigest()[:16]
        if epoch >= epochs and (until is None or os.path.exists(until)):
            break
        for images, _ in loader:
            seen += 1
            if scenario in BEFORE and rng.random() < .05:
                BEFORE[scenario](images)
            if scenario == "parts":
                middle = rng.randrange(3, 5)
                device.bring(images[:middle])
                device.bring(images[middle:])
            else:
                device.bring(images, not racing)
            if racing:  # the GPU may read it still: nobody knows what it gets
                images.fill_(seen)
            time.sleep(pause)
            del images
        device.finish()
    print("equal: %d of %d batches" % (seen - device.wrong, seen))
    print("~digest", digest)


def main(scenario, epochs, pause="0.004"):
    trainer.enter()
    trainer.pretend()
    meeting.arrive()
    train(scenario, int(epochs), float(pause))


if __name__ == "__main__":
    main(*sys.argv[1:])
