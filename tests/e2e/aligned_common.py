# SPDX-License-Identifier: MIT
"""Jobs under alignment, alone and together, and what they delivered; for aligned*.py."""

import collections
import itertools
import os
import tempfile

import meeting
import support
import warm
from support import HERE, Group, finish, run, start

# The test build also shares samples of files that are younger than a minute.
YOUNG = {"library": support.TEST_LIBRARY, "TSSHIM_TEST_YOUNG_INPUTS": "1"}


def job_of(name):
    """What gives the command line of the job in the file of that @name, with options."""
    return lambda *options: [support.torch_python(), os.path.join(HERE, name), *map(str, options)]


job = job_of("aligned_job.py")


def fresh(*options, **settings):
    """The output of one aligned job without anybody to share with."""
    with Group(TSSHIM_ALIGN="7", **settings) as group:
        return well(run(job(*options), group.environment()))


known = {}


def without_ring(command, library=support.LIBRARY):
    """The outcome of an aligned job that shares nothing with anybody; in a fork, see warm.py."""
    return well(warm.run(command, LD_PRELOAD=library, TSSHIM_ALIGN="7", TSSHIM_RING="0",
                         TSSHIM_GROUP="e2e-alone-%d" % os.getpid()))


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


def counter(group, name, kind="sample"):
    return sum(dataset.get("kinds", dataset)[kind][name]
               for dataset in group.statistics().get("datasets", []))


def well(outcome):
    """This one, of a job that ended well."""
    assert outcome.status == 0, outcome.errors[-2000:]
    return outcome


def together(jobs, group, places=itertools.repeat(None), more=itertools.repeat({})):
    """Outcomes of the @jobs, started at the same time, each in one of these @places and with @more variables."""
    with meeting.of(len(jobs)) as where:
        started = [start(command, group.environment(**where, **variables), cwd=place)
                   for command, place, variables in zip(jobs, places, more)]
        return list(map(well, [finish(process) for process in started]))


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
        outcome = well(run(["unshare", "--mount", "--propagation", "private", "sh", "-c", program,
                            "sh", *command],
                           support.plain_environment(OUT=out, TSRUN=support.TSRUN, **where)))
        outcomes = [support.Outcome(0, support.read(os.path.join(out, name)), "") for name in ("one", "two")]
    return outcomes, outcome.errors
