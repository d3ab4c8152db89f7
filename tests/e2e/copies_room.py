# SPDX-License-Identifier: MIT
"""Memory of a GPU of software that a ring has: programs get it all the same."""

import os
import re
import signal
import time

import support
from copies_common import Gpu, until, well
from support import finish

GUARD = 30  # seconds; how soon memory is there bench/gates/gate_cuda.py measures

# Calls that allocate, as tests/cuda/jobs.c has them.
ALLOCATIONS = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz",
               "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz", "cuMemCreate")


def fill(gpu, stop=False, call=0, words=(), **more):
    """(MiB of room for a job when another one shares with it, its longest allocation in s)"""
    gate, opener = os.pipe()
    other = gpu.start(1, 400, "pace=5000", *words, **{
        name[6:]: value for name, value in more.items() if name.startswith("other_")})
    words = ["pace=5000", "fill=%d" % gate, "allocate=%d" % call]
    job = gpu.start(2, 100, *words, pass_fds=(gate,), **{
        name: value for name, value in more.items() if not name.startswith("other_")})
    os.close(gate)
    # Both have brought half of what the second one brings before it fills.
    assert until(lambda: gpu.counters_now().get("d2h_copies", 0) >= 100, 60), gpu.counters_now()
    if stop:
        other.send_signal(signal.SIGSTOP)
    os.close(opener)
    outcome = finish(job, timeout=60)
    other.send_signal(signal.SIGCONT)
    well(other, 400)
    assert outcome.status == 0 and "equal: 100" in outcome.output, outcome
    room, longest = re.search(r"room: (\d+) MiB\n~allocation (\d+) us", outcome.output).groups()
    return int(room), int(longest) / 1e6


def test_no_room_is_taken():
    machine = {"FAKECUDA_MEMORY": str(512 << 20), "FAKECUDA_MEMORY_SHARED": "1"}
    no_ring = {"FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}
    with Gpu(**machine, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
        calls = gpu.counters()["call.cuMemAlloc_v2"]
    # The ring is the other job's, or one's own: it is given back, and asked for once.
    for more in (no_ring, {"other_" + name: value for name, value in no_ring.items()}):
        with Gpu(**machine) as gpu:
            room, longest = fill(gpu, **more)
            counters = gpu.safe()
            assert room == wanted and longest < GUARD, (more, room, wanted, longest)
            assert counters["d2d_copies"] > 0 and counters["frees"] > 0, counters
            ours = counters["call.cuIpcGetMemHandle"]
            assert counters["call.cuMemAlloc_v2"] == calls + ours + 1, (more, calls, counters)
    # A stopped job cannot give anything back; it is waited for once.
    with Gpu(**machine) as gpu:
        room, longest = fill(gpu, stop=True, **no_ring)
        assert wanted - 32 <= room < wanted and .4 < longest < GUARD, (room, wanted, longest)


# A GPU that can be filled, and one who maps the ring of the job that fills it.
FILLED = {"FAKECUDA_MEMORY": str(512 << 20), "FAKECUDA_MEMORY_SHARED": "1"}
FOLLOWS = {"other_FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}


def test_memory_is_kept_for_who_is_inside_the_driver():
    """Memory that another one has mapped is not freed; the room comes when it has closed it."""
    with Gpu(**FILLED, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    with Gpu(**FILLED) as gpu:
        room, longest = fill(gpu, other_FAKECUDA_IPC_CLOSE_US="350000", **FOLLOWS)
        counters = gpu.safe()
        assert room == wanted and .3 < longest < GUARD, (room, wanted, longest)
        assert counters["frees"] > 0 and counters["ipc_closes"] == 1, counters


def test_memory_is_kept_for_who_is_stopped():
    with Gpu(**FILLED, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    with Gpu(**FILLED) as gpu:
        # Between two copies, each of which has ended with its call: it reads nothing.
        room, longest = fill(gpu, stop=True, words=["calls=1"], **FOLLOWS)
        counters = gpu.safe()
        assert wanted - 32 <= room < wanted and .4 < longest < GUARD, (room, wanted, longest)
        assert counters["ipc_opens"] > 0, counters


def test_memory_is_kept_for_who_cannot_close_it():
    with Gpu(**FILLED, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    with Gpu(**FILLED) as gpu:
        fails = FOLLOWS["other_FAKECUDA_FAIL"] + ",cuIpcCloseMemHandle:0:2"
        room, _ = fill(gpu, other_FAKECUDA_FAIL=fails)
        counters = gpu.safe()
        assert room < wanted and counters["call.cuIpcCloseMemHandle"] > 0, (room, counters)


def share_beside_a_stopped_one():
    """Whether it was stopped between two copies, so that it keeps memory and nothing else."""
    follows = {"FAKECUDA_FAIL": "cuIpcGetMemHandle:0:2"}
    with Gpu() as gpu:
        owner = gpu.start(1, 1600, "pace=5000", "grow=%d" % (5 << 20))
        other = gpu.start(2, 1600, "pace=5000", **follows)
        stopped = gpu.start(3, 80, "pace=100000", "calls=1", **follows)
        assert until(lambda: gpu.counters_now().get("ipc_opens", 0) == 2)
        time.sleep(.15)
        stopped.send_signal(signal.SIGSTOP)
        between = until(lambda: gpu.counters()["ipc_exports"] == 2, 12)
        if between:
            assert until(lambda: gpu.counters()["ipc_opens"] == 3), gpu.counters()
            shared, freed = gpu.safe()["d2d_copies"], gpu.counters()["frees"]
            assert until(lambda: gpu.counters()["d2d_copies"] > shared + 20), gpu.counters()
        stopped.send_signal(signal.SIGCONT)
        if between:
            assert until(lambda: gpu.counters()["frees"] == freed + 1), gpu.counters()
        for job, steps in ((owner, 1600), (other, 1600), (stopped, 80)):
            well(job, steps)
        gpu.safe()
        return between


def test_others_share_while_one_keeps_memory():
    """The ring gets larger slots; the memory of the old one waits for who is stopped."""
    assert any(share_beside_a_stopped_one() for _ in range(3))


def test_no_room_is_taken_whatever_call_allocates():
    machine = {"FAKECUDA_MEMORY": str(512 << 20), "FAKECUDA_MEMORY_SHARED": "1"}
    with Gpu(**machine, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    for call, name in enumerate(ALLOCATIONS[1:], 1):
        with Gpu(**machine) as gpu:
            room, longest = fill(gpu, call=call)
            counters = gpu.safe()
            assert room == wanted and longest < GUARD, (name, room, wanted, longest)
            assert counters["frees"] > 0 and counters["d2d_copies"] > 0, (name, counters)
            # The one that was refused was made once more, and only that one.
            assert counters["call." + name] == wanted + 4 + 1, (name, counters)


if __name__ == "__main__":
    support.main(support.functions(globals()))
