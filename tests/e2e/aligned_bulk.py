# SPDX-License-Identifier: MIT
"""Alignment of data sets that make whole batches."""

import os

import support
from aligned_common import counter, samples
from aligned_zoo import ITEMS, aligned, job, together, two


def test_batches_made_at_once_are_shared_by_item():
    for kind in ("Batches", "Lists"):
        outcomes, shared = two(kind)
        assert samples(outcomes[0]) == samples(outcomes[1]), kind
        assert shared > ITEMS / 2, (kind, shared)


@support.whole
def test_batches_that_are_not_what_their_items_are_stay_whole():
    """Filled up, normed, or not to be had one by one; equal batches are shared all the same."""
    for kind in ("Padded", "Normed", "NotAlone"):
        with aligned() as group:
            outcomes = together([job(kind, "--epochs", 3)] * 2, group)
            shared = counter(group, "shared")
            assert group.statistics()["passed"]["torch_getitems"] > 0
        assert samples(outcomes[0]) == samples(outcomes[1]), kind
        assert shared > 0, kind


def test_what_a_collate_function_makes_arrives_as_it_was():
    """Large tensors by way of memory that is used again, what shares memory together."""
    command = [support.torch_python(), os.path.join(support.HERE, "aligned_collate_job.py")]
    with aligned() as group:
        first, second = together([command] * 2, group)
        assert counter(group, "shared") > 0
    assert support.facts(first.output) == support.facts(second.output) != []
