# SPDX-License-Identifier: MIT
"""
Samples between nodes (--across nodes) while servers, networks and helpers go wrong: jobs get what
they get without, and what was made or taken is what they got.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import support
from across_common import (Run, await_helpers, between, helpers, is_stopped, nothing, programs, servers, site,
                           without)

# Steps of the helper at which samples are on their way, and how often each is gone through before.
STEPS = [("peer_entered", 1), *((step, 20) for step in (
    "peer_taken", "peer_found", "peer_asked", "peer_opened", "peer_written", "peer_answers",
    "peer_answered", "peer_sealed", "peer_stored"))]
NEW = "f" * 64


def compared(some, epochs=3):
    """The words of jobs with scenes, and what these are compared with."""
    words = ("--epochs", epochs)
    return (*words, "--scenes"), without(some, *words)


# ---- servers -----------------------------------------------------------------------------------


def test_a_server_that_is_stopped_goes_on_or_is_killed_changes_nothing():
    with site(2) as some:
        words, alone = compared(some)

        def to_server(number):
            return lambda run: [os.kill(process, number) for process in servers(some, 1)]

        run = Run(some, *words, meanwhile=between(
            *map(to_server, (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))))
        run.expect(alone)
        run.expect_account()
        assert run.reason("across_alone") > 0  # what was on its way


@contextlib.contextmanager
def liar(some, number):
    """In the place of the server of node @number one that answers nonsense."""
    for process in servers(some, number):
        os.kill(process, signal.SIGKILL)
    support.wait_until(lambda: not servers(some, number), "the server has gone")
    command = some.nodes.inside(number, sys.executable, os.path.join(support.HERE, "cluster_liar.py"),
                                some.nodes.addresses[number], str(some.port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def tell(lie):
            process.stdin.write(lie + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == lie + "\n"
        try:
            assert process.stdout.readline() == "ready\n"
            yield tell
        finally:
            process.kill()


# Lies that cost no second for each sample; the others are told to readers of files.
LIES = ("noise", "nothing", "changed", "version", "swapped", "cut", "won")


def test_a_server_that_lies_changes_nothing():
    with site(2, words=["--no-tls"]) as some, liar(some, 1) as tell:
        words, alone = compared(some, epochs=len(LIES))
        run = Run(some, *words, meanwhile=between(*[lambda run, lie=lie: tell(lie) for lie in LIES]))
        run.expect(alone)
        run.expect_account()
        assert run.count("shared") > 0 and run.reason("across_alone") > 0


# ---- the network -------------------------------------------------------------------------------


def test_a_node_that_is_cut_off_and_mended_changes_nothing():
    with site(2) as some:
        words, alone = compared(some)
        run = Run(some, *words, meanwhile=between(
            nothing, lambda run: some.nodes.cut(1), lambda run: some.nodes.mend(1)))
        run.expect(alone)
        run.expect_account()
        assert run.count("shared") > 0 and run.reason("across_alone") > 0


# ---- secrets -----------------------------------------------------------------------------------


@support.whole
def test_a_secret_that_is_exchanged_while_samples_travel():
    with site(2) as some:
        path = os.path.join(some.cluster, "secret")
        old = support.read(path).strip()
        first = []

        def exchange(*secrets):
            def action(run):
                first.append(helpers(some) if first else await_helpers(some))
                with open(path + ".new", "w", encoding="ascii",
                          opener=lambda p, f: os.open(p, f, 0o600)) as file:
                    file.writelines(secret + "\n" for secret in secrets)
                os.rename(path + ".new", path)
                some.up()
            return action

        words, alone = compared(some, epochs=4)
        run = Run(some, *words, meanwhile=between(
            exchange(old, NEW), exchange(NEW, old), exchange(NEW), nothing))
        run.expect(alone)
        run.expect_account()
        assert run.count("shared") > 0
        assert len(first[0]) == 2 and first == [first[0]] * 3, "helpers go on"


# ---- helpers -----------------------------------------------------------------------------------


@support.whole
def test_a_helper_that_is_stopped_and_goes_on_changes_nothing():
    """It may write to places, in which nobody looks by then."""
    with site(2) as some:
        words, alone = compared(some)
        stopped = []

        def stop(run):
            await_helpers(some)
            stopped.extend(programs(some, 0, "tsshim-peer"))
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
                support.wait_until(lambda process=process: is_stopped(process), "it is stopped")

        def go_on(run):
            for process in stopped:
                os.kill(process, signal.SIGCONT)

        run = Run(some, *words, meanwhile=between(nothing, stop, go_on))
        run.expect(alone)
        run.expect_account()
        assert len(stopped) == 1
        assert run.count("shared") > 0 and run.reason("across_alone") > 0
        support.wait_until(lambda: not helpers(some), "helpers end with their jobs")


@support.whole
def test_a_helper_that_stays_stopped_keeps_nobody():
    with site(2) as some:
        words, alone = compared(some, epochs=2)

        def stop(run):
            for process in await_helpers(some):
                os.kill(process, signal.SIGSTOP)

        run = Run(some, *words, meanwhile=between(stop, nothing))
        run.expect(alone)
        run.expect_account()
        assert run.reason("across_alone") > 0
        for process in helpers(some):
            os.kill(process, signal.SIGCONT)
        support.wait_until(lambda: not helpers(some), "helpers end with their jobs")


@contextlib.contextmanager
def library_with(some, point, times):
    """A library whose first helper on each node is killed when it comes to @point that often."""
    folder = os.path.join(some.folder, "library-" + point)
    os.mkdir(folder)
    for name in ("libtsshim.so", "tsshim-stager"):
        shutil.copy(os.path.join(support.BUILD, name), folder)
    os.symlink(os.path.join(support.BUILD, "python"), os.path.join(folder, "python"))
    program = os.path.join(folder, "tsshim-peer")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n/bin/mkdir /run/%s 2>/dev/null && export TSSHIM_TEST_KILL=%s:%d\n"
                   'exec %s "$@"\n' % (point, point, times, os.path.join(
                       support.BUILD, "tsshim-peer-test")))
    os.chmod(program, 0o755)
    yield os.path.join(folder, "libtsshim.so")


@support.whole
def test_a_helper_that_is_killed_changes_nothing():
    """At each step, or without --whole at every third; jobs go on without, and start another one
    when it is time to."""
    with site(2) as some:
        for point, times in STEPS if support.WHOLE else STEPS[::3]:
            with library_with(some, point, times) as library:
                run = Run(some, library=library)
                run.expect(without(some))
                run.expect_account()
                assert run.reason("across_alone") > 0, point  # it was killed


@support.whole
def test_a_helper_that_is_killed_while_it_makes_room_changes_nothing():
    options = ("--items", 128, "--floats", 150000, "--epochs", 4, "--cost", 12)
    with site(2, words=("--memory", "64M")) as some:
        with library_with(some, "room_removed", 3) as library:
            run = Run(some, *options, library=library)
            run.expect(without(some, *options))
            run.expect_account()
            assert run.reason("across_alone") > 0  # it was killed
