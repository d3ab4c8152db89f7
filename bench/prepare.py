# SPDX-License-Identifier: MIT
"""prepare: K jobs share whole samples, aligned or not; how much faster, and at what price?

K plain jobs and K shared ones live through each phase and take turns, slice by slice, both on
the same slice; the first, in which they join, is kept apart.  Where CPU time is asked for, K
makers make the items of the slice between them without any loader: that is what production
costs under the same load, and what the loop costs that looks at the samples.  What is left of
the CPU time of a shared sample, less one K-th of its production and less that look, is the
price of sharing it and handing it over, collation included.
"""
import os
from collections import namedtuple

from tsbench import jobs as tsjobs
from tsbench import machine, slices
from tsbench.setup import RINGS, ask_all, row, size

ROUNDS = 10
SAMPLE_BYTES = 3 * 224 * 224 * 4
MIXED = (16, 24, 48, 64)
SMALL_ITEMS, SMALL_SIZE = 20_000, 20_000
TOKEN_ITEMS, TOKEN_SIZE = 40_000, 40_000

Phase = namedtuple("Phase", "name jobs workers kind options same batches makers")


def phase(name, jobs, workers=1, kind="train", options=(), same=False, batches=(64,), makers=False):
    return Phase(name, jobs, workers, kind, options, same, batches, makers)


ALIGN = ("--align",)
PHASES = (
    phase("aligned-4", 4, options=ALIGN, makers=True),
    phase("aligned-8", 8, options=ALIGN, makers=True),
    phase("mixed-4", 4, options=ALIGN, batches=MIXED),
    phase("same-4", 4, workers=2, same=True),
    phase("different-4", 4),
    phase("aligned-1", 1, workers=2, options=ALIGN),
    phase("default-1", 1, workers=2),
    phase("small-1", 1, kind="small"),
    phase("tokens-1", 1, kind="tokens"),
    phase("eval-4", 4, kind="eval"),
)

# Each job of a quick run imports torch, and its worker: that is most of what it costs.
QUICK = (
    phase("aligned-2", 2, options=ALIGN, makers=True),
    phase("tokens-1", 1, kind="tokens"),
    phase("eval-2", 2, kind="eval"),
)


class Data:
    """Where the items of each kind are, and how many make a slice."""

    def __init__(self, setup):
        self.rounds = 1 if setup.quick else ROUNDS
        self.slice = 128 if setup.quick else self._whole_batches(setup)
        self.where, self.paths = setup.streams(self.slice * (self.rounds + 1))
        self.small = os.path.join(setup.place.directory, "small.npy")
        self.tokens = os.path.join(setup.place.directory, "tokens.bin")
        self._items = 1000 if setup.quick else None
        self._make_files()

    def wait_for_age(self):
        slices.wait_for_age([*self.paths, self.small, self.tokens])

    def _whole_batches(self, setup):
        """Of a slice: all slices together are RINGS rings of samples, not of photographs."""
        batches = RINGS * size(setup.ring) / SAMPLE_BYTES / self.rounds / 64
        return 64 * int(batches + 1)

    def _make_files(self):
        import numpy

        random = numpy.random.default_rng(0)
        numpy.save(self.small, random.integers(0, 256, (SMALL_ITEMS, 32, 32, 3), numpy.uint8))
        random.integers(0, 50_000, TOKEN_ITEMS * 1024 + 1, numpy.uint16).tofile(self.tokens)

    def arguments(self, kind):
        """Of bench/workloads/samples.py."""
        where = {"small": self.small, "tokens": self.tokens}.get(kind, self.where)
        many = {"small": SMALL_SIZE, "tokens": TOKEN_SIZE}.get(kind)
        return [kind, where, "--size", str((self._items or many) if many else self.slice)]


def _start(setup, data, what, group, options=()):
    script = os.path.join(setup.root, "bench", "workloads", "samples.py")
    started = []
    for number in range(what.jobs):
        command = [setup.python, script, *data.arguments(what.kind), "--workers",
                   str(what.workers), "--seed", str(1 if what.same else 100 + number),
                   "--batch-size", str(what.batches[number % len(what.batches)])]
        started.append(setup.place.start(command, group, options=options))
    return started


def _start_makers(setup, data, what):
    script = os.path.join(setup.root, "bench", "workloads", "samples.py")
    return [setup.place.start([setup.python, script, *data.arguments(what.kind), "--seed", "1",
                               "--make", str(number), str(what.jobs)])
            for number in range(what.jobs)]


def _make(makers):
    """CPU seconds that making, copying and looking at a sample take when K processes do it."""
    answers = ask_all(makers, "make")
    images = sum(answer["images"] for answer in answers)
    return {what: sum(answer[what + "_ns"] for answer in answers) / images / 1e9
            for what in ("make", "copy", "look")}


def _check(what, turns):
    """Default mode computes what plain jobs compute; aligned jobs are given the same samples."""
    shared = turns["shared"]
    if what.options and len(set(shared["checksums"])) != 1:
        raise tsjobs.JobError(f"prepare: {what.name}: aligned jobs were given different samples")
    if not what.options and shared["checksums"] != turns["plain"]["checksums"]:
        raise tsjobs.JobError(f"prepare: {what.name}: a job computed something else with tsrun")
    if shared["images"] != turns["plain"]["images"]:
        raise tsjobs.JobError(f"prepare: {what.name}: samples were lost or repeated")


def _run(setup, data, what):
    """All rounds of one phase; the first one is that in which the jobs join."""
    group = setup.place.group(what.name)
    kinds = {"plain": _start(setup, data, what, None),
             "shared": _start(setup, data, what, group, what.options)}
    makers = _start_makers(setup, data, what) if what.makers else []
    for job in (*kinds["plain"], *kinds["shared"], *makers):
        job.line(0)
    found = []
    for number in range(data.rounds + 1):
        found.append({})
        for kind in sorted(kinds, reverse=number % 2 == 1):
            slices.warm(data.paths if what.kind in ("train", "eval") else [])
            found[-1][kind] = slices.take_turn(kinds[kind])
        _check(what, found[-1])
        if makers:
            found[-1]["makers"] = _make(makers)
    for started in (*kinds.values(), makers):
        setup.place.end(started)
    setup.place.forget(group)
    return found


def _faster(rounds):
    """Samples per second of the shared jobs relative to the plain ones, round by round."""
    return [slices.rate(found["shared"]) / slices.rate(found["plain"]) for found in rounds]


def _cpu(rounds):
    """CPU time per sample of the shared jobs relative to the plain ones, round by round."""
    return [slices.cpu_each(found["shared"]) / slices.cpu_each(found["plain"])
            for found in rounds]


def _price(rounds, jobs):
    """Milliseconds of CPU time per delivered sample beyond one K-th of making it."""
    return [1e3 * (slices.cpu_each(found["shared"]) - found["makers"]["make"] / jobs
                   - found["makers"]["look"]) for found in rounds]


def _limit(rounds, jobs):
    """How much faster the shared jobs would be if sharing cost one copy of a sample, no more."""
    found = [slices.cpu_each(one["plain"]) / (one["makers"]["make"] / jobs + one["makers"]["copy"]
                                              + one["makers"]["look"]) for one in rounds]
    return sorted(found)[len(found) // 2]


def _computed(rounds, jobs):
    """Items made per item of the set.  The witness is what was read from the photographs: a plain
    job reads each once, and so does every job that makes it, but not one that is given it."""
    return [jobs * found["shared"]["read"] / found["plain"]["read"] for found in rounds]


def _rows(found):
    """For the phases in @found; a quick run leaves some out."""
    rows = []

    def add(phase_name, label, bar, samples, **more):
        if phase_name in found:
            rows.append(row(more.pop("name", phase_name), label, bar, samples(found[phase_name]),
                            **more))

    def faster(phase_name, label, bar):
        add(phase_name, label, bar, _faster, below=False)

    faster("aligned-2", "aligned, K=2: images/s of all / plain", None)
    faster("aligned-4", "aligned, K=4: images/s of all / plain", 3.8)
    faster("aligned-8", "aligned, K=8: the same", 7.2)
    for jobs, bar in ((2, None), (4, 0.22), (8, 0.16)):
        add(f"aligned-{jobs}", f"CPU beyond 1/K of making a sample, K={jobs}", bar,
            lambda rounds, jobs=jobs: _price(rounds, jobs), name=f"price-{jobs}", unit="ms")
    faster("mixed-4", "aligned, K=4, batches of 16, 24, 48, 64", 3.5)
    faster("same-4", "default, K=4, same seeds, 2 workers each", 3.2)
    add("same-4", "the same: CPU time / plain", 0.35, _cpu, name="same-4-cpu")
    faster("different-4", "default, K=4, different seeds", 0.98)
    faster("aligned-1", "aligned, K=1", 1.0)
    faster("default-1", "default, K=1", 1.03)
    add("small-1", "default, K=1, CIFAR-10-like: CPU with / without", 1.02, _cpu)
    add("tokens-1", "default, K=1, token file: CPU with / without", 1.02, _cpu)
    for jobs in (2, 4):
        add(f"eval-{jobs}", f"validation, K={jobs}: items made / items of the set", 1.05,
            lambda rounds, jobs=jobs: _computed(rounds, jobs))
    return rows


def measure(setup, data):
    phases = QUICK if setup.quick else PHASES
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    try:
        data.wait_for_age()
        found = {what.name: _run(setup, data, what) for what in phases}
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    first = {name: rounds.pop(0) for name, rounds in found.items()}
    images = data.slice * data.rounds
    notes = [f"{images} distinct samples of {SAMPLE_BYTES} bytes in each phase, which are "
             f"{images * SAMPLE_BYTES / size(setup.ring):.0f} rings; jobs of K=1 and of the same "
             "seeds have two workers, the others one."]
    notes += [f"The limit of {what.name} is {_limit(found[what.name], what.jobs):.2f}: if a sample "
              f"cost one copy and {what.jobs} jobs made each once."
              for what in phases if what.makers]
    return {"title": "Prepare once", "rows": _rows(found), "notes": notes,
            "raw": {"first": first, **found},
            "settings": setup.settings(images=images, rounds=data.rounds, bench_cores=cores)}
