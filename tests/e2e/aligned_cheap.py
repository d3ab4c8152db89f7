# SPDX-License-Identifier: MIT
"""
Aligned items that cost next to nothing are the same whether jobs share them by the chunk or not: what
each draws was written down here once, and stays.
"""

import support
from aligned_common import aligned, counter, job_of, together, well
from support import run

job = job_of("aligned_cheap_job.py")

# Digests of what seed 7 gives.  A change of one of them changes the data of everybody's runs.
DRAWS = "a4a000dfb8b89a42"
EXPECTED = {"concatenation": "eac76a920818e645", "own 0": "56164dc891519dca",
            "own 1": "56164dc891519dca", "late 0": "3947ff074fa50f1b",
            "late 1": "3947ff074fa50f1b", "nested": "3fff8eae630b37e9",
            "exchanging": "b38e5c2d2377a2a4", "again": "ddc46729ed3da2aa"}


def check(outcome):
    found = dict(line.rsplit(" ", 1) for line in support.facts(well(outcome).output))
    assert set(EXPECTED) < set(found), outcome.output
    wrong = {name: digest for name, digest in found.items() if digest != EXPECTED.get(name, DRAWS)}
    assert not wrong, wrong


def test_any_workers_batches_and_jobs_give_the_samples_written_down():
    with aligned() as group:
        for outcome in together([job(), job("--size", 5)], group):
            check(outcome)
        passed, shared = group.statistics()["passed"], counter(group, "shared")
    assert shared > 500, (shared, passed)
    assert passed["torch_again"] > 0, "no stretch was made again: %s" % passed


@support.whole
def test_dear_ones_are_the_same():
    """Those of a job that is alone, and those that jobs share."""
    with aligned() as group:
        check(run(job("--dear"), group.environment()))
    with aligned() as group:
        for outcome in together([job("--dear"), job("--dear", "--size", 5)], group):
            check(outcome)
        assert counter(group, "shared") > 0
