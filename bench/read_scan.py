# SPDX-License-Identifier: MIT
"""Looking through a tree of many files, for the benchmark "read": names and attributes only."""
import collections
import os
import statistics
import tempfile
import time

from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, without_bar

# Of the storage: what a data set asks for while it is made.
ASKED = ("opendir", "readdir", "lookup", "getattr")

# Seconds after which the kernel asks again: slowfs allows it one.
FORGOTTEN = 1.2

# Options of the jobs; None: without tsshim.
KINDS = {"plain": None, "staged": ["--stage", "auto"],
         "known": ["--stage", "auto", "--stage-metadata", "600"]}

# Some storage tells attributes with the names (NFS does), some does not (object stores).
Case = collections.namedtuple("Case", "name how title directories files settings")
CASES = (Case("stat", "stat", "os.scandir and stat", 10, 500, {"readdirplus": 0}),
         Case("stat-plus", "stat", "os.scandir and stat, attributes told with the names", 10, 500, {}),
         Case("folder", "folder", "ImageFolder", 200, 25, {}))


def _make_tree(root, directories, files):
    for directory in range(directories):
        place = os.path.join(root, f"class{directory:03}")
        os.makedirs(place)
        for number in range(files):
            with open(os.path.join(place, f"{number:05}.jpg"), "wb") as file:
                file.write(bytes(100 + number))


def _scan(data, source, kind, case, latency_us):
    """
    @data's number of jobs look through the tree at once, then as many others that know nothing
    of their own.  Of both: seconds until the last was done, requests for each job.
    """
    setup = data.setup
    group = data.group() if KINDS[kind] else None
    script = os.path.join(setup.root, "bench", "workloads", "scan.py")
    with data.mounted.Mounted(source, age_s=3600, latency_us=latency_us,
                                     **case.settings) as storage:
        options = [*(KINDS[kind] or ()), "--dataset", f"tree={storage.path}"]
        jobs = [setup.place.start([setup.python, script, storage.path, case.how], group,
                                  options=options) for _ in range(2 * setup.jobs)]
        for job in jobs:
            job.line(0)
        found = {}
        for turn, some in (("first", jobs[::2]), ("later", jobs[1::2])):
            time.sleep(FORGOTTEN)
            storage.reset()
            answers = ask_all(some, "scan")
            requests = storage.counts()["requests"]
            found[turn] = {
                "seconds": max(answer["wall_ns"] for answer in answers) / 1e9,
                "requests": {name: requests[name] / len(some) for name in ASKED},
                "sums": sorted({answer["sum"] for answer in answers}),
                "files": answers[0]["files"]}
        setup.place.end(jobs)
    if group:
        setup.place.forget(group)
    return found


def _check(found, files):
    turns = [one[turn] for one in found for turn in ("first", "later")]
    if len({tuple(turn["sums"]) for turn in turns}) != 1 or len(turns[0]["sums"]) != 1 or \
            any(turn["files"] != files for turn in turns):
        raise tsjobs.JobError("read: jobs found different trees")


def _note(case, found, jobs):
    def middle(kind, turn, pick):
        return statistics.median(pick(one[turn]) for one in found[kind])

    words = []
    for kind, title in (("plain", "plain"), ("staged", "staged"), ("known", "with known paths")):
        turns = []
        for turn in ("first", "later"):
            asked = sum(middle(kind, turn, lambda t: t["requests"][name]) for name in ASKED)
            parts = [f"{middle(kind, turn, lambda t: t['requests'][name]):.0f} {name}"
                     for name in ASKED]
            seconds = middle(kind, turn, lambda t: t["seconds"])
            turns.append(f"{seconds:.2f} s, {asked:.0f} ({', '.join(parts)})")
        words.append(f"{title} {turns[0]}, then {turns[1]}")
    return (f"{case.directories} directories with {case.files} files each, {case.title}: seconds "
            f"until the last of {jobs} jobs that begin at once is done, and then of {jobs} others, "
            "and requests of each to the storage: " + "; ".join(words) + ".")


def _rows(case, found):
    def faster(kind, turn):
        return [plain[turn]["seconds"] / one[turn]["seconds"]
                for plain, one in zip(found["plain"], found[kind])]

    files = case.directories * case.files
    return [
        without_bar(f"scan-{case.name}-staged",
                    f"{files} names at 2 ms, {case.title}: speed staged / plain",
                    faster("staged", "first"), below=False),
        without_bar(f"scan-{case.name}-known", "the same with known paths",
                    faster("known", "first"), below=False),
        without_bar(f"scan-{case.name}-later", "the same, jobs that begin later",
                    faster("known", "later"), below=False),
    ]


def measure(data, quick, latency_us):
    """(rows, notes, raw figures)."""
    rounds = 1 if quick else 3
    raw, rows, notes = {}, [], []
    for case in CASES:
        if quick:
            case = case._replace(directories=3, files=40)
        with tempfile.TemporaryDirectory(prefix="tsshim-tree-",
                                         dir=data.setup.place.directory) as source:
            _make_tree(source, case.directories, case.files)
            found = {kind: [] for kind in KINDS}
            for _ in range(rounds):
                for kind in KINDS:
                    found[kind].append(_scan(data, source, kind, case, latency_us))
        _check([one for kind in KINDS for one in found[kind]], case.directories * case.files)
        raw[case.name] = {"case": case._asdict(), **found}
        rows += _rows(case, found)
        notes.append(_note(case, found, data.setup.jobs))
    return rows, notes, raw
