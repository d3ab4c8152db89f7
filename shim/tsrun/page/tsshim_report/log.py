# SPDX-License-Identifier: MIT
"""Reading event logs: what `tsrun top -b --json` prints, a sample of a group in each line.

Anybody may have written there, and a line may be cut off, so each is checked; one that does not
pass is noted by its number and left out.
"""

import json
import math
import unicodedata

FORMAT = 2
LINE_BYTES = 1 << 20  # far more than a line of as many jobs as there can be
KINDS = ("sample", "pixels", "device", "bytes")
MODES = ("default", "aligned", "free")
TALLY = ("produced", "shared", "shared_bytes")
COUNT_MAX = 1 << 64
SECONDS_MAX = 1e12
TEXT_MAX = 160
REASONS_MAX = 256  # far more than there are
JOBS_MAX = 4096
STEP_BACK = 1.0  # seconds: less is two writers who looked at the clock at one time


class Wrong(ValueError):
    """What is wrong with a line, for people."""


class Source:
    """What one group wrote on one node."""

    def __init__(self, group, node):
        self.group, self.node = group, node
        self.versions = []
        self.samples = []  # (time, seconds until the next one is due), in the order of time
        self.ring = []  # (time, capacity, used)

    def name(self):
        return "%s@%s" % (self.group, self.node)

    def times(self):
        return [when for when, _ in self.samples]


class Job:
    """What one job had counted by when; lists are in the order of time."""

    def __init__(self, source, identity):
        self.source, self.identity = source, identity
        self.pid = self.began = self.dataset = self.mode = self.program = self.align = None
        self.counts = []  # (time, {kind: (produced, shared, shared_bytes, saved)}, CPU or None)
        self.passed = {}  # {reason: how often}, at the end of what is known
        self.late = []  # (time, how often it had waited in vain)
        self.order = []  # (time, epoch, behind)
        self.ended = None

    def times(self):
        """Of the first and the last that is known of it."""
        of_all = [self.counts[0][0], self.counts[-1][0], self.began, self.ended]
        known = [when for when in of_all if when is not None]
        return min(known), max(known)


class Log:
    """All that was read, of one file or more."""

    def __init__(self):
        self.sources, self.jobs = {}, {}
        self.notes = []  # (file, line, what is wrong with it)
        self.foreign = 0  # files with lines in formats that are not known here

    def note(self, name, line, what):
        self.notes.append((name, line, what))

    def all_jobs(self):
        """In the order in which they began."""
        return sorted(self.jobs.values(), key=lambda job: (job.times()[0], job.identity))


# ---- values --------------------------------------------------------------------------------


def text(value):
    """A name that does nothing but stand there; None where it is none."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise Wrong("a name that is no text")
    shown = "".join("\ufffd" if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029" else c
                    for c in value[:TEXT_MAX])
    return shown + ("…" if len(value) > TEXT_MAX else "")


def count(value):
    if type(value) is not int or not 0 <= value < COUNT_MAX:
        raise Wrong("a count that is none")
    return value


def seconds(value):
    if type(value) not in (int, float) or not math.isfinite(value) or \
            not 0 <= value < SECONDS_MAX:
        raise Wrong("a time that is none")
    return float(value)


def no_constant(word):
    raise Wrong("not JSON: %s" % word)


def parse(line):
    """The object in the bytes @line."""
    if len(line) > LINE_BYTES:
        raise Wrong("longer than %d bytes" % LINE_BYTES)
    try:
        row = json.loads(line.decode("utf-8"), parse_constant=no_constant)
    except Wrong:
        raise
    except (ValueError, RecursionError):
        raise Wrong("cut off, or not JSON") from None
    if not isinstance(row, dict):
        raise Wrong("no JSON object")
    return row


def maybe(read, value):
    return None if value is None else read(value)


def members(value):
    if not isinstance(value, dict):
        raise Wrong("counts that are none")
    return value


# ---- lines ---------------------------------------------------------------------------------


def tally(row):
    saved = seconds(members(row).get("saved_seconds", 0))
    return tuple(count(row.get(key, 0)) for key in TALLY) + (saved,)


class Counted:
    """What a line says of a job."""

    def __init__(self, row):
        self.identity = members(row).get("job")
        if not isinstance(self.identity, str) or not 0 < len(self.identity) <= 64:
            raise Wrong("of no job")
        self.known = {key: maybe(read, row.get(key)) for key, read in (
            ("pid", count), ("began", seconds), ("ended", seconds), ("align", count),
            ("dataset", text), ("program", text), ("mode", text))}
        if self.known["mode"] not in (None, *MODES):
            raise Wrong("an unknown mode")
        self.kinds = {kind: tally(row[kind]) for kind in KINDS if kind in row}
        self.cpu = maybe(seconds, row.get("cpu_seconds"))
        self.passed = {text(key): count(value)
                       for key, value in members(row.get("passed", {})).items()}
        if len(self.passed) > REASONS_MAX:
            raise Wrong("more reasons than there are")
        self.place = None
        if "epoch" in row:
            self.place = seconds(row["epoch"]), seconds(row.get("behind", 0))

    def add_to(self, job, when):
        """Counters only grow; one that is not written is what it was."""
        for key, value in self.known.items():
            if value is not None:
                setattr(job, key, value)
        latest, before, cpu = job.counts[-1] if job.counts else (0.0, {}, None)
        if job.ended is not None:  # that it was over was seen a moment later, or is said again
            when = min(when, max(job.ended, latest))
        kinds = {**before, **self.kinds}
        for kind, old in before.items():
            kinds[kind] = tuple(map(max, old, kinds[kind]))
        cpu = cpu if self.cpu is None else max(self.cpu, cpu or 0.0)
        job.counts.append((when, kinds, cpu))
        for key, value in self.passed.items():
            if key in job.passed or len(job.passed) < REASONS_MAX:
                job.passed[key] = max(value, job.passed.get(key, 0))
        job.late.append((when, job.passed.get("timeout", 0)))
        if self.place:
            job.order.append((when, *self.place))


class File:
    """One file while it is read: what its clock did, and whether its lines are ours."""

    def __init__(self, log, name):
        self.log, self.name = log, name
        self.skips = False  # behind a line of another format
        self.number = 0
        self.latest = None  # time of the latest line, as it is written
        self.offset = 0.0  # what the clock was put back by meanwhile

    def take(self, line):
        row = parse(line)
        is_ours = row.get("tsshim_events") == FORMAT
        if self.skips and not is_ours:
            return
        self.skips = not is_ours and "tsshim_events" in row
        if self.skips:
            self.log.foreign += 1
            raise Wrong("format %s of the log, and only %d is known here; what follows is left out"
                        % (text(str(row["tsshim_events"])[:20]), FORMAT))
        if not is_ours:
            raise Wrong("no line of an event log")
        self.take_sample(row)

    def time(self, row):
        """The time of @row; a clock that was put back goes on from where it was."""
        when = seconds(row.get("t"))
        if self.latest is not None and when < self.latest:
            if self.latest - when > STEP_BACK:
                self.offset += self.latest - when
                self.log.note(self.name, self.number, "the clock was put back by %d s"
                              % round(self.latest - when))
                self.latest = when
            return self.latest + self.offset
        self.latest = when
        return when + self.offset

    def take_sample(self, row):
        jobs = row.get("jobs")
        if not isinstance(jobs, list):
            raise Wrong("no jobs")
        jobs = [Counted(job) for job in jobs]
        ring = members(row.get("ring", {}))
        ring = (count(ring.get("capacity")), count(ring.get("used"))) if ring else None
        every, version = seconds(row.get("every")), text(row.get("version"))
        key = text(row.get("group")) or "?", text(row.get("node")) or "?"
        when = self.time(row)
        source = self.log.sources.setdefault(key, Source(*key))
        source.samples.append((when, every))
        if ring:
            source.ring.append((when, *ring))
        if version and version not in source.versions:
            source.versions.append(version)
        for counted in jobs:
            of = source, counted.identity
            if len(self.log.jobs) >= JOBS_MAX and of not in self.log.jobs:
                raise Wrong("of more than %d jobs" % JOBS_MAX)
            counted.add_to(self.log.jobs.setdefault(of, Job(*of)), when)


def read(log, name, stream):
    """Add what @stream, a binary file that people know as @name, has to @log."""
    file = File(log, name)
    while True:
        line = stream.readline(LINE_BYTES + 2)
        if not line:
            break
        whole = line
        while not whole.endswith(b"\n") and len(line) > LINE_BYTES:
            whole = stream.readline(1 << 20)
            if not whole:
                break
        file.number += 1
        try:
            if line.strip():
                file.take(line.rstrip(b"\r\n"))
        except Wrong as wrong:
            log.note(name, file.number, str(wrong))


def finish(log):
    """Bring what several files said of one group or job into the order of time."""
    for source in log.sources.values():
        source.samples.sort()
        source.ring.sort()
    for job in log.jobs.values():
        for rows in (job.counts, job.late, job.order):
            rows.sort(key=lambda row: row[0])
