# SPDX-License-Identifier: MIT
"""What the tests of the event log (--events) have in common: jobs with one, and how it is read."""

import collections
import contextlib
import json
import os
import shutil
import subprocess
import tempfile

import support
from support import HERE, LIBRARY, PYTHON, Group, wait_until

JOB = os.path.join(HERE, "events_job.py")
KINDS = ("pixels", "sample", "bytes", "device")
TALLIES = ["produced", "shared", "shared_bytes", "saved_seconds"]

# What a line has, and what it has of a job; of the others what there is.
LINE = {"tsshim_events", "t", "every", "version", "group", "node", "jobs"}
JOB_ALWAYS = {"job", "pid", "began", "ended", "dataset", "mode", "align", "program", "processes",
              "cpu_seconds", "passed"}
JOB_MORE = {*KINDS, "order", "epoch", "behind"}


def once():
    """A command that decodes a picture."""
    return [PYTHON, "-c", "from PIL import Image; Image.open(%r).load()" % support.pictures("s_4")[0]]


def check(line):
    """@line is as docs/rooms/events.md has it."""
    assert LINE <= set(line) <= LINE | {"ring", "nodes"}, line
    assert line["tsshim_events"] == 2 and isinstance(line["t"], float), line
    for job in line["jobs"]:
        assert JOB_ALWAYS <= set(job) <= JOB_ALWAYS | JOB_MORE, job
        assert all(list(job[kind]) == TALLIES for kind in KINDS if kind in job), job
        assert all(isinstance(value, int) for value in job["passed"].values()), job


def parse(text):
    """The lines of a log, and the numbers of those that are damaged."""
    lines, damaged = [], []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        try:
            if not line.endswith("\n"):
                raise ValueError("torn")
            lines.append(json.loads(line))
        except ValueError:
            damaged.append(number)
            continue
        check(lines[-1])
    return lines, damaged


def last(lines):
    """{process id: what the last line with that job says of it}."""
    return {job["pid"]: job for line in lines for job in line["jobs"]}


def members(path, names):
    """First words of `path`'s files in /proc, where one of @names is the first."""
    with contextlib.suppress(OSError):
        words = support.read(path, "rb").split(b"\0")
        return words if words[0] in names else None


class Log:
    """A group of jobs with an event log of its own, in a directory of its own."""

    def __init__(self, library=LIBRARY, **settings):
        self.group = Group(library, **settings)
        self.jobs = []

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="tsshim-events-")
        self.path = os.path.join(self.directory, "log")
        self.group.__enter__()
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            job.kill()
            job.communicate()
        wait_until(lambda: not self.recorders(), "recorders end")
        self.group.__exit__()
        shutil.rmtree(self.directory)

    def job(self, *options, command=None, **more):
        """A job that does what tell() says."""
        env = self.group.environment(**{"TSSHIM_EVENTS": self.path, **more})
        command = command or [PYTHON, JOB, *support.pictures("s_4")[:2]]
        job = subprocess.Popen([*options, *command], env=env, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.jobs.append(job)
        return job

    def begin(self, size, text=""):
        """A log of some @size that is there before."""
        line = json.dumps({"tsshim_events": 2, "t": 2.0, "every": 1.0, "version": "0",
                           "group": self.group.name, "node": "n", "jobs": []},
                          separators=(",", ":")) + "\n"
        support.write(self.path, line * (1 + size // len(line)) + text)
        os.chmod(self.path, 0o600)

    def recorders(self):
        """{process id: words} of the recorders of this group; a zombie has none."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            words = members("/proc/%s/cmdline" % pid, [b"tsshim-recorder"])
            if words and words[1] == self.group.name.encode():
                found[int(pid)] = words
        return found

    def states(self):
        return {job["pid"]: job["events"]["state"] for job in self.group.statistics()["jobs"]}

    def text(self):
        return support.read(self.path) if os.path.exists(self.path) else ""

    def wait_for(self, *jobs, lines=0):
        """Until there are more than so many @lines, and one of these has all @jobs, counted."""
        wanted = {job.pid for job in jobs}

        def is_there():
            found = parse(self.text())[0][lines:]
            return found and wanted <= {pid for pid, job in last(found).items()
                                        if any(kind in job for kind in KINDS)}
        wait_until(is_there, "lines of %s" % wanted)

    def logged(self, count=1):
        """So many jobs that have decoded, which the log says."""
        jobs = [self.job() for _ in range(count)]
        for job in jobs:
            tell(job, "decode")
        self.wait_for(*jobs)
        return jobs

    def wait_for_the_end(self):
        """The lines when nobody writes any more."""
        wait_until(lambda: not self.recorders(), "recorders end")
        return parse(self.text())

    def finish(self):
        """Let all jobs end well; the lines when nobody writes any more."""
        for job in self.jobs:
            output, errors = job.communicate(timeout=support.TIMEOUT)
            assert job.returncode == 0 and errors == "", (output, errors)
        self.jobs = []
        return self.wait_for_the_end()

    def check(self):
        """Let all jobs end well; the lines, which are whole and what the statistics say."""
        lines, damaged = self.finish()
        assert damaged == [], damaged
        same_as_statistics(lines, self.group.statistics())
        return lines


def tell(job, *words):
    """Let @job do that; its answers."""
    answers = []
    for word in words:
        job.stdin.write(word + "\n")
        job.stdin.flush()
        if word != "exec":
            answers.append(job.stdout.readline().rstrip("\n").split(": ", 1))
            assert answers[-1][0] == word, (answers, job.poll())
    return [answer[1] for answer in answers]


def same_as_statistics(lines, statistics):
    """The last line of each job says what `tsrun stats --json` does, and that it is over."""
    ends = collections.Counter(job["job"] for line in lines for job in line["jobs"] if job["ended"])
    found = last(lines)
    assert len(statistics["jobs"]) > 0
    for job in statistics["jobs"]:
        told = found[job["pid"]]
        assert told["began"] <= told["ended"], told
        for kind in KINDS:
            wanted = job[kind] if job[kind]["produced"] + job[kind]["shared"] else None
            assert told.get(kind) == wanted, (kind, told, job)
        assert told["passed"] == {k: v for k, v in job["passed"].items() if v}, (told, job)
        assert job["events"] == {"state": "done", "error": None}, job
    assert sorted(job["job"] for job in found.values()) == sorted(ends), (ends, found)
    assert set(ends.values()) == {1}, ends
