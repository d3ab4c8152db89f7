# SPDX-License-Identifier: MIT
"""gpu: what copies to a GPU cost, alone and shared.

Only by name, and only with a real GPU: docs/gpu.md says what a first one has to show.
"""
import ctypes
import json
import os
import subprocess
import tempfile

from tsbench import native
from tsbench.jobs import Unavailable
from tsbench.setup import row, without_bar

ROUNDS = 11
SIZES = (16 << 20, 154 << 20)
COUNT = 60
LINK = str(64 << 20)  # bytes
BATCH = 64 * 3 * 224 * 224 * 4  # bytes: 38 MB


def _need_gpu():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Unavailable("there is no libcuda.so.1") from None
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        raise Unavailable("there is no GPU")


def _run(setup, commands, group):
    options = ("--copies", "on") if group else ()
    jobs = [setup.place.start(command, group, options=options) for command in commands]
    setup.place.end(jobs)
    return [json.loads(job.lines[0]) for job in jobs]


def _small(setup, program):
    group = setup.place.group("gpu-small")
    return [{"with": _run(setup, [[program]], group)[0]["small"],
             "without": _run(setup, [[program]], None)[0]["small"]} for _ in range(ROUNDS)]


def _brought(setup, program, size):
    found = []
    for number in range(3 if setup.quick else ROUNDS):
        group = setup.place.group(f"gpu-{size}-{number}")
        commands = [[program, str(size), str(COUNT)]] * setup.jobs
        one = {"shared": _run(setup, commands, group), "alone": _run(setup, commands, None)}
        found.append({kind: sum(job["median_ms"] for job in jobs) / len(jobs)
                      for kind, jobs in one.items()})
    return found


def _links(setup):
    """What the ways to and within the first GPU take, without us: what sharing can be worth."""
    found = []
    for _ in range(3 if setup.quick else ROUNDS):
        with tempfile.TemporaryDirectory() as state:  # no verdict of this machine is touched
            done = subprocess.run([setup.place.tsrun, "doctor", "--gpu", "--json"], stdout=subprocess.PIPE, text=True,
                                  check=False, env={**os.environ, "XDG_STATE_HOME": state})
        figures = json.loads(done.stdout)["gpus"][0]["figures"]
        found.append({way: each[LINK] for way, each in figures.items() if LINK in each})
    return found


def _link_rows(links):
    rows = []
    for way, label, bar in (
            ("taken", "a copy of 64 MiB from another process / one from pinned memory", 0.15),
            ("slot", "one from pinned memory with a copy into a slot behind it / without", 1.06),
            ("peer", "one from another GPU / from pinned memory", None)):
        found = [one[way] / one["pinned"] for one in links if way in one and "pinned" in one]
        if found:
            rows.append(row("gpu-" + way, label, bar, found) if bar else without_bar("gpu-" + way, label, found))
    return rows


def _beside(setup):
    """What a batch's copies cost kernels that run beside them, and what those into slots add."""
    program = native.program(setup.root, setup.native, "beside")
    return [_run(setup, [[program, str(BATCH)]], None)[0]
            for _ in range(3 if setup.quick else ROUNDS)]


def _beside_rows(found):
    if any(one["kernel_ms"] is None for one in found):
        return []
    pairs = {"copies": "copies", "slots": "copies and their slots"}
    names = {"copies": "beside_copies_ms", "slots": "beside_copies_and_slots_ms"}
    return [without_bar(f"gpu-kernel-{name}", f"a kernel beside {what} / alone",
                        [one[names[name]] / one["kernel_ms"] for one in found])
            for name, what in pairs.items()]


def _steps(setup):
    """K trainers that bring the same batches by each call; all have the machine's one link."""
    program = native.program(setup.root, setup.native, "steps")
    count, pace = (100, 10000) if setup.quick else (1000, 10000)
    raw = {}
    for way in ("call", "stream", "batch", "graph"):
        command = [program, way, str(BATCH), str(count), str(pace)]
        raw[way] = []
        for number in range(1 if setup.quick else 3):
            group = setup.place.group(f"gpu-steps-{way}-{number}")
            one = {"shared": _run(setup, [command] * setup.jobs, group),
                   "plain": _run(setup, [command] * setup.jobs, None)}
            one["devices"] = [dataset.get("kinds", dataset)["device"]
                              for dataset in setup.place.stats(group)["datasets"]]
            raw[way].append(one)
    return raw


def _step_rows(raw):
    return [without_bar(f"gpu-steps-{way}", f"K trainers, a batch of 38 MB by {way}, shared / not",
                        [sum(job["mean_ms"] for job in one["shared"]) /
                         sum(job["mean_ms"] for job in one["plain"]) for one in found])
            for way, found in raw.items()]


def measure(setup):
    _need_gpu()
    program = native.program(setup.root, setup.native, "copies")
    raw = {"small": _small(setup, program), "links": _links(setup), "beside": _beside(setup),
           "steps": _steps(setup)}
    rows = [row("gpu-small", "added to a copy that is too small", 200,
                [one["with"] - one["without"] for one in raw["small"]], unit="ns")]
    rows += _link_rows(raw["links"]) + _beside_rows(raw["beside"]) + _step_rows(raw["steps"])
    for size in SIZES:
        raw[str(size)] = _brought(setup, program, size)
        rows.append(row(f"gpu-{size >> 20}", f"a pageable copy of {size >> 20} MiB, shared / not",
                        1.0, [one["shared"] / one["alone"] for one in raw[str(size)]]))
    return {"title": "Copies to a GPU", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=setup.jobs)}
