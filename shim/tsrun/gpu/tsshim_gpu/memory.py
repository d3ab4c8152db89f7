# SPDX-License-Identifier: MIT
"""What is copied and between which places: bytes without a pattern, host memory of three kinds, a GPU."""

import ctypes
import mmap
import os
import random
import threading
from ctypes import c_int, c_size_t, c_ubyte, c_uint64, c_void_p

from .driver import NO_TIMES, NON_BLOCKING, PORTABLE, Access, Location, Properties

SIZES = tuple(size << 10 for size in (256, 1 << 10, 4 << 10, 16 << 10, 64 << 10))
MOST = SIZES[-1]
PERIOD = 1000003  # a prime: no copy that went astray finds the same bytes
LEFT, WIPED = 0x33, 0x77  # a source after the call, and a place before it
HOLD_SECONDS = 2  # a driver that waits in the call for its stream goes on then
KINDS = ("pinned", "registered", "pageable")

_LIBC = ctypes.CDLL(None)
_LIBC.memcmp.argtypes = [c_void_p, c_void_p, c_size_t]


def difference(one, other, count):
    """The first of @count bytes at two addresses that differ; None: they are equal."""
    if _LIBC.memcmp(one, other, count) == 0:
        return None
    begin = 0
    while count > 1:
        half = count // 2
        if _LIBC.memcmp(one + begin, other + begin, half) == 0:
            begin, count = begin + half, count - half
        else:
            count = half
    return begin


class Data:
    """The same bytes in each process; each number has others at every place."""

    def __init__(self):
        self.text = random.Random(1).randbytes(PERIOD) * (MOST // PERIOD + 3)
        self.base = ctypes.cast(ctypes.c_char_p(self.text), c_void_p).value

    def at(self, number):
        return self.base + number * 7919 % PERIOD


class Gpu:
    """A GPU, current in this thread; its calls raise what the driver refuses."""

    def __init__(self, driver, device):
        self.driver, self.device = driver, device
        driver.cuInit(0)
        self.context = driver.get("cuDevicePrimaryCtxRetain", c_void_p, device)
        driver.cuCtxSetCurrent(self.context)
        self.stream, self.second = self.make_stream(), self.make_stream()
        self.mapped, self.sources = [], {}  # host memory that the driver may know
        self.back = self.host("pinned")

    def make_stream(self):
        return self.driver.get("cuStreamCreate", c_void_p, NON_BLOCKING)

    def make_event(self):
        return self.driver.get("cuEventCreate", c_void_p, NO_TIMES)

    def memory(self, count=MOST):
        return self.driver.get("cuMemAlloc_v2", c_uint64, count)

    def host(self, kind, count=MOST):
        """The address of host memory of that kind; it stays until the process ends."""
        if kind == "pinned":
            return self.driver.get("cuMemHostAlloc", c_void_p, count, 0)
        fd = os.memfd_create("tsshim-gpu") if kind == "registered" else -1
        if fd >= 0:
            os.ftruncate(fd, count)
        mapping = mmap.mmap(fd, count)
        mapping[:] = bytes(count)
        address = ctypes.addressof(c_ubyte.from_buffer(mapping))
        self.mapped.append(mapping)
        if fd >= 0:
            os.close(fd)
            self.driver.cuMemHostRegister_v2(address, count, PORTABLE)
        return address

    def source(self, kind):
        """Host memory of that kind to copy from, always the same."""
        if kind not in self.sources:
            self.sources[kind] = self.host(kind)
        return self.sources[kind]

    def wait(self, stream=None):
        self.driver.cuStreamSynchronize(stream or self.stream)

    def write(self, memory, address, count):
        """Bytes of the host at @address to the GPU; they have arrived."""
        ctypes.memmove(self.back, address, count)
        self.driver.cuMemcpyHtoDAsync_v2(memory, self.back, count, self.stream)
        self.wait()

    def wipe(self, memory, count):
        self.driver.cuMemsetD8Async(memory, WIPED, count, self.stream)
        self.wait()

    def look(self, memory, wanted, count, stream=None):
        """Where memory of the GPU is not what is at the address @wanted: (place, byte); None: nowhere."""
        ctypes.memset(self.back, 0x11, count)
        self.driver.cuMemcpyDtoHAsync_v2(self.back, memory, count, stream or self.stream)
        self.wait(stream)
        at = difference(self.back, wanted, count)
        return None if at is None else (at, ctypes.string_at(self.back + at, 1)[0])

    def share_by_descriptor(self, count, fd=None):
        """(address, descriptor) of memory that is mapped by a descriptor: of a new one, or of @fd."""
        driver, place = self.driver, Location(1, self.device)
        wanted = Properties(1, 1, place)
        grain = driver.get("cuMemGetAllocationGranularity", c_size_t, ctypes.byref(wanted), 0)
        count = (count + grain - 1) // grain * grain
        if fd is None:
            handle = driver.get("cuMemCreate", c_uint64, count, ctypes.byref(wanted), 0)
            fd = driver.get("cuMemExportToShareableHandle", c_int, handle, 1, 0)
        else:
            handle = driver.get("cuMemImportFromShareableHandle", c_uint64, fd, 1)
        address = driver.get("cuMemAddressReserve", c_uint64, count, 0, 0, 0)
        driver.cuMemMap(address, count, 0, handle, 0)
        driver.cuMemSetAccess(address, count, ctypes.byref(Access(place, 3)), 1)
        return address, fd


class Hold:
    """A stream that does nothing until .let_go(), or for some seconds: work behind it is late for certain."""

    FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)

    def __init__(self, gpu, stream, seconds=HOLD_SECONDS):
        self.end = threading.Event()
        self.function = self.FUNCTION(lambda _: self.end.wait(seconds))
        gpu.driver.cuLaunchHostFunc(stream, ctypes.cast(self.function, c_void_p), None)

    def let_go(self):
        self.end.set()
