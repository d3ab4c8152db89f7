# SPDX-License-Identifier: MIT
"""
Free order between nodes: who is behind is told what jobs on other nodes make, and takes that.  Each
index comes once an epoch, and no sample that a strict job would not be given, or twice.
"""

import contextlib
import os
import signal
import tempfile

import meeting
import support
from across_common import PATIENT, Run, await_helpers, between, nothing, servers, site, without
from across_faults import liar
from cluster_tier import Watcher

FREE = {"TSSHIM_ORDER": "free"}
ITEMS = 96
AHEAD = 20  # epochs


def strict(some, epochs):
    """{(index, digest)} of so many epochs."""
    run = without(some, "--no-model", "--apart", "--epochs", epochs)
    known = {sample[1:] for sample in run.samples()[0]}
    assert len(known) == epochs * ITEMS
    return known


def check(run, known, items=ITEMS):
    """What all jobs of @run were given; @known: None: anything."""
    for samples in run.samples():
        had = {sample[1:] for sample in samples}
        assert known is None or had <= known
        assert len(had) == len(samples)
        for epoch in {sample[0] for sample in samples}:
            indices = [int(sample[1]) for sample in samples if sample[0] == epoch]
            assert sorted(indices) == list(range(items)), epoch
    run.expect_account()


@contextlib.contextmanager
def watched():
    """A @meanwhile for one Run that is held, so that counts of the helpers are there at its end."""
    with contextlib.ExitStack() as watchers:
        def meanwhile(run, where, started):
            await_helpers(run.site)
            for number in range(run.site.count):
                watchers.callback(Watcher(run.site, number, run.group).end)
            meeting.leave(where)
        yield meanwhile


def notes(run, number, name):
    return run.statistics[number]["nodes"]["samples"]["notes_" + name]


def test_nodes_in_step_make_each_sample_once():
    with site(2) as some:
        known = strict(some, 12)
        for each in (1, 2) if support.WHOLE else (2,):
            run = Run(some, "--no-model", "--epochs", 3, each=each, **PATIENT, **FREE)
            check(run, known)
            run.expect_once()


@contextlib.contextmanager
def behind(*options):
    """
    The @apart of a Run whose node 0 goes on until node 1, which waits for its trainer at each
    batch, has done three epochs; and the others' words.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = os.path.join(folder, "done")
        yield lambda number: (
            (("--epochs", 30, "--until", done), {"TSSHIM_EPOCH": str(AHEAD)}) if number == 0 else
            (("--epochs", 3, "--pause", .2, "--done", done, *options), {}))


@support.whole
def test_who_is_epochs_behind_takes_what_the_other_node_makes():
    """
    In its own epochs nobody makes what it is given: without notes nobody would take anything.  Who
    takes what of whom is a matter of speed.
    """
    with site(2) as some, behind() as apart, watched() as meanwhile:
        known = strict(some, 64)
        run = Run(some, "--no-model", "--apart", apart=apart, meanwhile=meanwhile, held=True, **PATIENT, **FREE)
        check(run, known)
        print("# took %d and %d; told %d, heard %d" % (
            run.count_of(0, "shared"), run.count_of(1, "shared"), notes(run, 0, "told"),
            notes(run, 1, "heard")), flush=True)
        assert len(run.samples()[1]) == 3 * ITEMS
        assert run.count("shared") >= ITEMS, run.told()


# ---- what goes wrong -----------------------------------------------------------------------------


def in_trouble(some, *actions):
    """Jobs in free order, on whose nodes these happen in the middle of an epoch each."""
    known = strict(some, 2 * len(actions))
    run = Run(some, "--no-model", "--scenes", "--epochs", len(actions), meanwhile=between(*actions), **FREE)
    check(run, known)
    assert run.reason("across_alone") > 0
    return run


@support.whole
def test_a_server_that_is_stopped_goes_on_or_is_killed_changes_nothing():
    with site(2) as some:
        def to_server(number):
            return lambda run: [os.kill(process, number) for process in servers(some, 1)]

        in_trouble(some, *map(to_server, (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL)), nothing)


@support.whole
def test_a_server_that_lies_changes_nothing():
    """Of notes as well: half of the nodes' lie there, or the other half."""
    lies = ("changed", "swapped", "cut", "noise", "nothing")
    with site(2, words=["--no-tls"]) as some, liar(some, 1) as tell:
        in_trouble(some, *[lambda run, lie=lie: tell(lie) for lie in lies])
