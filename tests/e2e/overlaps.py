# SPDX-License-Identifier: MIT
"""
Iterators of one loader that live at a time (overlaps_job.py says how), in all modes: each has an
epoch of its own, the one that it began with, whole, and ends where that does.
"""

import collections
import os

import meeting
import support
from aligned_common import counter
from support import HERE, Group, finish, run, start

JOB = os.path.join(HERE, "overlaps_job.py")
# Those with workers cost ten times as much as those without.
PLAIN, WORKERS = ["map0"], ["map2:nested_broken,early,deleted"]
LAZY, LAZY_WORKERS = ["lazy0"], ["lazy2:zip_itself"]
LIVING_ON = ["persistent2:zip_itself,nested_broken"]
if support.WHOLE:
    PLAIN += ["stream0", "batches0", "own0"]
    WORKERS, LAZY_WORKERS, LIVING_ON = ["map2", "stream2"], ["lazy2"], ["persistent2"]
# Where no iterator begins after a later one was left, all samples of all iterations differ.  (The
# one of workers that live on begins anew: what it gave before was a first look, which is no epoch.)
DRAWN_ONCE = {"zip_itself", "zip_two", "nested_full", "early", "gone_on", "thread"}
SURE_OF = 2  # from this iteration on it is known that a sampler is told no epoch
FREE = {"map0", "map2", "persistent2", "dropping0", "ranks0", "batches0"}  # all others stay strict
MAPS = PLAIN + WORKERS + LIVING_ON + ["dropping0", "ranks0", "untold0"]
ALL = MAPS + LAZY + LAZY_WORKERS
STRICT = {"TSSHIM_ALIGN": "7", "TSSHIM_ALIGN_ORDERS": "1"}
FREE_ORDER = {"TSSHIM_ORDER": "free", **STRICT}

Iteration = collections.namedtuple("Iteration", "end batches")


def job(kinds):
    return [support.torch_python(), JOB, *kinds]


def given(outcome, kinds):
    """{(kind, way, number): Iteration}, a batch as a list of (index, digest)."""
    assert outcome.status == 0, outcome.errors[-3000:]
    found = {}
    for line in support.facts(outcome.output):
        kind, way, number, end, *batches = line.split()
        found[kind, way, int(number)] = Iteration(end == "END", [
            [tuple(sample.split("=")) for sample in batch.split(",")] for batch in batches])
    assert {kind for kind, _, _ in found} == {kind.partition(":")[0] for kind in kinds}
    return found


def alone(kinds, **settings):
    with Group(**settings) as group:
        return given(run(job(kinds), group.environment()), kinds)


def together(kinds, settings, other):
    """What two jobs were given that ran at one time."""
    with Group(TSSHIM_VERIFY="10", **settings) as group, meeting.of(2) as where:
        jobs = [start(job(kinds), group.environment(**more, **where)) for more in ({}, other)]
        outcomes = [given(finish(process), kinds) for process in jobs]
        assert counter(group, "shared") > 0 and group.statistics()["mismatched"] == 0
    return outcomes


_known = {}


def strict():
    if not _known:
        _known.update(alone(ALL, **STRICT))
    return _known


def indices(iteration):
    return [int(index) for batch in iteration.batches for index, _ in batch]


def expect(found, wanted):
    for key, iteration in found.items():
        assert iteration == wanted.get(key), (key, iteration, wanted.get(key))


WHOLE = {"dropping0": 18, "ranks0": 10, "untold0": 10, "lazy0": 45, "lazy2": 45}


def check_whole(found):
    """Who came to an end had all of an epoch; nobody has had an index twice."""
    for key, iteration in found.items():
        had = indices(iteration)
        if not key[0].startswith("lazy"):
            assert len(set(had)) == len(had), (key, had)
        if iteration.end:
            assert len(had) == WHOLE.get(key[0], 20), (key, had)


def sure(found):
    """What no chance is in: which of two threads draws first from the job's generators is one."""
    return {(kind, way, number): Iteration(each.end, [
        [(index, "" if way == "thread" else digest) for index, digest in batch] for batch in each.batches])
        for (kind, way, number), each in found.items() if (kind[:4], way) != ("lazy", "thread")}


@support.whole
def test_default_mode_gives_what_torch_gives():
    kinds = PLAIN + WORKERS + LAZY
    wanted = sure(given(run(job(kinds), support.plain_environment()), kinds))
    for found in together(PLAIN + LAZY, {"TSSHIM_SHARE": "auto"}, {}):
        expect(sure(found), wanted)
    expect(sure(alone(PLAIN + WORKERS, TSSHIM_LOCALITY="1")), wanted)


def test_strict_iterations_are_whole_and_the_same_beside_others():
    check_whole(strict())
    for found in together(PLAIN + LAZY + LAZY_WORKERS, STRICT, {}):
        expect(found, strict())


def test_workers_change_nothing():
    """Neither which epoch an iterator has nor what it draws follows from how far workers are."""
    same = {"map2": "map0", "lazy2": "lazy0"}
    found = {key: each for key, each in strict().items() if key[0] in same}
    assert {key[0] for key in found} == set(same)
    expect(found, {(kind, *name): strict()[same[kind], *name] for kind, *name in found})


def test_free_order_alone_is_the_strict_one():
    expect(alone(PLAIN + WORKERS, **FREE_ORDER), strict())


def check_free(found):
    check_whole(found)
    had = collections.defaultdict(list)
    for key, iteration in found.items():
        wanted = strict()[key]
        if key[0] not in FREE and not (key[0] == "untold0" and key[2] < SURE_OF):
            assert iteration == wanted, (key, iteration, wanted)
            continue
        assert iteration.end == wanted.end and \
            [len(batch) for batch in iteration.batches] == [len(batch) for batch in wanted.batches], key
        if iteration.end:
            assert sorted(indices(iteration)) == sorted(indices(wanted)), (key, iteration, wanted)
        had[key[:2]] += [sample for batch in iteration.batches for sample in batch]
    for (kind, way), samples in had.items():
        assert way not in DRAWN_ONCE or kind == "persistent2" or len(set(samples)) == len(samples), (kind, way)


def test_free_iterations_are_whole_and_replayed(directory):
    path = os.path.join(directory, "record")
    found = together(MAPS, FREE_ORDER, {"TSSHIM_RECORD": path})
    for each in found:
        check_free(each)
    expect(alone(MAPS, TSSHIM_REPLAY=path, **FREE_ORDER), found[1])
