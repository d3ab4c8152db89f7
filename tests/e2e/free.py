# SPDX-License-Identifier: MIT
"""
Aligned jobs in free order: each index as often as its sampler gives it, no sample twice in a job,
whoever is alone as in strict order; and jobs that are epochs apart share.
"""

import collections
import contextlib
import os
import signal
import tempfile

import pytest

import support
from aligned_common import FILLED, ONCE_SHARED, aligned, counter, full_dev_shm, job_of, together, well
from support import Group, finish, run, start

job = job_of("free_job.py")
FREE = {"TSSHIM_ORDER": "free"}
ITEMS = 96


def alone(*options, order="strict", **settings):
    with Group(TSSHIM_ALIGN="7", TSSHIM_ORDER=order, **settings) as group:
        return well(run(job(*options), group.environment()))


def delivered(outcome):
    """[[(index, digest)] of each epoch], in order."""
    epochs = collections.defaultdict(list)
    for line in support.facts(outcome.output):
        word, epoch, index, digest = line.split(" ", 3)
        assert word == "epoch", line
        epochs[int(epoch)].append((int(index), digest))
    return [epochs[epoch] for epoch in sorted(epochs)]


_known = {}


def draws(epochs):
    """{(index, digest): draw} of so many epochs, as strict jobs are given them."""
    if epochs not in _known:
        strict = delivered(alone("--epochs", epochs, "--workers", 0))
        _known[epochs] = {sample: draw for draw, epoch in enumerate(strict) for sample in epoch}
        assert len(_known[epochs]) == epochs * ITEMS  # which tells them all apart
    return _known[epochs]


def check(outcome, known):
    """The draws of each epoch of a job whose data set is the whole one; all must be right."""
    had, found = set(), []
    for number, epoch in enumerate(delivered(outcome)):
        assert sorted(index for index, _ in epoch) == list(range(ITEMS)), number
        for sample in epoch:
            assert sample in known, (number, sample)
            assert sample not in had, (number, sample)
            had.add(sample)
        found.append([known[sample] for sample in epoch])
    return found


# What a loader may be like, in words for the job.
KINDS = (["--workers", 0, "--batch", 64], ["--workers", 1], ["--workers", 4, "--persistent"],
         ["--drop-last", "--batch", 40], ["--alone"], ["--leave", 3],
         ["--how", "subset"], ["--how", "fold"], ["--how", "rank", "--batch", 7],
         ["--how", "weighted"], ["--how", "replaced", "--batch", 7])


@support.whole
def test_who_is_alone_has_the_strict_order():
    words = [word for options in KINDS for word in ["--then", *options]][1:]
    strict, free = (alone(*words, order=order) for order in ("strict", "free"))
    assert delivered(free) == delivered(strict)
    sizes = 6 * ITEMS + 80 + 48 + 32 + 48 + 20
    assert [len(epoch) for epoch in delivered(strict)] == [sizes] * 3
    assert "strict order" not in free.errors, free.errors


def sharing(count, *options, each=((),) * 9, **settings):
    """The outcomes of so many jobs at a time that share, @each with options of its own."""
    with aligned(**{**FREE, **settings}) as group:
        outcomes = together([job(*options, *own) for own in each[:count]], group)
        assert counter(group, "shared") > 0
        assert group.statistics()["mismatched"] == 0
    return outcomes


def test_where_order_means_something_it_stays():
    """And is shared as ever; which is said."""
    reasons = {"plain": "not shuffled", "several": "put together of several",
               "own": "sampler is a Turns", "generator": "generator of its own"}
    words = [word for how in reasons for word in ("--then", "--epochs", 2, "--how", how)][1:]
    outcomes = sharing(2, *words)
    for outcome in outcomes:
        lines = [line for line in outcome.errors.splitlines() if "strict order" in line]
        assert len(lines) == len(reasons), lines
        for line, why in zip(lines, reasons.values()):
            assert why in line, (line, why)
    assert delivered(outcomes[0]) == delivered(outcomes[1])


def test_jobs_in_step_share_and_deliver_all():
    for workers, batch, other in ((1, 16, 16), (4, 64, 16), (0, 16, 64))[:3 if support.WHOLE else 2]:
        for outcome in sharing(2, "--workers", workers, "--epochs", 4, each=[("--batch", size) for size in (batch, other)]):
            check(outcome, draws(60))


class Front:
    """A job that goes on until end(); it has made some."""

    def __init__(self, group, place, *options, pause=.02):
        self.until = os.path.join(place, "until")
        self.process = start(job("--epochs", 1, "--until", self.until, "--pause", pause, *options),
                             group.environment())
        support.wait_until(lambda: counter(group, "produced") > 2 * ITEMS, "two epochs are made")

    def end(self, status=0):
        """Its outcome."""
        support.write(self.until, "")
        outcome = finish(self.process)
        assert outcome.status == status, (outcome.status, outcome.errors[-2000:])
        return outcome


@contextlib.contextmanager
def in_front(*options, order="free", **more):
    """(a group, a job in front of what others deliver)"""
    with aligned(TSSHIM_ORDER=order) as group, tempfile.TemporaryDirectory() as place:
        yield group, Front(group, place, *options, **more)


def check_statistics(group, leader, order):
    """What `tsrun stats` says of a job that goes on, and of one that had two epochs and ended."""
    statistics = group.statistics()
    jobs = {row["alive"]: row for row in statistics["jobs"]}
    assert jobs[True]["pid"] == leader and jobs[True]["order"] == order
    assert jobs[True]["epoch"] >= 2 and jobs[True]["behind"] == 0
    assert jobs[False]["order"] == order and jobs[False]["epoch"] == 2
    made = {kind: sum(row["sample"][kind] for row in jobs.values())
            for kind in ("produced", "shared")}
    apart = statistics["made_apart"]
    if order == "strict":
        assert made["shared"] == 0 and made["produced"] == apart["strict_samples"], (made, apart)
        assert 0 < apart["free_would_share"] <= 2 * ITEMS, apart
        assert "--order free would have shared" in group.report(), group.report()
    else:
        assert made["shared"] > 0, made
        assert apart["strict_samples"] == apart["free_would_share"] == 0, apart


@support.whole
@pytest.mark.parametrize("order", ["free", "strict"])
def test_jobs_that_are_epochs_apart_share(order):
    """In strict order they have no sample in common."""
    with in_front(order=order) as (group, leader):
        behind = well(run(job("--epochs", 2), group.environment()))
        check_statistics(group, leader.process.pid, order)
        first = leader.end()
        shared = counter(group, "shared")
    front, after = (check(outcome, draws(len(delivered(first)) + 40)) for outcome in (first, behind))
    # Whoever is in front draws for its own epochs; of what others drew for later ones, once.
    assert all(min(epoch) >= number for number, epoch in enumerate(front)), front
    if order == "free":
        assert shared > 0 and after[0] != [0] * ITEMS, (shared, after)
    else:
        assert all(set(epoch) == {number} for number, epoch in enumerate(front)), front
        assert after == [[0] * ITEMS, [1] * ITEMS], after


@support.whole
def test_items_that_open_relative_names_are_found():
    """The working directory is a part of their names once a worker has opened one, and who chooses
    has to learn that."""
    words = ("--opens", "bin/sh", "--persistent")
    with in_front(*words) as (group, leader):
        behind = well(run(job("--epochs", 3, *words), group.environment()))
        first = leader.end()
        assert counter(group, "shared") > 0
        assert group.statistics()["mismatched"] == 0
    for outcome in first, behind:
        check(outcome, draws(len(delivered(first)) + 40))


@support.whole
def test_weighted_jobs_get_each_index_as_often_as_it_is_drawn():
    """And share the second time of an index as well as the first."""
    strict = [sorted(index for index, _ in epoch)
              for epoch in delivered(alone("--how", "weighted", "--epochs", 3))]
    assert all(len(set(epoch)) < len(epoch) for epoch in strict)
    with in_front("--how", "weighted") as (group, leader):
        behind = start(job("--how", "weighted", "--epochs", 3, "--until", leader.until), group.environment())
        support.wait_until(lambda: counter(group, "shared") > 2 * ITEMS, "many are taken")
        first, second = map(delivered, (leader.end(), well(finish(behind))))
    for epochs in first, second:
        assert [sorted(index for index, _ in epoch) for epoch in epochs[:3]] == strict
        samples = [sample for epoch in epochs for sample in epoch]
        assert len(set(samples)) == len(samples)
    front = {sample for epoch in first for sample in epoch}
    taken = collections.Counter((number, sample[0]) for number, epoch in enumerate(second)
                                for sample in epoch if sample in front)
    assert max(taken.values()) > 1, taken  # an index that came twice, from the one in front


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_job_that_is_killed_or_stopped_is_nobodys_loss(how):
    with in_front() as (group, leader):
        support.signal_job(leader.process, how)
        behind = well(run(job("--epochs", 3), group.environment()))
        support.signal_job(leader.process, signal.SIGCONT)
        leader.end(0 if how == signal.SIGSTOP else -how)
    check(behind, draws(60))


@support.whole
def test_a_job_that_is_killed_again_and_again_goes_on_at_its_epoch():
    with in_front(pause=.2) as (group, leader):
        for epoch in range(3):
            had = counter(group, "shared")
            victim = start(job("--epochs", 99, "--pause", .02),
                           group.environment(TSSHIM_EPOCH=str(epoch)))
            support.wait_until(lambda: counter(group, "shared") > had + 20, "some are taken")
            support.signal_job(victim, signal.SIGKILL)
            assert finish(victim).status == -signal.SIGKILL
        last = well(run(job("--epochs", 3), group.environment(TSSHIM_EPOCH="3")))
        first = leader.end()
    known = draws(len(delivered(first)) + 40)
    check(first, known)
    check(last, known)


@support.whole
def test_a_ring_too_small_and_speeds_that_change():
    """What is gone between choice and fetch is made, under the same name."""
    paces = [.04, .01, 0, .02]
    turns = [["--pause", *paces[number:], *paces[:number]] for number in range(4)]
    for ring, many in ("6M", 2), ("64M", 4):  # the first is the smallest there is
        for outcome in sharing(many, "--epochs", 5, "--batch", 8, each=turns, TSSHIM_RING=ring):
            check(outcome, draws(60))


@support.whole
def test_a_full_dev_shm_is_no_obstacle():
    """Full from the beginning, and from the middle on: the jobs go on until it is."""
    command = job("--epochs", 3, "--pause", .1, "--until", FILLED)
    for until in ("", ONCE_SHARED):
        outcomes, errors = full_dev_shm(until, command, "--order", "free")
        known = draws(max(len(delivered(outcome)) for outcome in outcomes) + 40)
        for outcome in outcomes:
            check(outcome, known)
        assert until or errors.count("nothing: no call of this job could be shared") == 2, errors


def test_epochs_that_are_left_early():
    with aligned(**FREE) as group:
        outcomes = together([job("--leave", leave, "--epochs", 5) for leave in (2, 5)], group)
    for outcome in outcomes:
        had = [sample for epoch in delivered(outcome) for sample in epoch]
        assert len(set(had)) == len(had) and all(sample in draws(60) for sample in had)
