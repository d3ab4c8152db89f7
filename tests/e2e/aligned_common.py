# SPDX-License-Identifier: MIT
"""Jobs under alignment, alone and together, and what they delivered; for aligned*.py."""

import collections
import os
import tempfile

import meeting
import support
import warm
from support import HERE, Group, finish, run, start

JOB = os.path.join(HERE, "aligned_job.py")


def job(*options):
    return [support.torch_python(), JOB, *[str(option) for option in options]]


def fresh(*options, **settings):
    """The output of one aligned job without anybody to share with."""
    with Group(TSSHIM_ALIGN="7", **settings) as group:
        outcome = run(job(*options), group.environment())
    assert outcome.status == 0, outcome.errors[-2000:]
    return outcome


known = {}


def without_ring(command, library=support.LIBRARY):
    """The outcome of an aligned job that shares nothing with anybody; in a fork, see warm.py."""
    outcome = warm.run(command, LD_PRELOAD=library, TSSHIM_ALIGN="7", TSSHIM_RING="0",
                       TSSHIM_GROUP="e2e-alone-%d" % os.getpid())
    assert outcome.status == 0, outcome.errors[-2000:]
    return outcome


def alone(*options):
    """What the job gets without a ring, run once; the first test shows that this is enough."""
    if options not in known:
        # Workers that are started anew ask for the main program as Python has begun it.
        known[options] = fresh(*options) if "--context" in options else without_ring(job(*options))
    return known[options]


def samples(outcome):
    """{(epoch, index): sorted digests}; what was delivered, in any order."""
    found = collections.defaultdict(list)
    for line in support.facts(outcome.output):
        if line.startswith("epoch"):
            _, epoch, index, digest = line.split(" ", 3)
            found[int(epoch), int(index)].append(digest)
    return {key: sorted(digests) for key, digests in found.items()}


def counter(group, name):
    return sum(dataset.get("kinds", dataset)["sample"][name]
               for dataset in group.statistics().get("datasets", []))


def together(jobs, group):
    """Outcomes of the @jobs, started at the same time."""
    with meeting.of(len(jobs)) as where:
        started = [start(command, group.environment(**where)) for command in jobs]
        outcomes = [finish(process) for process in started]
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
    return outcomes


def aligned(**settings):
    return Group(TSSHIM_ALIGN="7", **{"TSSHIM_VERIFY": "10", **settings})


# A shell command that ends once something is shared.
ONCE_SHARED = """until "$TSRUN" stats --json | grep -q '"shared": *[1-9]'; do sleep 0.1; done; """


# Is there once full_dev_shm() has filled it.
FILLED = "/dev/shm/filled"


def full_dev_shm(until, command, *options):
    """The aligned job @command, twice, in a /dev/shm of their own of which all but 1 MB, which
    Python's semaphores need, is taken when the shell command @until ends; without one, before they
    start.  Gives (outcomes, what both said on stderr)."""
    if os.getuid() != 0 or run(["unshare", "--mount", "true"]).status != 0:
        raise support.Skip("namespaces", "needs root and unshare")
    # By halves of what is left, for the jobs may take more meanwhile.
    program = ('mount -t tmpfs -o size=100m none /dev/shm; fill() { while :; do '
               'more=$((($(df --output=avail -B1 /dev/shm | tail -1) - 1000000) / 2)); '
               '[ $more -gt 65536 ] || break; head -c $more /dev/zero >>/dev/shm/full; done; '
               ': >%s; }; '
               '%s filler=$!; "$@" >"$OUT/one" & one=$!; "$@" >"$OUT/two"; two=$?; wait $one && '
               '(exit $two); status=$?; kill $filler 2>/dev/null; exit $status') % (
                   FILLED, "(%s fill) &" % until if until else "fill; : &")
    command = [support.TSRUN, "--summary", "--align=7", "--ring", "64M", *options, "--", *command]
    with tempfile.TemporaryDirectory() as out, meeting.of(2) as where:
        outcome = run(["unshare", "--mount", "--propagation", "private", "sh", "-c", program,
                       "sh", *command],
                      support.plain_environment(OUT=out, TSRUN=support.TSRUN, **where))
        assert outcome.status == 0, outcome.errors[-2000:]
        outcomes = []
        for name in ("one", "two"):
            outcomes.append(support.Outcome(0, support.read(os.path.join(out, name)), ""))
    return outcomes, outcome.errors
