# SPDX-License-Identifier: MIT
"""
--locality in jobs that torchrun starts: two launchers for two nodes of two ranks, on this machine, with
gloo.  Without us and with us each step has the same samples and the same loss, and each rank as many.
"""

import functools
import json
import os
import tempfile

import pytest
import support
from support import HERE, TSRUN, Group, finish, plain_environment, start

RANKS = 4
JOB = os.path.join(HERE, "locality_job.py")


def environment(place):
    # The GLOO interface is loopback: a name of this machine need not lead anywhere.
    return plain_environment(HOME=place, GLOO_SOCKET_IFNAME="lo", PYTHONWARNINGS="ignore",
                             ACCELERATE_USE_CPU="true")


def gather(launchers, place):
    """([rank][step] of what ranks have written, standard error of all)."""
    outcomes = [finish(launcher) for launcher in launchers]
    assert not any(one.status for one in outcomes), [one.errors[-1000:] for one in outcomes]
    found = []
    for rank in range(RANKS):
        with open(os.path.join(place, str(rank)), encoding="ascii") as file:
            found.append([json.loads(line) for line in file])
    return found, "".join(one.errors for one in outcomes)


def run(python, kind, workers, prefixes):
    """As gather(); @prefixes stand before the launcher of each node."""
    with tempfile.TemporaryDirectory() as place:
        port = str(support.free_port())
        return gather([
            start([*prefix, python, "-m", "torch.distributed.run", "--nnodes", "2", "--node_rank",
                   str(node), "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
                   "--master_port", port, JOB, kind, place, str(workers)], environment(place), cwd=place)
            for node, prefix in enumerate(prefixes)], place)


@functools.cache
def plain(python, kind, workers):
    """What ranks get without us; where nobody asks how they were started, in forks of one process."""
    if kind != "torch":
        return run(python, kind, workers, [[], []])[0]
    with tempfile.TemporaryDirectory() as place:
        env = {**environment(place), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(support.free_port())}
        return gather([start([python, JOB, "torch", place, str(workers), str(RANKS)], env, cwd=place)], place)[0]


def ours(group):
    return [TSRUN, "--group", group.name, "--locality", "--"]


@support.whole
@pytest.mark.parametrize("kind, workers", [("torch", 0), ("torch", 1), ("accelerate", 0), ("lightning", 0)])
def test_steps_are_the_same(kind, workers):
    # PyPI's torch: Debian's cannot be started by torchrun of this Python.
    python = support.pypi_python() if kind == "torch" else support.installed("programs", "PROGRAMS", "bin", "python")
    before = plain(python, kind, workers)
    with Group() as group:
        got, said = run(python, kind, workers, [ours(group), ours(group)])
        assert said.count("batches of 4 ranks are shared out by what 2 nodes hold") == 1, said
        assert group.statistics().get("passed", {}).get("torch_locality", 0) == 0
    given, wanted = ([[[step[1] for step in rank if step[0] == epoch] for rank in ranks]
                      for epoch in range(3)] for ranks in (got, before))
    assert [one == other for one, other in zip(given, wanted)] == [True, False, False]
    for rank in range(RANKS):
        assert [len(step[1]) for step in got[rank]] == [len(step[1]) for step in before[rank]]
        # What all have gathered of a step, and the loss, which follows from all steps before.
        assert [(epoch, everything, loss) for epoch, _, everything, loss in got[rank]] == [
            (epoch, everything, loss) for epoch, _, everything, loss in before[rank]]
    # Each node takes most of its samples from those that it had in the first epoch.
    held = [{sample for rank in (2 * node, 2 * node + 1) for batch in given[0][rank] for sample in batch}
            for node in range(2)]
    taken = [sample in held[rank // 2] for rank in range(RANKS) for batch in given[1][rank]
             for sample in batch if sample in held[0] | held[1]]
    assert sum(taken) > .8 * len(taken), (sum(taken), len(taken))


@support.whole
def test_a_node_without_it():
    """The library is there, and shares samples; but these ranks keep what they are given."""
    python = support.pypi_python()
    with Group() as group:
        got, said = run(python, "torch", 0, [ours(group), [TSRUN, "--group", group.name, "--"]])
    assert got == plain(python, "torch", 0)
    assert said.count("no locality: loader over Numbers: not every rank has told yet that it takes part\n") == 1, said


@support.whole
@pytest.mark.parametrize("order", ["strict", "free"])
def test_who_asks_for_an_order_gets_it(order):
    """locality_ranks.py says it of ranks in one process.  A free one depends on what others make, but in all each
    rank has what it would have."""
    python = support.pypi_python()
    with Group() as group:
        prefix = [TSRUN, "--group", group.name, "--align", "--order", order]
        aligned, _ = run(python, "torch", 0, [[*prefix, "--"]] * 2)
        got, said = run(python, "torch", 0, [[*prefix, "--locality", "--"]] * 2)
    assert said.count("tsrun: the order of an aligned job follows from its seed, ignoring --locality") == 2
    assert said.count("no locality: loader over Numbers: the order is that of --align\n") == 1, said
    assert got == aligned or order == "free"
    for one, other in zip(got, aligned):
        assert sorted((epoch, sample) for epoch, batch, *_ in one for sample in batch) == sorted(
            (epoch, sample) for epoch, batch, *_ in other for sample in batch)
