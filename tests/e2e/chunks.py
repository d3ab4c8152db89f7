# SPDX-License-Identifier: MIT
"""Items that cost next to nothing are shared by the chunk, and are what they are alone."""

import signal

import pytest

import meeting
import support
from aligned_common import ONCE_SHARED, aligned, counter, full_dev_shm, job_of, together, well, without_ring
from support import Group, finish, run, signal_job, start, wait_until

chunks_job = job_of("chunks_job.py")


def job(*scenes):
    """The job that plays these @scenes, each a line of options."""
    return chunks_job(*" --then ".join(scenes).split())


def lines(outcome, word=""):
    return [line for line in support.facts(well(outcome).output) if line.startswith(word)]


def share(*jobs, **settings):
    """
    What part of what they were given the @jobs, of one or more scenes each, took from others.  Each gets
    what it gets alone, batch by batch; what they made and took is no less than they were given.
    """
    commands = [job(*scenes) for scenes in jobs]
    with aligned(**settings) as group:
        outcomes = together(commands, group)
        made, shared = counter(group, "produced"), counter(group, "shared")
        passed = {name: count for name, count in group.statistics()["passed"].items() if count}
        group.assert_clean()
    for command, outcome in zip(commands, outcomes):
        assert lines(outcome) == lines(without_ring(command)), command
        assert "differs" not in outcome.errors, outcome.errors
    given = sum(int(line.split()[2]) for outcome in outcomes for line in lines(outcome, "epoch"))
    # A worker that knows no cost yet may make some singly for batches that then come by chunks: made twice.
    assert made + shared >= given, (made, shared, given, passed)
    return shared / given


# Of two jobs each takes a half at most, and makes all until it knows what an item costs.
ENOUGH = 0.25


@pytest.mark.parametrize("scenes", [
    ["%s --batch 64" % kind for kind in ("pictures", "small", "named", "arrays", "text")],
    ["%s --batch 50 --collate" % kind for kind in ("uneven", "mixed")],
    ["pictures --batch 50 " + more for more in (
        "--workers 0", "--workers 2", "--persistent", "--collate", "--drop-last")],
    ["pictures --batch 50 --order " + order for order in ("rows", "subset", "weights", "once", "slowly")]])
def test_jobs_share_what_is_the_same_as_alone(scenes):
    assert share(scenes, scenes) > ENOUGH


def test_batches_of_any_size_have_the_same_chunks():
    assert share(*[["pictures --batch " + size] for size in ("64", "50", "7")]) > ENOUGH


def test_what_does_not_go_by_chunks_is_the_same():
    share(*[["pictures --batch 50 --order two"]] * 2)


def test_items_that_seldom_draw_draw_what_they_do_if_each_is_seeded():
    """As those do that cost so much that each is asked for."""
    dear, cheap = (lines(without_ring(job("seldom --collate --epochs 4 --batch 64 --cost " + cost)), "items")
                   for cost in ("2000000", "200000"))
    assert dear == cheap
    assert len(set(line.split()[2] for line in dear)) == 4, "they draw nothing: %s" % dear


def test_an_exception_comes_with_its_batch():
    """Also one of an item beside those of the batch in its chunk."""
    scenes = ["raising --batch 50 --workers %d --order %s" % (workers, order)
              for workers in (0, 2) for order in ("rows", "any")]
    share_of = [job(*scenes)] * 2
    with aligned() as group:
        outcomes = together(share_of, group)
        assert counter(group, "shared") > 0
    for outcome in outcomes:
        assert lines(outcome) == lines(without_ring(share_of[0]))
        assert sum("raised" in line for line in lines(outcome, "batch")) >= 4 * len(scenes)


def test_verify_all_finds_no_difference():
    scenes = ["%s --batch 50" % kind for kind in ("pictures", "text", "uneven --collate")]
    with aligned(TSSHIM_VERIFY="100") as group:
        outcomes = together([job(*scenes)] * 2, group)
        assert group.statistics()["passed"]["verify"] > 100, group.statistics()["passed"]
    for outcome in outcomes:
        assert lines(outcome) == lines(without_ring(job(*scenes)))
        assert "differs" not in outcome.errors, outcome.errors


def test_the_job_that_timed_them_first_says_whether_they_go_by_chunks():
    """Jobs for which they cost just more and just less than what is cheap share all the same."""
    assert share(*[["pictures --batch 50 --epochs 4 --cost " + cost]
                   for cost in ("390000", "410000")]) > ENOUGH


def test_a_job_alone_publishes_nothing():
    with aligned() as group:
        outcome = run(job("pictures --batch 50"), group.environment())
        assert counter(group, "shared") == 0 and counter(group, "produced") == 600
        assert group.statistics()["passed"]["alone"] > 300, group.statistics()["passed"]
    assert lines(outcome) == lines(without_ring(job("pictures --batch 50")))


def test_killed_jobs_cost_the_others_nothing():
    command = job("pictures --batch 50 --epochs 40 --workers 2")
    with aligned(TSSHIM_VERIFY="0") as group, meeting.of(1) as where:
        kept = start(command, group.environment(**where))
        for _ in range(3):
            killed = start(command, group.environment())
            before = counter(group, "shared")
            wait_until(lambda: counter(group, "shared") > before or kept.poll() is not None, "they share")
            signal_job(killed, signal.SIGKILL)
            finish(killed)
        outcome = finish(kept)
    assert lines(outcome) == lines(without_ring(command))


@pytest.mark.parametrize("more", ["--workers 1", "--workers 2", "--still"])
def test_default_mode_shares_with_equal_seeds(more):
    command = job("pictures --batch 50 --epochs 4 --persistent " + more)
    with Group(TSSHIM_SHARE="samples", TSSHIM_VERIFY="10") as group:
        outcomes = together([command] * 3, group)
        shared = counter(group, "shared")
    for outcome in outcomes:
        assert lines(outcome) == lines(run(command))
    assert shared > 600, shared


def test_default_mode_leaves_other_seeds_alone():
    commands = [job("pictures --batch 50 --seed " + seed) for seed in "12"]
    with Group(TSSHIM_SHARE="samples") as group:
        outcomes = together(commands, group)
        assert counter(group, "shared") == 0
    for command, outcome in zip(commands, outcomes):
        assert lines(outcome) == lines(run(command))


@support.whole
def test_a_full_dev_shm_costs_no_sample():
    command = job("pictures --batch 50 --epochs 20")
    for until in "", ONCE_SHARED:
        for outcome in full_dev_shm(until, command)[0]:
            assert lines(outcome) == lines(without_ring(command))


def test_a_ring_too_small_for_a_chunk():
    command = job("wide --batch 64 --cost 30000")
    with aligned(TSSHIM_RING="8M") as group:
        for outcome in together([command] * 2, group):
            assert lines(outcome) == lines(without_ring(command))
        assert group.statistics()["passed"]["too_large"] > 0, group.statistics()["passed"]


def test_why_there_is_no_ring_is_told_though_workers_end_without_a_word():
    command = job("pictures --batch 50")
    with aligned(TSSHIM_RING="4M", TSSHIM_QUIET="0") as group:
        outcome = run([support.TSRUN, "--", *command], group.environment())
        assert group.statistics()["passed"]["no_space"] > 0
    assert "tsshim: nothing shared: not enough shared memory" in outcome.errors, outcome.errors
    assert lines(outcome) == lines(without_ring(command))
