# SPDX-License-Identifier: MIT
"""bring: bytes that K jobs with the same batches bring to a GPU, with a driver made of software.

No GPU is needed, and nothing here is a figure of one: the driver is tests/fakecuda, which counts
what reaches it, and whose link is as slow as it is told.
"""
import json
import os
import sys

sys.path.insert(1, os.path.join(os.path.dirname(__file__), "..", "tests", "fakecuda"))
import counters  # noqa: E402  what the driver counts

from tsbench import native  # noqa: E402
from tsbench.jobs import JobError  # noqa: E402
from tsbench.setup import row, without_bar  # noqa: E402

ROUNDS = 5
BYTES = (256 << 10) + 512  # without the labels of a batch (steps.c) what can just be shared
PACE = 8000  # us: that a step's kernels take

# A copy takes 5 ms, as one of 128 MB over PCIe 4, or 1 ms; a driver's copy of pageable memory
# goes through a small buffer.  All jobs have one link, as those behind one slot do.
LINKS = {"5 ms": BYTES * 200, "1 ms": BYTES * 1000}
WAYS = {"call": "cuMemcpyHtoD", "stream": "cuMemcpyHtoDAsync", "batch": "cuMemcpyBatchAsync"}


class Driver:
    """A machine of the software driver, and what was counted there."""

    def __init__(self, setup, bandwidth):
        self.path = os.path.join(setup.place.directory, "counters")
        where = native.software_driver(setup.root, setup.native)
        path = ":".join(filter(None, (where, os.environ.get("LD_LIBRARY_PATH"))))
        self.environment = {
            "LD_LIBRARY_PATH": path, "FAKECUDA_COUNTERS": self.path, "FAKECUDA_LINK_SHARED": "1",
            "FAKECUDA_BANDWIDTH": str(bandwidth), "FAKECUDA_STAGING": "65536"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.unlink(self.path)

    def brought(self):
        return counters.read(self.path)["h2d_bytes"]


def _together(setup, jobs, way, bandwidth, steps, group, pace=PACE):
    """What @jobs jobs say, and the bytes that they brought; shared, where there is a group."""
    command = [native.program(setup.root, setup.native, "steps"), way, str(BYTES), str(steps),
               str(pace)]
    options = ("--copies", "on") if group else ()
    with Driver(setup, bandwidth) as driver:
        started = [setup.place.start(command, group, driver.environment, options=options)
                   for _ in range(jobs)]
        setup.place.end(started)
        return {"jobs": [json.loads(job.lines[0]) for job in started],
                "bytes": driver.brought()}


def _round(setup, way, bandwidth, steps, number):
    group = setup.place.group(f"bring-{way}-{bandwidth}-{number}")
    one = _together(setup, setup.jobs, way, bandwidth, steps, group)
    setup.place.forget(group)
    return one


def _mean_ms(one):
    return sum(job["mean_ms"] for job in one["jobs"]) / len(one["jobs"])


def _graph(setup):
    """Captured copies are the driver's: as many bytes with as without."""
    steps = 20
    found = [_together(setup, 1, "graph", 0, steps, group, 0)["bytes"]
             for group in (setup.place.group("bring-graph"), None)]
    if found[0] != found[1] or found[0] != steps * BYTES:
        raise JobError(f"graph: {found} bytes were brought in {steps} launches")


def measure(setup):
    rounds, steps = (1, 120) if setup.quick else (ROUNDS, 1500)
    raw, rows = {}, []
    _graph(setup)
    alone = _together(setup, 1, "call", 0, steps, None, 0)["bytes"]
    if alone != steps * BYTES:
        raise JobError(f"one job brought {alone} bytes instead of {steps * BYTES}")
    for way, name in WAYS.items():
        for link, bandwidth in LINKS.items():
            found = [_round(setup, way, bandwidth, steps, i) for i in range(rounds)]
            raw[f"{way}, {link}"] = found
            rows.append(row(f"bring-{way}-{link.replace(' ', '')}",
                            f"bytes of K jobs / of one: {name}, {link} each", 1.03,
                            [one["bytes"] / alone for one in found]))
    plain = [_together(setup, setup.jobs, "stream", LINKS["5 ms"], steps // 4, None)
             for _ in range(rounds)]
    raw["stream, 5 ms, plain"] = plain
    shared = raw["stream, 5 ms"]
    rows.append(without_bar("bring-wait", "what a copy of 5 ms takes with K jobs on the link, "
                            "shared / not",
                            [_mean_ms(one) / _mean_ms(other) for one, other in zip(shared, plain)]))
    rows.append(without_bar("bring-longest", "the longest of all calls, shared / not",
                            [max(job["longest_ms"] for job in one["jobs"]) /
                             max(job["longest_ms"] for job in other["jobs"])
                             for one, other in zip(shared, plain)]))
    return {"title": "Copies, with a driver made of software", "rows": rows, "raw": raw,
            "notes": ["The model decides whether to share. Its driver is a stand-in: bytes are "
                      "counted, times are those of a link that was told how slow to be, and "
                      "nothing here was measured on a GPU."],
            "settings": setup.settings(jobs=setup.jobs, steps=steps, bytes=BYTES)}
