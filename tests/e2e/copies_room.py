# SPDX-License-Identifier: MIT
"""Memory of a GPU of software that a ring has: programs get it all the same."""

import contextlib
import os
import re
import signal

from copies_common import Gpu, batches_of, counters_of, state_of, until
from support import finish

GUARD = 30  # seconds; how soon memory is there bench/gates/gate_cuda.py measures
WAITS = .5  # seconds that a program waits for a ring's memory (LEAVE_NS, hooks/cuda/gpu.c)

# Calls that allocate, as tests/cuda/jobs.c has them.
ALLOCATIONS = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz",
               "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz", "cuMemCreate")


def shares(now):
    """The ring is there, and both use it."""
    return now.get("ipc_opens", 0) > 0 and now.get("d2d_copies", 0) > 0


def fill(gpu, stop=False, call=0, words=(), holds=shares, keeps=False, **more):
    """(MiB of room for a job when another one shares with it, its longest allocation in s).  Both
    go on until @holds(counters of the driver); then it fills the memory, and both until the ring
    was given back, unless somebody is stopped or @keeps it."""
    (gate, opener), (until_then, end), (then, given) = os.pipe(), os.pipe(), os.pipe()
    other = gpu.start(1, 1, "pace=5000", "until=%d" % until_then, *words, pass_fds=(until_then,),
                      **{name[6:]: value for name, value in more.items()
                         if name.startswith("other_")})
    os.close(until_then)
    job = gpu.start(2, 1, "pace=5000", "until=%d" % gate, "fill=%d" % gate, "allocate=%d" % call,
                    "then=%d" % then, pass_fds=(gate, then), **{name: value for name, value in more.items()
                                         if not name.startswith("other_")})
    os.close(gate)
    os.close(then)
    seen = until(lambda: holds(gpu.counters_now()))
    if stop:
        other.send_signal(signal.SIGSTOP)
        assert until(lambda: state_of(other.pid) == "T")
    os.close(opener)
    freed = holds is not shares or keeps or stop or until(lambda: gpu.counters()["frees"] > 0)
    os.close(given)
    outcome = finish(job)
    other.send_signal(signal.SIGCONT)
    os.close(end)
    batches_of(other)
    assert seen and freed, gpu.counters()
    assert outcome.status == 0 and "equal: " in outcome.output, outcome
    room, longest = re.search(r"room: (\d+) MiB\n~allocation (\d+) us", outcome.output).groups()
    return int(room), int(longest) / 1e6


def room_of(machine):
    """(MiB of room where nothing is shared, calls that allocated it)"""
    with Gpu(**machine, TSSHIM_COPIES="off") as gpu:
        room, _ = fill(gpu, holds=lambda now: now.get("d2h_copies", 0) >= 20)
        return room, gpu.counters()["call.cuMemAlloc_v2"]


def all_of_it(room, wanted, longest):
    """Whether there was as much room as without us.  On a busy machine who has the memory may give
    it back too late, which costs the whole time that it is waited for."""
    return longest < GUARD and (room == wanted or (longest >= WAITS and
                                                   wanted - 32 <= room < wanted))


# A GPU that can be filled, and one who maps the ring of the job that fills it.
FILLED = {"FAKECUDA_MEMORY": str(512 << 20), "FAKECUDA_MEMORY_SHARED": "1"}
FOLLOWS = {"other_FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}


def test_no_room_is_taken():
    no_ring = {"FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}
    wanted, calls = room_of(FILLED)
    # The ring is the other job's, or one's own: it is given back, and asked for once.
    for more in (no_ring, FOLLOWS):
        with Gpu(**FILLED) as gpu:
            room, longest = fill(gpu, **more)
            counters = gpu.safe()
            assert all_of_it(room, wanted, longest), (more, room, wanted, longest)
            ours, again = counters["call.cuIpcGetMemHandle"], room == wanted
            assert counters["call.cuMemAlloc_v2"] == calls - (wanted - room) + ours + again, (
                more, calls, room, wanted, counters)
    # A stopped job cannot give anything back; it is waited for once.
    with Gpu(**FILLED) as gpu:
        room, longest = fill(gpu, stop=True, **no_ring)
        assert wanted - 32 <= room < wanted and .4 < longest < GUARD, (room, wanted, longest)


def test_memory_is_kept_for_who_is_inside_the_driver():
    """Memory that another one has mapped is not freed; the room comes when it has closed it."""
    wanted, _ = room_of(FILLED)
    with Gpu(**FILLED) as gpu:
        room, longest = fill(gpu, other_FAKECUDA_IPC_CLOSE_US="350000", **FOLLOWS)
        counters = gpu.safe()
        assert all_of_it(room, wanted, longest) and .3 < longest, (room, wanted, longest)
        assert counters["ipc_closes"] == 1, counters


def test_memory_is_kept_for_who_is_stopped():
    wanted, _ = room_of(FILLED)
    with Gpu(**FILLED) as gpu:
        # Whether in a copy or between two: it has the memory mapped.
        room, longest = fill(gpu, stop=True, words=["calls=1"], **FOLLOWS)
        counters = gpu.safe()
        assert wanted - 32 <= room < wanted and .4 < longest < GUARD, (room, wanted, longest)
        assert counters["ipc_opens"] > 0, counters


def test_memory_is_kept_for_who_cannot_close_it():
    wanted, _ = room_of(FILLED)
    with Gpu(**FILLED) as gpu:
        fails = FOLLOWS["other_FAKECUDA_FAIL"] + ",cuIpcCloseMemHandle:0:2"
        room, _ = fill(gpu, other_FAKECUDA_FAIL=fails, keeps=True)
        counters = gpu.safe()
        assert room < wanted and counters["call.cuIpcCloseMemHandle"] > 0, (room, counters)


def rounds_without_copies(path):
    """Whether the thread that looks after the GPU, alone in using the driver, has gone round and
    asked for no copy: it holds nothing then."""
    def counted():
        now = counters_of(path)
        return now["call.cuCtxPushCurrent_v2"], now["call.cuEventQuery"]

    rounds, asked = counted()
    assert until(lambda: counted()[0] >= rounds + 3)
    return counted()[1] == asked


def freed(gpu):
    """How much memory was, but for what nobody could be offered."""
    now = gpu.counters()
    return now["frees"] - now["injected"]


def test_others_share_while_one_keeps_memory():
    """The ring gets larger slots; the memory of the old one waits for who is stopped."""
    follows = {"FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}
    with Gpu() as gpu, contextlib.ExitStack() as pipes:
        def pipe():
            """What a job is given, and a function that ends it."""
            theirs, ours = os.pipe()
            pipes.callback(os.close, theirs)
            return theirs, lambda: os.close(ours)

        (ends, end), (grows, grow), (first, go), (stays, wake) = (pipe() for _ in range(4))
        ready, told = os.pipe()
        own = gpu.file + "-stopped"
        owner = gpu.start(1, 2, "pace=5000", "until=%d" % ends, "first=%d" % grows,
                          "grow=%d" % (5 << 20), pass_fds=(ends, grows))
        other = gpu.start(2, 1, "pace=5000", "until=%d" % ends, pass_fds=(ends,), **follows)
        # It is stopped between two copies, so it keeps memory and nothing else.
        stopped = gpu.start(3, 2, "pace=5000", "calls=1", "until=%d" % ends, "first=%d" % first,
                            "stay=%d" % stays, "held=%d" % told,
                            pass_fds=(ends, first, stays, told), FAKECUDA_COUNTERS=own, **follows)
        os.close(told)
        assert until(lambda: gpu.counters_now().get("ipc_opens", 0) == 1 and os.path.exists(own)
                     and counters_of(own)["ipc_opens"] == 1)
        go()
        os.read(ready, 1)
        os.close(ready)
        assert until(lambda: rounds_without_copies(own))
        stopped.send_signal(signal.SIGSTOP)
        assert until(lambda: state_of(stopped.pid) == "T")
        grow()
        assert until(lambda: gpu.counters()["ipc_exports"] == 2), gpu.counters()
        assert until(lambda: gpu.counters()["ipc_opens"] == 2), gpu.counters()
        shared = gpu.safe()["d2d_copies"]
        assert until(lambda: gpu.counters()["d2d_copies"] > shared + 20), gpu.counters()
        # What it has grown by is the program's own.
        assert until(lambda: freed(gpu) == 4), gpu.counters()
        stopped.send_signal(signal.SIGCONT)
        assert until(lambda: freed(gpu) == 5), gpu.counters()
        wake()
        end()
        for job in (owner, other, stopped):
            batches_of(job)
        gpu.safe()


def test_no_room_is_taken_whatever_call_allocates():
    wanted, _ = room_of(FILLED)
    for call, name in enumerate(ALLOCATIONS[1:], 1):
        with Gpu(**FILLED) as gpu:
            room, longest = fill(gpu, call=call)
            counters = gpu.safe()
            assert all_of_it(room, wanted, longest), (name, room, wanted, longest)
            # The one that was refused was made once more, and only that one.
            assert counters["call." + name] == room + 4 + (room == wanted), (name, counters)
