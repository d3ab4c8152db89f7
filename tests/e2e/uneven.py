# SPDX-License-Identifier: MIT
"""
Workers of one job make items of each other's batches while the trainer waits: the program gets what it gets
without, in its order (hooks/torch/python/tsshim_torch/sharing/batch/split.py).
"""

import os

import pytest

from aligned_common import counter, job_of, well
import support
from support import TEST_LIBRARY, Group, read, run

job = job_of("uneven_job.py")

# In default mode workers split batches of items that draw nothing.
MODES = {"default": ({}, ()), "aligned": ({"TSSHIM_ALIGN": "7"}, ("--draw",))}
WORDS = [("--workers", 3), ("--persistent",), ("--workers", 5, "--batch", 20, "--until", 19), ("--workers", 2)]


def wanted(mode, *options):
    """The output of the job without us, or without a ring."""
    settings, more = MODES[mode]
    if not settings:
        return well(run(job(*more, *options))).output
    with Group(TSSHIM_RING="0", **settings) as group:
        return well(run(job(*more, *options), group.environment())).output


def makers(place, until):
    """The processes that made items 1 to @until first, and the one that had item 0."""
    first, *others = [int(read(os.path.join(place, name))) for name in ("first", *map(str, range(1, until + 1)))]
    return set(others), first


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verify, words", [
    support.left_unless(words is WORDS[int(verify) % len(WORDS)], verify, words) for verify in ("0", "100") for words in WORDS],
    ids=lambda words: words if isinstance(words, str) else " ".join(map(str, words)))
def test_a_batch_whose_worker_is_busy_is_made_by_others(mode, verify, words, tmp_path):
    settings, more = MODES[mode]
    with Group(TSSHIM_VERIFY=verify, **settings) as group:
        done = well(run(job(*more, *words, "--epochs", 1, "--place", tmp_path), group.environment()))
        statistics = group.statistics()
        group.assert_clean()
    assert done.output == wanted(mode, *words, "--epochs", 1)
    others, owner = makers(tmp_path, 7)
    assert owner not in others
    assert verify == "0" or statistics["passed"]["verify"] >= 7, statistics


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("words", [support.left_unless(False, ()), ("--persistent",)])
def test_later_epochs_are_what_they_are_without(mode, words, tmp_path):
    settings, more = MODES[mode]
    with Group(**settings) as group:
        done = well(run(job(*more, *words, "--epochs", 3, "--place", tmp_path), group.environment()))
    assert done.output == wanted(mode, *words, "--epochs", 3)


@pytest.mark.parametrize("mode", MODES)
def test_what_an_item_raises_comes_with_its_own_batch(mode, tmp_path):
    settings, more = MODES[mode]
    words = ("--raises", 3, "--epochs", 1)
    with Group(**settings) as group:
        done = well(run(job(*more, *words, "--until", 3, "--place", tmp_path), group.environment()))
        group.assert_clean()
    assert done.output == wanted(mode, *words)
    assert "raised ValueError: item 3\n" in done.output
    others, owner = makers(tmp_path, 3)
    assert owner not in others


@pytest.mark.parametrize("at", ["", "reserve_header", "publish_bytes", "publish_ready", "take_claim"])
def test_a_worker_that_is_killed_at_an_item_of_another_harms_no_other_job(at, tmp_path):
    healthy = wanted("aligned")
    words = ("--dies", 2, "--place", tmp_path, "--epochs", 1, *(("--at", at) if at else ()))
    with Group(TEST_LIBRARY, TSSHIM_ALIGN="7") as group:
        group.keep()
        died = well(run(job("--draw", *words), group.environment()))
        assert "ended 0 True\n" in died.output, died.output
        assert well(run(job("--draw"), group.environment())).output == healthy


@pytest.mark.parametrize("mode", MODES)
def test_a_lone_worker_publishes_nothing(mode):
    settings, more = MODES[mode]
    with Group(**settings) as group:
        well(run(job(*more, "--workers", 1), group.environment()))
        assert counter(group, "shared") == 0
        assert group.statistics()["passed"]["alone"] > 0, group.statistics()
