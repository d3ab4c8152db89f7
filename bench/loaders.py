# SPDX-License-Identifier: MIT
"""loaders: K aligned jobs over WebDataset and Hugging Face's datasets; how much faster than plain?

K plain jobs and K aligned ones of other seeds live through the measurement and take turns, an
epoch each; the first, in which they join, is kept apart.  A plain job that has the machine for
itself takes a turn as well: of a stream one worker makes all items, so K jobs with one worker each
cannot get more than K times what it gets.  Of data sets with an index K plain jobs make a K-th of the
samples each and have the others ready in memory, for torch's own loader to collate and send: what
they would get if sharing itself cost nothing.
"""
import os
import statistics

from tsbench import jobs as tsjobs
from tsbench import machine, slices
from tsbench.setup import row

ROUNDS = 4
IMAGES = 832  # of an epoch; a ring of 256 MiB holds half of their samples
BARS = {"webdataset": 3.0, "datasets": 3.3, "collated": 3.3}
NAMES = {"webdataset": "WebDataset", "datasets": "Hugging Face's datasets",
         "collated": "the same with a collate function of the program's"}

# (kind, workers of each job)
PHASES = (("webdataset", 1), ("webdataset", 2), ("datasets", 1), ("collated", 1))


def python():
    """The interpreter that has the libraries."""
    path = os.environ.get("TSSHIM_BENCH_CORPUS_PYTHON", "")
    if not os.path.exists(path):
        raise tsjobs.Unavailable("there is no environment with WebDataset and Hugging Face's "
                                 "datasets; scripts/deps corpus makes one, of 1 GB")
    return path


class Data:
    """The files of each kind."""

    def __init__(self, setup):
        self.python = python()
        self.rounds = 1 if setup.quick else ROUNDS
        self.images = 128 if setup.quick else IMAGES
        _, paths = setup.streams(self.images)
        listing = setup.list_of(paths)
        self.script = os.path.join(setup.root, "bench", "workloads", "loaders.py")
        self.where = {}
        for kind in BARS:
            self.where[kind] = os.path.join(setup.place.directory, kind)
            os.makedirs(self.where[kind])
            setup.place.end([setup.place.start([self.python, self.script, kind, self.where[kind],
                                                "--write", listing])])

    def paths(self, kind):
        return [os.path.join(top, name) for top, _, names in os.walk(self.where[kind])
                for name in names]


def _start(setup, data, phase, count, group=None, in_parts=False):
    kind, workers = phase
    return [setup.place.start([data.python, data.script, kind, data.where[kind], "--seed",
                               str(100 + number), "--workers", str(workers),
                               *(["--part", f"{number}/{count}"] if in_parts else ())], group,
                              options=("--align",) if group else ()) for number in range(count)]


def _run(setup, data, phase):
    kind, workers = phase
    group = setup.place.group(f"{kind}-{workers}")
    jobs = {"plain": _start(setup, data, phase, setup.jobs),
            "shared": _start(setup, data, phase, setup.jobs, group),
            "alone": _start(setup, data, phase, 1)}
    if kind != "webdataset":
        jobs["ready"] = _start(setup, data, phase, setup.jobs, in_parts=True)
    for started in jobs.values():
        for job in started:
            job.line(0)
    found = []
    for number in range(data.rounds + 1):
        found.append({})
        for name in sorted(jobs, reverse=number % 2 == 1):
            slices.warm(data.paths(kind))
            turn = found[-1][name] = slices.take_turn(jobs[name])
            if set(turn["images"]) != {data.images} or set(turn["distinct"]) != {data.images}:
                raise tsjobs.JobError(f"loaders: {kind}: samples were lost or repeated")
        if len(set(found[-1]["shared"]["checksums"])) != 1:
            raise tsjobs.JobError(f"loaders: {kind}: aligned jobs were given different samples")
    for started in jobs.values():
        setup.place.end(started)
    setup.place.forget(group)
    return found


def _limit(setup, kind, workers, rounds):
    """What no sharing could be faster than, as a sentence."""
    if kind == "webdataset":
        limit = [setup.jobs * slices.rate(one["alone"]) / slices.rate(one["plain"])
                 for one in rounds]
        return (f"{setup.jobs} times what one plain job gets that has the machine for itself, "
                f"{NAMES[kind]}, {workers} workers: {statistics.median(limit):.2f} times plain.")
    limit = [slices.rate(one["ready"]) / slices.rate(one["plain"]) for one in rounds]
    return (f"{setup.jobs} plain jobs that make a part of the samples each and have the others "
            f"ready in memory, {NAMES[kind]}: {statistics.median(limit):.2f} times plain.")


def measure(setup, data):
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    try:
        slices.wait_for_age([path for kind in BARS for path in data.paths(kind)])
        found = {f"{kind}-{workers}": _run(setup, data, (kind, workers))
                 for kind, workers in PHASES}
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    first = {name: rounds.pop(0) for name, rounds in found.items()}
    rows, notes = [], [f"{data.images} photographs in each epoch."]
    for kind, workers in PHASES:
        rounds = found[f"{kind}-{workers}"]
        ratios = [slices.rate(one["shared"]) / slices.rate(one["plain"]) for one in rounds]
        rows.append(row(f"{kind}-{workers}",
                        f"{NAMES[kind]}, aligned, K={setup.jobs}, {workers} worker"
                        f"{'s' * (workers > 1)} each: images/s of all / plain",
                        BARS[kind] if workers == 1 else None, ratios, below=False))
        notes.append(_limit(setup, kind, workers, rounds))
    return {"title": "Loaders of other libraries", "rows": rows, "raw": {"first": first, **found},
            "notes": notes,
            "settings": setup.settings(images=data.images, rounds=data.rounds, bench_cores=cores)}
