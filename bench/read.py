# SPDX-License-Identifier: MIT
"""read: how often do K jobs fetch a file of slow storage, and how fast do they get it?

The storage is tests/storage/slowfs, a FUSE file system that counts what reaches it and answers
as late as it is told.  Its kernel half forgets a file's pages at each open, as FUSE file systems
do unless they ask for something else; where that is switched off a note tells what changes.
"""
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile

import read_large
import read_scan
from tsbench import jobs as tsjobs
from tsbench import native
from tsbench.setup import ask_all, row

AGE = 3600  # seconds: files that changed a moment ago are never staged
LATENCY_US = 2000
METADATA = 600  # seconds for which the group knows paths, in the rows that say so
ROUNDS = 5
FILES = 600


class Storage:
    """The photographs as files of slow storage, and jobs that read them."""

    def __init__(self, setup, files):
        self.setup, self.files = setup, files
        self.reader = native.program(setup.root, setup.native, "reader")
        sys.path.insert(0, os.path.join(setup.root, "tests", "storage"))
        os.environ["TSSHIM_TEST_SLOWFS"] = native.slowfs(setup.root, setup.native)
        import mounted
        self.mounted = mounted
        try:
            mounted.program()
        except mounted.Skip as error:
            raise tsjobs.Unavailable(f"slow storage: {error}") from None
        self.source, paths = setup.streams(files)
        self.names = [os.path.relpath(path, self.source) for path in paths]
        self.bytes = sum(os.path.getsize(path) for path in paths)
        self.groups, self.sum = 0, None

    @contextlib.contextmanager
    def mount(self, **settings):
        """The storage, as nobody has read it yet."""
        with self.mounted.Mounted(self.source, age_s=AGE, **settings) as storage:
            yield storage

    def group(self):
        self.groups += 1
        return self.setup.place.group(f"read-{self.groups}")

    @contextlib.contextmanager
    def jobs(self, where, count, group=None, size=None, metadata=0):
        """@count jobs that read the files below @where, with staging if there is a @group."""
        listing = self.setup.list_of([os.path.join(where, name) for name in self.names])
        options = ["--stage", "shm", "--dataset", f"photographs={where}"]
        if metadata:
            options += ["--stage-metadata", str(metadata)]
        if size is not None:
            options += ["--stage-size", str(size)]
        started = [self.setup.place.start([self.reader, listing], group,
                                          options=options if group else ())
                   for _ in range(count)]
        for job in started:
            job.line(0)
        yield started
        self.setup.place.end(started)
        if group:
            self.setup.place.forget(group)

    def epoch(self, jobs, number):
        """All files, by each job in an order of its own. Seconds until the last was done."""
        expected = [len(job.lines) for job in jobs]
        for place, job in enumerate(jobs):
            job.say(f"sum 0 {self.files} {1 + 7919 * (number * len(jobs) + place)}")
        answers = [json.loads(job.line(index)) for job, index in zip(jobs, expected)]
        if any(answer["bytes"] != self.bytes for answer in answers) or \
                len({answer["sum"] for answer in answers}) != 1:
            raise tsjobs.JobError("read: jobs read different bytes")
        self.sum = self.sum or answers[0]["sum"]
        if answers[0]["sum"] != self.sum:
            raise tsjobs.JobError("read: not the bytes of the epoch before")
        return max(answer["wall_ns"] for answer in answers) / 1e9


def _once(data, jobs):
    """Bytes that two epochs of @jobs jobs fetch, relative to those of the files."""
    with data.mount() as storage, data.jobs(storage.path, jobs, data.group()) as readers:
        found = []
        for number in range(2):
            storage.reset()
            data.epoch(readers, number)
            found.append(storage.counts()["bytes_read"] / data.bytes)
    return found


def _full(data, jobs):
    """Of the reads that could be served with room for half of the files, the share that was."""
    with data.mount() as storage, \
            data.jobs(storage.path, jobs, data.group(), data.bytes // 2) as readers:
        data.epoch(readers, 0)
        found = []
        for number in range(1, 4):
            storage.reset()
            data.epoch(readers, number)
            fetched = storage.counts()["bytes_read"] / jobs / data.bytes
            found.append((1 - fetched) / 0.5)
    return found


def _first(data, jobs, **settings):
    """Seconds of the first epoch: without staging, with it, and with known paths as well."""
    seconds = {}
    for kind in ("without", "with", "known"):
        group = data.group() if kind != "without" else None
        with data.mount(latency_us=LATENCY_US, **settings) as storage, \
                data.jobs(storage.path, jobs, group,
                          metadata=METADATA if kind == "known" else 0) as readers:
            seconds[kind] = data.epoch(readers, 0)
    return seconds


def _local(data):
    """Microseconds from open to close: a staged file, the same in local memory, and an open
    and close at the storage without reading."""
    place = "/dev/shm"
    with tempfile.TemporaryDirectory(prefix="tsshim-bench-", dir=place) as copy, \
            data.mount() as storage, data.jobs(storage.path, 1, data.group()) as staged, \
            data.jobs(storage.path, 1, data.group(), metadata=METADATA) as known:
        for name in data.names:
            target = os.path.join(copy, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(data.source, name), target)
        with data.jobs(copy, 1) as local, data.jobs(storage.path, 1) as plain:
            data.epoch(staged, 0)
            data.epoch(known, 0)
            found = []
            for number in range(1, 12):
                turns = [("staged", staged, "read"), ("local", local, "read"),
                         ("known", known, "read"), ("open", plain, "open")]
                one = {}
                for name, jobs, what in turns if number % 2 else turns[::-1]:
                    answer = ask_all(jobs, f"{what} 0 {data.files} {number}")[0]
                    one[name] = answer["wall_ns"] / data.files / 1000
                found.append(one)
    return found[1:]


def measure(setup):
    data = Storage(setup, 24 if setup.quick else FILES)
    rounds = 1 if setup.quick else ROUNDS
    jobs = setup.jobs
    once = [_once(data, jobs) for _ in range(rounds)]
    full = [share for _ in range(rounds) for share in _full(data, jobs)]
    first = {count: [_first(data, count) for _ in range(rounds)] for count in (jobs, 1)}
    kept = [_first(data, jobs, keep_cache=1) for _ in range(rounds)]
    local = _local(data)
    large = read_large.measure(data, setup.quick, LATENCY_US)
    scans = read_scan.measure(data, setup.quick, LATENCY_US)

    def faster(seconds, kind="with"):
        return [one["without"] / one[kind] for one in seconds]

    rows = [
        row("read-once", f"bytes fetched / bytes of the files, {jobs} jobs, first epoch", 1.01,
            [found[0] for found in once]),
        row("read-again", "the same, second epoch", 0, [found[1] for found in once]),
        row("read-full", "served / could be served, room for half of the files", 0.98, full,
            below=False),
        row("read-first", f"first epoch at 2 ms: {jobs} jobs with known paths, files/s / plain",
            3, faster(first[jobs], "known"), below=False),
        row("read-alone", "first epoch at 2 ms: one job, files/s / plain", 1, faster(first[1]),
            below=False),
        row("read-alone-known", "the same with known paths", 1, faster(first[1], "known"),
            below=False),
        row("read-local",
            "a staged file with a known path / the same in local memory, open to close", 1.05,
            [one["known"] / one["local"] for one in local]),
        *large[0],
        *scans[0],
    ]
    middle = {name: statistics.median(one[name] for one in local) for name in local[0]}
    notes = [
        f"A file of {data.bytes / data.files / 1000:.0f} KB from open to close: "
        f"{middle['local']:.0f} us in local memory, {middle['known']:.0f} us staged and its path "
        f"known, {middle['staged']:.0f} us staged. Opening and closing it at the storage, which only "
        f"known paths (--stage-metadata {METADATA}) save, takes {middle['open']:.0f} us there "
        "without any latency.",
        f"Without known paths the first epoch of {jobs} jobs is "
        f"{statistics.median(faster(first[jobs])):.2f} times as fast as without staging: every "
        "job opens every file itself.",
        f"With page cache kept at the storage the first epoch of {jobs} jobs is "
        f"{statistics.median(faster(kept)):.2f} times as fast with staging as without.",
        *large[1], *scans[1]]
    return {"title": "Read once", "rows": rows, "notes": notes,
            "raw": {"once": once, "full": full, "first": {str(k): v for k, v in first.items()},
                    "kept": kept, "local": local, "large": large[2], "scans": scans[2]},
            "settings": setup.settings(jobs=jobs, files=data.files, bytes=data.bytes,
                                       latency_us=LATENCY_US, rounds=rounds)}
