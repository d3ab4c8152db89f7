# SPDX-License-Identifier: MIT
"""
Batches in pinned memory that several jobs bring to one GPU of software: they are known by what
they were made of, so none of them is hashed, and the GPU gets what the program's memory holds.
"""

import os
import re
import signal

import meeting
import support
from copies_common import Gpu, state_of, until
from support import HERE, Skip, finish, start

JOB = os.path.join(HERE, "copies_named_job.py")
BATCHES = 8  # of an epoch
BYTES = 8 * 3 * 128 * 128 * 4


def can_tell():
    """Linux 6.7, and where nobody forbids it."""
    major, minor = map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    return (major, minor) >= (6, 7)


def kernel_tells():
    """Else nothing of this is shared, which is said."""
    if not can_tell():
        raise Skip("kernel", "it does not tell who writes (Linux 6.7); the bytes were right")
    return True


def all_right(outcome, epochs):
    """Whether all of so many epochs arrived, or of more."""
    found = re.search(r"equal: (\d+) of (\d+) batches", outcome.output)
    return bool(found) and found.group(1) == found.group(2) and \
        int(found.group(1)) >= epochs * BATCHES


def together(scenario, jobs=2, epochs=12, own=({}, {}), model=False, holds=None, **more):
    """(counters, statistics, digests) of jobs that all had the right bytes; they go on until
    @holds(statistics), if that may ever be."""
    settings = {"FAKECUDA_BANDWIDTH": "1000000000", "FAKECUDA_JITTER_US": "300",
                "TSSHIM_ALIGN": "7", **more}
    with Gpu(model=model, **settings) as gpu, meeting.of(jobs) as where:
        enough = os.path.join(gpu.directory.name, "enough")
        if holds and can_tell():
            where = {**where, "UNTIL": enough}
        env = [gpu.group.environment(**{**gpu.more, **where, **(own[i] if i < len(own) else {})})
               for i in range(jobs)]
        command = [support.torch_python(), JOB, scenario, str(epochs)]
        started = [start(command, each) for each in env]
        seen = "UNTIL" not in where or until(lambda: holds(gpu.group.statistics()))
        open(enough, "w").close()
        outcomes = [finish(job) for job in started]
        assert seen, (scenario, gpu.counters(), gpu.group.statistics())
        digests = []
        for outcome in outcomes:
            assert outcome.status == 0, (scenario, outcome.errors[-1500:])
            assert all_right(outcome, epochs), (scenario, outcome.output)
            digests.append(re.search(r"~digest (\w+)", outcome.output).group(1))
        return gpu.safe(), gpu.group.statistics(), digests


def device(statistics, counter):
    return sum(dataset.get("kinds", dataset)["device"][counter]
               for dataset in statistics.get("datasets", []))


def shares(statistics):
    return device(statistics, "shared") > 0


def test_named_batches_are_shared():
    for jobs in (2, 4) if support.WHOLE else (2,):
        counters, statistics, digests = together("plain", jobs, 20, holds=shares)
        assert len(set(digests)) == 1, digests
        assert kernel_tells() and device(statistics, "shared") > 0, (counters, statistics)


@support.whole
def test_the_model_decides_and_the_bytes_are_right():
    """What it decides: tests/unit/cuda/test_cost.c, and measured, bench/gates/gate_cuda.py."""
    for bandwidth in ("1000000000", "100000000000"):
        together("plain", 2, 12, model=True, FAKECUDA_BANDWIDTH=bandwidth, FAKECUDA_JITTER_US="0")
    together("waits", 2, 12, model=True, FAKECUDA_BANDWIDTH="500000000",
             TSSHIM_TEST_COPIES_MEASURE="16")


@support.whole
def test_parts_of_batches_too():
    counters, statistics, _ = together("parts", holds=shares)
    assert kernel_tells() and device(statistics, "shared") > 0, (counters, statistics)


def test_what_was_written_is_brought():
    for scenario in ("edit", "numpy", "fork", "back") if support.WHOLE else ("edit", "fork"):
        counters, statistics, _ = together(scenario, holds=shares)
        assert kernel_tells() and device(statistics, "shared") > 0, (
            scenario, counters, statistics)


@support.whole
def test_who_writes_while_the_GPU_reads_harms_nobody():
    """Its own copies are undefined; nobody else may get what it has written."""
    for _ in range(3):
        together("race", own=({"RACES": "1"}, {}), FAKECUDA_DELAY_US="2000")


@support.whole
def test_samples_that_are_made_anew_are_others():
    """Not functions of their generators: each job has on the GPU what it has itself."""
    together("odd")
    together("odd", TSSHIM_RING="8M")


def hit(point, how):
    """A job is hit there, which it must come to; the other one must not notice."""
    settings = {"FAKECUDA_BANDWIDTH": "1000000000", "FAKECUDA_JITTER_US": "300",
                "TSSHIM_ALIGN": "7"}
    with Gpu(**settings) as gpu, meeting.of(2) as where:
        enough = os.path.join(gpu.directory.name, "enough")
        where = {**where, **({"UNTIL": enough} if can_tell() else {})}
        command = [support.torch_python(), JOB, "plain", "6"]
        victim, other = [start(command, gpu.group.environment(**gpu.more, **where, **own))
                         for own in ({"TSSHIM_TEST_" + how: point + ":5"}, {})]
        was_hit = not can_tell() or until(
            lambda: state_of(victim.pid) == ("T" if how == "STOP" else "Z"))
        open(enough, "w").close()
        outcome = finish(other)
        assert outcome.status == 0 and all_right(outcome, 6), (
            point, how, outcome.output, outcome.errors[-1500:])
        victim.send_signal(signal.SIGCONT)
        outcome = finish(victim)
        assert was_hit, (point, how, gpu.counters())
        if how == "STOP":
            assert all_right(outcome, 6), (point, outcome.output, outcome.errors)
            gpu.safe()
        elif can_tell():
            assert outcome.status == -signal.SIGKILL, (point, outcome.status)


@support.whole
def test_jobs_that_are_killed_or_stopped():
    points = ["copy_claimed", "copy_done", "copy_teed", "copy_leased", "copy_served"]
    for point in points:
        for how in ("KILL", "STOP"):
            hit(point, how)
    kernel_tells()


@support.whole
def test_what_comes_from_a_ring_is_verified():
    _, statistics, _ = together("plain", holds=lambda found: found.get("verified", 0) > 0,
                                TSSHIM_VERIFY="100")
    assert statistics["mismatched"] == 0, statistics
    assert kernel_tells() and statistics["verified"] > 0, statistics
