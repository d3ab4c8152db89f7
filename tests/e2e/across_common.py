# SPDX-License-Identifier: MIT
"""
Aligned jobs on several nodes that share samples (across_job.py), what each delivered, and the
account of it.  For tests.
"""

import contextlib
import itertools
import os
from concurrent import futures

import cluster_tier
import meeting
import support

JOB = os.path.join(support.HERE, "across_job.py")
# How long things take decides nothing: what is allowed for is so many times as long, and to get a
# sample may take so many times as long as to make it.
PATIENT = {"library": support.TEST_LIBRARY, "TSSHIM_TEST_PATIENCE": "200"}


class Run:
    """One job on each node of @some, or @each, or on those of @numbers only; what they delivered
    and counted.  @meanwhile(run, where, started) is called when all have been started; they wait at
    the fourth meeting, and at their end, until it says leave(where) if they are @held.
    @apart(number) are further options and variables of the jobs of that node."""

    def __init__(self, some, *options, each=1, across="nodes", library=None, meanwhile=None,
                 held=False, numbers=None, apart=lambda number: ((), {}), **more):
        self.site, self.group, self.each = some, some.group(), each
        numbers = range(some.count) if numbers is None else numbers
        with meeting.of(len(numbers) * each + held) as where:
            if held:
                meeting.come(where, 3)
            env = support.plain_environment(**{
                "LD_PRELOAD": library or support.LIBRARY, "TSSHIM_GROUP": self.group,
                "TSSHIM_ALIGN": "7", "TSSHIM_RING": "256M", "TSSHIM_CLUSTER": some.cluster,
                "TSSHIM_ACROSS": across, "TSSHIM_VERIFY": "0",
                # Part of every name: what an earlier run left with servers is of no use.
                "NPY_OF_RUN": self.group, **where, **more})
            command = [support.torch_python(), JOB, "--seed", "1", *map(str, options)]
            started = []
            for number in numbers:
                words, variables = apart(number)
                started += [some.nodes.start(number, command + list(map(str, words)), {**env, **variables})
                            for _ in range(each)]
            if meanwhile:
                meanwhile(self, where, started)
            # Of all at once: one whose pipe is full comes to no meeting.
            with futures.ThreadPoolExecutor(len(started)) as readers:
                self.outcomes = list(readers.map(support.finish, started))
        for outcome in self.outcomes:
            assert outcome.status == 0, (outcome.status, outcome.errors[-2000:])
        self.delivered = [support.facts(outcome.output) for outcome in self.outcomes]
        self.statistics = [some.stats(number, self.group) for number in numbers]

    # ---- what was delivered ----

    def expect(self, other):
        """Each delivered what the same one of @other did, losses to the last bit; or of without()
        what the only one did."""
        assert len(other.delivered) in (1, len(self.delivered))
        for mine, its in zip(self.delivered, itertools.cycle(other.delivered)):
            assert mine == its

    def samples(self):
        """[(epoch, index, digest)] of each job, in the order of delivery."""
        return [[tuple(line.split()[1:]) for line in lines if line.startswith("epoch ")]
                for lines in self.delivered]

    def given(self):
        return sum(map(len, self.samples()))

    def distinct(self):
        """How many different samples all jobs were given."""
        return len({sample[1:] for samples in self.samples() for sample in samples})

    # ---- what was counted ----

    def told(self):
        """For who reads that a test has failed."""
        return [(statistics["nodes"], {name: count for name, count in statistics["passed"].items() if count})
                for statistics in self.statistics]

    def count(self, name):
        """Of the samples of all jobs."""
        return sum(row.get("kinds", row)["sample"][name]
                   for statistics in self.statistics for row in statistics.get("datasets", []))

    def reason(self, name):
        return sum(statistics["passed"].get(name, 0) for statistics in self.statistics)

    def not_asked(self):
        """How many other nodes did not give, or were not asked for: that takes longer, none takes ours."""
        return tuple(self.reason("across_" + name) for name in ("alone", "slow", "unused"))

    def counted(self, name):
        """By the helpers, of all servers; @meanwhile was that of watched()."""
        return sum(row[name] for statistics in self.statistics for row in statistics["nodes"]["list"])

    def expect_account(self):
        """What was made or taken is what was delivered, and nobody found a difference."""
        assert self.count("produced") + self.count("shared") == self.given(), \
            (self.count("produced"), self.count("shared"), self.given(), self.told())
        assert self.count("produced") >= self.distinct()
        assert all(statistics["mismatched"] == 0 for statistics in self.statistics)
        print("# made %d of %d distinct samples, %.3f" % (
            self.count("produced"), self.distinct(), self.count("produced") / self.distinct()), flush=True)

    def expect_once(self):
        """Likewise, and each sample was made once by all nodes."""
        self.expect_account()
        assert self.count("produced") == self.distinct(), \
            (self.count("produced"), self.distinct(), self.told())
        assert self.not_asked() == (0, 0, 0), (self.not_asked(), self.told())


_without = {}  # by its options: one Run for all tests


def without(some, *options):
    """The Run of one job that asks no other node: what all jobs with these @options get, whatever
    an item costs."""
    if options not in _without:
        _without[options] = Run(some, *options, "--cost", 0, across="off", numbers=[0])
    return _without[options]


# ---- what happens meanwhile ----------------------------------------------------------------------


@contextlib.contextmanager
def watched():
    """A @meanwhile for one Run that is held: from the second epoch on a job of each node that does
    nothing, to the end of the block.  Where none is left, the table of the helper goes as well,
    with its counts."""
    with contextlib.ExitStack() as watchers:
        def meanwhile(run, where, started):
            support.wait_until(lambda: all(process.poll() is not None or meeting.has_come(where, process, 1)
                                           for process in started), "the second epoch")
            for number in range(run.site.count):
                watchers.callback(cluster_tier.Watcher(run.site, number, run.group).end)
            meeting.leave(where)
        yield meanwhile


def between(*actions):
    """Jobs with --scenes wait within each epoch, with batches on their way to them: there the next
    of @actions(run) happens, and then they go on."""
    def meanwhile(run, where, started):
        for number, action in enumerate(actions, 1):
            support.wait_until(
                lambda number=number: all(process.poll() is not None or
                                          meeting.between(where, process, number) for process in started),
                "scene %d" % number)
            action(run)
            meeting.go_on(where, number)
    return meanwhile


def helpers(some):
    """Of all nodes, whose names begin alike: [process of each]."""
    return [process for number in range(some.count)
            for name in ("tsshim-peer", "tsshim-peer-test") for process in some.programs(number, name)]


def await_helpers(some):
    """The same, of each node one: who asks goes on without, while it is being started."""
    support.wait_until(lambda: len(helpers(some)) == some.count, "a helper on each node")
    return helpers(some)
