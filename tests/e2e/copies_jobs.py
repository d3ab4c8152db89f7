# SPDX-License-Identifier: MIT
"""Jobs that bring the same batches to one GPU of software: once, exactly, whatever happens."""

import contextlib
import os
import re
import signal
import struct
import tempfile
import time

import support
from support import BUILD, HERE, PYTHON, TEST_LIBRARY, Group, equal, finish, run, start

DRIVER = os.path.join(BUILD, "tests", "fakecuda")
JOBS = os.path.join(BUILD, "tests", "cuda", "jobs")
SCHEDULES = os.path.join(BUILD, "tests", "cuda", "schedules")


class Gpu:
    """A group whose jobs have one GPU of software, with what reached its driver."""

    def __init__(self, model=False, **more):
        self.group = Group(library=TEST_LIBRARY, TSSHIM_RING="64M")
        self.more = {"LD_LIBRARY_PATH": DRIVER, "TSSHIM_COPIES": "auto", **more}
        if not model:  # that says whether sharing pays
            self.more["TSSHIM_TEST_COPIES_ALWAYS"] = "1"

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.directory.name, "counters")
        self.more["FAKECUDA_COUNTERS"] = self.file
        self.group.__enter__()
        return self

    def __exit__(self, *what):
        self.group.gc()
        self.group.__exit__(*what)
        self.directory.cleanup()

    def start(self, schedule, steps, *words, pass_fds=(), **more):
        """A job that brings the batches of data set 1."""
        env = self.group.environment(**{**self.more, **more})
        return start([JOBS, "1", str(schedule), str(steps), *words], env, pass_fds=pass_fds)

    def run(self, jobs, steps, *words, late=0):
        """
        So many jobs that begin at once, or each @late us after the one before it; all must have
        read back what they brought.  What well() says of each.
        """
        gate, opener = os.pipe()
        ready, told = os.pipe()
        words = [*words, "gate=%d" % gate, "ready=%d" % told]
        started = [self.start(1 + i, steps, *words, "late=%d" % (i * late), pass_fds=(gate, told))
                   for i in range(jobs)]
        os.close(told)
        for _ in started:
            os.read(ready, 1)
        for end in (opener, gate, ready):
            os.close(end)
        return [well(job, steps) for job in started]

    def counters(self):
        """{name: count} of the driver."""
        data = open(self.file, "rb").read()
        rows = [data[i:i + 64] for i in range(0, len(data), 64)]
        return {row[:56].rstrip(b"\0").decode(): struct.unpack("<Q", row[56:])[0]
                for row in rows}

    def counters_now(self):
        """The same, of jobs that may not have begun yet."""
        return self.counters() if os.path.exists(self.file) else {}

    @staticmethod
    def brought(counters):
        """Copies of batches; those of one byte are ours, and ask whether a call is allowed."""
        return counters["h2d_copies"] - counters["h2d_of_one"]

    def safe(self):
        """
        Nothing was read from memory that its owner had freed, nor used after its end; and none
        was freed while another process had it mapped.
        """
        counters = self.counters()
        assert counters["poisoned_reads"] == 0 and counters["late_uses"] == 0, counters
        assert counters["freed_while_open"] == 0, counters
        return counters


def well(job, steps):
    """Wait for a job; its longest call in seconds, and how many were longer than 20 ms."""
    outcome = finish(job, timeout=60)
    assert outcome.status == 0 and "equal: %d batches" % steps in outcome.output, (
        job.args, outcome.status, outcome.output[-500:], outcome.errors[-500:])
    longest, slow = re.search(r"~longest (\d+) us\n(?:~slow (\d+))?", outcome.output).groups()
    return int(longest) / 1e6, int(slow or 0)


def test_four_jobs_copy_once():
    with Gpu() as gpu:
        gpu.run(1, 1000, "bytes=262144")
        alone = gpu.counters()["h2d_bytes"]
    # A copy takes 5 ms, as one of 128 MB over PCIe 4, or 1 ms.  Jobs that are held up for longer
    # than the ring's 32 batches take find nothing there.  A busy machine does that to them, so
    # they have a pace to get back to; it is also slow to make the ring, hence so many.
    # Nobody waits for another one longer than a slow copy takes, so what the machine delays by
    # more is copied twice: that may spoil a run or two.
    for bandwidth in ("52000000", "260000000"):
        ratios = []
        while len(ratios) < 3 and min(ratios, default=2) > 1.03:
            with Gpu(FAKECUDA_BANDWIDTH=bandwidth) as gpu:
                gpu.run(4, 1000, "bytes=262144", "pace=8000")
                ratios.append(gpu.safe()["h2d_bytes"] / alone)
        assert min(ratios) <= 1.03, (bandwidth, ratios)


def test_a_lone_job_makes_no_ring():
    with Gpu() as gpu:
        gpu.run(1, 200)
        counters = gpu.safe()
        assert counters["ipc_exports"] == 0 and counters["d2d_copies"] == 0, counters
        assert counters["h2d_copies"] == 200, counters


def test_a_ring_that_does_not_pay_is_given_back():
    # Calls with a stream return when the bytes are taken, which is faster than hashing them.
    with Gpu(model=True, TSSHIM_TEST_COPIES_NEVER_MS="200") as gpu:
        gpu.run(2, 400, "calls=2", "pace=5000")
        counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
        assert passed["copy_cost"] > 50 and counters["ipc_exports"] > 0, (counters, passed)
        assert counters["frees"] == counters["ipc_exports"], counters


def test_parameters_larger_than_a_ring_do_not_end_it():
    machine = {"FAKECUDA_MEMORY": str(1 << 30), "FAKECUDA_MEMORY_SHARED": "1"}
    with Gpu(**machine) as gpu:  # a ring has a 32nd part of that
        gpu.run(4, 600, "bytes=262144", "pace=4000", "parameters=%d" % (24 << 20))
        counters = gpu.safe()
        assert counters["d2d_copies"] > 1000, counters


def test_a_ring_is_shaped_for_what_recurs():
    """A job that is some batches behind another one finds them where there are slots enough."""
    cases = ((262144, 14 << 20, 1, 1, 400),  # a ring has two slots of this
             (262144, 14 << 20, 9, 1, 800),  # forgotten when others have recurred for longer
             (3 << 20, 1 << 20, 9, 4, 400))  # and the other way round
    for batch, parameters, layers, memory, steps in cases:
        with Gpu(FAKECUDA_MEMORY=str(memory << 30), FAKECUDA_MEMORY_SHARED="1") as gpu:
            gpu.run(2, steps, "bytes=%d" % batch, "sizes=1", "pace=5000", "layers=%d" % layers,
                    "parameters=%d" % parameters, late=30000)
            counters = gpu.safe()
            assert gpu.brought(counters) < 1.5 * steps, (parameters, layers, counters)


def test_different_batches_are_different():
    with Gpu() as gpu:
        env = gpu.group.environment(**gpu.more)
        jobs = [start([JOBS, str(i), "1", "100", "pause=1000"], env) for i in (1, 2)]
        for job in jobs:
            well(job, 100)
        assert gpu.safe()["h2d_copies"] == 200


def test_random_schedules():
    """tests/cuda/schedules.c: 10,000 of them, byte for byte, by as many processes as pay."""
    schedules, workers = 10000, 4
    with contextlib.ExitStack() as stack:
        # What the library is told holds for all machines of a worker: one in four looks twice.
        gpus = [stack.enter_context(Gpu(TSSHIM_VERIFY="0" if i else "100"))
                for i in range(workers)]
        each = schedules // workers
        jobs = [start([SCHEDULES, str(i * each), str(each)],
                      gpu.group.environment(**gpu.more)) for i, gpu in enumerate(gpus)]
        for job, gpu in zip(jobs, gpus):
            outcome = finish(job, timeout=800)
            assert outcome.status == 0, (outcome.output, outcome.errors)
            sharing, machines = map(int, re.search(
                r"equal: %d schedules, (\d+) of (\d+) machines shared" % each,
                outcome.output).groups())
            # The others have no IPC, or were over before there was a ring.
            assert sharing > machines * .8, outcome.output
            counters, found = gpu.safe(), gpu.group.statistics()
            assert counters["d2d_copies"] > each, counters
            assert found["mismatched"] == 0, found


def killed_or_stopped(point, how, nth):
    """Whether the job that was to be hit was; the others must not notice."""
    with Gpu(FAKECUDA_BANDWIDTH="500000000", FAKECUDA_JITTER_US="300") as gpu:
        others = [gpu.start(i, 50, "pause=1000") for i in (2, 3)]
        victim = gpu.start(1, 50, "pause=1000", **{"TSSHIM_TEST_" + how: "%s:%d" % (point, nth)})
        # 2 ms a copy, so 4 ms and a hash; what a busy machine adds rarely meets both.
        calls = [well(other, 50) for other in others]
        assert min(calls)[0] < .1 and min(slow for _, slow in calls) <= 2, (point, how, calls)
        hit = False
        if how == "STOP":
            hit = victim.poll() is None and state_of(victim.pid) == "T"
            victim.send_signal(signal.SIGCONT)
            well(victim, 50)
        else:
            hit = finish(victim, timeout=60).status == -signal.SIGKILL
        assert gpu.safe()
        return hit


def state_of(pid):
    """The letter of proc(5)."""
    return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]


def points():
    """Every place of a copy and of the table of GPUs where a process may be hit."""
    text = open(os.path.join(HERE, "..", "..", "leader", "killpoint.h")).read()
    return re.findall(r"X\(((?:copy|device)_\w+)\)", text)


def test_kill_and_stop():
    hit = set()
    for point in points():
        for how in ("KILL", "STOP"):
            if killed_or_stopped(point, how, 2 if point.startswith("copy_") else 1):
                hit.add(point)
    # What only happens when others have died first, or at an end, tests/stress has.
    missed = set(points()) - hit
    assert not {p for p in missed if p.startswith("copy_")}, missed
    assert len(hit) >= 12, (hit, missed)


def test_nobody_waits_for_what_is_queued():
    # Two jobs in step whose streams have 60 ms of work whenever they bring something, as when a
    # program starts kernels faster than the GPU runs them; then they have none.
    for model in (False, True):
        with Gpu(model=model, FAKECUDA_BANDWIDTH="333000000") as gpu:  # 3 ms a copy
            words = ["calls=2", "busy=60000", "pace=70000", "calm=20"]
            calls = gpu.run(2, 30, *words)
            counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
            # A busy machine holds a few up; who waits for the work is held up each time.
            assert sum(slow for _, slow in calls) <= 6, (model, calls, counters)
            shared = 2 * (30 + 20) - gpu.brought(counters)
            print("# model %d: %d of 60 + 40 copies shared, %d left to each, %d not looked for" % (
                model, shared, passed["timeout"], passed["copy_cost"]))
            assert model or shared >= 10, (calls, counters)


def test_a_service_that_captures_would_mind_does_nothing():
    # Its first call fails, so the driver takes its thread for one of the program's.
    with Gpu(FAKECUDA_FAIL="cuThreadExchangeStreamCaptureMode:0:2") as gpu:
        gpu.run(2, 60, "pause=1000")
        counters = gpu.safe()
        for call in ("cuEventCreate", "cuMemGetInfo_v2", "cuIpcGetMemHandle"):
            assert counters["call." + call] == 0, (call, counters)


def test_no_ipc():
    with Gpu(FAKECUDA_NO_IPC="1") as gpu:
        gpu.run(2, 40, "pause=1000")
        assert gpu.safe()["h2d_copies"] == 80


def test_a_context_that_ends():
    for leave in (1, 2, 3):
        with Gpu(FAKECUDA_JITTER_US="200") as gpu:
            gpu.run(3, 60, "pause=2000", "leave=%d" % leave)
            assert gpu.safe()["d2d_copies"] > 0


# Calls that allocate, as tests/cuda/jobs.c has them.
ALLOCATIONS = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz",
               "cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync_ptsz", "cuMemCreate")


def fill(gpu, stop=False, call=0, words=(), **more):
    """(MiB of room for a job when another one shares with it, its longest allocation in s)"""
    gate, opener = os.pipe()
    other = gpu.start(1, 400, "pace=5000", *words, **{name[6:]: value for name, value in more.items()
                                              if name.startswith("other_")})
    words = ["pace=5000", "fill=%d" % gate, "allocate=%d" % call]
    job = gpu.start(2, 100, *words, pass_fds=(gate,), **{
        name: value for name, value in more.items() if not name.startswith("other_")})
    os.close(gate)
    # Both have brought half of what the second one brings before it fills.
    while gpu.counters_now().get("d2h_copies", 0) < 100:
        time.sleep(0.01)
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
            assert room == wanted and longest < 1, (more, room, wanted, longest)
            assert counters["d2d_copies"] > 0 and counters["frees"] > 0, counters
            ours = counters["call.cuIpcGetMemHandle"]
            assert counters["call.cuMemAlloc_v2"] == calls + ours + 1, (more, calls, counters)
    # A stopped job cannot give anything back; it is waited for once.
    with Gpu(**machine) as gpu:
        room, longest = fill(gpu, stop=True, **no_ring)
        assert wanted - 32 <= room < wanted and .4 < longest < 1, (room, wanted, longest)


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
        assert room == wanted and .3 < longest < 1, (room, wanted, longest)
        assert counters["frees"] > 0 and counters["ipc_closes"] == 1, counters


def test_memory_is_kept_for_who_is_stopped():
    with Gpu(**FILLED, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    with Gpu(**FILLED) as gpu:
        # Between two copies, each of which has ended with its call: it reads nothing.
        room, longest = fill(gpu, stop=True, words=["calls=1"], **FOLLOWS)
        counters = gpu.safe()
        assert wanted - 32 <= room < wanted and .4 < longest < 1, (room, wanted, longest)
        assert counters["ipc_opens"] > 0, counters


def test_memory_is_kept_for_who_cannot_close_it():
    with Gpu(**FILLED, TSSHIM_COPIES="off") as gpu:
        wanted, _ = fill(gpu)
    with Gpu(**FILLED) as gpu:
        fails = FOLLOWS["other_FAKECUDA_FAIL"] + ",cuIpcCloseMemHandle:0:2"
        room, _ = fill(gpu, other_FAKECUDA_FAIL=fails)
        counters = gpu.safe()
        assert room < wanted and counters["call.cuIpcCloseMemHandle"] > 0, (room, counters)


def until(holds, seconds=20):
    """Whether @holds() comes true in that time."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(.01)
    return holds()


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
            assert room == wanted and longest < 1, (name, room, wanted, longest)
            assert counters["frees"] > 0 and counters["d2d_copies"] > 0, (name, counters)
            # The one that was refused was made once more, and only that one.
            assert counters["call." + name] == wanted + 4 + 1, (name, counters)


def test_threads():
    program = os.path.join(os.path.dirname(JOBS), "threads")
    with Gpu(FAKECUDA_JITTER_US="300", TSSHIM_VERIFY="20") as gpu:
        env = gpu.group.environment(**gpu.more)
        for job in [start([program, count, "60"], env) for count in ("12", "5")]:
            well(job, 60)
        assert gpu.safe()["d2d_copies"] > 0
        assert gpu.group.statistics()["mismatched"] == 0


def test_verify():
    with Gpu(TSSHIM_VERIFY="100") as gpu:
        gpu.run(2, 100, "pause=1000")
        gpu.safe()
        found = gpu.group.statistics()
        assert found["verified"] > 0 and found["mismatched"] == 0, found


# What a child does of its own, and what a stream does while it is captured.
CHILD = """
import ctypes, os, sys
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
def begin():
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(device), size)
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
def copies(count):
    return [cuda.cuMemcpyHtoD_v2(device, source, size) for _ in range(count)]
if sys.argv[1] == "before":
    pid = os.fork()
    begin()
    say(pid == 0, set(copies(20)))
else:
    begin()
    say(set(copies(20)))
    pid = os.fork()
    if pid == 0:
        say(len(copies(20)))
if pid:
    say(os.waitpid(pid, 0)[1])
else:
    os._exit(0)
"""

# Another thread is in the loader's list when a child is made, which then looks something up.
LIST = """
import ctypes, os, signal, threading
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
source = ctypes.create_string_buffer(1 << 20)
print(cuda.cuMemcpyHtoD_v2(device, source, size))
inside, done = threading.Event(), threading.Event()
def visit(info, bytes, data):
    inside.set()
    done.wait()
    return 1
visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(visit)
thread = threading.Thread(target=libc.dl_iterate_phdr, args=(visit, None))
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(5)
    cuda.cuMemcpyHtoD_v2(device, source, size)
    os._exit(cuda.cuMemcpyHtoD_v2_ptds is None)
print(os.waitpid(pid, 0)[1])
done.set()
thread.join()
"""

CAPTURE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
stream, graph, pinned = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuStreamCreate(ctypes.byref(stream), 1))
print(cuda.cuMemHostAlloc(ctypes.byref(pinned), size, 0))
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
print(cuda.cuMemcpyHtoDAsync_v2(device, source, size, stream))
print(cuda.cuMemcpyHtoDAsync_v2(device, pinned, size, stream))
for mode in (0, 1, 2):
    print(cuda.cuStreamBeginCapture_v2(stream, mode))
    print(cuda.cuMemcpyHtoDAsync_v2(device, pinned, size, stream))
    print(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
"""

# Calls without a stream while another one is captured, here or in another thread, of bytes that
# are in a ring by then.
FORBIDDEN = """
import ctypes, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuStreamCreate(ctypes.byref(stream), 1))
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
def copies():
    return [cuda.cuMemcpyHtoD_v2(device, source, size),
            cuda.cuMemcpyHtoD_v2_ptds(device, source, size),
            cuda.cuMemcpy(device, ctypes.c_uint64(ctypes.addressof(source)), size)]
def elsewhere(mode, begun, done):
    print(cuda.cuCtxSetCurrent(context), cuda.cuStreamBeginCapture_v2(stream, mode))
    begun.set()
    done.wait()
    print(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
for _ in range(100):
    time.sleep(.005)
    assert copies() == [0, 0, 0]
for mode in (0, 1, 2):
    print(cuda.cuStreamBeginCapture_v2(stream, mode))
    print(copies(), cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    begun, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=elsewhere, args=(mode, begun, done))
    thread.start()
    begun.wait()
    print(copies())
    done.set()
    thread.join()
    print(copies())
"""

# Copies of what is in a ring by then, in a stream of another context and to a range of two
# allocations; then more of the others.
ODD = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context, other, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
stream, of_other = ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0), cuda.cuStreamCreate(ctypes.byref(of_other), 1))
print(cuda.cuCtxSetCurrent(context), cuda.cuStreamCreate(ctypes.byref(stream), 1))
MB = 1 << 20
def allocate():
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(MB)) == 0
    return memory.value
several = sorted(allocate() for _ in range(8))
first, second = min(zip(several, several[1:]), key=lambda pair: pair[1] - pair[0])
across = second - first + MB // 2
assert cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(across)) == 0
source = ctypes.create_string_buffer(b"x" * across, across)
def copy(to=device.value, by=None):
    size = ctypes.c_size_t(across)
    if by:
        return cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(to), source, size, by)
    return cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(to), source, size)
def copies():
    for _ in range(100):
        time.sleep(.005)
        assert copy() == 0
copies()
print(copy(by=of_other), cuda.cuStreamSynchronize(of_other), copy(by=stream))
print(copy(to=first), copy(to=first, by=stream), cuda.cuStreamSynchronize(stream))
copies()
"""

# Copies that the driver refuses without a look at the source, which is shorter than they are.
REFUSED = """
import ctypes, mmap, time
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
size, context, other = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
device, hidden = ctypes.c_uint64(), ctypes.c_size_t(63 << 20)
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuMemAlloc_v2(ctypes.byref(other), size))
if other.value < device.value:
    device, other = other, device
apart = other.value - device.value
assert apart < 32 << 20, apart
memory = mmap.mmap(-1, 64 << 20)
source = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(libc.mprotect(ctypes.c_void_p(source + (1 << 20)), hidden, 0))
for _ in range(40):  # the service is ready soon
    time.sleep(.005)
    assert cuda.cuMemcpyHtoD_v2(device, ctypes.c_void_p(source), size) == 0
for count in ((1 << 20) + 1, apart + 4096, apart + (1 << 20), (1 << 64) - 4):
    print(cuda.cuMemcpyHtoD_v2(device, ctypes.c_void_p(source), ctypes.c_size_t(count)))
"""


def two_of(script, gpu):
    """The outcome of a script that runs twice at once and shares what it brings with itself."""
    env = gpu.group.environment(**gpu.more)
    both = [start([PYTHON, "-c", script], env) for _ in range(2)]
    outcomes = [finish(one, timeout=60) for one in both]
    assert gpu.safe()["d2d_copies"] > 0
    return outcomes


def test_what_a_capture_forbids_the_driver_refuses():
    wanted = run([PYTHON, "-c", FORBIDDEN], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert "[900, 900, 900] 901" in wanted.output, (wanted.output, wanted.errors)
    with Gpu() as gpu:
        for outcome in two_of(FORBIDDEN, gpu):
            equal(wanted, outcome, "forbidden")
        rows = [r.get("kinds", r)["device"] for r in gpu.group.statistics()["datasets"]]
        assert sum(r["shared"] for r in rows) > 300, rows


def test_odd_copies_are_the_driver_s_and_no_more():
    wanted = run([PYTHON, "-c", ODD], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.endswith("0 0 0\n1 1 0\n"), (wanted.output, wanted.errors)
    with Gpu() as gpu:
        for outcome in two_of(ODD, gpu):
            equal(wanted, outcome, "odd")
        found = gpu.group.statistics()
        rows = [r.get("kinds", r)["device"] for r in found["datasets"]]
        # Two times 201 are allowed, all but the first ones found.
        assert sum(r["shared"] for r in rows) > 320, (rows, found["passed"])
        assert found["passed"]["copy_state"] == 6, found["passed"]


def test_what_the_driver_refuses_is_not_read():
    wanted = run([PYTHON, "-c", REFUSED], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.split()[-4:] == ["1"] * 4, wanted
    with Gpu() as gpu:
        equal(wanted, run([PYTHON, "-c", REFUSED], gpu.group.environment(**gpu.more)), "refused")


# An error that stays, and a program that gets rid of it as the driver's manual says.
RECOVERS = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
steps, wait, end = int(sys.argv[1]), float(sys.argv[2]), getattr(cuda, sys.argv[3])
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
arrived, recovered = ctypes.create_string_buffer(1 << 20), []
def begin():
    return (cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
            cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
def bring(step):
    data = step.to_bytes(2, "little") * (1 << 19)
    result = cuda.cuMemcpyHtoDAsync_v2(device, data, size, None)
    if result == 0:
        result = cuda.cuMemcpyDtoH_v2(arrived, device, size)
    assert result or arrived.raw == data, step
    return result
cuda.cuInit(0)
print(begin())
for step in range(steps):
    result = bring(step)
    if result:
        time.sleep(wait)
        cuda.cuCtxSetCurrent(None)
        if sys.argv[3].endswith("Reset_v2"):
            end(0)  # this does not count as giving the reference back
        recovered.append((result, cuda.cuDevicePrimaryCtxRelease_v2(0), begin(), bring(step)))
    time.sleep(.003)
print(recovered)
"""


def recover(end, wait, env, fail, steps=40):
    return start([PYTHON, "-c", RECOVERS, str(steps), str(wait), end], {**env, **fail})


def fail_while_sharing(end, failing):
    """
    Whether that one of two jobs met the error of a call of ours: only jobs that share for a while
    make so many, and the machine may hold one of them up.
    """
    good, bad = "[]", "[(700, 0, (0, 0, 0), 0)]"
    fail = {"FAKECUDA_FAIL": "cuEventQuery:20:700"}
    with Gpu(FAKECUDA_JITTER_US="300") as gpu:
        env = gpu.group.environment(**gpu.more)
        jobs = [recover(end, 0, env, fail if i == failing else {}, 150) for i in range(2)]
        outcomes = [finish(job, timeout=60) for job in jobs]
        counters = gpu.safe()
        met = counters["injected"] > 0 and bad in outcomes[failing].output
        for i, outcome in enumerate(outcomes):
            assert (bad if met and i == failing else good) in outcome.output, (failing, outcome)
        return met and counters["d2d_copies"] > 0


def test_an_error_that_stays_goes_with_its_context():
    # Of the program's own call, alone; we meet it before the context is given back, or then.
    for end in ("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"):
        for wait in (0, .2):
            fail = {"FAKECUDA_FAIL": "cuMemcpyDtoH_v2:30:700"}
            wanted = finish(recover(end, wait, support.plain_environment(LD_LIBRARY_PATH=DRIVER),
                                    fail))
            assert "[(700, 0, (0, 0, 0), 0)]" in wanted.output, wanted
            with Gpu() as gpu:
                env = gpu.group.environment(**gpu.more)
                equal(wanted, finish(recover(end, wait, env, fail)), (end, wait))
    # Of ours, with copies under way in a ring, of one's own or of another job, which goes on.
    for failing in (0, 1):
        assert any(fail_while_sharing(end, failing) for _ in range(4)), failing


def test_children():
    for when in ("before", "after"):
        command = [PYTHON, "-c", CHILD, when]
        wanted = run(command, support.plain_environment(LD_LIBRARY_PATH=DRIVER))
        with Gpu() as gpu:
            outcome = run(command, gpu.group.environment(**gpu.more))
            lines = [sorted(o.output.splitlines()) for o in (wanted, outcome)]
            assert lines[0] == lines[1] and outcome.status == 0, (when, wanted.output,
                                                                  outcome.output)


def test_a_child_of_a_process_whose_loader_is_busy():
    wanted = run([PYTHON, "-c", LIST], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.endswith("\n0\n"), wanted
    with Gpu() as gpu:
        equal(wanted, run([PYTHON, "-c", LIST], gpu.group.environment(**gpu.more)), "list")


def test_captured_streams_are_left_alone():
    wanted = run([PYTHON, "-c", CAPTURE], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    with Gpu() as gpu:
        outcome = run([PYTHON, "-c", CAPTURE], gpu.group.environment(**gpu.more))
        equal(wanted, outcome, "capture")
        counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
        assert counters["h2d_captured"] == 3, counters
        assert passed["copy_state"] == 3 and passed["copy_pinned"] == 1, passed


if __name__ == "__main__":
    support.main(support.functions(globals()))
