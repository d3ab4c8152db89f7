# SPDX-License-Identifier: MIT
"""
Aligned jobs in free order: each index as often as its sampler gives it, no sample twice in a job,
whoever is alone as in strict order; and jobs that are epochs apart share.
"""

import collections
import os
import signal
import tempfile

import meeting
import support
from aligned_common import FILLED, ONCE_SHARED, aligned, counter, full_dev_shm
from support import HERE, Group, finish, run, start

JOB = os.path.join(HERE, "free_job.py")
FREE = {"TSSHIM_ORDER": "free"}
ITEMS = 96


def job(*options):
    return [support.torch_python(), JOB, *[str(option) for option in options]]


def alone(*options, order="strict", **settings):
    with Group(TSSHIM_ALIGN="7", TSSHIM_ORDER=order, **settings) as group:
        outcome = run(job(*options), group.environment())
    assert outcome.status == 0, outcome.errors[-2000:]
    return outcome


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


def check(outcome, known, whole=True):
    """The draws of each epoch of a job whose data set is the whole one; all must be right."""
    had, found = set(), []
    epochs = delivered(outcome)
    for number, epoch in enumerate(epochs):
        if whole or number < len(epochs) - 1:
            assert sorted(index for index, _ in epoch) == list(range(ITEMS)), number
        else:
            assert len({index for index, _ in epoch}) == len(epoch), number
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


def test_where_order_means_something_it_stays():
    """And is shared as ever; which is said."""
    reasons = {"plain": "not shuffled", "several": "put together of several",
               "own": "sampler is a Turns", "generator": "generator of its own"}
    words = [word for how in reasons for word in ("--then", "--epochs", 2, "--how", how)][1:]
    with aligned(**FREE) as group, meeting.of(2) as where:
        jobs = [start(job(*words), group.environment(**where)) for _ in range(2)]
        outcomes = [finish(process) for process in jobs]
        assert counter(group, "shared") > 0
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
        lines = [line for line in outcome.errors.splitlines() if "strict order" in line]
        assert len(lines) == len(reasons), lines
        for line, why in zip(lines, reasons.values()):
            assert why in line, (line, why)
    assert delivered(outcomes[0]) == delivered(outcomes[1])


def test_jobs_in_step_share_and_deliver_all():
    for workers, batch, other in ((1, 16, 16), (4, 64, 16), (0, 16, 64))[:3 if support.WHOLE else 2]:
        with aligned(**FREE) as group, meeting.of(2) as where:
            jobs = [start(job("--workers", workers, "--batch", size, "--epochs", 4),
                          group.environment(**where)) for size in (batch, other)]
            outcomes = [finish(process) for process in jobs]
            assert counter(group, "shared") > 0
            assert group.statistics()["mismatched"] == 0
        for outcome in outcomes:
            assert outcome.status == 0, outcome.errors[-2000:]
            check(outcome, draws(60))


def in_front(group, place, *options, pause=.02):
    """A job that goes on until the file that is returned as well is there; it has made some."""
    until = os.path.join(place, "until")
    leader = start(job("--epochs", 1, "--until", until, "--pause", pause, *options),
                   group.environment())
    support.wait_until(lambda: counter(group, "produced") > 2 * ITEMS, "two epochs are made")
    return leader, until


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
def test_jobs_that_are_epochs_apart_share():
    """In strict order they have no sample in common."""
    for order in ("free", "strict"):
        with aligned(TSSHIM_ORDER=order) as group, tempfile.TemporaryDirectory() as place:
            leader, until = in_front(group, place)
            behind = run(job("--epochs", 2), group.environment())
            check_statistics(group, leader.pid, order)
            open(until, "w").close()
            outcomes = finish(leader), behind
            shared = counter(group, "shared")
        for outcome in outcomes:
            assert outcome.status == 0, outcome.errors[-2000:]
        epochs = len(delivered(outcomes[0]))
        front, after = (check(outcome, draws(epochs + 40)) for outcome in outcomes)
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
    with aligned(**FREE) as group, tempfile.TemporaryDirectory() as place:
        leader, until = in_front(group, place, *words)
        behind = run(job("--epochs", 3, *words), group.environment())
        open(until, "w").close()
        outcomes = finish(leader), behind
        assert counter(group, "shared") > 0
        assert group.statistics()["mismatched"] == 0
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
        check(outcome, draws(len(delivered(outcomes[0])) + 40))


@support.whole
def test_weighted_jobs_get_each_index_as_often_as_it_is_drawn():
    """And share the second time of an index as well as the first."""
    strict = [sorted(index for index, _ in epoch)
              for epoch in delivered(alone("--how", "weighted", "--epochs", 3))]
    assert all(len(set(epoch)) < len(epoch) for epoch in strict)
    with aligned(**FREE) as group, tempfile.TemporaryDirectory() as place:
        leader, until = in_front(group, place, "--how", "weighted")
        behind = start(job("--how", "weighted", "--epochs", 3, "--until", until),
                       group.environment())
        support.wait_until(lambda: counter(group, "shared") > 2 * ITEMS, "many are taken")
        open(until, "w").close()
        outcomes = finish(behind), finish(leader)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
        epochs = delivered(outcome)
        assert [sorted(index for index, _ in epoch) for epoch in epochs[:3]] == strict
        samples = [sample for epoch in epochs for sample in epoch]
        assert len(set(samples)) == len(samples)
    front = {sample for epoch in delivered(outcomes[1]) for sample in epoch}
    taken = collections.Counter((number, sample[0])
                                for number, epoch in enumerate(delivered(outcomes[0]))
                                for sample in epoch if sample in front)
    assert max(taken.values()) > 1, taken  # an index that came twice, from the one in front


def test_a_job_that_is_killed_or_stopped_is_nobodys_loss():
    for how in (signal.SIGKILL, signal.SIGSTOP):
        with aligned(**FREE) as group, tempfile.TemporaryDirectory() as place:
            leader, until = in_front(group, place)
            support.signal_job(leader, how)
            behind = run(job("--epochs", 3), group.environment())
            assert behind.status == 0, behind.errors[-2000:]
            support.signal_job(leader, signal.SIGCONT)
            open(until, "w").close()
            if how == signal.SIGSTOP:
                assert finish(leader).status == 0
            else:
                assert finish(leader).status == -how
        check(behind, draws(60))


@support.whole
def test_a_job_that_is_killed_again_and_again_goes_on_at_its_epoch():
    with aligned(**FREE) as group, tempfile.TemporaryDirectory() as place:
        leader, until = in_front(group, place, pause=.2)
        for epoch in range(3):
            had = counter(group, "shared")
            victim = start(job("--epochs", 99, "--pause", .02),
                           group.environment(TSSHIM_EPOCH=str(epoch)))
            support.wait_until(lambda: counter(group, "shared") > had + 20, "some are taken")
            support.signal_job(victim, signal.SIGKILL)
            assert finish(victim).status == -signal.SIGKILL
        last = run(job("--epochs", 3), group.environment(TSSHIM_EPOCH="3"))
        open(until, "w").close()
        first = finish(leader)
    for outcome in first, last:
        assert outcome.status == 0, outcome.errors[-2000:]
    known = draws(len(delivered(first)) + 40)
    check(first, known)
    check(last, known)


@support.whole
def test_a_ring_too_small_and_speeds_that_change():
    """What is gone between choice and fetch is made, under the same name."""
    for ring, many in ("6M", 2), ("64M", 4):  # the first is the smallest there is
        paces = [.04, .01, 0, .02]
        with aligned(TSSHIM_RING=ring, **FREE) as group, meeting.of(many) as where:
            jobs = [start(job("--pause", *paces[number:], *paces[:number], "--epochs", 5,
                              "--batch", 8),
                          group.environment(**where)) for number in range(many)]
            outcomes = [finish(process) for process in jobs]
            assert counter(group, "shared") > 0
            assert group.statistics()["mismatched"] == 0
        for outcome in outcomes:
            assert outcome.status == 0, outcome.errors[-2000:]
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
    with aligned(**FREE) as group, meeting.of(2) as where:
        jobs = [start(job("--leave", leave, "--epochs", 5), group.environment(**where))
                for leave in (2, 5)]
        outcomes = [finish(process) for process in jobs]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
        had = [sample for epoch in delivered(outcome) for sample in epoch]
        assert len(set(had)) == len(had) and all(sample in draws(60) for sample in had)
