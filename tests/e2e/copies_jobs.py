# SPDX-License-Identifier: MIT
"""Jobs that bring the same batches to one GPU of software: once, exactly, whatever happens."""

import contextlib
import os
import re
import signal

import support
from copies_common import JOBS, Gpu, Until, batches_of, state_of, until, well
from support import BUILD, HERE, finish, start

SCHEDULES = os.path.join(BUILD, "tests", "cuda", "schedules")


# A copy takes 5 ms, as one of 128 MB over PCIe 4, or 1 ms.
SLOW, FAST = {"FAKECUDA_BANDWIDTH": "52000000"}, {"FAKECUDA_BANDWIDTH": "260000000"}


def shares(copies, jobs, *words, late=0, layers=0, **gpu_is):
    """So many copies come to be shared by jobs that go on until then, and each is brought or taken,
    never both, as are so many layers of parameters of each.  (How many of all:
    bench/gates/gate_cuda.py.)"""
    words = [*words, "layers=%d" % layers]
    with Gpu(**gpu_is) as gpu:
        batches = gpu.run_until(lambda now: now.get("d2d_copies", 0) > copies, jobs, *words,
                                late=late)
        counters, taken = gpu.safe(), gpu.taken()
        assert gpu.brought(counters) + taken == batches + jobs * layers, (
            counters, taken, batches)


def test_four_jobs_share():
    for link, pace in ((SLOW, 8000), (FAST, 4000)):
        shares(500, 4, "bytes=262144", "pace=%d" % pace, **link)


def test_jobs_far_apart_share():
    """Who is further behind than the ring's slots is in nobody's way, nor is a second one there."""
    pace = 3000
    for behind in ([0, 15, 30, 45], [0, 20, 25, 150], [0, 20, 150, 155]):
        shares(300, len(behind), "bytes=262144", "sizes=1", "pace=%d" % pace,
               late=[pace * batches for batches in behind], FAKECUDA_BANDWIDTH="262144000")


def test_a_lone_job_makes_no_ring(gpu):
    gpu.run(1, 200)
    counters = gpu.safe()
    assert counters["ipc_exports"] == 0 and counters["d2d_copies"] == 0, counters
    assert counters["h2d_copies"] == 200, counters


def test_a_ring_that_does_not_pay_is_given_back():
    # Calls with a stream return when the bytes are taken, which is faster than hashing them.
    with Gpu(model=True, TSSHIM_TEST_COPIES_NEVER_MS="200") as gpu:
        # That all are is waited for; one of the jobs may make one when the other has given up.
        gpu.run_until(lambda now: 0 < now.get("ipc_exports", 0) == now["frees"], 2, "calls=2",
                      "pace=5000")
        gpu.safe()
        passed = gpu.group.statistics()["passed"]
        assert passed["copy_cost"] > 0, passed


def test_parameters_larger_than_a_ring_do_not_end_it():
    # A ring has a 32nd part of that memory.
    shares(1000, 4, "bytes=262144", "pace=4000", "parameters=%d" % (24 << 20),
           layers=1, FAKECUDA_MEMORY=str(1 << 30), FAKECUDA_MEMORY_SHARED="1")


def test_a_ring_is_shaped_for_what_recurs():
    """A job that is some batches behind another one finds them where there are slots enough."""
    cases = ((262144, 14 << 20, 1, 1),  # a ring has two slots of this
             (262144, 14 << 20, 9, 1),  # forgotten when others have recurred for longer
             (3 << 20, 1 << 20, 9, 4))  # and the other way round
    for batch, parameters, layers, memory in cases:
        shares(200, 2, "bytes=%d" % batch, "sizes=1", "pace=5000",
               "parameters=%d" % parameters, layers=layers, late=30000,
               FAKECUDA_MEMORY=str(memory << 30), FAKECUDA_MEMORY_SHARED="1")


def test_different_batches_are_different(gpu):
    env = gpu.group.environment(**gpu.more)
    jobs = [start([JOBS, str(i), "1", "100", "pause=1000"], env) for i in (1, 2)]
    for job in jobs:
        well(job, 100)
    assert gpu.safe()["h2d_copies"] == 200


def random_schedules(schedules, workers=4):
    """tests/cuda/schedules.c: so many of them, byte for byte, by as many processes as pay.  Of each
    process: machines that shared, all machines, copies within a GPU."""
    shared = []
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
            assert 0 < sharing <= machines, outcome.output
            counters, found = gpu.safe(), gpu.group.statistics()
            assert counters["d2d_copies"] > 0, counters
            assert found["mismatched"] == 0, found
            shared.append((sharing, machines, counters["d2d_copies"]))
    return shared


def test_random_schedules():
    """How many of them share: bench/gates/gate_cuda.py."""
    random_schedules(10000 if support.WHOLE else 800)


# Where each job comes to sooner or later.  What only the one comes to that makes the ring, or
# that happens when others have died first, or at an end, tests/stress/gpu_kills.c has.
REACHED = """copy_leased copy_served copy_claimed copy_done copy_teed copy_waits
    device_row device_pinned device_looked device_checked device_released device_taken
    device_keyed device_writing device_written device_ready device_sleep""".split()


def hit(point, how):
    """Kill or stop a job there, which it must come to; the others bring something before and after,
    and must not notice."""
    with Gpu(FAKECUDA_BANDWIDTH="500000000", FAKECUDA_JITTER_US="300") as gpu:
        then = Until()
        words = [1, "pause=1000", then.word]
        nth = 2 if point.startswith("copy_") else 1
        others = [gpu.start(i, *words, pass_fds=then.fds) for i in (2, 3)]
        victim = gpu.start(1, *words, pass_fds=then.fds,
                           **{"TSSHIM_TEST_" + how: "%s:%d" % (point, nth)})
        state = "T" if how == "STOP" else "Z"
        was_hit = until(lambda: state_of(victim.pid) == state)
        soon = gpu.counters_now().get("d2h_copies", 0) + 50
        went_on = until(lambda: gpu.counters_now().get("d2h_copies", 0) > soon)
        then.end(others)
        if how == "STOP":
            victim.send_signal(signal.SIGCONT)
            batches_of(victim)
        else:
            assert finish(victim).status == -signal.SIGKILL
        assert was_hit and went_on, (point, how, was_hit, went_on)
        gpu.safe()


def points():
    """Every place of a copy and of the table of GPUs where a process may be hit."""
    text = open(os.path.join(HERE, "..", "..", "leader", "object", "killpoint.h")).read()
    return re.findall(r"X\(((?:copy|device)_\w+)\)", text)


def test_kill_and_stop():
    assert not {p for p in points() if p.startswith("copy_")} - set(REACHED), points()
    for point in REACHED:
        for how in ("KILL", "STOP"):
            hit(point, how)


def test_what_is_queued_is_shared_or_left():
    # Two jobs in step whose streams have 60 ms of work whenever they bring something, as when a
    # program starts kernels faster than the GPU runs them; then they have none.
    for model in (False, True):
        with Gpu(model=model, FAKECUDA_BANDWIDTH="333000000") as gpu:  # 3 ms a copy
            gpu.run(2, 30, "calls=2", "busy=60000", "pace=70000", "calm=20")
            counters = gpu.safe()
            assert gpu.brought(counters) + gpu.taken() == 2 * (30 + 20), counters


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
    calls = ("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2",
             "cuDevicePrimaryCtxReset")
    for leave, call in enumerate(calls, 1):
        with Gpu(FAKECUDA_JITTER_US="200") as gpu:
            leaves, then = os.pipe(), Until()
            words = ["pause=2000", "leave=%d" % leave, "first=%d" % leaves[0], then.word]
            jobs = gpu.begin(3, 2, *words, pass_fds=(leaves[0], *then.fds))
            shared = until(lambda: gpu.counters_now().get("d2d_copies", 0) > 10)
            os.close(leaves[0])
            os.close(leaves[1])
            left = until(lambda: gpu.counters()["call." + call] >= len(jobs))
            soon = gpu.counters()["d2h_copies"] + 50
            went_on = until(lambda: gpu.counters()["d2h_copies"] > soon)
            then.end(jobs)
            assert shared and left and went_on, (leave, shared, left, gpu.counters())
            gpu.safe()


def test_threads():
    program = os.path.join(os.path.dirname(JOBS), "threads")
    with Gpu(FAKECUDA_JITTER_US="300", TSSHIM_VERIFY="20") as gpu:
        env = gpu.group.environment(**gpu.more)
        then = Until()
        then.end([start([program, count, "60", str(then.theirs)], env, pass_fds=then.fds)
                  for count in ("12", "5")], gpu, lambda now: now.get("d2d_copies", 0) > 0)
        assert gpu.group.statistics()["mismatched"] == 0


def test_verify():
    with Gpu(TSSHIM_VERIFY="100") as gpu:
        gpu.run_until(lambda now: gpu.group.statistics().get("verified", 0) > 0, 2, "pause=1000")
        gpu.safe()
        found = gpu.group.statistics()
        assert found["mismatched"] == 0, found
