# SPDX-License-Identifier: MIT
"""events: what the event log costs, recorders included, of the CPU time of the jobs.

One job alone, and 32 jobs of one group, that decode all the time.  A second's work of the one
recorder that writes, and of those that wait, is a few milliseconds whatever the jobs do: so jobs
that share two cores pay the largest part of their time for it.
"""
import os
import time

from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, row

JOBS = (1, 32)
BAR = 0.5  # per cent
ROUNDS, SECONDS = 7, 6


def _recorders(group):
    """Process ids of the recorders of @group."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == b"tsshim-recorder" and words[1] == group.encode():
            found.append(pid)
    return found


def _used(pids):
    """Nanoseconds of CPU time since these processes began."""
    used = 0
    for pid in pids:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            used += int(file.read().split()[0])
    return used


def _wait_for_recorders(group, many):
    end = time.monotonic() + 60
    while len(_recorders(group)) < many:
        if time.monotonic() > end:
            raise tsjobs.JobError(f"events: {many} jobs have {len(_recorders(group))} recorders")
        time.sleep(0.05)
    return _recorders(group)


def _round(workers, recorders, text, seconds):
    """CPU time of recorders and of jobs, both in nanoseconds, and the time that passed."""
    begin, before, jobs = time.monotonic(), _used(recorders), 0
    while time.monotonic() - begin < seconds:
        jobs += sum(answer["cpu_ns"] for answer in ask_all(workers, text))
    return _used(recorders) - before, jobs, time.monotonic() - begin


def _measure_many(setup, listing, many):
    place, length = setup.place, setup.block_images()
    group = place.group(f"events-{many}")
    log = os.path.join(place.directory, f"log-{many}")
    options = ("--events=" + log, "--verify", "0")
    workers = [setup.start_decoder("c", listing, group, options=options) for _ in range(many)]
    text = f"decode 0 {length}"
    ask_all(workers, text)
    recorders = _wait_for_recorders(group, many)
    start = _used(recorders)
    found = []
    for _ in range(3 if setup.quick else ROUNDS):
        used, jobs, seconds = _round(workers, recorders, text, 2 if setup.quick else SECONDS)
        found.append({"recorders_ns": used, "jobs_ns": jobs, "seconds": seconds,
                      "log_bytes": os.path.getsize(log)})
    place.end(workers)
    place.forget(group)
    return {"rounds": found, "start_ns": start / many}


def measure(setup):
    _, paths = setup.streams(setup.block_images())
    listing = setup.list_of(paths)
    raw, rows, notes = {}, [], []
    for many in JOBS:
        raw[str(many)] = found = _measure_many(setup, listing, many)
        name = "one job" if many == 1 else f"{many} jobs"
        rows.append(row(f"events-{many}", f"CPU time of the log / of {name}", BAR,
                        [100 * r["recorders_ns"] / r["jobs_ns"] for r in found["rounds"]], "%"))
        rows.append(row(f"events-{many}-ms", f"CPU time of the log in a second, {name}", None,
                        [r["recorders_ns"] / r["seconds"] / 1e6 for r in found["rounds"]], "ms"))
        notes.append(f"{name}: a recorder's start and first second {found['start_ns'] / 1e6:.1f} ms")
    return {"title": "Event log", "rows": rows, "raw": raw, "notes": notes,
            "settings": setup.settings(jobs=list(JOBS), block=setup.block_images(), verify="0")}
