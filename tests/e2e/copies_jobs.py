# SPDX-License-Identifier: MIT
"""Jobs that bring the same batches to one GPU of software: once, exactly, whatever happens."""

import contextlib
import os
import re
import signal

import support
from copies_common import JOBS, Gpu, attempts, well
from support import BUILD, HERE, finish, start

SCHEDULES = os.path.join(BUILD, "tests", "cuda", "schedules")


def brought_by_four(steps, pace, *words, **gpu_is):
    """The bytes that four jobs bring, in those that one brings."""
    words = ["bytes=262144", *words]
    with Gpu() as gpu:
        gpu.run(1, steps, *words)
        alone = gpu.counters()["h2d_bytes"]
    with Gpu(**gpu_is) as gpu:
        gpu.run(4, steps, *words, "pace=%d" % pace)
        return gpu.safe()["h2d_bytes"] / alone


# A copy takes 5 ms, as one of 128 MB over PCIe 4, or 1 ms.
SLOW, FAST = {"FAKECUDA_BANDWIDTH": "52000000"}, {"FAKECUDA_BANDWIDTH": "260000000"}


def test_four_jobs_copy_once():
    # Jobs that are held up for longer than the ring's batches take find nothing there.  A
    # busy machine does that to them, so they have a pace to get back to; it is also slow to make
    # the ring, hence so many.  Nobody waits for another one longer than a slow copy takes, so
    # what the machine delays by more is copied twice: that may spoil some runs.
    for link, pace in ((SLOW, 8000), (FAST, 4000)):
        attempts(lambda: brought_by_four(1000, pace, **link), lambda ratio: ratio <= 1.03)


def test_four_jobs_in_step_find_that_it_pays():
    """
    The same where nobody tells them to share: what one waits for in step is no loss.  Batches
    differ where they begin, as real ones do, and the driver's copies of pageable memory go
    through small buffers.
    """
    real = {"model": True, "FAKECUDA_STAGING": "65536"}
    for link, steps, pace in (({**SLOW, "FAKECUDA_LINK_SHARED": "1"}, 1200, 8000),
                              (FAST, 2000, 4000)):
        attempts(lambda: brought_by_four(steps, pace, "distinct=1", **real, **link),
                 lambda ratio: ratio <= 1.03)


def test_jobs_far_apart_copy_once():
    """
    So many batches behind the first job: who is further behind than the ring's slots brings them
    again, but in nobody's way; a second one there is served by it.  How often each is brought.
    """
    steps, pace = 1000, 3000

    def brought(behind):
        with Gpu(FAKECUDA_BANDWIDTH="262144000") as gpu:
            gpu.run(len(behind), steps, "bytes=262144", "sizes=1", "pace=%d" % pace,
                    late=[pace * batches for batches in behind])
            return gpu.safe()["h2d_bytes"] / steps / 262144

    for behind, times in (([0, 15, 30, 45], 1), ([0, 20, 25, 150], 2), ([0, 20, 150, 155], 2)):
        attempts(lambda: brought(behind), lambda found: found <= times + .2)


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
        def attempt():
            with Gpu(FAKECUDA_MEMORY=str(memory << 30), FAKECUDA_MEMORY_SHARED="1") as gpu:
                gpu.run(2, steps, "bytes=%d" % batch, "sizes=1", "pace=5000",
                        "layers=%d" % layers, "parameters=%d" % parameters, late=30000)
                return gpu.brought(gpu.safe())

        attempts(attempt, lambda brought: brought < 1.5 * steps)


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
    """Whether the job that was to be hit was, and the others' calls: they must not notice."""
    with Gpu(FAKECUDA_BANDWIDTH="500000000", FAKECUDA_JITTER_US="300") as gpu:
        others = [gpu.start(i, 50, "pause=1000") for i in (2, 3)]
        victim = gpu.start(1, 50, "pause=1000", **{"TSSHIM_TEST_" + how: "%s:%d" % (point, nth)})
        calls = [well(other, 50) for other in others]
        if how == "STOP":
            hit = victim.poll() is None and state_of(victim.pid) == "T"
            victim.send_signal(signal.SIGCONT)
            well(victim, 50)
        else:
            hit = finish(victim, timeout=60).status == -signal.SIGKILL
        assert gpu.safe()
        return hit, calls


def is_quick(calls):
    """2 ms a copy, so 4 ms and a hash; what a busy machine adds rarely meets both jobs."""
    return min(calls)[0] < .1 and min(slow for _, slow in calls) <= 2


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
            nth, found = 2 if point.startswith("copy_") else 1, []
            attempts(lambda: found.append(killed_or_stopped(point, how, nth)) or found[-1],
                     lambda outcome: is_quick(outcome[1]))
            if any(was for was, _ in found):
                hit.add(point)
    # What only happens when others have died first, or at an end, tests/stress has.
    missed = set(points()) - hit
    assert not {p for p in missed if p.startswith("copy_")}, missed
    assert len(hit) >= 12, (hit, missed)


def test_nobody_waits_for_what_is_queued():
    # Two jobs in step whose streams have 60 ms of work whenever they bring something, as when a
    # program starts kernels faster than the GPU runs them; then they have none.
    def attempt(model):
        with Gpu(model=model, FAKECUDA_BANDWIDTH="333000000") as gpu:  # 3 ms a copy
            words = ["calls=2", "busy=60000", "pace=70000", "calm=20"]
            calls = gpu.run(2, 30, *words)
            counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
            shared = 2 * (30 + 20) - gpu.brought(counters)
            print("# model %d: %d of 60 + 40 copies shared, %d left to each, %d not looked for" % (
                model, shared, passed["timeout"], passed["copy_cost"]))
            return sum(slow for _, slow in calls), shared

    # A busy machine holds a few up; who waits for the work is held up each time.
    for model in (False, True):
        attempts(lambda: attempt(model),
                 lambda outcome: outcome[0] <= 6 and (model or outcome[1] >= 10))


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


if __name__ == "__main__":
    support.main(support.functions(globals()))
