# SPDX-License-Identifier: MIT
"""pipeline: K ImageFolder jobs, same order, different augmentation, against an oracle.

In the oracle a decode costs 1/K and a hit costs nothing.  Its CPU time per sample is what
the plain jobs spend, less (1 - 1/K) of what libjpeg spends on the same photographs under
the same load.

K plain jobs, K shared jobs and K decoders live through the whole run, each with its workers,
and take turns: one slice of the data after the other, all three on the same slice.  In the
first slice the jobs join and memory is touched for the first time; it is kept apart.
"""
import os
import statistics
import time

from tsbench import jobs as tsjobs
from tsbench import machine
from tsbench.setup import ask_all, row

ROUNDS = 20
IDLE_DELAY_MS = 20

# With idle cores, every fifth time a plain job takes a slice alone: nothing that shares pixels can
# let jobs with the same order run faster, for the one in front still decodes all it needs.
LONE_EVERY = 5


def _start(setup, directory, slices, group, delay_ms, jobs):
    """Start @jobs jobs over @directory, in @group or plain; they are ready when this returns.

    They stop before a last slice that is not asked for: workers that are gone tell no times.
    """
    script = os.path.join(setup.root, "bench", "workloads", "train.py")
    started = []
    for number in range(jobs):
        command = [setup.python, script, directory, "--wait", "--model", "none", "--workers",
                   "1", "--seed", "1", "--augment-seed", str(100 + number),
                   "--delay-ms", str(delay_ms), "--slices", str(slices + 1)]
        started.append(setup.place.start(command, group))
    for job in started:
        job.line(0)
    return started


def _warm(paths):
    """Read all files: a system that gives idle memory away may have dropped some of them."""
    for path in paths:
        with open(path, "rb") as file:
            file.read()


def _slice(started):
    """Let all jobs take their next slice. CPU seconds per sample, wall seconds, checksums."""
    cpu, begin = [-job.cpu() for job in started], time.monotonic()
    for job in started:
        job.say("go")
    ends = [job.answer("epoch") for job in started]
    wall = time.monotonic() - begin
    cpu += [job.cpu() for job in started]
    ends = [dict(zip(words[2::2], words[3::2])) for words in (end.split() for end in ends)]
    images = sum(int(end["images"]) for end in ends)
    return {"cpu": sum(cpu) / images, "wall": wall, "images": images,
            "checksums": [end["checksum"] for end in ends]}


def _decode(workers, number, count):
    """CPU seconds libjpeg takes per photograph when K processes decode at once."""
    answers = ask_all(workers, f"decode {number * count} {count}")
    return sum(a["cpu_ns"] for a in answers) / 1e9 / sum(a["images"] for a in answers)


def _oracle(setup, plain, decode):
    return plain["cpu"] - decode * (1 - 1 / setup.jobs)


def _phase(setup, where, paths, rounds, count, jobs, delay_ms):
    """All rounds of @jobs jobs on storage that answers after @delay_ms."""
    group = setup.place.group(f"pipeline-{jobs}-{delay_ms}")
    kinds = {"plain": _start(setup, where, rounds, None, delay_ms, jobs),
             "shared": _start(setup, where, rounds, group, delay_ms, jobs)}
    decoders, lone = [], []
    if delay_ms:
        lone = _start(setup, where, rounds, None, delay_ms, 1)
    elif jobs == setup.jobs:
        listing = setup.list_of(paths)
        decoders = [setup.start_decoder("rgbx", listing) for _ in range(setup.jobs)]
    found = []
    for number in range(rounds):
        order = sorted(kinds, reverse=number % 2 == 1)
        found.append({})
        for kind in order:
            _warm(paths)
            found[-1][kind] = _slice(kinds[kind])
        if lone and number % min(LONE_EVERY, rounds - 1) == 0:
            _warm(paths)
            found[-1]["lone"] = _slice(lone)
        if found[-1]["plain"]["checksums"] != found[-1]["shared"]["checksums"]:
            raise tsjobs.JobError("pipeline: a job computed something else with tsrun")
        if decoders:
            found[-1]["decode"] = _decode(decoders, number, count)
            found[-1]["oracle"] = _oracle(setup, found[-1]["plain"], found[-1]["decode"])
    for started in (*kinds.values(), decoders, lone):
        setup.place.end(started)
    setup.place.forget(group)
    return found


def _throughputs(rounds):
    """Of the shared jobs relative to the plain ones, round by round."""
    return [found["plain"]["wall"] / found["shared"]["wall"] for found in rounds]


def measure(setup):
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    rounds = 2 if setup.quick else ROUNDS + 1
    count = 30 if setup.quick else -(-setup.data_images() // (rounds - 1))
    try:
        where, paths = setup.streams(count * (rounds + 1))
        cores = machine.cores()
        phases = {"busy": _phase(setup, where, paths, rounds, count, setup.jobs, 0),
                  "per_core": _phase(setup, where, paths, rounds, count, cores, 0),
                  "idle": _phase(setup, where, paths, rounds, count, setup.jobs, IDLE_DELAY_MS)}
    finally:
        os.sched_setaffinity(0, affinity)
    first = {name: found.pop(0) for name, found in phases.items()}
    busy, idle = phases["busy"], phases["idle"]
    rows = [
        row("pipeline", f"CPU per sample / oracle, K={setup.jobs}", 1.08,
            [found["shared"]["cpu"] / found["oracle"] for found in busy]),
        row("throughput", f"throughput / plain, K={setup.jobs} on {cores} cores", 1.25,
            _throughputs(busy), below=False),
        row("throughput-core", f"the same with one worker per core, K={cores}", 1.0,
            _throughputs(phases["per_core"]), below=False),
        row("throughput-idle", f"the same with idle cores ({IDLE_DELAY_MS} ms storage), "
            f"K={setup.jobs}", 1.0, _throughputs(idle), below=False),
    ]
    limit = statistics.median(found["plain"]["wall"] / found["lone"]["wall"]
                              for found in idle if "lone" in found)
    notes = [f"With {IDLE_DELAY_MS} ms storage the limit is {limit:.3f}: as fast as a plain job that "
             "has the machine to itself."]
    return {"title": "Pipeline", "rows": rows, "notes": notes, "raw": {"first": first, **phases},
            "settings": setup.settings(jobs=setup.jobs, workers=1, images=count * (rounds - 1),
                                       rounds=rounds - 1, bench_cores=cores)}
