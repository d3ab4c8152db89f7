# SPDX-License-Identifier: MIT
"""Reading event logs.

One file is JSON lines: a head (the format, whose group and node), then what jobs had counted by
a time.  Anybody may have written there, and a line may be cut off, so each is checked; one that
does not pass is noted by its number and left out.
"""

import json
import math
import unicodedata

FORMAT = 1
LINE_BYTES = 4096
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
        self.times = []  # of all lines, in the order of time
        self.heads = set()  # those of a writer that begins
        self.ring = []  # (time, capacity, used)

    def name(self):
        return "%s@%s" % (self.group, self.node)


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
        of_all = [rows[at][0] for rows in (self.counts, self.late, self.order) if rows
                  for at in (0, -1)]
        of_all += [t for t in (self.began, self.ended) if t is not None]
        return (min(of_all), max(of_all)) if of_all else None


class Log:
    """All that was read, of one file or more."""

    def __init__(self):
        self.sources, self.jobs = {}, {}
        self.notes = []  # (file, line, what is wrong with it)
        self.foreign = 0  # heads of formats that are not known here

    def note(self, name, line, what):
        self.notes.append((name, line, what))

    def all_jobs(self):
        """Those of which anything was counted, in the order in which they began."""
        known = [job for job in self.jobs.values() if job.times()]
        return sorted(known, key=lambda job: (job.times()[0], job.identity))


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


# ---- lines ---------------------------------------------------------------------------------


def take_job(job, row, when):
    if "pid" in row:
        job.pid = count(row["pid"])
    if row.get("began") is not None:
        job.began = seconds(row["began"])
    mode = row.get("mode")
    if mode is not None and mode not in MODES:
        raise Wrong("an unknown mode")
    job.mode = mode or job.mode
    job.dataset = text(row.get("dataset")) or job.dataset
    job.program = text(row.get("program")) or job.program
    if row.get("align") is not None:
        job.align = count(row["align"])


def tally(row):
    if not isinstance(row, dict):
        raise Wrong("counts that are none")
    saved = seconds(row.get("saved_seconds", 0))
    return tuple(count(row.get(key, 0)) for key in TALLY) + (saved,)


def take_counts(job, row, when):
    kinds = {kind: tally(row[kind]) for kind in KINDS if kind in row}
    cpu = row.get("cpu_seconds")
    if job.counts:  # counters only grow; one that is not written is what it was
        _, before, cpu_before = job.counts[-1]
        for kind, old in before.items():
            kinds[kind] = tuple(map(max, old, kinds.get(kind, old)))
        cpu = cpu_before if cpu is None else max(seconds(cpu), cpu_before or 0.0)
    job.counts.append((when, kinds, None if cpu is None else seconds(cpu)))


def take_reasons(job, row, when):
    found = {text(key): count(value) for key, value in row.items()
             if key not in ("t", "e", "job", "final")}
    if len(job.passed.keys() | found.keys()) > REASONS_MAX:
        raise Wrong("more reasons than there are")
    for key, value in found.items():
        job.passed[key] = max(value, job.passed.get(key, 0))
    job.late.append((when, job.passed.get("timeout", 0)))


def take_order(job, row, when):
    job.order.append((when, seconds(row.get("epoch")), seconds(row.get("behind", 0))))


def take_end(job, row, when):
    job.ended = when


TAKERS = {"job": take_job, "counts": take_counts, "reasons": take_reasons, "order": take_order,
          "end": take_end}


class File:
    """One file while it is read: whose lines these are, and what its clock did."""

    def __init__(self, log, name):
        self.log, self.name = log, name
        self.source = None
        self.skips = False  # below a head of another format
        self.number = 0
        self.latest = None  # time of the latest line, as it is written
        self.offset = 0.0  # what the clock was put back by meanwhile

    def take(self, line):
        row = parse(line)
        if "tsshim_events" in row:
            self.take_head(row)
        elif not self.skips:
            self.take_event(row)

    def take_head(self, row):
        if row["tsshim_events"] != FORMAT:
            self.skips = True
            self.log.foreign += 1
            raise Wrong("format %s of the log, and only %d is known here; what follows is left out"
                        % (text(str(row["tsshim_events"])[:20]), FORMAT))
        self.skips = False
        key = text(row.get("group")) or "?", text(row.get("node")) or "?"
        self.source = self.log.sources.setdefault(key, Source(*key))
        version = text(row.get("version"))
        if version and version not in self.source.versions:
            self.source.versions.append(version)
        when = self.time(row)
        self.source.times.append(when)
        self.source.heads.add(when)

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

    def take_event(self, row):
        kind, identity = row.get("e"), row.get("job")
        if kind != "ring" and kind not in TAKERS:
            return  # of a newer version
        if not self.source:
            self.source = self.log.sources.setdefault(("?", "?"), Source("?", "?"))
        when = self.time(row)
        if kind == "ring":
            self.source.ring.append((when, count(row.get("capacity")), count(row.get("used"))))
        else:
            if not isinstance(identity, str) or not 0 < len(identity) <= 64:
                raise Wrong("of no job")
            key = self.source, identity
            job = self.log.jobs.get(key) or Job(*key)
            if len(self.log.jobs) >= JOBS_MAX and key not in self.log.jobs:
                raise Wrong("of more than %d jobs" % JOBS_MAX)
            TAKERS[kind](job, row, when)
            self.log.jobs[key] = job
        self.source.times.append(when)


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
        source.times.sort()
        source.ring.sort()
    for job in log.jobs.values():
        for rows in (job.counts, job.late, job.order):
            rows.sort(key=lambda row: row[0])
