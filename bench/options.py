# SPDX-License-Identifier: MIT
"""options: aligned jobs of a sweep whose data sets hold all options, against those that hold none.

What is taken, and what leaving options out costs: naming a data set against the last commit that
left none out, and the CPU time of an item.  The jobs of a sweep begin together.
"""
import io
import os
import statistics
import subprocess
import tarfile

from tsbench import jobs as tsjobs
from tsbench.setup import ask_all, row, without_bar

BASE = "a8d6fd9~1"  # before options were left out of names
GLUE = "hooks/torch/python"
WAYS = ("namespace", "dataclass", "dict", "global", "class")
ROUNDS, PHOTOS, EPOCHS = 5, 480, 3
# A difference of some microseconds is told by many short turns, of several pairs of processes: one
# that lies luckier in memory stays so for all of its turns.
MODULES_ROUNDS, ITEMS_PAIRS, ITEMS_TURNS = 21, 10, 5
ITEMS, BATCHES = 1000, (32, 8)
NAMED = {"paths": ("a million paths", 10**6, 0), "modules": ("code in 100 modules", 100, 100)}
TAKEN, NAMING, ITEM_US = 0.9, 1.1, 5


class Data:
    """Photographs, which are some seconds old before jobs share samples of them."""

    def __init__(self, setup):
        where, _ = setup.streams(48 if setup.quick else PHOTOS, os.path.join("photos", "a"))
        self.photos = os.path.dirname(where)


def _before(setup):
    """The directory of the glue as it was at BASE, taken from the repository's history."""
    done = subprocess.run(["git", "-C", setup.root, "archive", BASE, GLUE], capture_output=True, check=False)
    if done.returncode != 0:
        raise tsjobs.Unavailable("options: needs a clone with its history, for the names of before")
    where = os.path.join(setup.place.directory, "before")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(where)
    return os.path.join(where, GLUE)


def _naming(setup, command, rounds):
    """Milliseconds to name, {what: [{side: {first, again}}]}."""
    sides = {"now": os.path.join(setup.root, GLUE), "before": _before(setup)}
    found = {}
    for what, (_, size, modules) in NAMED.items():
        found[what] = []
        for number in range(rounds if modules == 0 or setup.quick else MODULES_ROUNDS):
            found[what].append({})
            for side in sorted(sides, reverse=number % 2 == 1):
                words = ["--glue", sides[side], "--modules", str(modules), "--data",
                         os.path.join(setup.place.directory, "modules"), "--size",
                         str(min(size, 1000) if setup.quick else size)]
                job = setup.place.start([*command, "name", *words])
                job.line(0)
                found[what][-1][side] = job.ask("go")
                setup.place.end([job])
    return found


def _pair(setup, command, batch, count, number):
    """CPU microseconds of an item, [{way: us}], of two aligned jobs that take turns."""
    ways = ("nothing", "namespace")
    jobs = {way: setup.place.start(
        [*command, "items", "--way", way, "--batch", str(batch), "--size", str(count)],
        setup.place.group(f"options-{way}-{batch}-{number}"), options=("--align",)) for way in ways}
    for job in jobs.values():
        job.line(0)
        job.ask("warm up")
    found = []
    for turn in range(1 if setup.quick else ITEMS_TURNS):
        found.append({})
        for way in sorted(ways, reverse=(number + turn) % 2 == 1):
            before = jobs[way].cpu()
            if jobs[way].ask("go")["items"] != count:
                raise tsjobs.JobError("options: items are missing")
            found[-1][way] = (jobs[way].cpu() - before) / count * 1e6
    setup.place.end(list(jobs.values()))
    return found


def _items(setup, command):
    """CPU microseconds of an item, {batch: [{way: us}]}."""
    pairs, count = (1, 200) if setup.quick else (ITEMS_PAIRS, ITEMS)
    return {batch: [turn for number in range(pairs)
                    for turn in _pair(setup, command, batch, count, number)] for batch in BATCHES}


def _sweep(setup, command, way, photos):
    """What came of K jobs that began together; without us where @way is None."""
    group = None if way is None else setup.place.group(f"options-{way}")
    jobs = [setup.place.start(
        [*command, "train", "--data", photos, "--way", way or "namespace", "--seed", str(seed),
         "--epochs", str(EPOCHS)], group, options=("--align",)) for seed in range(setup.jobs)]
    for job in jobs:
        job.line(0)
    answers = ask_all(jobs, "go")
    made = None
    if group:
        made = sum(dataset["sample"]["produced"] for dataset in setup.place.stats(group)["datasets"])
    setup.place.end(jobs)
    if group:
        setup.place.forget(group)
        if len({answer["sum"] for answer in answers}) != 1:
            raise tsjobs.JobError(f"options: aligned jobs got different samples ({way})")
    items = sum(answer["items"] for answer in answers)
    return {"items_s": items / max(answer["seconds"] for answer in answers), "items": items, "made": made}


def _sweeps(setup, command, photos, rounds):
    """[{way: what came of it}], "plain" without us and "nothing" where no options are held."""
    found = []
    for number in range(rounds):
        ways = (None, "nothing", *WAYS)
        turned = ways[number % len(ways):] + ways[:number % len(ways)]
        found.append({way or "plain": _sweep(setup, command, way, photos) for way in turned})
    return found


def _taken(one, jobs):
    """How much of what can be taken was: each item is to be made once."""
    return (one["items"] - one["made"]) / (one["items"] * (1 - 1 / jobs))


def measure(setup, data):
    rounds = 1 if setup.quick else ROUNDS
    command = [setup.python, os.path.join(setup.root, "bench", "workloads", "options.py")]
    raw = {"naming": _naming(setup, command, rounds), "items": _items(setup, command),
           "sweeps": _sweeps(setup, command, data.photos, rounds)}
    rows = [row(f"options-taken-{way}", f"K={setup.jobs}, taken of what can be, other options held: {way}",
                TAKEN, [_taken(found[way], setup.jobs) for found in raw["sweeps"]], below=False) for way in WAYS]
    rows += [without_bar(f"options-speed-{way}", f"K={setup.jobs}, samples/s / plain, other options held: {way}",
                         [found[way]["items_s"] / found["plain"]["items_s"] for found in raw["sweeps"]], below=False)
             for way in ("nothing", *WAYS)]
    for what, (about, _, _) in NAMED.items():
        rows += [row(f"options-{what}-{when}", f"naming {about}, {words}, CPU time / before", NAMING,
                     [found["now"][when] / found["before"][when] for found in raw["naming"][what]])
                 for when, words in (("first", "first time"), ("again", "again"))]
    rows += [row(f"options-item-{batch}", f"CPU time of an item more, 40 options held, batches of {batch}", ITEM_US,
                 [found["namespace"] - found["nothing"] for found in raw["items"][batch]], "us") for batch in BATCHES]
    middle = statistics.median(found["now"]["first"] for found in raw["naming"]["paths"])
    return {"title": "Options that differ", "rows": rows, "raw": raw,
            "notes": [f"a million paths have their first name after {middle:.0f} ms"],
            "settings": setup.settings(jobs=setup.jobs, images=PHOTOS, epochs=EPOCHS, items=ITEMS, rounds=rounds)}
