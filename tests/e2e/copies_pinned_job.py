# SPDX-License-Identifier: MIT
"""What hooks/torch does with pinned buffers, by the C interface: a worker's, a trainer's part.

usage: copies_pinned_job.py SCENARIO [WORD]   prints what came of it
"""

import ctypes
import errno
import mmap
import os
import random
import sys
import time

SIZE = 1 << 20
EIO, ENOTSUP = -errno.EIO, -errno.ENOTSUP


def library():
    ours = ctypes.CDLL(None)
    ours.tsshim_pinned_offer.argtypes = [ctypes.c_int, ctypes.c_uint64]
    ours.tsshim_pinned_take.restype = ctypes.c_void_p
    return ours


ours = library()
cuda = None
held = ctypes.create_string_buffer(64)  # a sem_t
ours.sem_init(held, 0, 0)


def well(result):
    assert result == 0, result


class Gpu:
    """The driver, as torch uses it: versioned names by dlsym."""

    def __init__(self, stream=True):
        global cuda
        cuda = ctypes.CDLL("libcuda.so.1")
        self.context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        well(cuda.cuInit(0))
        well(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0))
        well(cuda.cuCtxSetCurrent(self.context))
        if stream:
            well(cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.host = ctypes.c_void_p()
        well(cuda.cuMemHostAlloc(ctypes.byref(self.host), ctypes.c_size_t(SIZE), 0))

    def memory(self):
        found = ctypes.c_uint64()
        well(cuda.cuMemAlloc_v2(ctypes.byref(found), ctypes.c_size_t(SIZE)))
        return found

    def bring(self, to, address, size=SIZE):
        return cuda.cuMemcpyHtoDAsync_v2(to, ctypes.c_void_p(address), ctypes.c_size_t(size),
                                         self.stream)

    def start(self):
        """A copy from torch's own pinned memory, as before there is a buffer of ours."""
        well(self.bring(self.memory(), self.host.value))
        well(cuda.cuStreamSynchronize(self.stream))

    def hold(self, per_thread=False):
        """What is brought from now on waits in its stream until go_on()."""
        launch = cuda.cuLaunchHostFunc_ptsz if per_thread else cuda.cuLaunchHostFunc
        well(launch(self.stream, ctypes.cast(ours.sem_wait, ctypes.c_void_p), held))

    @staticmethod
    def go_on():
        well(ours.sem_post(held))

    def read(self, of, size=SIZE):
        back = ctypes.create_string_buffer(size)
        well(cuda.cuStreamSynchronize(self.stream))
        well(cuda.cuMemcpyDtoH_v2(back, of, ctypes.c_size_t(size)))
        return back.raw


class Buffer:
    """A buffer of the pool, as its worker sees it, and the number of the place."""

    def __init__(self, size=SIZE):
        self.fd = os.memfd_create("tsshim-buffer")
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.number = ours.tsshim_pinned_offer(self.fd, size)

    def fill(self, byte):
        self.map[:] = bytes([byte]) * len(self.map)

    def take(self, seconds=60):
        """Its address, when it is pinned; None if that never happens."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            address = ours.tsshim_pinned_take(self.number)
            if address:
                return address
            time.sleep(.001)
        return None

    def done(self, then=lambda: None):
        """1 or an error: what became of it; and whether it was not known at first, before
        @then()."""
        said = ours.tsshim_pinned_done(self.number)
        waited, until = said == 0, time.monotonic() + 60
        then()
        while said == 0 and time.monotonic() < until:
            time.sleep(.0005)
            said = ours.tsshim_pinned_done(self.number)
        return said, waited


# ---- scenarios --------------------------------------------------------------------------------


def late():
    """The reference dies, the GPU is late, the worker writes again when it may."""
    gpu, buffer = Gpu(), Buffer()
    gpu.start()
    address, to = buffer.take(), gpu.memory()
    buffer.fill(1)
    gpu.hold()
    well(gpu.bring(to, address))
    said = buffer.done(gpu.go_on)
    buffer.fill(2)
    print("done", *said, "old bytes", gpu.read(to) == b"\1" * SIZE)
    again = buffer.take()
    print("again", again == address)


def ways():
    gpu, buffer = Gpu(stream=False), Buffer()
    gpu.start()
    to = gpu.memory()
    of = [ctypes.c_size_t(SIZE), None]
    for name, arguments in [
            ("cuMemcpyHtoDAsync_v2", "to host"), ("cuMemcpyHtoDAsync_v2_ptsz", "to host"),
            ("cuMemcpyAsync", "to uni"), ("cuMemcpyAsync_ptsz", "to uni"),
            ("cuMemcpyDtoHAsync_v2", "host to"), ("cuMemcpyDtoHAsync_v2_ptsz", "host to"),
            ("cuMemcpyHtoD_v2", "to host sync"), ("cuMemcpy", "to uni sync"),
            ("cuMemcpyDtoH_v2", "host to sync")]:
        for offset, size in ((0, SIZE), (SIZE - 100, 100), (4096, 400000)):
            address = buffer.take()
            values = {"to": to, "host": ctypes.c_void_p(address + offset),
                      "uni": ctypes.c_uint64(address + offset)}
            words = arguments.split()
            more = [ctypes.c_size_t(size)] + ([] if "sync" in words else [None])
            if "sync" not in words:
                gpu.hold(name.endswith("_ptsz"))
            well(getattr(cuda, name)(values[words[0]], values[words[1]], *more))
            print(name, size, *buffer.done(*[] if "sync" in words else [gpu.go_on]))
    del of


def batch(order):
    """What is read in its turn or at any time is copied for itself, with an event behind it."""
    gpu, buffer = Gpu(), Buffer()
    gpu.start()
    to, one = gpu.memory(), ctypes.c_size_t(SIZE)
    address = ctypes.c_uint64(buffer.take())
    attributes, at = (ctypes.c_uint32 * 6)(int(order)), ctypes.c_size_t(0)
    during_call = order == "2"
    if not during_call:
        gpu.hold()
    print(cuda.cuMemcpyBatchAsync_v2(
        ctypes.byref(to), ctypes.byref(address), ctypes.byref(one), ctypes.c_size_t(1),
        attributes, ctypes.byref(at), ctypes.c_size_t(1), gpu.stream),
        *buffer.done(*[] if during_call else [gpu.go_on]))


def captured():
    gpu, buffer = Gpu(), Buffer()
    gpu.start()
    to, address, graph = gpu.memory(), buffer.take(), ctypes.c_void_p()
    well(cuda.cuStreamBeginCapture_v2(gpu.stream, 2))
    well(gpu.bring(to, address))
    well(cuda.cuStreamEndCapture(gpu.stream, ctypes.byref(graph)))
    print(*buffer.done(), "again", buffer.take(.2), "drop",
          ours.tsshim_pinned_drop(buffer.number))


def forked():
    gpu, buffer = Gpu(), Buffer()
    gpu.start()
    address = buffer.take()
    well(gpu.bring(gpu.memory(), address))
    child = os.fork()
    if child == 0:
        refused = (ours.tsshim_pinned_offer(buffer.fd, SIZE), buffer.take(.1),
                   ours.tsshim_pinned_done(buffer.number),
                   ours.tsshim_pinned_drop(buffer.number))
        os._exit(refused != (ENOTSUP, None, EIO, EIO))
    print("child", os.waitpid(child, 0)[1], "parent", buffer.done()[0],
          "again", buffer.take() == address)


def dropped():
    def mapped():
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return maps.read().count("tsshim-buffer")

    gpu, buffer = Gpu(), Buffer()
    gpu.start()
    for turn in range(300):  # more than there are places
        buffer = buffer if turn == 0 else Buffer()
        address = buffer.take()
        assert address, (turn, buffer.number)
        well(gpu.bring(gpu.memory(), address))
        assert buffer.done()[0] == 1
        well(ours.tsshim_pinned_drop(buffer.number))
        buffer.map.close()
        os.close(buffer.fd)
    until = time.monotonic() + 60
    while mapped() and time.monotonic() < until:
        time.sleep(.01)
    print("mapped", mapped())


def unused():
    """Nobody ever copies from a place."""
    gpu, buffers = Gpu(), [Buffer() for _ in range(4)]
    gpu.start()
    print([(buffer.take() is not None, buffer.done()[0]) for buffer in buffers],
          Buffer().number == ENOTSUP)


def alone():
    """No GPU is used."""
    buffer = Buffer()
    print("offered", buffer.number >= 0, "taken", buffer.take(.3), "dropped",
          ours.tsshim_pinned_drop(buffer.number))


def refused():
    print(Buffer().number == ENOTSUP)


def leaves():
    """The context goes with copies under way."""
    gpu, buffers = Gpu(), [Buffer() for _ in range(3)]
    gpu.start()
    addresses = [buffer.take() for buffer in buffers]
    to = [gpu.memory() for _ in buffers]
    for place, (address, buffer) in zip(to, zip(addresses, buffers)):
        buffer.fill(7)
        well(gpu.bring(place, address))
    first = buffers[0].done()[0]
    read = gpu.read(to[0]) == b"\7" * SIZE
    print(first, read, cuda.cuDevicePrimaryCtxRelease_v2(0), Buffer().number == ENOTSUP,
          buffers[0].take(.2))


def loop(word, least="0"):
    """Batches, as a pool hands them on, and more until so many have been pinned.  All must arrive,
    whatever the driver says."""
    rng = random.Random(int(word))
    gpu = Gpu()
    free, held, arrived, longest = [Buffer() for _ in range(4)], [], [], 0
    pinned, count, right, memory = 0, 0, True, [gpu.memory() for _ in range(120)]
    while count < 120 or pinned < int(least):
        count += 1
        byte = 1 + count % 250
        buffer = free.pop(0) if free else Buffer()
        buffer.fill(byte)
        address = buffer.take(.05 if count == 4 else .002)
        source = address or gpu.host.value
        pinned += bool(address)
        if not address:
            ctypes.memmove(source, bytes([byte]) * SIZE, SIZE)
        if not memory:
            of, to, size = arrived.pop(0)
            right &= gpu.read(to, size) == bytes([of]) * size
            memory.append(to)
        to = memory.pop()
        parts = rng.choice((1, 1, 4, 80))
        begin = time.monotonic()
        for i in range(parts):
            size = SIZE // parts
            well(gpu.bring(ctypes.c_uint64(to.value + i * size), source + i * size, size))
        longest = max(longest, time.monotonic() - begin)
        if not address:
            well(cuda.cuStreamSynchronize(gpu.stream))
        arrived.append((byte, to, SIZE // parts * parts))
        (held if address else free).append(buffer)
        for other in held[:]:
            said = ours.tsshim_pinned_done(other.number)
            if said != 0:
                held.remove(other)
            if said == 1:
                other.fill(255)  # by a worker, at once
                free.append(other)
    print("right", right and all(gpu.read(to, size) == bytes([byte]) * size
                                 for byte, to, size in arrived))
    print("~pinned %d longest %d us" % (pinned, longest * 1e6))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
