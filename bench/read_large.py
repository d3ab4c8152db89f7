# SPDX-License-Identifier: MIT
"""Large files of slow storage, for the benchmark "read": copied by a stager in the background."""
import contextlib
import os
import statistics
import tempfile

import read_pairs
from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, row, without_bar

MIB = 1 << 20


class Large:
    """One large file of slow storage, and jobs that read it; @data is a read.Storage."""

    def __init__(self, data, size):
        self.data, self.bytes = data, size
        self.listings = {}

    @contextlib.contextmanager
    def mount(self, **settings):
        """The file as nobody has read it yet, in a directory of its own."""
        with tempfile.TemporaryDirectory(prefix="tsshim-large-",
                                         dir=self.data.setup.place.directory) as source:
            _write(os.path.join(source, "large"), self.bytes)
            with self.data.mounted.Mounted(source, age_s=3600, **settings) as storage:
                yield storage

    @contextlib.contextmanager
    def jobs(self, where, count, group=None):
        listing = self.data.setup.list_of([os.path.join(where, "large")])
        options = ["--stage", "shm", "--dataset", f"large={where}"] if group else ()
        started = [self.data.setup.place.start([self.data.reader, listing], group,
                                               options=options) for _ in range(count)]
        for job in started:
            job.line(0)
        yield started
        self.data.setup.place.end(started)
        if group:
            self.data.setup.place.forget(group)

    def epoch(self, jobs):
        """Each job reads the file from front to end. Seconds until the last was done."""
        answers = ask_all(jobs, "sum 0 1 0")
        if any(answer["bytes"] != self.bytes for answer in answers) or \
                len({answer["sum"] for answer in answers}) != 1:
            raise tsjobs.JobError("read: jobs read different bytes of a large file")
        return max(answer["wall_ns"] for answer in answers) / 1e9


def _write(path, size):
    """Bytes that repeat no sooner than a megabyte and a bit."""
    block = os.urandom(MIB + 4096)
    with open(path, "wb") as file:
        left = size
        while left:
            left -= file.write(block[:min(left, len(block))])


def first(large, count, latency_us):
    """
    The first pass of @count jobs: seconds without staging and with, bytes that reached the
    storage until the copy was complete, and in a second pass, relative to those of the file.
    """
    found = {}
    for kind in ("without", "with"):
        group = large.data.group() if kind == "with" else None
        with large.mount(latency_us=latency_us) as storage, \
                large.jobs(storage.path, count, group) as jobs:
            found[kind] = large.epoch(jobs)
            if group:
                read_pairs.wait_for_copy(group)
                found["bytes"] = storage.counts()["bytes_read"] / large.bytes
                storage.reset()
                large.epoch(jobs)
                found["again"] = storage.counts()["bytes_read"] / large.bytes
    return found


def _local_rows(whole, fronts, shard, jumps):
    """The staged file beside local ones, and these beside each other."""
    whole, shard = whole.bytes // MIB, shard.bytes // MIB
    closes = [(read_pairs.open_to_close(one), one["in_step"]) for one in fronts]
    turns = [(answers, one["in_step"]) for one in jumps for answers in one["jumps"]]
    return [
        row("read-large", f"{whole} MiB, open to close: staged / local memory", 1.05,
            [read_pairs.staged_to_local(*one) for one in closes]),
        without_bar("read-large-oracle", "the same, one local file / another",
                    [read_pairs.local_to_local(one[0]) for one in closes]),
        row("read-large-itself", "the same, staged / that copy opened by its own name", 1.05,
            [one["itself"][0]["ns"] / one["itself"][1]["ns"] for one in fronts]),
        row("read-jumps", f"4 KiB anywhere in {shard} MiB: staged / local memory", 1.05,
            [read_pairs.staged_to_local(*one) for one in turns]),
        without_bar("read-jumps-oracle", "the same, one local file / another",
                    [read_pairs.local_to_local(one[0]) for one in turns]),
    ]


def _local_notes(fronts, jumps):
    middle = statistics.median
    staged = middle(read_pairs.staged_to_local(one["front"], one["in_step"], "cpu_ns")
                    for one in fronts)
    local = middle(read_pairs.local_to_local(one["front"], "cpu_ns") for one in fronts)
    front = middle(one["front"][read_pairs.FIRST]["ns"] / 1e6 for one in fronts)
    jump = middle(answers[read_pairs.FIRST]["ns"] / 1e3 for one in jumps
                  for answers in one["jumps"])
    opened = [middle(one["open"][number]["ns"] / 1e3 for one in fronts)
              for number in (read_pairs.STAGED, read_pairs.FIRST)]
    return [
        "A staged large file and two local ones, written in step with the copy so that the "
        "kernel gives all of them pages of the same kind, are read in turn by one process; how "
        "the local ones compare says how exact that is. In CPU time of all passes the ratios "
        f"are {staged:.3f} and {local:.3f}. A local file takes {front:.0f} ms from front to end, "
        f"a jump {jump:.2f} us.",
        f"Opening and closing the staged file takes {opened[0]:.1f} us, of a local one "
        f"{opened[1]:.1f} us.",
    ]


def measure(data, quick, latency_us):
    """(rows, notes, raw figures)."""
    whole = Large(data, 64 * MIB if quick else read_pairs.size_that_fits(1024 * MIB))
    shard = Large(data, 64 * MIB if quick else read_pairs.size_that_fits(4096 * MIB))
    passes = Large(data, (64 if quick else 256) * MIB)
    rounds = 1 if quick else 5
    jobs = data.setup.jobs
    alone = [first(passes, 1, latency_us) for _ in range(rounds)]
    many = [first(passes, jobs, latency_us) for _ in range(rounds)]
    fronts = read_pairs.front(whole, 2 if quick else 8)
    jumps = read_pairs.jumps(shard, 1 if quick else 4)

    def faster(passed):
        return [one["without"] / one["with"] for one in passed]

    rows = [
        *_local_rows(whole, fronts, shard, jumps),
        row("read-large-alone",
            f"{passes.bytes // MIB} MiB, first pass at 2 ms: one job, speed / plain", 1,
            faster(alone), below=False),
        row("read-large-first", f"the same, {jobs} jobs", 1, faster(many), below=False),
        row("read-large-again", f"bytes fetched by a second pass, {jobs} jobs", 0,
            [one["again"] for one in many]),
    ]
    notes = [
        f"While {jobs} jobs read a large file and a stager copies it, the storage is asked for "
        f"{max(one['bytes'] for one in many):.3f} times its bytes at most, for one job "
        f"{max(one['bytes'] for one in alone):.3f} times: they share the pages of the kernel.",
        *_local_notes(fronts, jumps)]
    raw = {"alone": alone, "many": many, "fronts": fronts, "jumps": jumps,
           "mib": {"whole": whole.bytes // MIB, "shard": shard.bytes // MIB,
                   "passes": passes.bytes // MIB}}
    return rows, notes, raw
