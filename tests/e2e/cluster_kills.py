# SPDX-License-Identifier: MIT
"""
Jobs on several nodes read files with --stage and --cluster while a helper is killed at each of its
steps, and while a job is killed that is the one to read what all wait for.
"""

import os
import re
import signal

import support
from cluster_tier import Tier, cut, fresh, kill, send, site, states, wait

KILLED = "TSSHIM_TEST_KILL"


def points():
    found = re.findall(r"X\(((?:peer|bring)_\w+)\)", support.read(
        os.path.join(support.HERE, "..", "..", "leader", "object", "killpoint.h")))
    assert len(found) > 14, found
    return found


def kill_at(one, point, names):
    there, both, own, doomed, last = cut(names, 5)
    metadata = 600 if point.startswith("bring_") else 0
    with Tier(one, where=[1], metadata=metadata, library=support.TEST_LIBRARY) as tier:
        tier.read(there)
        tier.settle()
        tier.begin(0, helper={KILLED: point})
        tier.read(both)
        # What the other node has and knows, and what nobody has.
        tier.read(there + own, where=[0])
        helper = tier.helpers[0]
        lost = point == "peer_returned" and [doomed[0]]
        rest = fresh(one, 5)

        def go_on():
            """Until it comes there: for seconds nobody asks where somebody has waited in vain."""
            if lost:
                lose_winner(tier, lost.pop())
                lost.append(next(rest)[0])
            return helper.poll() is not None or tier.read(next(rest)) is None

        wait(go_on, "it comes to %s" % point)
        assert helper.returncode == -signal.SIGKILL, point
        # The next one has no such place.
        tier.read(last + doomed)
        tier.settle()


def start_winner(tier, name, **settings):
    """A job on node 0 that is to read @name, which nobody has."""
    process = tier.start(0, library=support.TEST_LIBRARY, **settings)
    send(process, [name])
    return process


def lose_winner(tier, name):
    """A job that is killed when it has won the right to make @name."""
    process = start_winner(tier, name, **{KILLED: "stage_asked"})
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_helpers_killed_at_every_step():
    found = points()
    with site(2, files=20 * len(found), size=20000) as one:
        for point, names in zip(found, cut(one.names, len(found))):
            kill_at(one, point, names)


def test_a_job_killed_with_what_it_has_won():
    """Its helper gives it back."""
    with site(2, files=8) as one, Tier(one) as tier:
        for name in one.names:
            lose_winner(tier, name)
            tier.read([name], where=[1])
        tier.read(one.names)


def is_shared_again(one, name):
    """Whether a node that wants the file gets it, or the right to make it for all."""
    with Tier(one, where=[1]) as tier:
        tier.read([name])
        found = tier.totals()
        return found["won"] + found["got"] > 0


def test_jobs_and_helper_of_a_node_lost_with_what_was_won():
    """Nobody gives it back; others go on when its place has ended."""
    with site(2, files=1) as one, Tier(one, where=[1]) as tier, Tier(one, where=[0]) as lost:
        before, rest, names, winners = lost.sums("won"), fresh(one, 8), [], []
        # They stop whatever the answer is, which on a slow machine may be another one.
        while lost.sums("won") == before:
            more = next(rest)
            names += more
            winners += [start_winner(lost, name, TSSHIM_TEST_STOP="stage_asked") for name in more]
            for process in winners:
                wait(lambda process=process: states(process.pid) == {"T"}, "it has its answer")
        # In this order: a helper that sees who has died would give it back.
        kill(lost.watchers[0].helper())
        for process in winners:
            process.kill()
            process.communicate()
        tier.read(names, where=[1])
        for name in names:
            wait(lambda name=name: is_shared_again(one, name), "its place ends")
