# SPDX-License-Identifier: MIT
"""accuracy: what a small CNN learns from a plain loader, in strict order, and behind others in free.

Each seed learns three times: alone without us; alone in strict order; and in free order behind a
job that goes through the same data faster and never waits for it.  What is compared is the part of
the pictures held back that it recognises, seed by seed.
"""
import json
import math
import statistics

from tsbench.jobs import JobError, Unavailable
from tsbench.setup import row, without_bar

SEEDS = 10
EPOCHS = 10
RING = "6M"  # the smallest there is, for an eighth of the samples
KINDS = ("plain", "strict", "free")
# Of Student's distribution for 95 %, by the number of seeds.
QUANTILES = {2: 12.706, SEEDS: 2.262}


def _start(setup, group, kind, seed, *words):
    script = f"{setup.root}/bench/workloads/accuracy.py"
    return setup.place.start([setup.python, script, "--seed", str(seed), *words], group, options=(
        f"--align={seed}", "--order", kind, "--ring", RING, "--verify", "0") if group else ())


def _learn(setup, kind, seed, epochs):
    """{"accuracy", "taken": the part of its samples that others had made}"""
    group = setup.place.group(f"accuracy-{kind}-{seed}") if kind != "plain" else None
    leader = None
    if kind == "free":
        leader = _start(setup, group, kind, seed, "--lead")
        leader.answer("epoch 1")
    job = _start(setup, group, kind, seed, "--epochs", str(epochs))
    found = json.loads(job.answer("{"))
    if group:
        found["taken"] = _taken(setup, group, job)
    setup.place.end([job])
    if leader:
        setup.place.end([leader])
    if group:
        setup.place.forget(group)
    return found


def _taken(setup, group, job):
    for line in setup.place.stats(group)["jobs"]:
        if line["pid"] == job.process.pid:
            taken, made = line["sample"]["shared"], line["sample"]["produced"]
            return taken / max(1, taken + made)
    raise JobError("accuracy: the job is not in `tsrun stats`")


def _points(found, kind):
    return [100 * each[kind]["accuracy"] for each in found]


def _difference(found, kind):
    """Of each seed, in percent of all pictures: what more it recognises than the plain one."""
    return [a - b for a, b in zip(_points(found, kind), _points(found, "plain"))]


def _interval(values):
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.2f} +- {QUANTILES[len(values)] * error:.2f}"


def _rows(found):
    rows = []
    for kind in KINDS:
        points = _points(found, kind)
        rows.append(without_bar("accuracy", f"recognised, {kind}, %", points, below=False))
    for kind in KINDS[1:]:
        points = _difference(found, kind)
        rows.append(row("accuracy", f"{kind} less plain, mean of the seeds, points", -.3, points,
                        below=False, value=statistics.mean(points)))
    return rows


def _note(found):
    each = [f"{kind} {_interval(_points(found, kind))} %" for kind in KINDS]
    less = [f"{kind} less plain {_interval(_difference(found, kind))}" for kind in KINDS[1:]]
    taken = statistics.mean(seed["free"]["taken"] for seed in found)
    return (f"Means of {len(found)} seeds with intervals of 95 %: {', '.join(each)}; seed by seed "
            f"{', '.join(less)} points. In free order {100 * taken:.0f} % of the samples were made "
            "by the job in front.")


def measure(setup):
    job = setup.place.start([setup.python, "-c", "import sklearn"])
    try:
        setup.place.end([job])
    except JobError:
        raise Unavailable("there is no scikit-learn, whose digits are learned; scripts/deps "
                          "accuracy installs it") from None
    seeds, epochs = (2, 2) if setup.quick else (SEEDS, EPOCHS)
    found = [{kind: _learn(setup, kind, seed, epochs) for kind in KINDS}
             for seed in range(1, seeds + 1)]
    return {"title": "What is learned", "rows": _rows(found), "notes": [_note(found)],
            "raw": found, "settings": setup.settings(seeds=seeds, epochs=epochs, ring=RING)}
