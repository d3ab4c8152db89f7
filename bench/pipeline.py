# SPDX-License-Identifier: MIT
"""pipeline: K ImageFolder jobs, same order, different augmentation, against an oracle.

In the oracle a decode costs 1/K and a hit costs nothing.  Its CPU time per sample is what
the plain jobs spend, less (1 - 1/K) of what libjpeg spends on the same photographs under
the same load; all three are measured in turn, on another part of the data in each round.
"""
import os
import time

from tsbench import jobs as tsjobs
from tsbench import machine
from tsbench.setup import ask_all, row

ROUNDS = 5
IDLE_DELAY_MS = 20


def _train(setup, directory, group, delay_ms):
    """Run all jobs over @directory once. CPU seconds per sample, wall seconds, checksums."""
    script = os.path.join(setup.root, "bench", "workloads", "train.py")
    started = []
    for number in range(setup.jobs):
        command = [setup.python, script, directory, "--wait", "--model", "none", "--workers",
                   "1", "--seed", "1", "--augment-seed", str(100 + number),
                   "--delay-ms", str(delay_ms)]
        started.append(setup.place.start(command, group))
    for job in started:
        job.line(0)
    begin = time.monotonic()
    for job in started:
        job.say("go")
    setup.place.end(started)
    wall = time.monotonic() - begin
    ends = [job.lines[-1].split() for job in started]
    ends = [dict(zip(words[2::2], words[3::2])) for words in ends]
    images = sum(int(end["images"]) for end in ends)
    return {"cpu": sum(float(end["cpu"]) for end in ends) / images, "wall": wall,
            "images": images, "checksums": [end["checksum"] for end in ends]}


def _decode(setup, listing, count):
    """CPU seconds libjpeg takes per photograph when K processes decode at once."""
    workers = [setup.start_decoder("rgbx", listing) for _ in range(setup.jobs)]
    answers = ask_all(workers, f"decode 0 {count}")
    setup.place.end(workers)
    return sum(a["cpu_ns"] for a in answers) / 1e9 / sum(a["images"] for a in answers)


def _round(setup, number, count, delay_ms):
    where, paths = setup.streams(count, f"part-{delay_ms}-{number}")
    group = setup.place.group(f"pipeline-{delay_ms}")
    kinds = ["plain", "shared"] if number % 2 == 0 else ["shared", "plain"]
    found = {}
    for kind in kinds:
        found[kind] = _train(setup, where, group if kind == "shared" else None, delay_ms)
    if found["plain"]["checksums"] != found["shared"]["checksums"]:
        raise tsjobs.JobError("pipeline: a job computed something else with tsrun")
    if not delay_ms:
        found["decode"] = _decode(setup, setup.list_of(paths), min(count, 1000))
        saved = found["decode"] * (1 - 1 / setup.jobs)
        found["oracle"] = found["plain"]["cpu"] - saved
    for path in paths:
        os.unlink(path)
    return found


def measure(setup):
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    rounds = 2 if setup.quick else ROUNDS
    count = -(-setup.data_images() // rounds)
    try:
        busy = [_round(setup, number, count, 0) for number in range(rounds)]
        idle = [_round(setup, number, count, IDLE_DELAY_MS) for number in range(rounds)]
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    rows = [
        row("pipeline", f"CPU per sample / oracle, K={setup.jobs}", 1.08,
            [found["shared"]["cpu"] / found["oracle"] for found in busy]),
        row("throughput", f"throughput / plain, K={setup.jobs} on {cores} cores", 1.25,
            [found["plain"]["wall"] / found["shared"]["wall"] for found in busy], below=False),
        row("throughput-idle", f"the same with idle cores ({IDLE_DELAY_MS} ms storage)", 1.0,
            [found["plain"]["wall"] / found["shared"]["wall"] for found in idle], below=False),
    ]
    return {"title": "Pipeline", "rows": rows, "raw": {"busy": busy, "idle": idle},
            "settings": setup.settings(jobs=setup.jobs, workers=1, images=count * rounds,
                                       rounds=rounds, bench_cores=cores)}
