# SPDX-License-Identifier: MIT
"""
Alignment of what data sets have of their own: generators, open files; and what is said where there
is none.
"""

import functools
import os
import tempfile

import aligned_common
import aligned_zoo_job
import support
from aligned_common import YOUNG, counter, job_of, samples, together, without_ring
from aligned_zoo_job import ITEMS

job = job_of("aligned_zoo_job.py")
aligned = functools.partial(aligned_common.aligned, **YOUNG, TSSHIM_VERIFY="0")


def two(kind, *more, **settings):
    """(outcomes of two jobs that differ in all but the data, samples shared)."""
    commands = [job(kind, "--seed", 1, *more), job(kind, "--seed", 2, "--batch", 12, *more)]
    with aligned(**settings) as group:
        return together(commands, group), counter(group, "shared")


def alone(kind, *options, **settings):
    """The same without anybody to share with."""
    if not settings:
        return without_ring(job(kind, *options))
    with aligned(**{"TSSHIM_RING": "0", **settings}) as group:
        return together([job(kind, *options)], group)[0]


def test_generators_of_its_own_are_seeded_for_each_item():
    """Also those that the first item makes, and one of the class; and they are put back."""
    outcomes, shared = two("Own")
    expected = samples(outcomes[0])
    assert expected == samples(outcomes[1]) and len(expected) == 2 * ITEMS
    assert len({digests[0] for digests in expected.values()}) == len(expected)
    assert shared > ITEMS / 2, shared
    for options in (("--workers", 0, "--seed", 3), ("--workers", 2)):
        outcome = alone("Own", *options)
        assert samples(outcome) == expected, options
        assert "put back True" in outcome.output
    assert samples(alone("Own", TSSHIM_SHARE="pixels")) == expected
    assert all(" not aligned" not in outcome.errors for outcome in outcomes)


def test_what_cannot_be_seeded_is_told():
    """And does not keep others from being seeded."""
    outcomes, shared = two("Strange", TSSHIM_DEBUG="debug")
    assert samples(outcomes[0]) == samples(outcomes[1]) and shared == 0
    for outcome in outcomes:
        said = [line for line in outcome.errors.splitlines() if "dataset.parts['strange']" in line]
        assert len([line for line in said if line.startswith("tsshim: not aligned: ")]) == 1, said
        assert any("samples are not shared" in line and "Strange.Generator" in line
                   for line in said), said
    with aligned() as group:
        together([job("Strange")], group)
        told = [each["refused"] for each in group.statistics()["jobs"]]
    assert len(told) == 1 and told[0].startswith("dataset.parts['strange']"), told
    assert "Strange.Generator" in told[0]


@support.whole
def test_locks_that_nobody_holds_say_nothing():
    """One that somebody holds is told of, and nothing is shared."""
    outcomes, shared = two("Locked")
    assert samples(outcomes[0]) == samples(outcomes[1])
    assert shared > ITEMS / 2, shared
    for word, kind in (("lock", "_thread.lock"), ("rlock", "_thread.RLock")):
        outcomes, shared = two("Locked", "--held", word, TSSHIM_DEBUG="debug")
        assert samples(outcomes[0]) == samples(outcomes[1]) and shared == 0
        for outcome in outcomes:
            assert "samples are not shared: dataset.locks['%s'] (%s)" % (word, kind) \
                in outcome.errors, outcome.errors[-2000:]


def test_what_is_read_to_name_a_data_set_is_no_input():
    """It is looked at again after the first item of each worker, which is shared like others."""
    commands = [job("Array", "--seed", seed, "--batch", 8 * seed) for seed in (1, 2)]
    with aligned() as group:
        outcomes = together(commands, group)
        found = group.statistics()
    assert samples(outcomes[0]) == samples(outcomes[1])
    assert found["passed"]["torch_inputs"] == 0, found["passed"]
    assert sum(dataset["sample"]["shared"] for dataset in found["datasets"]) > ITEMS / 2


def test_a_sampler_with_a_seed_of_its_own_is_told_or_aligned():
    """Said once; --align-orders aligns it."""
    commands = [job("Own", "--generator", "--seed", seed) for seed in (1, 2)]
    for orders in (False, True):
        with aligned(**{"TSSHIM_ALIGN_ORDERS": "1"} if orders else {}) as group:
            outcomes = together(commands, group)
        first, second = ([line for line in support.facts(outcome.output)
                          if line.startswith("epoch")] for outcome in outcomes)
        assert sorted(first) == sorted(second) and (first == second) is orders
        for outcome in outcomes:
            said = [line for line in outcome.errors.splitlines()
                    if line.startswith("tsshim: order not aligned: ")]
            assert len(said) == (0 if orders else 1), said


def test_epochs_that_the_sampler_is_not_told():
    """The order is the same in each, as it is without us; what is drawn for an item is not."""
    outcomes, _ = two("Own", "--untold")
    found = samples(outcomes[0])
    assert found == samples(outcomes[1]) and len(found) == 2 * ITEMS
    assert all(found[0, index] != found[1, index] for index in range(ITEMS))
    lines = [line.split()[1:3] for line in support.facts(outcomes[0].output)
             if line.startswith("epoch")]
    orders = [[index for of, index in lines if of == epoch] for epoch in ("0", "1")]
    assert orders[0] == orders[1] != sorted(orders[0], key=int)


@support.whole
def test_what_is_told_late():
    """Workers begin with what the trainer knew of the data set.  Nothing of that may be too old, or
    kept behind the epoch."""
    for told in ("worker", "sampler", "epoch"):
        commands = [job("Told", "--told", told, "--factor", factor) for factor in (2, 2, 3)]
        with aligned() as group:
            outcomes = together(commands, group)
            assert counter(group, "shared") > 0
        assert all("let go True" in outcome.output for outcome in outcomes), told
        found = [samples(outcome) for outcome in outcomes]
        assert found[0] == found[1], told
        for outcome, command in zip(found[1:], commands[1:]):
            with aligned(TSSHIM_RING="0") as group:
                assert outcome == samples(together([command], group)[0]), told
        other = [key for key in found[0] if found[0][key] == found[2][key]]
        # Before they are told, in the first epoch, they are the same.
        assert {epoch for epoch, _ in other} == ({0} if told == "epoch" else set()), told


@support.whole
def test_files_that_the_first_item_opens():
    """Each of another content under the same name is another data set."""
    for kind in ("Hdf5", "Zip", "Tar", "Raw"):
        found = []
        for base in (0, 1000):
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "file")
                aligned_zoo_job.write(kind, path, base)
                outcomes, shared = two(kind, "--data", path)
                assert samples(outcomes[0]) == samples(outcomes[1]), kind
                assert shared > ITEMS / 2, (kind, shared)
                found.append(samples(outcomes[0]))
        assert not any(found[0][key] == found[1][key] for key in found[0]), kind


@support.whole
def test_jobs_in_directories_of_their_own(directory):
    """Share what has absolute names; relative ones lead to what each of them has."""
    places = [os.path.join(directory, name) for name in ("one", "two")]
    for number, place in enumerate(places):
        os.mkdir(place)
        aligned_zoo_job.write("Raw", os.path.join(place, "file"), 1000 * number)
    path = os.path.join(places[0], "file")
    with aligned() as group:
        outcomes = together([job("Raw", "--data", path)] * 2, group, places)
        assert counter(group, "shared") > ITEMS / 2
    assert samples(outcomes[0]) == samples(outcomes[1])
    with aligned() as group:
        first, second = map(samples, together([job("Raw", "--data", "file")] * 2, group,
                                              places))
    assert first == samples(outcomes[0])
    assert not any(first[key] == second[key] for key in first)


def test_crops_of_one_volume_are_shared():
    """Who changes one in place changes the other one, of a sample that was taken as well."""
    with aligned(TSSHIM_VERIFY="50") as group:
        outcomes = together([job("Crops", "--seed", seed, "--batch", 5 + seed) for seed in (1, 2)], group)
        shared, checked = counter(group, "shared"), group.statistics()["passed"]["verify"]
    found = samples(outcomes[0])
    assert found == samples(outcomes[1]) == samples(alone("Crops"))
    assert len({digests[0] for digests in found.values()}) == 2 * ITEMS
    assert shared > ITEMS / 4 and checked > ITEMS / 4, (shared, checked)
    assert not any("differs" in outcome.errors for outcome in outcomes)


def test_pixels_are_shared_where_samples_cannot_be():
    with aligned() as group:
        paths = support.pictures("s_")[:4]
        outcomes = together([job("Pictures", "--epochs", 6, "--data", ":".join(paths))] * 2, group)
        found = group.statistics()["datasets"]
    assert samples(outcomes[0]) == samples(outcomes[1])
    assert sum(dataset["sample"]["shared"] for dataset in found) == 0
    assert sum(dataset["pixels"]["shared"] for dataset in found) > 0, found
