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
LINE_MAX = 4096
KINDS = ("pixels", "sample", "bytes", "device")
TALLIES = ("produced", "shared", "shared_bytes", "saved_seconds")
HEAD = {"tsshim_events": 1, "version": "0", "group": "", "node": "n", "t": 1.0}

# What each kind of line has, besides what only the last one of a job has.
MEMBERS = {
    None: {"tsshim_events", "t", "version", "group", "node"},
    "job": {"t", "e", "job", "pid", "began", "dataset", "mode", "align", "program"},
    "counts": {"t", "e", "job", "cpu_seconds", *KINDS},
    "reasons": None,
    "order": {"t", "e", "job", "order", "epoch", "behind"},
    "ring": {"t", "e", "capacity", "used"},
    "end": {"t", "e", "job"},
    "tier": {"t", "e", "helper", "errno", "samples"},
    "server": {"t", "e", "server", "state", "errno"},
}


def check(line):
    """@line is as docs/rooms/events.md has it."""
    kind = line.get("e")
    members = MEMBERS[kind]
    assert members is None or set(line) - {"final"} <= members, line
    assert isinstance(line["t"], float), line
    for name in KINDS:
        assert kind != "counts" or name not in line or list(line[name]) == list(TALLIES), line
    if kind == "reasons":
        assert all(isinstance(v, int) for k, v in line.items() if k not in ("t", "e", "job")), line


def parse(text):
    """The lines of a log, and the numbers of those that are damaged."""
    lines, damaged = [], []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        try:
            if not line.endswith("\n"):
                raise ValueError("torn")
            assert len(line.encode()) <= LINE_MAX, line
            lines.append(json.loads(line))
        except ValueError:
            damaged.append(number)
            continue
        check(lines[-1])
    return lines, damaged


def members(path, names):
    """First words of `path`'s files in /proc, where one of @names is the first."""
    with contextlib.suppress(OSError):
        with open(path, "rb") as line:
            words = line.read().split(b"\0")
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
        head = json.dumps({**HEAD, "group": self.group.name}, separators=(",", ":")) + "\n"
        ring = '{"t":2.0,"e":"ring","capacity":1,"used":1}\n'
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(head + ring * (size // len(ring)) + text)
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
        try:
            with open(self.path, encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_for(self, what, count=1):
        wait_until(lambda: self.text().count(what) >= count, what)

    def finish(self):
        """Let all jobs end well; the lines when nobody writes any more."""
        for job in self.jobs:
            output, errors = job.communicate(timeout=support.TIMEOUT)
            assert job.returncode == 0 and errors == "", (output, errors)
        self.jobs = []
        wait_until(lambda: not self.recorders(), "recorders end")
        return parse(self.text())


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


def last(lines, kind):
    """{process id: last line of that kind}; of a job each line says what it can."""
    found = {}
    for line in lines:
        if line.get("e") == kind:
            pid = int(line["job"].split(".")[0])
            found[pid] = {**found.get(pid, {}), **line} if kind == "job" else line
    return found


def same_as_statistics(lines, statistics):
    """The last lines of each job say what `tsrun stats --json` does, and each has one end."""
    counts, reasons = last(lines, "counts"), last(lines, "reasons")
    ends = collections.Counter(line["job"] for line in lines if line.get("e") == "end")
    assert len(statistics["jobs"]) > 0
    for job in statistics["jobs"]:
        pid = job["pid"]
        found = counts[pid]
        assert found["final"] and reasons[pid]["final"], (found, reasons[pid])
        for kind in KINDS:
            wanted = job[kind] if job[kind]["produced"] + job[kind]["shared"] else None
            assert found.get(kind) == wanted, (kind, found, job)
        passed = {k: v for k, v in job["passed"].items() if v}
        told = {k: v for k, v in reasons[pid].items() if k not in ("t", "e", "job", "final")}
        assert told == passed, (told, passed)
        assert job["events"] == {"state": "done", "error": None}, job
    assert sorted(int(name.split(".")[0]) for name in ends) == sorted(counts), (ends, counts)
    assert set(ends.values()) == {1}, ends
