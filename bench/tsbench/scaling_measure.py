# SPDX-License-Identifier: MIT
"""The numbers of one node that the model of many nodes begins with.

From recorded benchmarks where there are such, else from short runs: what a learner without a GPU
needs for a sample, what it costs to bring a file or a sample from one process to another, what
a file costs the storage, and what becomes of storage that many ask.  CPU time is what counts
wherever it can be, for it does not depend on who else is on the machine.
"""
import json
import os
import statistics
import subprocess

from . import machine, results
from .jobs import JobError, Unavailable, cpu_clock
from .setup import ask_all

READERS = (1, 2, 4, 8, 16, 32)
LATENCY_US = 2000  # as in the recorded benchmark "read"

# The storage's link, told to it: a tenth of what two cores can serve, so that no core is the limit.
BANDWIDTH = 50_000_000
SAMPLE_BYTES = 3 * 224 * 224 * 4


def _recorded(directory, name):
    found = results.load_all(directory, [name])
    if not found:
        raise Unavailable(f"scaling: bench/results/{name}.json is not there; scripts/bench {name}")
    return found[name]


def _row(result, name):
    return next(row["value"] for row in result["rows"] if row["id"] == name)


def recorded(directory):
    """{name: (value, unit, where from)} of what other benchmarks have measured."""
    prepare, read = (_recorded(directory, name) for name in ("prepare", "read"))
    makers = [one["makers"]["make"] for one in prepare["raw"]["aligned-4"]]
    local = [one["known"] for one in read["raw"]["local"]]

    def source(result, what):
        return f"recorded benchmark {result['name']}, {what}, {result['when'][:10]}"

    return {
        "file_bytes": (read["settings"]["bytes"] / read["settings"]["files"], "bytes",
                       source(read, "mean of the photographs")),
        "make_s": (statistics.median(makers), "s", source(prepare, "CPU time of making a sample")),
        "take_s": (_row(prepare, "price-4") / 1e3, "s",
                   source(prepare, "CPU time of a shared sample beyond its part of making it")),
        "local_s": (statistics.median(local) / 1e6, "s",
                    source(read, "a staged file from open to close")),
    }


def _workload(setup, name, *words):
    script = os.path.join(setup.root, "bench", "workloads", name)
    done = subprocess.run([setup.python, script, *map(str, words)], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise JobError(f"scaling: {name}: {done.stderr[-400:]}")
    return json.loads(done.stdout)


def _transfer(setup, size, rounds):
    """CPU seconds of both ends for one value of @size bytes over loopback, of each round."""
    count = (20 if setup.quick else 1000) * 106_000 // size
    found = [_workload(setup, "peer.py", size, count) for _ in range(rounds)]
    return [one["cpu"] / count for one in found]


def _curve(data, readers):
    """Files per second that so many get together, each its part of all files."""
    found = {}
    with data.mount(latency_us=LATENCY_US, bandwidth=BANDWIDTH, threads=128) as storage:
        for many in readers:
            each = data.files // many
            with data.jobs(storage.path, many) as jobs:
                expected = [len(job.lines) for job in jobs]
                for number, job in enumerate(jobs):
                    job.say(f"read {number * each} {each} 0")
                answers = [json.loads(job.line(at)) for job, at in zip(jobs, expected)]
            found[many] = many * each / (max(one["wall_ns"] for one in answers) / 1e9)
    return found


def _storage_cpu(data, rounds):
    """CPU seconds of the storage's process for one file, of each round."""
    found = []
    with data.mount() as storage, data.jobs(storage.path, 1) as jobs:
        for _ in range(rounds):
            before = cpu_clock(storage.process.pid)
            ask_all(jobs, f"read 0 {data.files} 0")
            found.append((cpu_clock(storage.process.pid) - before) / data.files)
    return found


def measure(setup, data):
    """What this benchmark measures itself. @data: the storage of bench/read.py."""
    rounds = 1 if setup.quick else 5
    readers = (1, 2, 8) if setup.quick else READERS
    learner = _workload(setup, "learner.py", *((2, 1) if setup.quick else (8, 4)))
    return {
        "learner_s": [learner["cpu"] / learner["samples"]],
        "file_transfer_s": _transfer(setup, round(data.bytes / data.files), rounds),
        "sample_transfer_s": _transfer(setup, SAMPLE_BYTES, rounds),
        "storage_file_s": _storage_cpu(data, rounds),
        "curve": [_curve(data, readers) for _ in range(1 if setup.quick else 3)],
        "cores": machine.cores(),
    }
