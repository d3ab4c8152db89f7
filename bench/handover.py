#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""handover: one job with ready samples of 602 KB, whose trainer reads every byte.

A plain job and one with the hand-over pool live through the whole run and take turns, epoch by
epoch, each time with new workers.  The first epoch of both is left out.
"""
import os
import statistics
import sys
from types import SimpleNamespace

from tsbench import jobs as tsjobs
from tsbench.setup import row

BATCHES = 60  # of an epoch
ROUNDS = 12


def _start(setup, size, *more):
    script = os.path.join(setup.root, "bench", "workloads", "handover.py")
    job = setup.place.start([setup.python, script, "--size", str(size), *more])
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
    package = os.path.join(setup.root, "hooks", "torch", "python")
    both = [_start(setup, size), _start(setup, size, "--pool", package)]
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
    rows = [row("handover", "K=1, samples/s with / without, 602 KB from memory", 2.8,
                [r["plain"]["seconds"] / r["pool"]["seconds"] for r in raw], below=False)]
    return {"title": "Hand-over", "rows": rows, "raw": {"epochs": raw, "cpu_seconds": cpu},
            "settings": {"jobs": 1, "workers": 1, "samples": size, "rounds": rounds,
                         "quick": setup.quick}}


def main():
    """Without the harness: the numbers on standard output."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tsjobs.Workplace(None) as place:
        setup = SimpleNamespace(root=root, place=place, quick="--quick" in sys.argv,
                                python=os.environ.get("PYTHON", "/usr/bin/python3"))
        found = measure(setup)
    raw, spent = found["raw"]["epochs"], found["raw"]["cpu_seconds"]
    for kind, cpu in zip(("plain", "pool"), spent):
        rates = [r[kind]["samples"] / r[kind]["seconds"] for r in raw]
        count = sum(r[kind]["samples"] for r in raw) * (len(raw) + 1) / len(raw)
        print(f"{kind}: {statistics.median(rates):.0f} samples/s, "
              f"{1e6 * cpu / count:.0f} us CPU per sample, start-up included")
    ratio = found["rows"][0]
    print(f"with / without: {ratio['value']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}), "
          f"bar {ratio['bar']}")


if __name__ == "__main__":
    main()
