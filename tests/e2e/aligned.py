# SPDX-License-Identifier: MIT
"""Alignment: every job gets the same samples, whoever made them, and each what it would alone."""

import collections
import os
import random
import signal
import time

import support
from support import HERE, PYTHON, Group, finish, run, start

JOB = [PYTHON, os.path.join(HERE, "aligned_job.py")]


def job(*options):
    return JOB + [str(option) for option in options]


def alone(*options, **settings):
    """The output of one aligned job without anybody to share with."""
    with Group(TSSHIM_ALIGN="7", **settings) as group:
        outcome = run(job(*options), group.environment())
    assert outcome.status == 0, outcome.errors[-2000:]
    return outcome


def samples(outcome):
    """{(epoch, index): sorted digests}; what was delivered, in any order."""
    found = collections.defaultdict(list)
    for line in support.facts(outcome.output):
        if line.startswith("epoch"):
            _, epoch, index, digest = line.split(" ", 3)
            found[int(epoch), int(index)].append(digest)
    return {key: sorted(digests) for key, digests in found.items()}


def counter(group, name):
    return sum(dataset.get("kinds", dataset)["sample"][name]
               for dataset in group.statistics().get("datasets", []))


def together(jobs, group):
    """Outcomes of the @jobs, started at the same time."""
    started = [start(command, group.environment()) for command in jobs]
    outcomes = [finish(process) for process in started]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
    return outcomes


def aligned(**settings):
    return Group(TSSHIM_ALIGN="7", **{"TSSHIM_VERIFY": "10", **settings})


def test_the_job_alone_is_repeatable_and_augments():
    first, second = alone(), alone()
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
    for workers in (0, 1):
        command = job("--seed", 3, "--draw", "--workers", workers)
        draws = [[line for line in outcome.output.splitlines() if line.startswith("draw")]
                 for outcome in (run(command), alone("--seed", 3, "--draw",
                                                     "--workers", workers))]
        if workers == 0:
            # Items draw from the job's generators there, so without us they differ on purpose.
            assert len(draws[1]) == 2
            continue
        assert draws[0] == draws[1], draws


def test_any_workers_and_batches_give_the_same_samples():
    expected = samples(alone())
    for options in (("--workers", 0), ("--workers", 2, "--batch", 24), ("--workers", 4),
                    ("--batch", 64), ("--collate",), ("--context", "spawn"),
                    ("--context", "forkserver"), ("--persistent", "--workers", 2)):
        assert samples(alone(*options)) == expected, options


def test_two_and_four_jobs_share_and_get_what_each_gets_alone():
    for jobs in ([(), ()], [(), ("--batch", 24), ("--workers", 2, "--batch", 64),
                            ("--workers", 0)]):
        with aligned() as group:
            outcomes = together([job("--epochs", 3, *options) for options in jobs], group)
            shared, produced = counter(group, "shared"), counter(group, "produced")
            group.assert_clean()
        expected = samples(alone("--epochs", 3))
        for options, outcome in zip(jobs, outcomes):
            assert samples(outcome) == expected, options
        delivered = 3 * 96 * len(jobs)
        # Whoever joins last, and verification, cost a few; nothing is delivered otherwise.
        assert shared > 0.25 * delivered, (shared, produced, delivered)


def test_verify_all_finds_no_difference():
    with aligned(TSSHIM_VERIFY="100") as group:
        for outcome in together([job("--epochs", 3), job("--epochs", 3, "--workers", 2)], group):
            assert "differs" not in outcome.errors, outcome.errors
        assert group.statistics()["verified"]["hits"] > 0 \
            if isinstance(group.statistics().get("verified"), dict) else True


def test_repeated_indices_differ_within_an_epoch():
    with aligned() as group:
        outcomes = together([job("--repeats", "--epochs", 3)] * 2, group)
    expected = samples(alone("--repeats", "--epochs", 3))
    assert any(len(digests) > 1 for digests in expected.values())
    assert all(len(set(digests)) == len(digests) for digests in expected.values())
    for outcome in outcomes:
        assert samples(outcome) == expected


def test_two_loaders_give_two_views():
    for index, digests in samples(alone("--two-views")).items():
        first, second = (digest.split()[0] for digest in digests)
        assert first != second, index


def test_a_first_look_is_no_epoch():
    assert samples(alone("--sanity")) == samples(alone())


def test_a_resumed_job_goes_on_where_it_was():
    later = samples(alone("--epochs", 1, TSSHIM_EPOCH="1"))
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


def test_late_joiner_and_different_speeds():
    expected = samples(alone("--epochs", 3))
    with aligned() as group:
        slow = start(job("--epochs", 3, "--step", 0.1), group.environment())
        time.sleep(2.5)
        fast = start(job("--epochs", 3, "--batch", 24), group.environment())
        for process in (slow, fast):
            assert samples(finish(process)) == expected


def test_killed_and_stopped_jobs_harm_nobody():
    expected = samples(alone("--epochs", 6))
    dice = random.Random(1)
    with aligned() as group:
        jobs = [start(job("--epochs", 6), group.environment()) for _ in range(4)]
        time.sleep(2)
        os.killpg(jobs[0].pid, signal.SIGKILL)
        os.killpg(jobs[1].pid, signal.SIGSTOP)
        for _ in range(8):
            victim = start(job("--epochs", 6), group.environment())
            time.sleep(0.5 + dice.random())
            os.killpg(victim.pid, signal.SIGKILL)
            victim.communicate()
        for process in jobs[2:]:
            outcome = finish(process)
            assert outcome.status == 0 and samples(outcome) == expected, outcome.errors
        os.killpg(jobs[1].pid, signal.SIGCONT)
        assert samples(finish(jobs[1])) == expected
        jobs[0].communicate()
        group.assert_clean(after_kill=True)


def test_no_shared_memory_is_no_obstacle():
    """The data of an aligned job never depends on whether it could share."""
    assert samples(alone(TSSHIM_RING="0")) == samples(alone()) == \
        samples(alone(TSSHIM_SHARE="off"))


if __name__ == "__main__":
    support.main(support.functions(globals()))
