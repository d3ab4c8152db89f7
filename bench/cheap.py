# SPDX-License-Identifier: MIT
"""cheap: jobs whose items cost next to nothing, alone and four at once: plain, default, aligned.

Aligned jobs share them by the chunk; others, whose seeds differ, share nothing.  No job may be slower.
In each round the three ways take turns with new jobs, so that what their first epoch costs counts;
what starting Python and torch costs does not.
"""
import os

from renewed import make_images
from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, row

ITEMS, EPOCHS, ROUNDS = 50_000, 2, 7
BAR = 0.97
WAYS = {"plain": None, "default": (), "aligned": ("--align",)}


def _run(setup, command, way, many):
    """Items per second of @many jobs that begin together, and the sums of what they were given."""
    group = None if WAYS[way] is None else setup.place.group(f"cheap-{way}-{many}")
    jobs = [setup.place.start([*command, "--seed", str(seed)], group, options=WAYS[way] or ())
            for seed in range(many)]
    for job in jobs:
        job.line(0)
    answers = ask_all(jobs, "go")
    cpu = setup.place.end(jobs)
    if group:
        setup.place.forget(group)
    items = [answer["items"] for answer in answers]
    return {"items_s": sum(items) / max(answer["seconds"] for answer in answers),
            "items": items, "sums": [answer["sum"] for answer in answers], "cpu": cpu}


def _check(found, items, number):
    plain, default, aligned = (found[way] for way in WAYS)
    if any(set(one["items"]) != {items * EPOCHS} for one in found.values()):
        raise tsjobs.JobError(f"cheap: not every item was delivered in round {number}")
    if plain["sums"] != default["sums"]:
        raise tsjobs.JobError(f"cheap: other items with tsrun in round {number}")
    if len(set(aligned["sums"])) != 1:
        raise tsjobs.JobError(f"cheap: aligned jobs were given different items in round {number}")


def measure(setup):
    rounds, items = (1, 1000) if setup.quick else (ROUNDS, ITEMS)
    data = os.path.join(setup.place.directory, "cheap.npy")
    make_images(data, items)
    command = [setup.python, os.path.join(setup.root, "bench", "workloads", "cheap.py"), data,
               "--epochs", str(EPOCHS)]
    raw, rows = {}, []
    for many in (1, 4):
        raw[many] = []
        for number in range(rounds):
            ways = list(WAYS)[number % 3:] + list(WAYS)[:number % 3]
            found = {way: _run(setup, command, way, many) for way in ways}
            _check(found, items, number)
            raw[many].append(found)
        rows += [row(f"{way}-{many}", f"K={many}, CIFAR-10-like items/s, {way} / plain", BAR,
                     [found[way]["items_s"] / found["plain"]["items_s"] for found in raw[many]],
                     below=False) for way in ("aligned", "default")]
    return {"title": "Items that cost next to nothing", "rows": rows, "raw": raw,
            "settings": setup.settings(workers=1, epochs=EPOCHS, items=items, rounds=rounds)}
