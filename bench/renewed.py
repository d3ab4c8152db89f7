# SPDX-License-Identifier: MIT
"""renewed: one job whose items are not worth sharing, with new workers in every epoch.

All that is done for such a job must be paid by the hand-over pool, in its first epoch, too: its
workers begin with nothing, and there are as many of them as epochs times workers.
"""
import json
import os

from tsbench import jobs as tsjobs
from tsbench.setup import row

ITEMS, EPOCHS, WORKERS, ROUNDS = 10_000, 4, 4, 7


def make_images(path, count):
    """A file of @count images of 32 x 32, as bench/workloads/samples.py reads it."""
    import numpy

    random = numpy.random.default_rng(0)
    numpy.save(path, random.integers(0, 256, (count, 32, 32, 3), numpy.uint8))


def _run(setup, command, group):
    job = setup.place.start(command, group)
    answer = json.loads(job.line(0))
    setup.place.end([job])
    return answer


def measure(setup):
    rounds, items = (2, 1000) if setup.quick else (ROUNDS, ITEMS)
    data = os.path.join(setup.place.directory, "renewed.npy")
    make_images(data, items)
    command = [setup.python, os.path.join(setup.root, "bench", "workloads", "epochs.py"), data,
               "--epochs", str(EPOCHS), "--workers", str(WORKERS)]
    group = setup.place.group("renewed")
    raw = []
    for number in range(rounds):
        kinds = ("plain", "shared") if number % 2 else ("shared", "plain")
        raw.append({kind: _run(setup, command, group if kind == "shared" else None)
                    for kind in kinds})
        setup.place.forget(group)
        if any(raw[-1]["plain"][what] != raw[-1]["shared"][what] for what in ("sum", "images")):
            raise tsjobs.JobError(f"renewed: other samples with tsrun in round {number}")
    rows = [row("renewed", "K=1, CIFAR-10-like, new workers each epoch: CPU with / without", 1.02,
                [r["shared"]["cpu"] / r["plain"]["cpu"] for r in raw])]
    return {"title": "New workers in every epoch", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=1, workers=WORKERS, epochs=EPOCHS, items=items,
                                       rounds=rounds)}
