# SPDX-License-Identifier: MIT
"""Jobs on several GPUs of software that bring the same batches: one ring, where that is faster."""

import os
import signal
import time

import support
from copies_common import JOBS, Gpu, attempts, until, well
from support import finish, start

# A host's link of 1 GB/s, so 1 ms for a batch, and twenty times that between GPUs.
LINKS = {"FAKECUDA_BANDWIDTH": "1000000000", "FAKECUDA_PEER_BANDWIDTH": "20000000000"}
STEPS, PACE = 1200, 4000


def begin(gpu, devices, *words, steps=STEPS):
    """A job for each of @devices, which sees no other GPU, and brings what the others bring."""
    command = [JOBS, "1", "%d", str(steps), "pace=%d" % PACE, *words]
    return [start([word.replace("%d", str(i + 1)) for word in command],
                  gpu.group.environment(**gpu.more, CUDA_VISIBLE_DEVICES=device))
            for i, device in enumerate(devices)]


def shared(gpu):
    return sum(dataset.get("kinds", dataset)["device"]["shared"]
               for dataset in gpu.group.statistics().get("datasets", []))


def together(devices, *words, steps=STEPS, model=False, **more):
    """(what the jobs took from a ring, the driver's counters); all must have the right bytes."""
    with Gpu(model=model, FAKECUDA_DEVICES="4", **{**LINKS, **more}) as gpu:
        for job in begin(gpu, devices, *words, steps=steps):
            well(job, steps)
        return shared(gpu), gpu.safe()


def test_one_ring_serves_several_gpus():
    for devices in ("01", "3120"):
        others = len(devices) - 1

        def attempt():
            found, counters = together(devices)
            # A path is tried by four copies from the host, at most by each on the way to each.
            assert Gpu.brought(counters) <= (others + 1) * (STEPS + 4 * others) - found, counters
            return found, counters["peer_copies"]

        # Who has the ring takes from its own GPU what others brought there.
        attempts(attempt, lambda outcome: min(outcome) > others * STEPS * .4)


def test_a_link_that_is_not_faster_is_not_used():
    for more in ({"FAKECUDA_PEER_BANDWIDTH": "1000000000"}, {"FAKECUDA_PEERS": "none"},
                 {"FAKECUDA_MIG": "1,2,3,4"}):
        found, counters = together("01", steps=400, **more)
        assert found == 0 and counters["d2d_copies"] == 0, (more, found, counters)
        # A path is tried once, by some copies; and what is made for that is small, and goes.
        assert counters["peer_copies"] <= 2 * 4, (more, counters)
        assert counters["ipc_exports"] <= 2, (more, counters)
        assert counters["allocated_bytes"] < 3 * 16 << 20, (more, counters)


def test_a_trial_in_vain_is_in_nobodys_way():
    """Ten minutes there is no other one; but a ring, when somebody comes to the same GPU."""
    with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_PEERS="none", **LINKS) as gpu:
        jobs = begin(gpu, "01", steps=1500)
        assert until(lambda: gpu.counters_now().get("ipc_exports", 0) > 0)
        time.sleep(3)
        assert gpu.counters()["ipc_opens"] == 0
        jobs += begin(gpu, "0", steps=300)
        assert until(lambda: gpu.counters()["ipc_opens"] > 0), gpu.counters()
        for job, steps in zip(jobs, (1500, 1500, 300)):
            well(job, steps)
        gpu.safe()


def test_jobs_of_one_gpu_are_served_there():
    def attempt():
        found, counters = together("0011")
        return found, counters["d2d_copies"]

    attempts(attempt, lambda outcome: min(outcome) > STEPS)


def others_of_one_that(how):
    """What well() says of two jobs when the third, whose ring they use, is killed or stopped."""
    with Gpu(FAKECUDA_DEVICES="4", **LINKS) as gpu:
        jobs = begin(gpu, "012")
        assert until(lambda: gpu.counters_now().get("peer_copies", 0) > 100), how
        jobs[0].send_signal(how)
        others = [well(job, STEPS) for job in jobs[1:]]
        if how == signal.SIGSTOP:
            jobs[0].send_signal(signal.SIGCONT)
            well(jobs[0], STEPS)
        else:
            finish(jobs[0])
        gpu.safe()
        return others


def test_whoever_has_it_may_go():
    """Killed, stopped, or ended: the others go on, and have another ring sooner or later."""
    for how in (signal.SIGKILL, signal.SIGSTOP):
        attempts(lambda: others_of_one_that(how),
                 lambda others: all(longest < .2 and slow <= 3 for longest, slow in others))


def test_a_full_gpu_asks_its_own_jobs_for_room():
    """What another GPU has there is none of it."""
    with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_MEMORY=str(1 << 30), FAKECUDA_MEMORY_SHARED="1",
             **LINKS) as gpu:
        gate, opener = os.pipe()
        env = gpu.group.environment(**gpu.more)
        words = [JOBS, "1", "1", "300", "pace=%d" % PACE]
        jobs = [start(words, {**env, "CUDA_VISIBLE_DEVICES": "0"}),
                start([*words, "fill=%d" % gate], {**env, "CUDA_VISIBLE_DEVICES": "1"},
                      pass_fds=(gate,))]
        until(lambda: gpu.counters_now().get("peer_copies", 0) > 50)
        time.sleep(.1)
        os.close(opener)
        os.close(gate)
        for job in jobs:
            outcome = finish(job, timeout=60)
            assert outcome.status == 0, (outcome.output, outcome.errors)
        gpu.safe()


def test_errors_while_a_path_is_tried():
    """The program's copies are what they are without us; its first two streams are its own."""
    for call in ("cuMemHostAlloc:1:2", "cuMemFreeHost:1:1", "cuStreamCreate:3:2",
                 "cuStreamDestroy_v2:1:400", "cuIpcOpenMemHandle_v2:1:217",
                 "cuMemcpyDtoDAsync_v2:1:1", "cuMemcpyDtoDAsync_v2:2:700"):
        with Gpu(FAKECUDA_DEVICES="2", FAKECUDA_FAIL=call, **LINKS) as gpu:
            stays = call.endswith(":700")  # in the context, whoever's call it was
            for job in begin(gpu, "01", steps=300):
                outcome = finish(job, timeout=60)
                assert stays or outcome.status == 0, (call, outcome.output, outcome.errors)
            assert gpu.counters()["injected"] > 0, call


if __name__ == "__main__":
    support.main(support.functions(globals()))
