# SPDX-License-Identifier: MIT
"""Buffers of the hand-over pool as pinned memory, with a driver of software: never too early."""

import os
import re
from concurrent import futures

import support
from copies_common import Gpu, until
from support import HERE, LONG, PYTHON, finish, run, start

JOB = os.path.join(HERE, "copies_pinned_job.py")
LOADER = os.path.join(HERE, "copies_pinned_loader.py")

# What we call, the program does not, or in another order.
CALLS = """cuMemHostRegister_v2 cuMemHostUnregister cuDeviceGetAttribute cuDeviceGetUuid_v2
    cuDevicePrimaryCtxGetState cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetCurrent
    cuCtxGetDevice cuPointerGetAttributes cuStreamIsCapturing cuEventCreate cuEventQuery
    cuEventRecord cuThreadExchangeStreamCaptureMode""".split()


def job(gpu, *words, **more):
    """What the scenario prints; it must end well, and nothing be used after its end."""
    env = gpu.group.environment(**{**gpu.more, **more})
    outcome = run([PYTHON, JOB, *words], env)
    assert outcome.status == 0, (words, outcome.status, outcome.errors[-1500:])
    gpu.safe()
    return outcome.output


def test_late_copies_are_waited_for():
    with Gpu(FAKECUDA_DELAY_US="300000") as gpu:
        said = job(gpu, "late")
        assert said == "done 1 True old bytes True\nagain True\n", said
        counters = gpu.counters()
        assert counters["call.cuMemHostRegister_v2"] == 1, counters


def test_every_way_is_followed():
    with Gpu(FAKECUDA_DELAY_US="30000") as gpu:
        for line in job(gpu, "ways").splitlines():
            name, _, said, waited = line.split()
            assert said == "1" and (waited == "True") == ("Async" in name), line


def test_batches_that_are_read_later_are_followed():
    with Gpu(FAKECUDA_DELAY_US="30000") as gpu:
        for order in "13":
            assert job(gpu, "batch", order) == "0 1 True\n", order


def test_what_cannot_be_followed_is_given_up():
    with Gpu(FAKECUDA_DELAY_US="30000") as gpu:
        assert job(gpu, "batch", "2") == "0 -5 False\n"
        assert job(gpu, "captured") == "-5 False again None drop -5\n"
        said = job(gpu, "unused")
        assert said == "[%s] True\n" % ", ".join(["(True, -5)"] * 4), said


def test_forks_have_none():
    with Gpu(FAKECUDA_DELAY_US="100000") as gpu:
        said = job(gpu, "forked")
        assert said == "child 0 parent 1 again True\n", said


def test_what_is_dropped_is_unmapped(gpu):
    assert job(gpu, "dropped") == "mapped 0\n"
    counters = gpu.counters()
    assert counters["call.cuMemHostRegister_v2"] == 300, counters
    assert counters["call.cuMemHostUnregister"] == 300, counters


def test_contexts_that_go():
    with Gpu(FAKECUDA_DELAY_US="50000") as gpu:
        assert job(gpu, "leaves") == "1 True 0 True None\n"
        counters = gpu.counters()
        # One is the program's no more; the others it may still use.
        assert counters["call.cuMemHostUnregister"] == 1, counters


def test_no_gpu_is_used_for_its_sake(gpu):
    outcome = run([PYTHON, JOB, "alone"], gpu.group.environment(**gpu.more))
    assert outcome.output == "offered True taken None dropped 0\n", outcome.errors
    assert not os.path.exists(gpu.file), "the driver was loaded"


def test_off():
    for more in ({"TSSHIM_COPIES": "off"}, {"TSSHIM_DISABLE": "1"}):
        with Gpu() as gpu:
            env = gpu.group.environment(**{**gpu.more, **more})
            outcome = run([PYTHON, JOB, "refused"], env)
            assert outcome.output == "True\n", (more, outcome.errors)


def pinned(said):
    """How many batches of the loop were pinned, and its longest copy in seconds.  (That no copy
    waits for memory to be pinned: bench/gates/gate_cuda.py.)"""
    assert said.startswith("right True\n"), said
    found = re.search(r"~pinned (\d+) longest (\d+) us", said)
    return int(found.group(1)), int(found.group(2)) / 1e6


def test_a_pool_goes_round():
    with Gpu(FAKECUDA_JITTER_US="2000") as gpu:
        for seed in range(3):
            assert pinned(job(gpu, "loop", str(seed), "41"))[0] >= 41


def test_a_slow_pinning_harms_nothing():
    with Gpu(FAKECUDA_REGISTER_US="400000") as gpu:
        pinned(job(gpu, "loop", "1"))


def outlives(call, nth):
    """The @nth call of ours fails."""
    with Gpu(FAKECUDA_JITTER_US="1000",
             FAKECUDA_FAIL="%s:%d:%d" % (call, nth, (2, 801, 999)[nth % 3])) as gpu:
        pinned(job(gpu, "loop", str(nth)))


@support.whole
def test_errors_of_the_driver():
    # They mostly wait.
    with futures.ThreadPoolExecutor(4) as pool:
        for nth in ((1, 2, 7) if not LONG else range(1, 12)):
            for _ in pool.map(outlives, CALLS, [nth] * len(CALLS)):
                pass


def test_memory_the_gpu_has_other_addresses_for():
    for setting in ("REGISTERED_APART", "HOST_PAGE_TABLES"):
        with Gpu(**{"FAKECUDA_" + setting: "1"}) as gpu:
            env = gpu.group.environment(**gpu.more)
            outcome = run([PYTHON, JOB, "loop", "1"], env)
            assert outcome.status == 0 and "~pinned 0 " in outcome.output, outcome.output
            assert gpu.counters()["call.cuMemHostRegister_v2"] == 0, setting


def copied(gpu):
    """How many batches came to the GPU so far, by any job."""
    return gpu.counters_now().get("h2d_copies", 0)


def test_kills():
    with Gpu(FAKECUDA_JITTER_US="1000") as gpu:
        for turn in range(4):
            env = gpu.group.environment(**gpu.more)
            enough = copied(gpu) + 1 + 9 * turn
            jobs = [start([PYTHON, JOB, "loop", str(seed)], env) for seed in range(2)]
            assert until(lambda: copied(gpu) >= enough), (turn, enough, gpu.counters())
            jobs[0].kill()
            finish(jobs[0])
            outcome = finish(jobs[1])
            assert outcome.status == 0 and "right True" in outcome.output, outcome.errors


# ---- with a loader ----------------------------------------------------------------------------


def trained(scenario, copies="on", least=0, **more):
    """(what must be equal, how many batches were not copied into pinned memory) of a trainer that
    goes on until there are so many of these."""
    with Gpu(TSSHIM_COPIES=copies, FAKECUDA_JITTER_US="1000", **more) as gpu:
        env = gpu.group.environment(**gpu.more)
        outcome = run([support.torch_python(), LOADER, scenario, str(least)], env)
        assert outcome.status == 0, (scenario, outcome.errors[-1500:])
        gpu.safe()
        lent = int(re.search(r"^~lent (-?\d+)", outcome.output, re.M).group(1))
        return support.facts(outcome.output), lent


def test_loaders_copy_less_and_deliver_the_same():
    for scenario in ("plain", "named", "edit", "renewed"):
        wanted, none = trained(scenario, copies="off")
        got, lent = trained(scenario, least=12)
        assert got == wanted, (scenario, got, wanted)
        assert none == 0 and lent >= 12, (scenario, none, lent)


@support.whole
def test_batches_that_others_have_are_copied():
    """Two tensors of one batch on the same memory; a worker that keeps what it has sent."""
    for scenario in ("twice", "views"):
        wanted, none = trained(scenario, copies="off")
        assert trained(scenario) == (wanted, none), scenario
    # What that trainer gets is a matter of luck without us, too; nothing may be lent.
    assert trained("keeps")[1] == 0


@support.whole
def test_loaders_outlive_errors():
    wanted, _ = trained("edit", copies="off")
    for call in ("cuMemHostRegister_v2:3:2", "cuEventRecord:5:400", "cuEventQuery:9:400"):
        got, _ = trained("edit", FAKECUDA_FAIL=call)
        assert got == wanted, (call, got, wanted)
