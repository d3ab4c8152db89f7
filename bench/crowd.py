# SPDX-License-Identifier: MIT
"""crowd: what does a sample cost each of 8, 16 and 32 aligned jobs of one node?

All of them live through the whole measurement; the groups take turns, slice by slice.  An item burns
a known CPU time, so that the rest of the CPU time of a delivered sample, less one K-th of that, is
the price of sharing it and handing it over.  Items that several jobs made count into the price.
"""
import os
import statistics

from tsbench import jobs as tsjobs
from tsbench import slices
from tsbench.setup import row, without_bar

JOBS = (8, 16, 32)
MAKING_NS = 4_000_000
BATCH = 32

# It holds 3,400 samples, in twice as many segments as there are workers.  In the first slices the
# jobs join and fill it.
RING = "1G"
SLICE = 34 * BATCH
BEFORE, ROUNDS = 4, 8


def _start(setup, many, count, each):
    group = setup.place.group(f"crowd-{many}")
    command = [setup.python, os.path.join(setup.root, "bench", "workloads", "crowd.py"),
               "--count", str(count), "--size", str(each), "--making-ns", str(MAKING_NS),
               "--batch", str(BATCH)]
    return group, [setup.place.start(command, group, options=("--align", "--ring", RING))
                   for _ in range(many)]


def _made(setup, group):
    return sum(dataset["sample"]["produced"] for dataset in setup.place.stats(group)["datasets"])


def _turn(setup, group, started, each):
    """What one slice cost all jobs of a group: the price of a sample, in ms, and items made."""
    made = -_made(setup, group)
    turn = slices.take_turn(started)
    made += _made(setup, group)
    if set(turn["distinct"]) != {each} or len(set(turn["checksums"])) != 1:
        raise tsjobs.JobError("crowd: aligned jobs were given different samples")
    price = slices.cpu_each(turn) * 1e3 - MAKING_NS / 1e6 / len(started)
    return {"price": price, "made": made / each, "wall": turn["wall"]}


def measure_jobs(setup, many=JOBS, before=BEFORE, rounds=ROUNDS, each=SLICE):
    """{K: [{"price": ms, "made": times that each item was made, "wall": s} of each round]}."""
    started = {jobs: _start(setup, jobs, each * (before + rounds), each) for jobs in many}
    for _, some in started.values():
        for job in some:
            job.line(0)
    found = {jobs: [] for jobs in many}
    for number in range(before + rounds):
        for jobs in many if number % 2 == 0 else reversed(many):
            turn = _turn(setup, *started[jobs], each)
            if number >= before:
                found[jobs].append(turn)
    for group, some in started.values():
        setup.place.end(some)
        setup.place.forget(group)
    return found


def rows_of(found):
    """Rows for what measure_jobs() found."""
    rows = [row(f"crowd-{jobs}", f"CPU beyond 1/K of making a sample, K={jobs}",
                .15 if jobs >= 16 else None, [turn["price"] for turn in turns], unit="ms")
            for jobs, turns in found.items()]
    rows += [without_bar(f"crowd-made-{jobs}", f"items made / items, K={jobs}", [turn["made"] for turn in turns])
             for jobs, turns in found.items()]
    first, last = min(found), max(found)
    if last > first:
        ratios = [b["price"] / a["price"] for a, b in zip(found[first], found[last])]
        rows.append(row("crowd-growth", f"the price at K={last} / K={first}",
                        1.3 if last == JOBS[-1] else None, ratios,
                        value=statistics.median(ratios)))
    return rows


def measure(setup):
    found = measure_jobs(setup, (2, 4), 1, 1, 8 * BATCH) if setup.quick else measure_jobs(setup)
    return {"title": "Many jobs", "rows": rows_of(found), "raw": {str(k): v for k, v in found.items()},
            "settings": setup.settings(making_ns=MAKING_NS, batch=BATCH)}
