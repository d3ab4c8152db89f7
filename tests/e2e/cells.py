# SPDX-License-Identifier: MIT
"""
Numbers that a program shares with its workers (multiprocessing.Value, a small tensor) are part of
what names a sample, as they are when it is made.
"""

import os

import support
from aligned_common import aligned, counter, together, without_ring
from support import HERE

JOB = os.path.join(HERE, "cells_job.py")
COUNT, EPOCHS = 48, 3


def job(*ways):
    return [support.torch_python(), JOB, *ways]


def of_two(*ways):
    """How many samples two jobs took from each other, that are given what one alone is."""
    wanted = support.facts(without_ring(job(*ways)).output)
    assert len(wanted) == len(ways) * EPOCHS
    with aligned() as group:
        outcomes = together([job(*ways)] * 2, group)
        taken = counter(group, "shared")
    for outcome in outcomes:
        assert "an error of tsshim's own" not in outcome.errors, outcome.errors
        assert support.facts(outcome.output) == wanted
    return taken


def test_an_epoch_that_the_program_tells():
    for way in "Told", "Raw", "Tensor", "Stream":
        taken = of_two(way)
        assert taken >= 0.5 * COUNT * EPOCHS, (way, taken)  # short, and the first item is made by all


def test_workers_that_live_on():
    """The program tells the next epoch before they begin it; what was left behind the last one is the same."""
    taken = of_two("Lasting")
    # Two are made by all, and one before anybody else asks, or some more where one is slow to begin; without
    # what this is about it is 0.6.
    assert taken >= 0.75 * COUNT * EPOCHS, taken


def test_items_that_count_themselves_are_nobody_elses():
    assert of_two("Counting") == 0
    assert of_two("Moving") > 0  # of those before
