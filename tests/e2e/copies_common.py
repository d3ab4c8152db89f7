# SPDX-License-Identifier: MIT
"""Jobs that have one GPU of software, and what reached its driver."""

import os
import re
import struct
import tempfile
import time

from support import BUILD, TEST_LIBRARY, Group, finish, start

DRIVER = os.path.join(BUILD, "tests", "fakecuda")
JOBS = os.path.join(BUILD, "tests", "cuda", "jobs")
LIMIT = 120  # seconds: nothing here takes a tenth of it


class Gpu:
    """A group whose jobs have one GPU of software, with what reached its driver."""

    def __init__(self, model=False, **more):
        self.group = Group(library=TEST_LIBRARY, TSSHIM_RING="64M")
        self.more = {"LD_LIBRARY_PATH": DRIVER, "TSSHIM_COPIES": "on", **more}
        if not model:  # that says whether sharing pays
            self.more["TSSHIM_TEST_COPIES_ALWAYS"] = "1"

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.directory.name, "counters")
        self.more["FAKECUDA_COUNTERS"] = self.file
        self.group.__enter__()
        return self

    def __exit__(self, *what):
        self.group.gc()
        self.group.__exit__(*what)
        self.directory.cleanup()

    def start(self, schedule, steps, *words, pass_fds=(), **more):
        """A job that brings the batches of data set 1."""
        env = self.group.environment(**{**self.more, **more})
        return start([JOBS, "1", str(schedule), str(steps), *words], env, pass_fds=pass_fds)

    def begin(self, jobs, steps, *words, late=0, pass_fds=()):
        """So many jobs that begin at once, or each @late us after the one before it, or one for
        each of @late, so many us late."""
        gate, opener = os.pipe()
        ready, told = os.pipe()
        words = [*words, "gate=%d" % gate, "ready=%d" % told]
        delays = late if isinstance(late, list) else [i * late for i in range(jobs)]
        assert len(delays) == jobs, (jobs, late)
        started = [self.start(1 + i, steps, *words, "late=%d" % us,
                              pass_fds=(gate, told, *pass_fds))
                   for i, us in enumerate(delays)]
        os.close(told)
        for _ in started:
            os.read(ready, 1)
        for end in (opener, gate, ready):
            os.close(end)
        return started

    def run(self, jobs, steps, *words, late=0):
        """Such jobs, with so many batches each; all must have read back what they brought.  What
        well() says of each."""
        return [well(job, steps) for job in self.begin(jobs, steps, *words, late=late)]

    def run_until(self, holds, jobs, *words, late=0):
        """Such jobs, which go on until @holds(counters of the driver); all must have read back what
        they brought.  How many batches that were."""
        then = Until()
        started = self.begin(jobs, 1, *words, then.word, late=late, pass_fds=then.fds)
        return then.end(started, self, holds)

    def trainers_until(self, holds, commands, env=({}, {})):
        """Outcomes of trainers (tests/victims) that bring others until @holds(counters) as well."""
        warm = os.path.join(self.directory.name, "warm")
        started = [start([*command, "--warm", warm], self.group.environment(**self.more, **more))
                   for command, more in zip(commands, env)]
        seen = until(lambda: holds(self.counters_now()))
        open(warm, "w").close()
        outcomes = [finish(job) for job in started]
        assert seen, self.counters()
        return outcomes

    def taken(self):
        """So many copies were taken from a ring."""
        return sum(row.get("kinds", row)["device"]["shared"]
                   for row in self.group.statistics().get("datasets", []))

    def counters(self):
        """{name: count} of the driver."""
        return counters_of(self.file)

    def counters_now(self):
        """The same, of jobs that may not have begun yet."""
        return self.counters() if os.path.exists(self.file) else {}

    @staticmethod
    def brought(counters):
        """Copies of batches; those of one byte are ours, and ask whether a call is allowed."""
        return counters["h2d_copies"] - counters["h2d_of_one"]

    def safe(self):
        """Nothing was read from memory that its owner had freed, nor used after its end; and none
        was freed while another process had it mapped."""
        counters = self.counters()
        assert counters["poisoned_reads"] == 0 and counters["late_uses"] == 0, counters
        assert counters["freed_while_open"] == 0, counters
        return counters


class Until:
    """A pipe until whose end jobs go on, which are started with .word and .fds."""

    def __init__(self):
        self.theirs, self.ours = os.pipe()
        self.word, self.fds = "until=%d" % self.theirs, (self.theirs,)

    def close(self):
        os.close(self.theirs)
        os.close(self.ours)

    def end(self, jobs, gpu=None, holds=None, each=None):
        """End it, of a @gpu when @holds(counters of the driver).  How many batches the jobs have
        brought, or a list of what @each(job) says."""
        seen = not holds or until(lambda: holds(gpu.counters_now()))
        self.close()
        found = [(each or batches_of)(job) for job in jobs]
        assert seen, (gpu.counters(), found)
        return found if each else sum(found)


def counters_of(path):
    """{name: count} in a file of the driver's."""
    data = open(path, "rb").read()
    rows = [data[i:i + 64] for i in range(0, len(data), 64)]
    return {row[:56].rstrip(b"\0").decode(): struct.unpack("<Q", row[56:])[0] for row in rows}


def state_of(pid):
    """The letter of proc(5)."""
    return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[0]


def outcome_of(job):
    outcome = finish(job)
    found = re.search(r"equal: (\d+) batches\n~longest (\d+) us\n(?:~slow (\d+))?",
                      outcome.output)
    assert outcome.status == 0 and found, (
        job.args, outcome.status, outcome.output[-500:], outcome.errors[-500:])
    return [int(word or 0) for word in found.groups()]


def batches_of(job):
    """Wait for a job; how many batches it has brought."""
    return outcome_of(job)[0]


def well(job, steps):
    """Wait for a job; its longest call in seconds, and how many were longer than 20 ms."""
    batches, longest, slow = outcome_of(job)
    assert batches == steps, (job.args, batches, steps)
    return longest / 1e6, slow


def until(holds, seconds=LIMIT):
    """Whether @holds() comes true in that time, which is only a guard against hanging."""
    deadline = time.monotonic() + seconds
    pause = .01
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        # Who asks `tsrun stats` without a break takes the time of those that are waited for.
        pause = min(1.2 * pause, .1)
    return True
