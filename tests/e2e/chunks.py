# SPDX-License-Identifier: MIT
"""Items that cost next to nothing are shared by the chunk, and are what they are alone."""

import collections

import pytest

import support
from aligned_common import aligned, counter, full_dev_shm, job_of, together, well, without_ring
from support import Group, run

job = job_of("chunks_job.py")
DELIVERED = 2 * 300


def lines(outcome, word):
    return [line for line in support.facts(well(outcome).output) if line.startswith(word)]


def items(outcome):
    """How often each (epoch, index, digest) was delivered."""
    return collections.Counter(lines(outcome, "epoch"))


def alone(*options):
    return without_ring(job(*options))


def check(jobs, outcomes):
    """Each job got what it gets alone, batch by batch."""
    for options, outcome in zip(jobs, outcomes):
        assert lines(outcome, "") == lines(alone(*options), ""), options


def share(jobs, delivered=DELIVERED, **settings):
    """How many samples the @jobs took; what they made and took is what they were given."""
    with aligned(**settings) as group:
        outcomes = together([job(*options) for options in jobs], group)
        made, shared = counter(group, "produced"), counter(group, "shared")
        passed = group.statistics()["passed"]
        group.assert_clean()
    check(jobs, outcomes)
    assert made + shared == delivered * len(jobs), (made, shared, {
        name: count for name, count in passed.items() if count})
    return shared


# Of two epochs of two jobs one could be taken, but for what all make before they know what an item costs.
ENOUGH = DELIVERED / 4


@pytest.mark.parametrize("kind", ["pictures", "small", "named", "arrays", "text"])
def test_jobs_share_what_is_the_same_as_alone(kind):
    jobs = [("--batch", "64"), ("--batch", "64")]
    assert share([(kind, *options) for options in jobs]) > ENOUGH


@pytest.mark.parametrize("sizes", [("64", "50", "48"), ("7", "64")])
def test_batches_of_any_size_have_the_same_chunks(sizes):
    assert share([("pictures", "--batch", size) for size in sizes]) > ENOUGH


@pytest.mark.parametrize("more", [("--workers", "0"), ("--workers", "2"), ("--persistent",), ("--collate",),
                                  ("--drop-last",)])
def test_any_loader(more):
    delivered = 2 * 280 if "--drop-last" in more else DELIVERED
    assert share([("pictures", "--batch", "40", *more)] * 2, delivered) > ENOUGH


@pytest.mark.parametrize("order", ["rows", "subset", "weights", "once", "slowly"])
def test_any_order(order):
    count = 279 if order == "subset" else 300
    assert share([("pictures", "--batch", "50", "--order", order)] * 2, 2 * count) > ENOUGH


def test_data_sets_put_together_are_the_same():
    share([("pictures", "--batch", "50", "--order", "two")] * 2)


@pytest.mark.parametrize("kind", ["uneven", "mixed"])
def test_items_that_differ_in_size(kind):
    assert share([(kind, "--batch", "50", "--collate")] * 2) > ENOUGH


@pytest.mark.parametrize("workers", ["0", "1", "2"])
def test_an_exception_comes_with_its_batch(workers):
    """Also one of an item beside those of the batch in its chunk."""
    jobs = [("raising", "--batch", "50", "--workers", workers, "--order", order) for order in ("rows", "any")]
    for options in jobs:
        with aligned() as group:
            outcomes = together([job(*options)] * 2, group)
        check([options] * 2, outcomes)
        assert len([line for line in lines(outcomes[0], "batch") if "raised" in line]) >= 4


def test_verify_all_finds_no_difference():
    for kind in "pictures", "text":
        with aligned(TSSHIM_VERIFY="100") as group:
            outcomes = together([job(kind, "--batch", "50")] * 2, group)
            assert all("differs" not in outcome.errors for outcome in outcomes)
            assert group.statistics()["passed"]["verify"] > 100, group.statistics()["passed"]
        check([(kind, "--batch", "50")] * 2, outcomes)


def test_whoever_timed_them_first_says_whether_they_go_by_chunks():
    """Jobs for which they cost just more and just less than what is cheap share all the same."""
    assert share([("pictures", "--batch", "50", "--cost", cost, "--epochs", "4")
                  for cost in ("390000", "410000")], 2 * DELIVERED) > DELIVERED


def test_a_job_alone_publishes_nothing():
    with aligned() as group:
        outcome = run(job("pictures", "--batch", "50"), group.environment())
        assert counter(group, "shared") == 0 and counter(group, "produced") == DELIVERED
        assert group.statistics()["passed"]["alone"] > DELIVERED / 2, group.statistics()["passed"]
    check([("pictures", "--batch", "50")], [outcome])


@pytest.mark.parametrize("more", [("--workers", "1"), ("--workers", "2"), ("--still",)])
def test_default_mode_shares_with_equal_seeds(more):
    options = ("pictures", "--batch", "50", "--epochs", "4", "--persistent")
    plain = well(run(job(*options, *more)))
    with Group(TSSHIM_SHARE="samples", TSSHIM_VERIFY="10") as group:
        outcomes = together([job(*options, *more)] * 3, group)
        shared, made = counter(group, "shared"), counter(group, "produced")
    for outcome in outcomes:
        assert lines(outcome, "") == lines(plain, "")
    assert shared > DELIVERED, (shared, made)


def test_default_mode_leaves_other_seeds_alone():
    with Group(TSSHIM_SHARE="samples") as group:
        outcomes = together([job("pictures", "--batch", "50", "--seed", seed) for seed in "12"], group)
        assert counter(group, "shared") == 0
    for seed, outcome in zip("12", outcomes):
        assert lines(outcome, "") == lines(run(job("pictures", "--batch", "50", "--seed", seed)), "")


def test_a_full_dev_shm_costs_no_sample():
    command = job("pictures", "--batch", "50")
    outcomes, _ = full_dev_shm("", command)
    for outcome in outcomes:
        assert lines(outcome, "") == lines(alone("pictures", "--batch", "50"), "")
