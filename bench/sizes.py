# SPDX-License-Identifier: MIT
"""sizes: items of any size, from a row of a table to a volume of 400 MB, and jobs of any number.

The sides of a phase (jobs without us, in default mode, aligned, an oracle) live through it and take turns, an epoch each with
new workers; the first turn, in which they join, is kept apart.  An oracle is plain jobs that make a K-th of the
batches each and have the others ready in memory.  `-k WORD` chooses phases by their names.
"""
import os
from collections import namedtuple

import crowd
from tsbench import footprint, machine, slices
from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, row, with_quartiles, without_bar

# Of @jobs jobs with @options of tsrun (None: without us) and @arguments of bench/workloads/sizes.py, whose seeds
# differ unless @same; each turn begins with @line.  They are the jobs of side @of where that is given.
Side = namedtuple("Side", "jobs options arguments same line of", defaults=(False, "new 1", None))

ALIGN = ("--align",)
ROUNDS = 5
CIFAR = 196 * 128  # items of an epoch, half of CIFAR-10
MB = 10**6
WORKER_EPOCHS = 5


def words(kind, items, **more):
    """Arguments of bench/workloads/sizes.py."""
    return [kind, "--items", str(items), *(text for name, value in more.items()
                                           for text in (f"--{name}", str(value)))]


def _start(setup, side, group):
    script = os.path.join(setup.root, "bench", "workloads", "sizes.py")
    found = []
    for number in range(side.jobs):
        more = [word.format(number=number) for word in
                (side.arguments(number) if callable(side.arguments) else side.arguments)]
        found.append(setup.place.start(
            [setup.python, script, *more, "--seed", str(1 if side.same else 1 + number)], group,
            options=side.options or ()))
    return found


def _taken(setup, group):
    """Samples that jobs of @group took until now."""
    return sum(dataset["sample"]["shared"] for dataset in setup.place.stats(group)["datasets"]) if group else 0


class Turns:
    """What came of the turns of a phase: .first and .rounds are {side: {answers, taken}}, the latter for each round."""

    def __init__(self, setup, name, sides, rounds=ROUNDS, after=None):
        self.name, self.sides = name, sides
        groups = {side: None if what.options is None else setup.place.group(f"{name}-{what.of or side}")
                  for side, what in sides.items()}
        jobs = {side: _start(setup, what, groups[side]) for side, what in sides.items() if not what.of}
        jobs.update({side: jobs[what.of] for side, what in sides.items() if what.of})
        for started in jobs.values():
            for job in started:
                job.line(0)
        self.rounds = [self._round(setup, groups, jobs, number)
                       for number in range(1 + (1 if setup.quick else rounds))]
        self.first = self.rounds.pop(0)
        self.more = after and after(jobs)
        for side, what in sides.items():
            if not what.of:
                setup.place.end(jobs[side])
        for group in set(groups.values()) - {None}:
            setup.place.forget(group)
        self.raw = {"first": self.first, "rounds": self.rounds}

    def _round(self, setup, groups, jobs, number):
        found = {}
        for side in list(self.sides)[::-1 if number % 2 else 1]:
            before = _taken(setup, groups[side])
            answers = ask_all(jobs[side], self.sides[side].line)
            found[side] = {"answers": answers, "taken": _taken(setup, groups[side]) - before}
        self._check(found)
        return found

    def _check(self, found):
        for side, turn in found.items():
            turn["sums"] = [answer.pop("sum") for answer in turn["answers"]]
            if self.sides[side].options == ALIGN and len(set(turn["sums"])) != 1:
                raise tsjobs.JobError(f"sizes: {self.name}: aligned jobs were given different samples")
        if "default" in found and found["default"]["sums"] != found["plain"]["sums"]:
            raise tsjobs.JobError(f"sizes: {self.name}: a job was given something else with tsrun")
        if len({answer["items"] for turn in found.values() for answer in turn["answers"]}) != 1:
            raise tsjobs.JobError(f"sizes: {self.name}: samples were lost or repeated")

    def of(self, measure, side, over=None):
        """@measure of the turns of @side, over those of another side where that is given."""
        return [measure(found[side]) / (measure(found[over]) if over else 1) for found in self.rounds]

    def rows(self, what, bars, measure=None, below=False):
        """A row for each (side, label, bar) of @bars, against the side "plain"."""
        return [row(f"{self.name}-{side}{'-cpu' * (measure is cpu)}", f"{what}, {label}", bar, self.of(measure or rate, side, "plain"),
                    below=below) for side, label, bar in bars]


def rate(turn):
    """Samples per second of all jobs together."""
    return sum(answer["items"] for answer in turn["answers"]) / max(answer["seconds"] for answer in turn["answers"])


def cpu(turn):
    """CPU seconds of all jobs and their workers."""
    return sum(answer["trainer"] + answer["workers"] for answer in turn["answers"])


def seconds(turn):
    return max(answer["seconds"] for answer in turn["answers"])


# ---- phases: each gives rows, raw figures and notes ----

def cheap(setup, name, jobs, bar, items=CIFAR, kind="cifar", what="CIFAR-10's recipe", batch=128):
    own = words(kind, items, batch=batch)
    sides = {"plain": Side(jobs, None, own), "aligned": Side(jobs, ALIGN, own)}
    if kind == "cifar":
        part = [*own, "--part", "{number}/%d" % jobs]
        sides.update({"part": Side(jobs, None, part), "ours": Side(jobs, (), part)})
    turns = Turns(setup, name, sides)
    what += f", K={jobs}"
    rows = turns.rows(what, [("aligned", "aligned / plain, images/s of all", bar)])
    if kind == "cifar":
        rows += turns.rows("the same", [("part", "an oracle / plain, torch's hand-over", None),
                                        ("ours", "an oracle / plain, our hand-over", None)])
    return rows, turns.raw


def mixed(setup, name, jobs, bar, batches, items=CIFAR):
    def own(number):
        return words("cifar", items, batch=batches[number % len(batches)])

    turns = Turns(setup, name, {"plain": Side(jobs, None, own), "aligned": Side(jobs, ALIGN, own)})
    what = f"CIFAR-10's recipe, batches of {', '.join(map(str, batches))}, K={jobs}"
    return turns.rows(what, [("aligned", "aligned / plain", bar)]), turns.raw


def same(setup, name, jobs, bar, items=CIFAR):
    own = words("cifar", items, batch=128)
    turns = Turns(setup, name, {"plain": Side(jobs, None, own, True), "default": Side(jobs, (), own, True),
                                "lone": Side(1, None, own, True)})
    rows = turns.rows(f"CIFAR-10's recipe, equal seeds, K={jobs}", [("default", "default / plain", bar)])
    # A chunk draws from where the one before left the generators, so one job at a time makes one.
    rows.append(without_bar(f"{name}-chain", "the same, if all went as fast as a lone plain job",
                            [jobs * one for one in turns.of(rate, "lone", "plain")], below=False))
    return rows, turns.raw


def lone(setup, name, what, own, bar):
    turns = Turns(setup, name, {"plain": Side(1, None, own), "default": Side(1, (), own), "aligned": Side(1, ALIGN, own)})
    return turns.rows(what + ", K=1", [("aligned", "aligned / plain", bar), ("default", "default / plain", bar)]), turns.raw


def ready(setup, name, mb, count, speed=None, price=None):
    own = words("whole", count, mb=mb)
    turns = Turns(setup, name, {"plain": Side(1, None, own), "default": Side(1, (), own), "aligned": Side(1, ALIGN, own)})
    what = f"batches of {mb:g} MB ready in memory, batch_size=None, K=1"
    rows = turns.rows(what, [("default", "batches/s, default / plain", speed),
                             ("aligned", "batches/s, aligned / plain", 0.98)])
    if price:
        rows += turns.rows(what, [("default", "CPU time, default / plain", price),
                                  ("aligned", "CPU time, aligned / plain", None)], cpu, True)
    return rows, turns.raw


def _memory(jobs):
    """Bytes beyond the ring that @jobs have at most in an epoch more than before it."""
    def beyond(pids):
        return footprint.pss_beyond(pids, "/tsshim.")

    before = beyond([pid for job in jobs for pid in job.pids()])
    with footprint.Peak(jobs, 0.1, beyond) as peak:
        ask_all(jobs, "new 1")
    return peak.bytes - before


def large(setup, name, mb, cost, count, batch=1, several=(2, 4), rounds=3, memory=None):
    own = words("large", count, mb=mb, seconds=cost, batch=batch)
    sides = {"lone": Side(1, None, own), **{f"aligned-{jobs}": Side(jobs, ALIGN, own) for jobs in several}}
    turns = Turns(setup, name, sides, rounds,
                  after=memory and (lambda jobs: _memory(jobs[f"aligned-{several[0]}"])))
    rows, cores = [], machine.cores()
    for jobs in several:
        side, what = f"aligned-{jobs}", f"samples of {mb:g} MB that cost {cost:g} s, aligned, K={jobs}"
        rows.append(row(f"{name}-{side}-taken", f"{what}: taken of what can be", 0.95,
                        [found[side]["taken"] / (count * (jobs - 1)) for found in turns.rounds], below=False))
        speeds = [one / jobs for one in turns.of(rate, side, "lone")]
        # Where there are fewer cores than jobs this is a lower bound that is asked for all the same.
        rows.append(row(f"{name}-{side}-speed", f"{what}: samples/s of all / (K x a lone plain job)", 0.9, speeds,
                        below=False))
        rows.append(without_bar(f"{name}-{side}-limit", f"the same / (K x {min(jobs, cores)} x lone), if {cores} cores "
                                "made each once and sharing were free",
                                [one / min(jobs, cores) for one in speeds], below=False))
    if memory:
        rows.append(row(f"{name}-memory", f"memory of a job beyond the ring, samples of {mb:g} MB, K={several[0]}", memory,
                        [turns.more / several[0] / (mb * MB)]))
    return rows, {**turns.raw, "beyond_ring": turns.more}


def _pictures(setup, count=200):
    """A directory of small pictures as ImageFolder wants it, some seconds old."""
    from PIL import Image
    where = os.path.join(setup.place.directory, "pictures")
    os.makedirs(os.path.join(where, "a"))
    paths = [os.path.join(where, "a", f"{number:03}.jpg") for number in range(count)]
    for number, path in enumerate(paths):
        with Image.open(setup.photos[number % len(setup.photos)]) as image:
            image.resize((128 + number % 7, 128)).save(path, quality=90)
    slices.wait_for_age(paths)
    return where


def renewed(setup, name, jobs, bar):
    own = words("pictures", 200, batch=25, data=_pictures(setup))
    sides = {}
    for side, options in (("plain", None), ("aligned", ALIGN)):
        sides[side] = Side(jobs, options, own, line=f"new {WORKER_EPOCHS}")
        sides[side + "-stay"] = Side(jobs, options, own, line=f"stay {WORKER_EPOCHS}", of=side)
    turns = Turns(setup, name, sides)

    def worker(side, what=cpu):
        """What a new worker costs more than one that stays, in each round."""
        return [(what(found[side]) - what(found[side + "-stay"])) / jobs / WORKER_EPOCHS for found in turns.rounds]

    def faults(turn):
        return sum(answer["faults"] for answer in turn["answers"])

    rows = [row(name, f"a new worker, 200 pictures an epoch, K={jobs}: CPU time, aligned / plain", bar,
                [ours / theirs for ours, theirs in zip(worker("aligned"), worker("plain"))])]
    for side in ("plain", "aligned"):
        rows.append(without_bar(f"{name}-{side}-ms", f"the same, {side}", [one * 1e3 for one in worker(side)], unit="ms"))
        rows.append(without_bar(f"{name}-{side}-faults", f"page faults of a worker, {side}",
                                [one / jobs / WORKER_EPOCHS for one in turns.of(faults, side)]))
    return rows, turns.raw


def uneven(setup, name, bars, items=1600, several=4):
    workers, own = 8, words("uneven", items, batch=16, workers=8)
    sides = {"plain": Side(1, None, own, line="stay 1"), "default": Side(1, (), own, line="stay 1"),
             "aligned": Side(1, ALIGN, own, line="stay 1"), "several": Side(several, ALIGN, own, line="stay 1")}
    turns = Turns(setup, name, sides)
    work = sum(.2 if (item * 2654435761 >> 7) % 20 == 0 else .004 for item in range(items))  # as Uneven has it
    labels = {"plain": "a lone plain job", "default": "a lone job, default, no draws", "aligned": "a lone job, aligned",
              "several": f"K={several}, aligned"}
    return [row(f"{name}-{side}", f"uneven items, {workers} workers, epoch / (work / all workers): {label}", bars.get(side),
                [one / (work / workers / sides[side].jobs) for one in turns.of(seconds, side)])
            for side, label in labels.items()], turns.raw


def many(setup, _name):
    """Samples of many jobs, as in crowd.py."""
    found = crowd.measure_jobs(setup)
    return crowd.rows_of(found), {str(jobs): turns for jobs, turns in found.items()}


PHASES = {
    "cheap-4": (cheap, 4, 2.6),
    "cheap-8": (cheap, 8, 4.0),
    "mixed-4": (mixed, 4, 2.2, (100, 96, 128)),
    "same-4": (same, 4, 2.4),
    "rows-4": (cheap, 4, 1.0, 60_000, "rows", "rows of 1 KB", 256),
    "tokens-4": (cheap, 4, 1.0, 30_000, "tokens", "windows of 512 tokens", 64),
    "lone-cifar": (lone, "CIFAR-10's recipe", words("cifar", CIFAR, batch=128), 0.98),
    "lone-rows": (lone, "rows of 1 KB", words("rows", 120_000, batch=256), 0.98),
    "lone-tokens": (lone, "windows of 512 tokens", words("tokens", 60_000, batch=64), 0.98),
    "ready-38": (ready, 38, 60, 3.0),
    "ready-1.5": (ready, 1.5, 1000, 0.98, 0.5),
    "large-25": (large, 25, 0.15, 48, 2),
    "large-150": (large, 150, 1, 12),
    "large-400": (large, 400, 3, 6, 1, (2, 4), 2, 1.1),
    "uneven": (uneven, {"aligned": 1.08, "default": 1.12, "several": 1.15}),
    "renewed-8": (renewed, 8, 1.0),
    "many": (many,),
}

# To try the programs.
QUICK = {
    "cheap-2": (cheap, 2, None, 1280),
    "ready-1.5": (ready, 1.5, 20, 0.98, 0.5),
    "large-1": (large, 1, 0.05, 8, 2, (2,), 1, 1.1),
    "uneven": (uneven, {}, 48, 2),
    "renewed-2": (renewed, 2, None),
}


def measure(setup):
    setup.place.ring = None  # as large as it is by default
    phases = setup.chosen(QUICK if setup.quick else PHASES)
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    rows, raw = [], {}
    try:
        for name, (phase, *arguments) in phases.items():
            found, raw[name] = phase(setup, name, *arguments)
            rows += map(with_quartiles, found)
            __import__('json').dump(rows, open('/tmp/sizes.partial.json', 'w')); print(name, __import__('time').ctime(), file=open('/tmp/sizes.progress', 'a'))
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    return {"title": "Any size", "rows": rows, "raw": raw, "quartiles": True,
            "settings": setup.settings(ring="default", bench_cores=cores)}
