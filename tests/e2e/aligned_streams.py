# SPDX-License-Identifier: MIT
"""Alignment of iterable data sets: jobs walk the same items, and each of these is made once."""

import os
import tempfile

import pytest

import meeting
import support
from aligned_common import counter, job_of, samples, together, well, without_ring
from aligned_streams_job import ITEMS
from aligned_zoo import aligned
from support import finish, start

job = job_of("aligned_streams_job.py")


def alone(kind, *options):
    """What one job delivers that has nobody to share with."""
    return samples(without_ring(job(kind, *options)))


def two(kind, *options, others=("--batch", 12), **settings):
    """(what two jobs delivered that differ in all but the data, outcomes, items shared); those made
    and those shared are all that were delivered, or made ahead for nobody."""
    commands = [job(kind, "--seed", 1, *options), job(kind, "--seed", 2, *options, *others)]
    with aligned(**settings) as group:
        outcomes = together(commands, group)
        found = [samples(outcome) for outcome in outcomes]
        shared = counter(group, "shared")
        # Where an item is a whole batch these are counted.
        assert kind == "Whole" or counter(group, "produced") + shared >= sum(map(len, found))
        return found, outcomes, shared


def numbers(found, epoch):
    """Those of the items that were delivered in @epoch."""
    return sorted(int(digests[0].partition("-")[0])
                  for (of, _), digests in found.items() if of == epoch)


def test_jobs_walk_the_same_items():
    """And what one has made the other takes; alone it is the same, in the trainer as well."""
    for workers in (1, 3):
        found, outcomes, shared = two("Drawing", "--workers", workers)
        assert found[0] == found[1] == alone("Drawing", "--workers", workers, "--seed", 3)
        assert numbers(found[0], 0) == numbers(found[0], 1) == list(range(ITEMS))
        assert len({digests[0] for digests in found[0].values()}) == 2 * ITEMS
        assert shared > 0, workers
        assert all("not aligned" not in outcome.errors for outcome in outcomes)
    assert alone("Drawing", "--workers", 0, "--seed", 1) == \
        alone("Drawing", "--workers", 0, "--seed", 2, "--batch", 5)


def test_what_the_program_draws_itself_stays():
    """The job's own generators are where they would be without us."""
    command = job("Drawing", "--workers", 2)
    with aligned() as group:
        outcome = together([command], group)[0]
    plain = well(support.run(command, support.plain_environment()))
    drawn = [[line for line in support.facts(each.output) if line.startswith("drawn")]
             for each in (outcome, plain)]
    assert drawn[0] == drawn[1] and drawn[0]


@support.whole
def test_workers_that_live_on():
    """Their data sets are what they would be, whoever made the items."""
    for kind in ("Drawing", "Counting", "Epochs", "Ending"):
        for stop in ((), ("--stop", 2)):
            options = ("--persistent", "--epochs", 3, "--batch", 8, *stop)
            found, _, shared = two(kind, *options, others=())
            assert found[0] == found[1] == alone(kind, *options, "--seed", 4), (kind, stop)
            if kind == "Drawing":
                assert shared > 0, stop
            if kind == "Epochs" and not stop:
                assert shared > ITEMS, shared  # in the second epoch as well as in the first


@support.whole
def test_items_that_change_their_data_set_are_told():
    with aligned() as group:
        together([job("Counting", "--persistent", "--epochs", 3, "--seed", seed) for seed in (1, 2)], group)
        assert group.statistics()["passed"]["torch_left"] > 0


@support.whole
def test_ends():
    """Endless ones, workers that give nothing, whole batches, items that cannot be shared."""
    for kind, options in (("Endless", ("--stop", 5)), ("Uneven", ("--workers", 3)), ("Whole", ()),
                          ("Bad", ("--workers", 2))):
        found, _, shared = two(kind, *options, others=())
        assert found[0] == found[1] == alone(kind, *options, "--seed", 3), kind
        assert shared > 0, (kind, shared)


@support.whole
def test_exceptions_are_the_data_sets():
    for kind in ("Raising", "Iterator"):
        for options in ((), ("--workers", 2)):
            found, outcomes, _ = two(kind, *options, others=())
            assert found[0] == found[1] == alone(kind, *options, "--seed", 3), kind
            assert found[0][0, 999] == ["ValueError: no good"] * (2 if options else 1), kind


def test_what_has_an_order_of_its_own_is_told():
    found, outcomes, shared = two("Clock")
    assert [numbers(each, 1) for each in found] == [list(range(ITEMS))] * 2
    assert shared == 0
    assert any("tsshim: not aligned: iteration of Clock" in outcome.errors
               for outcome in outcomes), outcomes[0].errors


def _has_come(where, process):
    """Wait until @process is in its first scene."""
    def is_there():
        assert process.poll() is None
        return meeting.between(where, process, 1)
    support.wait_until(is_there, "the first scene")


def _in_front(group, where, kind):
    """A job that pauses in its last epoch, and one that goes on."""
    first, second = (start(job(kind, *options), group.environment(**where))
                     for options in (("--pause", 2, "--seed", 5), ("--seed", 6)))
    _has_come(where, first)
    return first, second


@support.whole
def test_files_of_another_content_are_other_items():
    """Also where only a file that is opened late is another one."""
    with tempfile.TemporaryDirectory() as directory, aligned() as group, meeting.of(1) as where:
        holder = start(job("Drawing", "--pause", 1, "--epochs", 1), group.environment(**where))
        _has_come(where, holder)  # and keeps what the others share
        paths = [os.path.join(directory, "part%d" % part) for part in range(3)]
        for part, path in enumerate(paths):
            support.write(path, "".join("%d\n" % (100 + 20 * part + place) for place in range(20)))
        command = job("Files", "--data", directory)
        together([command], group)  # alone until the group is seen to have others
        first = samples(together([command], group)[0])
        shared = counter(group, "shared")
        support.write(paths[1] + "+", "".join("%d\n" % (500 + place) for place in range(20)))
        os.rename(paths[1] + "+", paths[1])
        second = samples(together([command], group)[0])
        of_first = counter(group, "shared") - shared
        third = samples(together([command], group)[0])
        of_second = counter(group, "shared") - shared - of_first
        holder.kill()
        finish(holder)
    assert numbers(first, 0) == list(range(100, 160))
    assert numbers(second, 0) == [*range(100, 120), *range(140, 160), *range(500, 520)]
    assert second == third
    assert 0 < of_first < ITEMS, of_first  # what came before the file that is another one
    assert of_second > ITEMS, of_second


@support.whole
@pytest.mark.parametrize("dies", [False, True])
def test_a_job_in_front_that_pauses_or_dies_holds_nobody_up(dies):
    expected = alone("Drawing")
    with aligned() as group, meeting.of(2) as where:
        first, second = _in_front(group, where, "Drawing")
        if dies:
            first.kill()
            os.mkdir(os.path.join(where[meeting.VARIABLE].partition(":")[2], "end.first"))
        else:
            meeting.go_on(where, 1)  # as soon as the other one is done
        outcomes = [finish(process) for process in (first, second)]
        assert samples(well(outcomes[1])) == expected
        assert dies or samples(outcomes[0]) == expected
        assert counter(group, "shared") > 0


def test_a_ring_that_passes_by():
    """Who finds nothing there any more goes on by itself."""
    with aligned(TSSHIM_RING="2M") as group, meeting.of(2) as where:
        jobs = _in_front(group, where, "Large")
        meeting.go_on(where, 1)  # when the other one is done
        first, second = (well(finish(process)) for process in jobs)
        assert group.statistics()["ring"]["capacity"] < ITEMS * 128000 / 2
    assert samples(first) == samples(second) == alone("Large")


@support.whole
def test_verified():
    """Everything is made by all, and found to be equal."""
    with aligned(TSSHIM_VERIFY="100") as group:
        outcomes = together([job("Drawing", "--seed", seed) for seed in (1, 2)], group)
        found = group.statistics()
    assert samples(outcomes[0]) == samples(outcomes[1]) == alone("Drawing")
    assert found["verified"] > 0 and found["mismatched"] == 0, found
