# SPDX-License-Identifier: MIT
"""Rings that are kept: what a lone job finds again, and what the next job finds."""

import os
import signal
import sys

import support
from aligned_common import YOUNG, counter, well
from exact import IMAGES, job
from support import HERE, Group, finish, plain_environment, run, start, victim


def keeping():
    return Group(TSSHIM_KEEP="10min", TSSHIM_VERIFY="0")


def decoding(*options):
    return [victim("decode"), *options, *support.pictures("s_4")]


def decode(group, *options):
    """(made, taken) by all jobs of the group until after this one, which notices nothing."""
    outcome = run(decoding(*options), group.environment())
    support.equal(run(decoding(*options)), outcome, options)
    return group.pixels("produced"), group.pixels("shared")


def test_the_next_job_decodes_nothing():
    with keeping() as group:
        made, taken = decode(group)
        assert made > 0 and taken == 0, (made, taken)
        assert decode(group) == (made, made)
        assert decode(group) == (made, 2 * made)
        assert group.leftovers("ring")
        assert "removed" in group.gc().stdout
        assert not group.leftovers()


def test_without_it_nothing_stays():
    with Group(TSSHIM_VERIFY="0") as group:
        assert decode(group, "--repeat", "2")[1] == 0
        assert not group.leftovers()


def test_a_lone_job_decodes_each_picture_once():
    with keeping() as group:
        made, taken = decode(group, "--repeat", "3")
        assert taken == 2 * made > 0, (made, taken)


def kill_when(condition, group):
    """A job of the @group decodes until the @condition() is met, and dies."""
    killed = start(decoding("--repeat", "1000000"), group.environment())
    support.wait_until(condition, "time to kill it")
    support.signal_job(killed, signal.SIGKILL)
    finish(killed)


def test_a_killed_job_leaves_what_it_had():
    with keeping() as group:
        kill_when(lambda: group.pixels("shared") > 0, group)
        made = group.pixels("produced")
        assert decode(group)[0] == made


def in_a_small_dev_shm():
    """Where no other test is."""
    with keeping() as over, keeping() as kept, Group() as killed:
        for group in over, kept:
            decode(group)
        kill_when(lambda: killed.leftovers("ring"), killed)
        over.expire()
        for size, stays in (("1M", True), ("1G", False)):
            command = [support.TSRUN, "--group", "another", "--ring", size, "--", "true"]
            assert run(command, plain_environment()).status == 0
            assert not over.leftovers("ring") and over.leftovers("ledger")
            assert bool(kept.leftovers("ring")) == stays, size
            assert not killed.leftovers("ring"), "nobody kept it"


def test_the_next_start_removes_what_was_kept_until_now():
    """Of other groups too; and where it would have too little room, what is still kept."""
    if os.getuid() != 0 or run(["unshare", "--mount", "true"]).status != 0:
        raise support.Skip("namespaces", "needs root and unshare")
    outcome = run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                   'mount -t tmpfs -o size=1g none /dev/shm && exec "$@"', "sh", sys.executable,
                   "-c", "import keep; keep.in_a_small_dev_shm()"],
                  plain_environment(PYTHONPATH=HERE, TSSHIM_TEST_BUILD=support.BUILD))
    assert outcome.status == 0, outcome.errors


def test_its_own_group_finds_it_after_tsrun():
    with Group(TSSHIM_VERIFY="0") as group:
        command = [support.TSRUN, "--keep", "1h", "--group", group.name, "--", *decoding()]
        for turn in range(2):
            well(run(command, plain_environment(TSSHIM_VERIFY="0")))
            made, taken = group.pixels("produced"), group.pixels("shared")
            assert made > 0 and taken == turn * made, (turn, made, taken)


# ---- with a loader ----------------------------------------------------------------------------


@support.whole
def test_validation_is_made_once_by_a_lone_job():
    """And training samples, which draw random numbers, from pictures that are decoded once."""
    for pipeline, shared in (("free", "sample"), ("random", "pixels")):
        command = job("--pipeline", pipeline, "--epochs", 3)
        expected = well(run(command))
        with Group(**YOUNG, TSSHIM_KEEP="1h", TSSHIM_VERIFY="0") as group:
            for _ in range(2):
                support.equal(expected, run(command, group.environment()), pipeline)
                assert counter(group, "produced", shared) == IMAGES
                assert counter(group, "produced", "pixels") == IMAGES
