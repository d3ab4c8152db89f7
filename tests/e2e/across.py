# SPDX-License-Identifier: MIT
"""
Samples between nodes (--across nodes): aligned jobs on several nodes make each sample once, and get
what they get without.  What goes wrong is in across_faults.py.
"""

import os

import pytest

import support
from across_common import PATIENT, Run, between, watched, without
from cluster_tier import site

LARGE = ("--items", 128, "--workers", 2, "--batch", 24, "--floats", 150000)


def test_two_nodes_make_each_sample_once():
    with site(2) as some:
        alone = without(some)
        both = Run(some, **PATIENT)
        both.expect(alone)
        both.expect_once()
        assert alone.count("shared") == 0 and alone.count("produced") == alone.given()


@support.whole
@pytest.mark.parametrize("count", [2, 4])
def test_nodes_with_two_jobs_each(count):
    with site(count) as some:
        run = Run(some, *LARGE, each=2, **PATIENT)
        run.expect(without(some, *LARGE))
        run.expect_once()


@support.whole
def test_servers_that_are_full_of_older_samples():
    """They make room, so that what is made is handed over all the same."""
    options = ("--items", 128, "--floats", 150000, "--epochs", 4, "--cost", 12)
    with site(2, words=("--memory", "64M")) as some:
        with watched() as meanwhile:
            run = Run(some, *options, meanwhile=meanwhile, held=True, **PATIENT)
        run.expect(without(some, *options))
        run.expect_account()
        assert run.counted("removed") > 0, run.told()
        # While room is made, and where there is none, nobody has the right to make it alone.
        twice = run.count("produced") - run.distinct()
        assert twice <= run.counted("full") + run.counted("removed"), (twice, run.told())
        assert run.count("shared") > run.distinct() / 2


@support.whole
def test_files_are_known_by_all_but_their_device():
    """Each node has a mount of its own, with a number of its own."""
    with site(2, files=400) as some:
        devices = [some.nodes.run(number, ["stat", "-c", "%d", some.mount]).output
                   for number in range(2)]
        assert devices[0] != devices[1]
        options = ("--files", os.path.join(some.mount, "00"), "--epochs", 3, "--batch", 3)
        both = Run(some, *options, **PATIENT)
        both.expect(without(some, *options))
        both.expect_once()
        assert both.reason("torch_changed") == 0


def test_what_came_is_verified():
    """All of it: it is made again, and that is used."""
    with site(2) as some:
        both = Run(some, **PATIENT, TSSHIM_VERIFY="100")
        both.expect(without(some))
        assert both.count("shared") == 0
        assert both.count("produced") == both.given()
        # So is what a worker had made ahead of its batch.
        assert both.reason("verify") - both.reason("torch_again") == both.given() - both.distinct()
        assert all(statistics["mismatched"] == 0 for statistics in both.statistics)


@support.whole
def test_a_node_that_makes_other_samples_is_noticed():
    """What an item is depends on the node, which no name says."""
    with site(2) as some:
        apart = Run(some, "--node", "--cost", 0, across="off")
        assert apart.delivered[0] != apart.delivered[1]
        both = Run(some, "--node", **PATIENT, TSSHIM_VERIFY="100")
        both.expect(apart)
        assert sum(statistics["mismatched"] for statistics in both.statistics) > 0


@support.whole
def test_iterable_data_sets_are_each_node_s_own():
    """Their items come in an order of each worker's own: nobody asks for them."""
    with site(2) as some:
        both = Run(some, "--iterable", **PATIENT)
        both.expect(without(some, "--iterable"))
        assert both.count("shared") == 0
        assert both.count("produced") == both.given() == 2 * both.distinct()
        assert both.not_asked() == (0, 0, 0)


@support.whole
def test_a_node_whose_samples_nobody_takes():
    """It asks nobody for a while; who comes meanwhile gets what he gets without.  Its servers are
    full soon, and what they lose was taken by nobody."""
    options = ("--items", 800, "--floats", 150000, "--cost", 2, "--epochs", 3)
    with site(2, words=("--memory", "64M")) as some:
        others = []

        def told(run):
            return some.stats(0, run.group)["nodes"]

        def await_helper(run):
            support.wait_until(lambda: (told(run) or {}).get("helper"), "a helper")

        def await_off(run):
            samples = support.wait_until(
                lambda: told(run)["samples"]["times_unused"] and told(run)["samples"], "it is off")
            assert samples["looked"] >= samples["unused"] >= 32 and samples["times_off"] == 0, samples

        def come(run):
            others.append(Run(some, *options, numbers=[1], NPY_OF_RUN=run.group))

        alone = Run(some, *options, "--scenes", numbers=[0], **PATIENT, meanwhile=between(await_helper, await_off, come))
        assert alone.reason("across_unused") > 0 == alone.reason("across_slow"), alone.told()
        for run in (alone, others[0]):
            run.expect(without(some, *options))
        for run in (alone, others[0]):  # who comes finds what was stored within a minute
            assert run.count("produced") + run.count("shared") == run.given(), run.told()
