# SPDX-License-Identifier: MIT
"""The checks of one GPU, each with its name: what jobs that share copies rely on, and what copies cost.

The first that finds something wrong is the last.  A check returns what it found, as a text; `Wrong` says what is wrong, and
`NotHere` that there is nothing to check.
"""

import ctypes
import time
from ctypes import c_int, c_size_t, c_uint64

from .driver import (HOST_PAGE_TABLES, LAZY_PEERS, NEEDED, NOT_READY, PAGEABLE_ACCESS, REACHES_REGISTERED, RESOLVED, Driver,
                     Handle, Refused)
from .memory import HOLD_SECONDS, KINDS, LEFT, MOST, SIZES, Data, Gpu, Hold
from .other import Gone, Other

ROUNDS = 5  # the best of them
COST_SECONDS = 1.5  # for all copies of one way
OUT_OF_TURN_S = 0.5  # has a stream to do what it should not do yet
FASTER = 2  # times that a copy within the GPU has to be as fast as one over the bus (hooks/cuda/gpu_ring.c has the same)

# Calls that bring bytes, and whether they take a stream.
CALLS = (("cuMemcpyHtoDAsync_v2", True), ("cuMemcpyAsync", True), ("cuMemcpyHtoD_v2", False), ("cuMemcpy", False),
         ("cuMemcpyHtoDAsync_v2_ptsz", True), ("cuMemcpyAsync_ptsz", True), ("cuMemcpyHtoD_v2_ptds", False),
         ("cuMemcpy_ptds", False))


class Wrong(Exception):
    """Something that jobs rely on does not hold."""


class NotHere(Exception):
    """Nothing is here to check."""


def size(count):
    return f"{count >> 20} MiB" if count >> 20 else f"{count >> 10} KiB"


class Checks:
    """The checks, in their order; each may use what those before it left."""

    def __init__(self, device):
        self.device, self.number, self.figures = device, 0, {}
        self.driver = Driver()
        self.gpu = self.data = self.place = self.theirs = None
        self.owner, self.taker_process = Other(device), Other(device)  # before this process has a driver that minds forks

    def next(self):
        """The address of bytes that no check has copied yet."""
        self.number += 1
        return self.data.at(self.number)

    def need_equal(self, memory, wanted, count, what, stream=None):
        found = self.gpu.look(memory, wanted, count, stream)
        if found:
            raise Wrong(f"{what}: byte {found[0]} of {count} differs")

    # ---- the driver ----

    def functions(self):
        self.driver.cuInit(0)
        missing = [name for name in NEEDED if not self.driver.has(name)]
        if missing:
            raise Wrong("the driver lacks " + ", ".join(missing))
        for name, asked in RESOLVED.items() if self.driver.has("cuGetProcAddress_v2") else ():  # since 12.0
            if self.driver.resolve(*asked) != self.driver.address(name):
                raise Wrong(f"cuGetProcAddress gives another address for {name} than the library has")
        return f"{len(NEEDED)} functions are there"

    def context(self):
        self.gpu, self.data = Gpu(self.driver, self.device), Data()
        self.place = self.gpu.memory()
        if self.driver.get("cuCtxGetDevice", c_int) != self.device:
            raise Wrong("the current context is another GPU's")
        if self.driver.attribute(HOST_PAGE_TABLES, self.device):
            raise Wrong("the GPU reads pageable memory by the page tables of the host: no hash says what it reads")
        reaches = self.driver.attribute(PAGEABLE_ACCESS, self.device)
        registered = self.driver.attribute(REACHES_REGISTERED, self.device)
        return "a primary context; the GPU %s pageable memory, and %s addresses of registered memory" % (
            "reaches" if reaches else "does not reach", "uses" if registered else "does not use")

    # ---- copies ----

    def _bring(self, call, source, wanted, count):
        """One copy by @call of bytes at @wanted from @source; when it returns they are there, or its stream knows."""
        name, takes_stream = call
        ctypes.memmove(source, wanted, count)
        self.gpu.wipe(self.place, count)
        getattr(self.driver, name)(self.place, source, count, *([self.gpu.stream] if takes_stream else ()))
        if takes_stream:
            self.gpu.wait()
        else:  # it may return when it has read a pageable source
            wait = self.driver.cuStreamSynchronize_ptsz if name.endswith("_ptds") else self.driver.cuStreamSynchronize
            wait(None)

    def copies(self):
        done = 0
        for kind in KINDS:
            source = self.gpu.source(kind)
            for count in SIZES:
                for call in CALLS if count <= SIZES[1] else [CALLS[done % len(CALLS)], CALLS[(done + 3) % len(CALLS)]]:
                    wanted = self.next()
                    self._bring(call, source, wanted, count)
                    self.need_equal(self.place, wanted, count, f"{size(count)} of {kind} memory by {call[0]}")
                    done += 1
        return f"{done} copies of pinned, registered and pageable memory, {size(SIZES[0])} to {size(MOST)}: every byte is right"

    def sources(self):
        """A pageable source may be written to when the call has returned."""
        if self.driver.attribute(PAGEABLE_ACCESS, self.device):
            raise NotHere("the GPU reaches pageable memory: the driver may read it late, and says so")
        source, waits = self.gpu.source("pageable"), False
        for count in SIZES:
            wanted = self.next()
            ctypes.memmove(source, wanted, count)
            hold = Hold(self.gpu, self.gpu.stream, 0 if waits else HOLD_SECONDS)
            begin = time.monotonic()
            self.driver.cuMemcpyHtoDAsync_v2(self.place, source, count, self.gpu.stream)
            waits = waits or time.monotonic() - begin > HOLD_SECONDS / 2
            ctypes.memset(source, LEFT, count)
            hold.let_go()
            self.gpu.wait()
            found = self.gpu.look(self.place, wanted, count)
            if found:
                raise Wrong(f"{size(count)} of pageable memory were read after the call had returned (byte {found[0]})"
                            if found[1] == LEFT else f"{size(count)} of pageable memory: byte {found[0]} differs")
        return "pageable memory is read before the call returns" + (", which waits for its stream" if waits else "")

    # ---- order ----

    def events(self):
        source, event, count = self.gpu.source("pinned"), self.gpu.make_event(), SIZES[3]
        for _ in range(4):
            wanted = self.next()
            ctypes.memmove(source, wanted, count)
            self.gpu.wipe(self.place, count)
            hold = Hold(self.gpu, self.gpu.stream)
            self.driver.cuMemcpyHtoDAsync_v2(self.place, source, count, self.gpu.stream)
            self.driver.cuEventRecord(event, self.gpu.stream)
            early = self.driver.ask("cuEventQuery", event), self.driver.ask("cuStreamQuery", self.gpu.stream)
            hold.let_go()
            if early != (NOT_READY, NOT_READY):
                self.gpu.wait()
                raise Wrong(f"an event or a stream was done ({early[0]}, {early[1]}) before the copy in front of it")
            while (code := self.driver.ask("cuEventQuery", event)) == NOT_READY:
                pass
            if code != 0:
                raise Refused("cuEventQuery", code)
            self.need_equal(self.place, wanted, count, "a copy whose event had completed", self.gpu.second)
        return "an event completes when the copies before it have arrived"

    def streams(self):
        source, event, count = self.gpu.source("pinned"), self.gpu.make_event(), SIZES[3]
        behind, wanted = self.gpu.memory(count), self.next()
        ctypes.memmove(source, wanted, count)
        self.gpu.wipe(self.place, count)
        hold = Hold(self.gpu, self.gpu.stream)
        self.driver.cuMemcpyHtoDAsync_v2(self.place, source, count, self.gpu.stream)
        self.driver.cuEventRecord(event, self.gpu.stream)
        self.driver.cuStreamWaitEvent(self.gpu.second, event, 0)
        self.driver.cuMemcpyDtoDAsync_v2(behind, self.place, count, self.gpu.second)
        # A stream that does not wait for the other one has time to show it.
        end = time.monotonic() + OUT_OF_TURN_S
        while self.driver.ask("cuStreamQuery", self.gpu.second) == NOT_READY and time.monotonic() < end:
            pass
        hold.let_go()
        self.need_equal(behind, wanted, count, "a copy in a stream that waits for another", self.gpu.second)
        wanted = self.next()
        ctypes.memmove(source, wanted, count)
        self.driver.cuMemcpyHtoDAsync_v2(self.place, source, count, self.gpu.stream)
        self.driver.cuMemcpyDtoDAsync_v2(behind, self.place, count, self.gpu.stream)
        self.need_equal(behind, wanted, count, "a copy within the GPU behind one from the host")
        return "copies are made in the order of their streams"

    # ---- two processes ----

    def _open(self, handle):
        return self.driver.get("cuIpcOpenMemHandle_v2", c_uint64, Handle.from_buffer_copy(bytes.fromhex(handle)), LAZY_PEERS)

    def _take(self, memory, wanted, count, what):
        """Copy @memory within the GPU to a place of ours, and compare that."""
        self.gpu.wipe(self.place, count)
        self.driver.cuMemcpyDtoDAsync_v2(self.place, memory, count, self.gpu.stream)
        self.need_equal(self.place, wanted, count, what)

    def sharing(self):
        """Memory of the other process by a handle: what it wrote is read here, and what is written here it reads."""
        handle = self.owner.ask("own", count=MOST, number=1000)[0]["handle"]
        self.theirs = self._open(handle)
        begin, count = c_uint64(), c_size_t()
        self.driver.cuMemGetAddressRange_v2(ctypes.byref(begin), ctypes.byref(count), self.theirs)
        if begin.value != self.theirs or count.value < MOST:
            raise Wrong("the driver does not know how large opened memory is")
        self._take(self.theirs, self.data.at(1000), MOST, "memory of another process")
        for number in (1001, 1002):  # ours, and what it writes while it is open
            if number == 1001:
                self.gpu.write(self.place, self.data.at(number), MOST)
                self.driver.cuMemcpyDtoDAsync_v2(self.theirs, self.place, MOST, self.gpu.stream)
                self.gpu.wait()
                found = self.owner.ask("look", count=MOST, number=number)[0]["differs"]
                if found:
                    raise Wrong(f"what is written to memory of another process does not get there: byte {found[0]} differs")
            else:
                self.owner.ask("write", count=MOST, number=number)
                self._take(self.theirs, self.data.at(number), MOST, "what another process writes to memory that is open here")
        self.driver.cuIpcCloseMemHandle(self.theirs)
        self.theirs = self._open(handle)
        self._take(self.theirs, self.data.at(1002), MOST, "memory of another process that was opened again")
        return "memory of another process is read and written by a handle, and opened again"

    def taker(self):
        """A process that is killed while it copies from our memory takes nothing with it."""
        count, number = SIZES[3], 1003
        mine = self.gpu.memory(count)
        self.gpu.write(mine, self.data.at(number), count)
        handle = bytes(self.driver.get("cuIpcGetMemHandle", Handle, mine).bytes).hex()
        found = self.taker_process.ask("open", handle=handle, count=count, number=number)[0]["differs"]
        if found:
            raise Wrong(f"another process reads something else in our memory: byte {found[0]} differs")
        self.taker_process.ask("copy_on", count=count)
        self.taker_process.kill()
        self._take(mine, self.data.at(number), count, "memory that a killed process had open")
        self.driver.cuMemFree_v2(mine)
        return "a process that is killed while it copies from our memory changes nothing"

    def descriptors(self):
        """The other way to share memory; the library does not use it yet, so it decides nothing."""
        try:
            fd = self.owner.ask("describe", count=SIZES[3], number=1004)[1]
            memory, _ = self.gpu.share_by_descriptor(SIZES[3], fd)
        except (AttributeError, Refused, Gone) as error:
            raise NotHere(f"no memory is shared by descriptors: {error}") from None
        self._take(memory, self.data.at(1004), SIZES[3], "memory that is shared by a descriptor")
        return "memory is shared by a descriptor, too"

    def peers(self):
        """Memory of the next GPU, where it can be reached; the library tries each way before it uses it."""
        count = self.driver.get("cuDeviceGetCount", c_int)
        next_one = (self.device + 1) % count
        if next_one == self.device:
            raise NotHere("one GPU is visible")
        if not self.driver.get("cuDeviceCanAccessPeer", c_int, self.device, next_one):
            raise NotHere(f"GPU {next_one} cannot be reached from here")
        other = Other(next_one)
        handle = other.ask("own", count=MOST, number=1005)[0]["handle"]
        try:
            memory = self._open(handle)
        except Refused as error:
            raise NotHere(f"memory of GPU {next_one} cannot be opened: {error}") from None
        self._take(memory, self.data.at(1005), MOST, f"memory of GPU {next_one}")
        self.figures["peer"] = self._times(lambda count: self.driver.cuMemcpyDtoDAsync_v2(
            self.place, memory, count, self.gpu.stream))
        self.driver.cuIpcCloseMemHandle(memory)
        other.kill()
        return f"memory of GPU {next_one} is read by a handle"

    # ---- what it costs ----

    def _times(self, copy):
        """{bytes: milliseconds} of a copy until it is there, the best of some; fewer sizes where time is short."""
        found, end = {}, time.monotonic() + COST_SECONDS
        for count in SIZES:
            for _ in range(ROUNDS + 1):  # the first one may have to set something up
                begin = time.perf_counter()
                copy(count)
                self.gpu.wait()
                took = (time.perf_counter() - begin) * 1e3
                found[count] = min(took, found.get(count, took))
                if time.monotonic() > end:
                    return found
        return found

    def costs(self):
        """The copy from the other process has to be much faster than the program's own, or nothing is gained."""
        bring, within = self.driver.cuMemcpyHtoDAsync_v2, self.driver.cuMemcpyDtoDAsync_v2
        behind = self.gpu.memory()
        for kind in KINDS[::2]:
            source = self.gpu.source(kind)
            self.figures[kind] = self._times(lambda count: bring(self.place, source, count, self.gpu.stream))
        pinned = self.gpu.source("pinned")

        def with_slot(count):
            bring(self.place, pinned, count, self.gpu.stream)
            within(behind, self.place, count, self.gpu.stream)
        self.figures["slot"] = self._times(with_slot)
        self.figures["taken"] = self._times(lambda count: within(self.place, self.theirs, count, self.gpu.stream))
        self.figures["register"] = self._register_times()
        pays = [count for count, took in self.figures["taken"].items()
                if any(self.figures[kind].get(count, 0) >= FASTER * took for kind in KINDS[::2])]
        if not pays:
            raise Wrong(f"it does not pay: at no size is a copy from another process {FASTER} times as fast as the own one")
        return f"a copy from another process is {FASTER} times as fast as the own one, from {size(min(pays))} on"

    def _register_times(self):
        found = {}
        for count in SIZES:
            address = self.gpu.host("registered", count)
            self.driver.cuMemHostUnregister(address)
            begin = time.perf_counter()
            self.driver.cuMemHostRegister_v2(address, count, 1)
            found[count] = (time.perf_counter() - begin) * 1e3
            self.driver.cuMemHostUnregister(address)
        return found

    # ---- last: what becomes of this process then nobody knows ----

    def killed(self):
        """Memory of a killed process stays as it is for those who have it open: copies may be under way then."""
        count, number = SIZES[3], 1002
        self.gpu.wipe(self.place, count)
        hold = Hold(self.gpu, self.gpu.stream)
        for _ in range(4):
            self.driver.cuMemcpyDtoDAsync_v2(self.place, self.theirs, count, self.gpu.stream)
        self.owner.kill()
        hold.let_go()
        try:
            self.need_equal(self.place, self.data.at(number), count, "memory of a process that was killed meanwhile")
            time.sleep(.1)
            self._take(self.theirs, self.data.at(number), count, "memory of a killed process")
            self.driver.ask("cuIpcCloseMemHandle", self.theirs)  # may fail: then it stays mapped
            wanted = self.next()
            self.gpu.write(self.place, wanted, MOST)
            self.need_equal(self.place, wanted, MOST, "our own copy after another process was killed")
        except Refused as error:
            raise Wrong(f"copies from memory of a killed process fail: {error}") from None
        return "memory of a killed process stays readable for copies that are under way"

    ALL = (functions, context, copies, sources, events, streams, sharing, taker, descriptors, peers, costs, killed)


def run(device, say):
    """Make all checks of a GPU and @say(object) of each what was found, before it and after it."""
    checks = Checks(device)
    for check in Checks.ALL:
        name = check.__name__
        say({"begin": name})
        try:
            say({"check": name, "state": "ok", "text": check(checks)})
        except NotHere as found:
            say({"check": name, "state": "n/a", "text": str(found)})
        except (Wrong, Refused, Gone) as found:
            say({"check": name, "state": "no", "text": str(found)})
            break
    say({"figures": checks.figures})
