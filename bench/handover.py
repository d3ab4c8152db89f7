# SPDX-License-Identifier: MIT
"""handover: one job with ready samples of 602 KB, whose trainer reads every byte.

A job without and one with tsrun live through the whole run and take turns, epoch by epoch, each
time with new workers.  The samples cost nothing to make, so nothing is shared: what differs is
the hand-over pool.  The first epoch of both is left out.
"""
import os

from tsbench import jobs as tsjobs
from tsbench.setup import row

BATCHES = 60  # of an epoch
ROUNDS = 12


def _start(setup, size, group):
    script = os.path.join(setup.root, "bench", "workloads", "handover.py")
    job = setup.place.start([setup.python, script, "--size", str(size)], group)
    job.line(0)
    return job


def _epoch(job):
    """Samples per second and the whole answer, with the CPU time of the trainer."""
    cpu = -job.cpu()
    answer = job.ask("go")
    answer["trainer_cpu"] = cpu + job.cpu()
    return answer


def measure(setup):
    rounds = 2 if setup.quick else ROUNDS
    size = 64 * (6 if setup.quick else BATCHES)
    group = setup.place.group("handover")
    both = [_start(setup, size, None), _start(setup, size, group)]
    raw = []
    for number in range(rounds + 1):
        order = both if number % 2 == 0 else both[::-1]
        answers = {job: _epoch(job) for job in order}
        plain, pooled = (answers[job] for job in both)
        if plain["sum"] != pooled["sum"]:
            raise tsjobs.JobError(f"handover: different values in epoch {number}")
        raw.append({"plain": plain, "pool": pooled})
    raw = raw[1:]
    cpu = setup.place.end(both)
    setup.place.forget(group)
    rows = [row("handover", "K=1, samples/s with / without, 602 KB from memory", 2.8,
                [r["plain"]["seconds"] / r["pool"]["seconds"] for r in raw], below=False)]
    return {"title": "Hand-over", "rows": rows, "raw": {"epochs": raw, "cpu_seconds": cpu},
            "settings": setup.settings(jobs=1, workers=1, samples=size, rounds=rounds)}

