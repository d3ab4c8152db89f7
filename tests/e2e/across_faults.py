# SPDX-License-Identifier: MIT
"""
Samples between nodes (--across nodes) while servers, networks and helpers go wrong: jobs get what
they get without, and what was made or taken is what they got.
"""

import os
import shutil
import signal

import support
from across_common import Run, await_helpers, between, helpers, without
from cluster_tier import NEW_SECRET, exchange, kill, liar, secret_of, site

# Steps of the helper at which samples are on their way, and how often each is gone through before.
STEPS = [("peer_entered", 1), *((step, 20) for step in (
    "peer_taken", "peer_found", "peer_asked", "peer_opened", "peer_written", "peer_answers",
    "peer_answered", "peer_sealed", "peer_stored"))]


def checked(some, *options, words=(), **more):
    """A Run with these @options, whose jobs get what they get without other nodes."""
    alone = without(some, *options)
    run = Run(some, *options, *words, **more)
    run.expect(alone)
    run.expect_account()
    return run


def amid(some, *actions, epochs=3):
    """The Run of jobs in each of whose epochs the next of @actions() happens."""
    return checked(some, "--epochs", epochs, words=["--scenes"], meanwhile=between(
        *(lambda _, action=action: action() for action in actions)))


def nothing():
    pass


# ---- servers -----------------------------------------------------------------------------------


def test_a_server_that_is_stopped_goes_on_or_is_killed_changes_nothing():
    with site(2) as some:
        run = amid(some, *(lambda number=number: os.kill(some.server(1), number)
                           for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL)))
        assert run.reason("across_alone") > 0  # what was on its way


# Lies that cost no second for each sample; the others are told to readers of files.
LIES = ("noise", "nothing", "changed", "version", "swapped", "cut", "won")


def test_a_server_that_lies_changes_nothing():
    with site(2, words=["--no-tls"]) as some, liar(some, 1) as tell:
        run = amid(some, *(lambda lie=lie: tell(lie) for lie in LIES), epochs=len(LIES))
        assert run.count("shared") > 0 and run.reason("across_alone") > 0


# ---- the network -------------------------------------------------------------------------------


def test_a_node_that_is_cut_off_and_mended_changes_nothing():
    with site(2) as some:
        run = amid(some, nothing, lambda: some.nodes.cut(1), lambda: some.nodes.mend(1))
        assert run.count("shared") > 0 and run.reason("across_alone") > 0


# ---- secrets -----------------------------------------------------------------------------------


@support.whole
def test_a_secret_that_is_exchanged_while_samples_travel():
    with site(2) as some:
        old, first = secret_of(some), []

        def to(*secrets):
            def action():
                first.append(helpers(some) if first else await_helpers(some))
                exchange(some, *secrets)
            return action

        run = amid(some, to(old, NEW_SECRET), to(NEW_SECRET, old), to(NEW_SECRET), nothing, epochs=4)
        assert run.count("shared") > 0
        assert len(first[0]) == 2 and first == [first[0]] * 3, "helpers go on"


# ---- helpers -----------------------------------------------------------------------------------


@support.whole
def test_a_helper_that_is_stopped_and_goes_on_changes_nothing():
    """It may write to places, in which nobody looks by then."""
    with site(2) as some:
        stopped = []

        def stop():
            await_helpers(some)
            stopped.extend(some.programs(0, "tsshim-peer"))
            for process in stopped:
                kill(process, signal.SIGSTOP)

        run = amid(some, nothing, stop, lambda: [os.kill(process, signal.SIGCONT) for process in stopped])
        assert len(stopped) == 1
        assert run.count("shared") > 0 and run.reason("across_alone") > 0
        support.wait_until(lambda: not helpers(some), "helpers end with their jobs")


@support.whole
def test_a_helper_that_stays_stopped_keeps_nobody():
    with site(2) as some:
        run = amid(some, lambda: [os.kill(process, signal.SIGSTOP) for process in await_helpers(some)],
                   nothing, epochs=2)
        assert run.reason("across_alone") > 0
        for process in helpers(some):
            os.kill(process, signal.SIGCONT)
        support.wait_until(lambda: not helpers(some), "helpers end with their jobs")


def library_with(some, point, times):
    """A library whose first helper on each node is killed when it comes to @point that often."""
    folder = os.path.join(some.folder, "library-" + point)
    os.mkdir(folder)
    for name in ("libtsshim.so", "tsshim-stager"):
        shutil.copy(os.path.join(support.BUILD, name), folder)
    os.symlink(os.path.join(support.BUILD, "python"), os.path.join(folder, "python"))
    program = os.path.join(folder, "tsshim-peer")
    support.write(program, "#!/bin/sh\n/bin/mkdir /run/%s 2>/dev/null && export TSSHIM_TEST_KILL=%s:%d\n"
                  'exec %s "$@"\n' % (point, point, times, os.path.join(support.BUILD, "tsshim-peer-test")))
    os.chmod(program, 0o755)
    return os.path.join(folder, "libtsshim.so")


@support.whole
def test_a_helper_that_is_killed_changes_nothing():
    """At each step, or without --whole at every third; jobs go on without, and start another one
    when it is time to."""
    with site(2) as some:
        for point, times in STEPS if support.WHOLE else STEPS[::3]:
            run = checked(some, library=library_with(some, point, times))
            assert run.reason("across_alone") > 0, point  # it was killed


@support.whole
def test_a_helper_that_is_killed_while_it_makes_room_changes_nothing():
    options = ("--items", 128, "--floats", 150000, "--epochs", 4, "--cost", 12)
    with site(2, words=("--memory", "64M")) as some:
        run = checked(some, *options, library=library_with(some, "room_removed", 3))
        assert run.reason("across_alone") > 0  # it was killed
