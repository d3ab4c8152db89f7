# SPDX-License-Identifier: MIT
"""keep: a lone job whose ring is kept, epoch after epoch, and the next trial of the sweep.

A plain job and one with `--keep` live through the same epochs and take turns, each on all of the
photographs, which fit into the ring when they are decoded.  In the first epoch they are decoded,
and it is kept apart.  Then the job with tsrun ends, and another one with another seed goes through
one epoch.
"""
import os

from tsbench import jobs as tsjobs
from tsbench import machine, slices
from tsbench.setup import row

ROUNDS = 8
RING = "1G"
IMAGES = 640  # decoded they take 0.4 to 0.7 of that ring
KEEP = ("--keep", "10min", "--ring", RING, "--verify", "0")


class Data:
    """The photographs."""

    def __init__(self, setup):
        self.rounds = 2 if setup.quick else ROUNDS
        self.count = 64 if setup.quick else IMAGES
        self.where, self.paths = setup.streams(self.count)

    def wait_for_age(self):
        slices.wait_for_age(self.paths)


def _start(setup, data, kind, group, seed):
    command = [setup.python, os.path.join(setup.root, "bench", "workloads", "samples.py"), kind,
               data.where, "--size", str(data.count), "--workers", "2", "--seed", str(seed)]
    job = setup.place.start(command, group, options=KEEP if group else ())
    job.line(0)
    return job


def _turn(data, job):
    slices.warm(data.paths)
    return slices.take_turn([job])


def _decoded(setup, group):
    return sum(dataset["pixels"]["produced"]
               for dataset in setup.place.stats(group)["datasets"])


def _epochs(setup, data, kind, group):
    """What each epoch took a plain job and one whose ring is kept; both end."""
    jobs = {"plain": _start(setup, data, kind, None, 1),
            "kept": _start(setup, data, kind, group, 1)}
    found = []
    for number in range(data.rounds + 1):
        found.append({name: _turn(data, jobs[name])
                      for name in sorted(jobs, reverse=number % 2 == 1)})
        if found[-1]["plain"]["checksums"] != found[-1]["kept"]["checksums"]:
            raise tsjobs.JobError(f"keep: {kind}: the job computed something else with tsrun")
    setup.place.end(list(jobs.values()))
    return found


def _next_trial(setup, data, group):
    before = _decoded(setup, group)
    job = _start(setup, data, "train", group, 2)
    turn = _turn(data, job)
    setup.place.end([job])
    return {"turn": turn, "decoded_before": before, "decoded": _decoded(setup, group) - before}


def _ratios(rounds, what):
    return [what(found["kept"]) / what(found["plain"]) for found in rounds]


def measure(setup, data):
    data.wait_for_age()
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    try:
        group = setup.place.group("keep")
        train = _epochs(setup, data, "train", group)
        trial = _next_trial(setup, data, group)
        setup.place.forget(group)
        group = setup.place.group("keep-eval")
        evaluated = _epochs(setup, data, "eval", group)
        setup.place.forget(group)
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    rows = [
        row("keep", "lone job, training, epoch 2 and later: images/s / plain", 1.7,
            _ratios(train[1:], slices.rate), below=False),
        row("keep", "the same, the first epoch", None, _ratios(train[:1], slices.rate),
            below=False),
        row("keep", "lone job, validation, epoch 2 and later: CPU time / plain", .1,
            _ratios(evaluated[1:], slices.cpu_each)),
        row("keep", "photographs decoded by the next trial", 0, [trial["decoded"]]),
        row("keep", "its first epoch: images/s / plain", None,
            [slices.rate(trial["turn"]) / slices.rate(found["plain"]) for found in train[1:]],
            below=False)]
    return {"title": "Kept rings", "rows": rows,
            "raw": {"train": train, "trial": trial, "eval": evaluated},
            "settings": setup.settings(images=data.count, rounds=data.rounds, kept_ring=RING,
                                       bench_cores=cores)}
