# SPDX-License-Identifier: MIT
"""Jobs on several GPUs of software that bring the same batches: one ring, where that is faster."""

import signal

from copies_common import JOBS, Gpu, Until, until, well
from support import finish, start

# A host's link of 1 GB/s, so 1 ms for a batch, and twenty times that between GPUs.
LINKS = {"FAKECUDA_BANDWIDTH": "1000000000", "FAKECUDA_PEER_BANDWIDTH": "20000000000"}
# Where the way between two is worth it, whatever a busy machine makes of the trial.
GOOD = {**LINKS, "TSSHIM_TEST_PATHS_GOOD": "1"}
STEPS, PACE = 1200, 4000


def begin(gpu, devices, *words, steps=STEPS, pass_fds=()):
    """A job for each of @devices, which sees no other GPU, and brings what the others bring."""
    command = [JOBS, "1", "%d", str(steps), "pace=%d" % PACE, *words]
    return [start([word.replace("%d", str(i + 1)) for word in command],
                  gpu.group.environment(**gpu.more, CUDA_VISIBLE_DEVICES=device),
                  pass_fds=pass_fds)
            for i, device in enumerate(devices)]


def together_until(devices, holds):
    """(batches, what was taken from a ring, the driver's counters) of jobs that go on until
    @holds(counters); all must have the right bytes."""
    with Gpu(FAKECUDA_DEVICES="4", **GOOD) as gpu:
        then = Until()
        jobs = begin(gpu, devices, then.word, steps=1, pass_fds=then.fds)
        batches = then.end(jobs, gpu, holds)
        return batches, gpu.taken(), gpu.safe()


def together(devices, *words, steps=STEPS, **more):
    """(what the jobs took from a ring, the driver's counters); all must have the right bytes."""
    with Gpu(FAKECUDA_DEVICES="4", **{**LINKS, **more}) as gpu:
        for job in begin(gpu, devices, *words, steps=steps):
            well(job, steps)
        return gpu.taken(), gpu.safe()


def test_one_ring_serves_several_gpus():
    for devices in ("01", "3120"):
        others = len(devices) - 1
        # Who has the ring takes from its own GPU what others brought there.
        batches, found, counters = together_until(
            devices, lambda now: now.get("peer_copies", 0) > 200 and now.get("d2d_copies", 0) > 50)
        # A path is tried by four copies from the host, at most by each on the way to each.
        assert Gpu.brought(counters) <= batches + (others + 1) * 4 * others - found, counters


def test_where_there_is_no_link_none_is_used():
    """Nor one that is not faster, as bench/gates/gate_cuda.py measures."""
    for more in ({"FAKECUDA_PEERS": "none"}, {"FAKECUDA_MIG": "1,2,3,4"}):
        found, counters = together("01", steps=400, **more)
        assert found == 0 and counters["d2d_copies"] == 0, (more, found, counters)
        # A path is tried once, by some copies; and what is made for that is small, and goes.  Each
        # job offers once, and the second once more where the first one's offer ended its own.
        assert counters["peer_copies"] <= 2 * 4, (more, counters)
        assert counters["ipc_exports"] <= 3, (more, counters)
        assert counters["allocated_bytes"] < 3 * 16 << 20, (more, counters)


def test_a_trial_in_vain_is_in_nobodys_way():
    """Ten minutes there is no other one; but a ring, when somebody comes to the same GPU."""
    with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_PEERS="none", **LINKS) as gpu:
        then = Until()
        jobs = begin(gpu, "01", then.word, steps=1, pass_fds=then.fds)
        assert until(lambda: gpu.counters_now().get("ipc_exports", 0) > 0)
        soon = gpu.counters()["h2d_copies"] + 1000
        assert until(lambda: gpu.counters()["h2d_copies"] > soon)
        assert gpu.counters()["ipc_opens"] == 0
        jobs += begin(gpu, "0", then.word, steps=1, pass_fds=then.fds)
        assert until(lambda: gpu.counters()["ipc_opens"] > 0), gpu.counters()
        then.end(jobs)
        gpu.safe()


def test_jobs_of_one_gpu_are_served_there():
    together_until("0011", lambda now: now.get("d2d_copies", 0) > 500)


def test_whoever_has_it_may_go():
    """Killed, stopped, or ended: the others go on, and have another ring sooner or later."""
    for how in (signal.SIGKILL, signal.SIGSTOP):
        with Gpu(FAKECUDA_DEVICES="4", **GOOD) as gpu:
            then = Until()
            jobs = begin(gpu, "012", then.word, steps=1, pass_fds=then.fds)
            assert until(lambda: gpu.counters_now().get("peer_copies", 0) > 100), how
            jobs[0].send_signal(how)
            soon = gpu.counters()
            went_on = until(lambda: gpu.counters()["h2d_copies"] > soon["h2d_copies"] + 100)
            if how == signal.SIGSTOP:
                jobs[0].send_signal(signal.SIGCONT)
            went_on &= until(lambda: gpu.counters()["peer_copies"] > soon["peer_copies"] + 50)
            if how == signal.SIGKILL:
                assert finish(jobs.pop(0)).status == -how
            then.end(jobs)
            assert went_on, (how, soon, gpu.counters())
            gpu.safe()


def test_a_full_gpu_asks_its_own_jobs_for_room():
    """What another GPU has there is none of it."""
    with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_MEMORY=str(1 << 30), FAKECUDA_MEMORY_SHARED="1",
             **GOOD) as gpu:
        filled, then = Until(), Until()
        env = gpu.group.environment(**gpu.more)
        words = [JOBS, "1", "1", "1", "pace=%d" % PACE]
        fill = "fill=%d" % filled.theirs
        beside = start([*words, then.word], {**env, "CUDA_VISIBLE_DEVICES": "0"},
                       pass_fds=then.fds)
        fills = start([*words, filled.word, fill], {**env, "CUDA_VISIBLE_DEVICES": "1"},
                      pass_fds=(filled.theirs,))
        shared = until(lambda: gpu.counters_now().get("peer_copies", 0) > 50)
        filled.end([fills])
        then.end([beside])
        assert shared, gpu.counters()
        gpu.safe()


def test_errors_while_a_path_is_tried():
    """The program's copies are what they are without us; its first two streams are its own."""
    for call in ("cuMemHostAlloc:1:2", "cuMemFreeHost:1:1", "cuStreamCreate:3:2",
                 "cuStreamDestroy_v2:1:400", "cuIpcOpenMemHandle_v2:1:217",
                 "cuMemcpyDtoDAsync_v2:1:1", "cuMemcpyDtoDAsync_v2:2:700"):
        with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_FAIL=call, **LINKS) as gpu:
            stays = call.endswith(":700")  # in the context, whoever's call it was
            then = Until()
            jobs = begin(gpu, "01", then.word, steps=300, pass_fds=then.fds)
            outcomes = then.end(jobs, gpu, lambda now: now.get("injected", 0) > 0, finish)
            for outcome in outcomes:
                assert stays or outcome.status == 0, (call, outcome.output, outcome.errors)
