# SPDX-License-Identifier: MIT
"""Alignment: every job gets the same samples, whoever made them, and each what it would alone."""

import collections
import random
import signal
import tempfile
import time

import pytest

import meeting
import support
from aligned_common import (ONCE_SHARED, aligned, alone, counter, fresh, full_dev_shm, job, samples,
                            together, well)
from support import Group, finish, run, signal_job, start, wait_until


def test_the_job_alone_is_repeatable_and_augments():
    first, second = alone(), fresh()
    assert first.output.splitlines()[:-1] == second.output.splitlines()[:-1]
    digests = samples(first)
    assert len(digests) == 2 * 96
    # Another epoch, other crops; otherwise all the rest would show nothing.
    assert all(digests[0, index] != digests[1, index] for index in range(96))


def test_another_seed_is_other_data():
    with Group(TSSHIM_ALIGN="8") as group:
        other = run(job(), group.environment())
    assert samples(other) != samples(alone())


def test_without_align_nothing_changes():
    """Not even the order in which the job's own generators are drawn from."""
    command = job("--seed", 3, "--draw", "--train")
    with Group() as group:
        assert run(command).output.splitlines()[:-1] == \
            run(command, group.environment()).output.splitlines()[:-1]


def test_the_jobs_own_generators_are_left_alone():
    """What a job draws itself is what it would draw without us."""
    def draws(outcome):
        return [line for line in outcome.output.splitlines() if line.startswith("draw")]

    options = ("--seed", 3, "--draw", "--workers")
    # Items draw from the job's generators there, so without us they differ on purpose.
    assert len(draws(alone(*options, 0))) == 2
    assert draws(run(job(*options, 1))) == draws(alone(*options, 1))


@support.whole
def test_any_workers_and_batches_give_the_same_samples():
    expected = samples(alone())
    for options in (("--workers", 0), ("--workers", 2, "--batch", 24), ("--workers", 4),
                    ("--batch", 64), ("--collate",), ("--context", "spawn"),
                    ("--context", "forkserver"), ("--persistent", "--workers", 2)):
        assert samples(alone(*options)) == expected, options


def test_counts_add_up():
    """What jobs made and took is what they were given, also where much is verified."""
    with aligned(TSSHIM_VERIFY="50") as group:
        given = [samples(outcome) for outcome in
                 together([job(), job("--batch", 8), job("--batch", 24, "--workers", 2)], group)]
        counts = [counter(group, name) for name in ("produced", "shared")]
    assert sum(counts) == sum(map(len, given)), counts


@support.whole
def test_two_and_four_jobs_share_and_get_what_each_gets_alone():
    two, four = [(), ()], [(), ("--batch", 24), ("--workers", 2, "--batch", 64), ("--workers", 0)]
    is_main = support.torch_python() == support.PYTHON
    for jobs in [two, four] if is_main or support.WHOLE else [four]:
        with aligned() as group:
            outcomes = together([job("--epochs", 3, *options) for options in jobs], group)
            shared, produced = counter(group, "shared"), counter(group, "produced")
            group.assert_clean()
        expected = samples(alone("--epochs", 3))
        for options, outcome in zip(jobs, outcomes):
            assert samples(outcome) == expected, options
        delivered = 3 * 96 * len(jobs)
        assert shared + produced == delivered, (shared, produced, delivered)
        # Whoever joins last, and verification, cost a few; nothing is delivered otherwise.
        assert shared > 0.25 * delivered, (shared, produced, delivered)


def test_who_finds_a_whole_batch_in_the_making_makes_one_that_is_queued():
    """Batches of one sample: whoever only took it or waited for it would begin the next one
    together with the other, and no two samples would ever be in the making at the same time."""
    with tempfile.TemporaryFile("w+") as notes, aligned(TSSHIM_VERIFY="0") as group, \
            meeting.of(2) as where:
        command = job("--batch", 1, "--items", 24, "--epochs", 1, "--prefetch", 24,
                      "--notes", notes.fileno())
        started = [start(command, group.environment(**where), pass_fds=[notes.fileno()])
                   for _ in range(2)]
        for process in started:
            well(finish(process))
        notes.seek(0)
        lines = [line.split() for line in notes]
    times = collections.Counter(index for what, index, _ in lines if what == "begin")
    assert sorted(map(int, times)) == list(range(24)), times
    making, at_once = {}, set()
    for what, index, pid in lines:
        if what == "begin":
            at_once |= {frozenset((index, other)) for other in making.values() if other != index}
            making[pid] = index
        else:
            del making[pid]
    assert len(at_once) >= 6, (at_once, lines)


def test_verify_all_finds_no_difference():
    with aligned(TSSHIM_VERIFY="100") as group:
        for outcome in together([job("--epochs", 3), job("--epochs", 3, "--workers", 2)], group):
            assert "differs" not in outcome.errors, outcome.errors
        assert group.statistics()["passed"]["verify"] > 50, group.statistics()["passed"]


def test_repeated_indices_differ_within_an_epoch():
    with aligned() as group:
        outcomes = together([job("--repeats", "--epochs", 3)] * 2, group)
    expected = samples(alone("--repeats", "--epochs", 3))
    assert any(len(digests) > 1 for digests in expected.values())
    assert all(len(set(digests)) == len(digests) for digests in expected.values())
    for outcome in outcomes:
        assert samples(outcome) == expected


@support.whole
def test_a_sampler_of_the_programs_own_may_draw_at_any_time():
    """In each batch, too; what the job itself draws is not changed by that."""
    draws = set()
    for options, once in ((("early",), "True"), (("early", "--drop-last"), "True"),
                          (("late",), "False"), (("pairs", "--drop-last"), "False")):
        options = ("--draw", "--persistent", "--batch", "20", "--order", *options)
        first = fresh(*options, "--seed", "1").output.splitlines()
        second = fresh(*options, "--seed", "2").output.splitlines()
        assert [line for line in first if line.startswith("epoch")] == \
            [line for line in second if line.startswith("epoch")], options
        own = [line for line in first if line.startswith("draw")]
        assert own != [line for line in second if line.startswith("draw")]
        draws.add(tuple(own))
        assert first[-1].endswith("draws once " + once), (options, first[-1])
    assert len(draws) == 1, "the job draws otherwise where its sampler drew"


@support.whole
def test_folds_share_what_they_have_in_common():
    """The item of a Subset is that of the data set it picks from."""
    folds = [("--subset", "0:72"), ("--subset", "24:96")]
    with aligned(TSSHIM_VERIFY="0") as group:
        outcomes = together([job("--epochs", 4, *fold) for fold in folds], group)
        shared = counter(group, "shared")
    for fold, outcome in zip(folds, outcomes):
        assert samples(outcome) == samples(alone("--epochs", 4, *fold)), fold
    assert shared > 4 * 48 / 3, shared
    whole = samples(alone())
    assert all(whole[key] == digests for key, digests in samples(alone(*folds[0])).items())


@pytest.mark.parametrize("options", [("--subset", "twice"), ("--two-views",), ("--zip", "--epochs", 1)], ids=lambda o: o[0])
def test_two_views(options):
    """By a data set twice in a concatenation, two loaders, and one that is iterated twice at once, as
    `for a, b in zip(loader, loader)`; else each sample would be paired with itself."""
    for index, digests in samples(alone(*options)).items():
        first, second = (digest.split()[0] for digest in digests)
        assert first != second, index


def test_lists_as_indices_get_other_draws_each():
    """A data set that is given a list for each batch, which is the documented way for bulk."""
    with aligned() as group:
        outcomes = together([job("--bulk")] * 2, group)
        assert counter(group, "shared") > 0
    expected = samples(alone("--bulk"))
    assert samples(outcomes[0]) == samples(outcomes[1]) == expected
    assert all(expected[0, index] != expected[1, index] for index in range(96))


def test_a_first_look_is_no_epoch():
    assert samples(alone("--sanity")) == samples(alone())


def test_a_resumed_job_goes_on_where_it_was():
    later = samples(fresh("--epochs", 1, TSSHIM_EPOCH="1"))
    expected = {(0, index): digests for (epoch, index), digests in samples(alone()).items()
                if epoch == 1}
    assert later == expected


def test_training_is_bit_identical_with_company():
    """The loss curve of a job among others is that of the job alone."""
    options = ("--train", "--seed", 5, "--epochs", 3)
    expected = [line for line in alone(*options).output.splitlines() if line.startswith("loss")]
    with aligned() as group:
        outcomes = together([job(*options), job("--train", "--seed", 6, "--epochs", 3),
                             job("--epochs", 3, "--batch", 24)], group)
    assert len(expected) == 18
    assert [line for line in outcomes[0].output.splitlines()
            if line.startswith("loss")] == expected


def test_jobs_that_were_alone_find_each_other():
    """While a job is alone it asks for few of its items.  One is an epoch ahead, and not for long alone."""
    expected = samples(alone("--epochs", 5))
    with aligned() as group, meeting.of(2) as where:
        behind = start(job("--epochs", 4), group.environment(**where))
        ahead = start(job("--epochs", 4, "--batch", 24), group.environment(TSSHIM_EPOCH="1", **where))
        found = [samples(finish(process)) for process in (behind, ahead)]
        shared = counter(group, "shared")
    for number, delivered in enumerate(found):
        assert delivered == {(epoch - number, index): digests for (epoch, index), digests
                             in expected.items() if number <= epoch < number + 4}
    # The one behind has met the other by its second epoch; all that is made two epochs later it takes.
    assert shared >= 96, shared


def test_killed_and_stopped_jobs_harm_nobody():
    expected = samples(alone("--epochs", 6))
    dice = random.Random(1)
    with aligned() as group, meeting.of(1) as where:
        environment = group.environment(**where)
        jobs = [start(job("--epochs", 6, "--step", 0.2), environment) for _ in range(4)]
        victims = [start(job("--epochs", 1000, "--step", 0.01), environment)
                   for _ in range(4 if support.WHOLE else 2)]
        for process in jobs:
            wait_until(lambda: meeting.has_come(where, process, 1), "the second epoch")
        signal_job(jobs[0], signal.SIGKILL)
        signal_job(jobs[1], signal.SIGSTOP)
        for victim in victims:
            wait_until(lambda: meeting.has_come(where, victim, 1), "the second epoch")
            time.sleep(dice.random() / 4)  # any moment of what follows
            signal_job(victim, signal.SIGKILL)
            victim.communicate()
        for process in jobs[2:]:
            outcome = finish(process)
            assert outcome.status == 0 and samples(outcome) == expected, outcome.errors
        signal_job(jobs[1], signal.SIGCONT)
        assert samples(finish(jobs[1])) == expected
        jobs[0].communicate()
        group.assert_clean(after_kill=True)


def test_no_shared_memory_is_no_obstacle():
    """The data of an aligned job never depends on whether it could share."""
    assert samples(alone()) == samples(fresh(TSSHIM_SHARE="off"))  # alone() has no ring


@support.whole
def test_a_full_dev_shm_is_no_obstacle():
    """Full from the beginning, and from the middle on."""
    expected = samples(alone("--epochs", 3))
    command = job("--epochs", 3, "--step", 0.1)
    outcomes, errors = full_dev_shm("", command)
    assert [samples(outcome) for outcome in outcomes] == [expected, expected]
    assert errors.count("nothing: no call of this job could be shared") == 2, errors
    outcomes, errors = full_dev_shm(ONCE_SHARED, command)
    assert [samples(outcome) for outcome in outcomes] == [expected, expected]
    assert "taken from the ring" in errors or "not enough shared memory" in errors, errors
