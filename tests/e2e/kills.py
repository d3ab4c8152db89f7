# SPDX-License-Identifier: MIT
"""Kill and stop jobs at every kill point and at random moments; the others must not notice."""

import functools
import itertools
import os
import random
import re
import signal
import subprocess
import time

import pytest

import support
from support import HERE, LONG, Group, victim

# Small enough that the pictures of turning_over() do not fit: segments are used again.
RING = "12M"

# Places where chance decides whether this job comes there: it would have to make the group, be
# the one that allocates, meet a dead or stopped owner, or leave last.
# tests/stress/kill_matrix brings about each of them.
ELSEWHERE = {"attach_made", "attach_linked", "take_ghost", "wait_takeover", "segment_taken",
             "segment_allocated", "abandon_word", "clean_word", "clean_segments", "clean_leases",
             "clean_freed", "detach_unlink"}

# How often healthy jobs run beside one that may never come to its place.
ROUNDS = 2
MOMENTS = 100 if support.WHOLE else 40

# Seconds in which any other one comes there; a guard.
REACHES = 240


def names():
    """The kill points of the ring, from the one table that lists them."""
    table = support.read(os.path.join(HERE, "..", "..", "leader", "object", "killpoint.h"))
    return re.findall(r"X\((\w+)\)", table.split("#define TS_KILLPOINTS(X)")[1].split("*/")[0])


def command(repeat=3):
    """A job that shares all the time, and decodes more than the ring holds."""
    small = [path for path in support.pictures("s_") if os.path.getsize(path) < 100000]
    return [victim("decode"), "--repeat", str(repeat), *small]


def start_silent(arguments, env):
    """A job whose output nobody wants: a full pipe would stop it before we do."""
    return subprocess.Popen(arguments, env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def is_wounded(process):
    """Whether @process was killed or is stopped; proc(5), the state in stat."""
    if process.poll() is not None:
        return process.returncode == -signal.SIGKILL
    return support.read("/proc/%d/stat" % process.pid).rpartition(")")[2].split()[0] in "Tt"


@functools.lru_cache(maxsize=None)
def alone():
    """What a healthy job says alone."""
    return support.run(command())


def survive(what, wound, environment=None, jobs=2, repeat=1000, rounds=None):
    """@jobs healthy jobs beside one that @wound(process) treats (@environment is its own); they
    must say what they say alone, and leave nothing behind.  The wounded one needs others that go
    on: they run again until it is killed or stopped, or so many @rounds.  Whether it was."""
    reference, end = alone(), time.monotonic() + REACHES
    with Group(support.TEST_LIBRARY, TSSHIM_VERIFY="0", TSSHIM_RING=RING) as group:
        wounded = start_silent(command(repeat), group.environment(**(environment or {})))
        healthy = []
        try:
            for _ in itertools.count() if rounds is None else range(rounds):
                healthy = [support.start(command(), group.environment()) for _ in range(jobs)]
                wound(wounded)
                for job in healthy:
                    outcome = support.finish(job)
                    support.same_pictures(reference, outcome, what)
                reached = is_wounded(wounded)
                if reached or wounded.poll() is not None or time.monotonic() > end:
                    break
        finally:
            for order in (signal.SIGCONT, signal.SIGKILL):
                wounded.send_signal(order)
            wounded.wait()
            for job in healthy:
                job.kill()
                job.communicate()
        group.assert_clean(after_kill=True)
    return reached


def test_the_comparison_notices_a_dead_job():
    """A healthy job that dies is a failure: kill all of them and see."""
    def wound_all(process):
        raise AssertionError("wounded")
    with pytest.raises(AssertionError, match="^wounded$"):
        survive("self-check", wound_all)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("how", ["KILL", "STOP"])
@pytest.mark.parametrize("count", ["1", "10"] if LONG else ["1"])
def test_points(name, how, count):
    """A job that is killed or stopped at the kill point @name, the first or the tenth time, harms nobody else."""
    wounded = survive(name, lambda process: None,
                      {"TSSHIM_TEST_" + how: "%s:%s" % (name, count)},
                      repeat=2 if name.startswith("detach") else 1000,
                      rounds=ROUNDS if name in ELSEWHERE or count != "1" else None)
    assert wounded or count != "1" or name in ELSEWHERE, "never came to " + name


@pytest.mark.parametrize("order, seed", [(signal.SIGKILL, 1), (signal.SIGSTOP, 2)])
def test_random(order, seed):
    """Jobs killed or stopped at random moments of their first half second."""
    moments = random.Random(seed)
    reference = support.run(command(1))
    with Group(support.TEST_LIBRARY, TSSHIM_VERIFY="0") as group:
        group.keep()
        for _ in range(500 if LONG else MOMENTS):
            wounded = start_silent(command(1000), group.environment())
            healthy = support.start(command(1), group.environment())
            time.sleep(moments.random() * 0.3)
            wounded.send_signal(order)
            outcome = support.finish(healthy)
            support.same_pictures(reference, outcome, "random moment")
            # A stopped job that wakes up must harm nothing.
            wounded.send_signal(signal.SIGCONT)
            wounded.send_signal(signal.SIGKILL)
            wounded.wait()
        assert group.pixels("shared") > 0, "nothing was shared"
        group.release()
        group.assert_clean(after_kill=True)
