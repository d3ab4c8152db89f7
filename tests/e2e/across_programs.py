# SPDX-License-Identifier: MIT
"""
Public training scripts, unmodified, aligned on two nodes: what they print is what an aligned job
prints by itself, and each node takes from the other what that has made.  Programs, data and what
counts of their output are those of programs.py.
"""

import os

import pytest

import cluster_tier
import programs
import support
from programs import DELIVERED, Data

NODES = 2
#: Whose samples cost enough to be worth a network.
WHICH = ("reference_v2", "imagenet")


def settings(group, **more):
    return {"LD_PRELOAD": support.TEST_LIBRARY, "TSSHIM_GROUP": group, "TSSHIM_ALIGN": "7",
            "TSSHIM_RING": "256M", "TSSHIM_TEST_PATIENCE": "20", **more}


def with_environment(words):
    return ["env", *("%s=%s" % item for item in words.items())]


def delivered(program, starts, checkpoints):
    """What each printed; @starts: [(seed, prefix)], all at once."""
    where = os.path.join(programs.work(), program.name)
    together = os.path.join(where, "nodes")
    os.makedirs(together, exist_ok=True)
    begun = [program.start(seed, os.path.join(where, "node-%d-%d" % (len(os.listdir(where)), seed)),
                           checkpoints, prefix, None if program.apart else together)
             for seed, prefix in starts]
    return [program.found(support.finish(one), program.aligned_facts) for one in begun]


@support.whole
@pytest.mark.parametrize("path, program", [
    (path, original if os.path.exists(path) else stand_in) for path, original, stand_in in programs.ORIGINALS
    if original.name in WHICH], ids=WHICH)
def test_on_two_nodes(path, program):
    if program is None:
        raise support.Skip("programs", "no %s (scripts/deps programs)" % path)
    Data.make()
    _, checkpoints = program.plain()
    Data.settle()
    with support.Group() as group:
        alone, = delivered(program, [(1, with_environment(settings(group.name)))], checkpoints)
    with cluster_tier.site(NODES) as some:
        group = some.group()
        # Jobs of the group that read nothing: whoever is ready first takes nothing away.
        watchers = [cluster_tier.Watcher(some, number, group) for number in range(NODES)]
        words = settings(group, TSSHIM_CLUSTER=some.cluster, TSSHIM_ACROSS="nodes")
        found = delivered(program, [
            (1 + number, some.nodes.inside(number, *with_environment(words)))
            for number in range(NODES)], checkpoints)
        kinds = [row.get("kinds", row)["sample"] for number in range(NODES)
                 for row in some.stats(number, group).get("datasets", [])]
        got = sum(watcher.total("got") for watcher in watchers)
        for watcher in watchers:
            watcher.end()
    made = sum(kind["produced"] for kind in kinds)
    print("# %s: made %d, got %d of %d" % (program.name, made, got, DELIVERED), flush=True)
    for one in found:
        assert one == alone, [pair for pair in zip(one, alone) if pair[0] != pair[1]][:3]
    # Half of all is what one node can take from the other; the start of each job costs some.
    assert got > DELIVERED / 4, (got, made)
