# SPDX-License-Identifier: MIT
"""speeds: jobs of different speed over one data set, 20 rings large, in strict and in free order.

Each is a trainer that takes so many samples a second, as one does whose GPU is its limit.  What is
counted is what all of them made against what the fastest was given, from the middle of the run on,
and how many samples a second each was given against what it is given alone.
"""
import json
import os
import statistics
import time

from tsbench import jobs as tsjobs
from tsbench import tensorsocket
from tsbench.setup import RINGS, row, without_bar

RING = "16M"
RECORDS = 320  # of 48 KiB, that such a ring holds
ITEMS = RINGS * RECORDS
PER_SECOND = 250  # samples that the fastest takes, for which a core has time
ORDERS = ("free", "strict")

# What share of that each job takes, and the most that is made of each sample of the fastest.
SWEEPS = {"two": ((1, .5), 1.03), "four": ((1, .8, .5, .25), 1.05)}

# Seconds until the ring is full and the jobs are apart, and then until the end.
LONG = 20, 60
QUICK = 1, 1

# Of jobs in step: the machine differs by more than the orders do from minute to minute, so that
# both take turns of so many seconds in one run; before them come those until the rings are full,
# and behind them one in which who has ended goes on.
TURN, TURNS_BEFORE, TURNS = 3, 4, 24

# Within the first epoch of TensorSocket, at whose end a trainer may wait for ever (peers.py).
PEER = 10, 30

PATIENCE = 120  # seconds for what a job says
FIRST_PORT = 30000  # to look for those of TensorSocket


def _script(setup, python, name, *words):
    return [python or setup.python, f"{setup.root}/bench/workloads/{name}.py", *words,
            "--items", str(ITEMS)]


def _start(setup, group, speed, order, python):
    options = "--align", "--order", order, "--ring", RING, "--verify", "0"
    command = _script(setup, python, "speeds", "--speed", str(speed))
    return setup.place.start(command, group, options=options if group else ())


def _start_tensorsocket(setup, speeds):
    """Its producer, which helps it to send a batch once to all, and trainers."""
    port = str(tensorsocket.free_ports(FIRST_PORT))

    def start(*words):
        return setup.place.start(_script(setup, tensorsocket.python(), "tensorsocket_speeds",
                                         *words, "--port", port))
    feeder = start("produce", "--trainers", str(len(speeds)))
    return feeder, [start("receive", "--speed", str(speed)) for speed in speeds]


def _made(setup, group):
    """Samples that were made by all jobs of the group until now."""
    return sum(dataset["sample"]["produced"]
               for dataset in setup.place.stats(group)["datasets"])


def _run(setup, speeds, order, name, times=LONG, python=None):
    """What _watch finds of jobs that share in @order, or not at all."""
    group = setup.place.group(f"speeds-{name}-{order}") if order else None
    jobs = [_start(setup, group, speed, order, python) for speed in speeds]
    found = _watch(setup, jobs, times, group)
    _end(setup, jobs, group)
    return found


def _end(setup, jobs, group):
    for job in jobs:
        job.say("end")
    setup.place.end(jobs)
    if group:
        setup.place.forget(group)


def _begin(jobs):
    """When all of them are ready, and a little time after it: when they may go."""
    for job in jobs:
        job.answer("ready", 2 * PATIENCE)
    return time.monotonic() + .5


def _go(jobs, windows):
    for job in jobs:
        job.say("go " + " ".join(f"{when}" for window in windows for when in window))


def _given(jobs, group):
    """What each says at its end: samples in each window, and indices of each epoch."""
    answers = [json.loads(job.answer("{", PATIENCE)) for job in jobs]
    for answer in answers:
        if group and set(answer["distinct"]) - {ITEMS}:
            raise tsjobs.JobError(f"speeds: an epoch was not whole: {answer['distinct']}")
    return [answer["given"] for answer in answers], [answer["distinct"] for answer in answers]


def _watch(setup, jobs, times, group=None):
    """
    {"made": by all, "given": to each, "cpu": of each a second} of the second part of a run, and
    "distinct": indices of the epochs that each finished.  The jobs go on.
    """
    before, during = QUICK if setup.quick else times
    begin = _begin(jobs)
    middle, end = begin + before, begin + before + during
    _go(jobs, [(begin, middle), (middle, end)])
    time.sleep(max(0, middle - time.monotonic()))
    made, cpu = -_made(setup, group) if group else 0, [-job.cpu() for job in jobs]
    time.sleep(max(0, end - time.monotonic()))
    made += _made(setup, group) if group else 0
    cpu = [spent + job.cpu() for spent, job in zip(cpu, jobs)]
    given, distinct = _given(jobs, group)
    return {"made": made, "given": [windows[-1] for windows in given],
            "cpu": [spent / during for spent in cpu], "seconds": during, "distinct": distinct}


def _rates(found):
    return [given / found["seconds"] for given in found["given"]]


def _sweep(setup, name, shares, bar, alone):
    raw = {order: _run(setup, [share * PER_SECOND for share in shares], order, name)
           for order in ORDERS}
    made = {order: found["made"] / found["given"][0] for order, found in raw.items()}
    paces = [rate / alone[share] for share, rate in zip(shares, _rates(raw["free"]))]
    label = ", ".join(f"{share:g}" for share in shares)
    rows = [row("speeds", f"made / given to the fastest, speeds {label}, free", bar,
                [made["free"]]),
            without_bar("speeds", f"the same, strict, {label}", [made["strict"]]),
            row("speeds", f"slowest of the jobs against alone, {label}, free", .97, paces,
                below=False, value=min(paces))]
    return raw, rows


def _against_tensorsocket(setup, name, shares):
    """The same jobs, with a torch that TensorSocket works with, and fed by it."""
    speeds = [share * PER_SECOND for share in shares]
    ours = _run(setup, speeds, "free", f"{name}-peer", PEER, tensorsocket.python())
    label = ", ".join(f"{share:g}" for share in shares)
    feeder, jobs = _start_tensorsocket(setup, speeds)
    try:
        theirs = _watch(setup, jobs, PEER)
    except tsjobs.JobError:
        # One that ended has a fault that is to be seen.
        if any(job.process.poll() is not None for job in (feeder, *jobs)):
            raise
        return {"tsshim": ours}, f"- Speeds {label}: TensorSocket serves nobody any more.", None
    finally:
        for job in (feeder, *jobs):
            job.kill()
    rates = [sum(_rates(found)) for found in (ours, theirs)]
    note = (f"- Speeds {label}: {rates[0]:.0f} samples/s of all trainers, fed by TensorSocket "
            f"{rates[1]:.0f}.")
    return {"tsshim": ours, "tensorsocket": theirs}, note, row(
        "speeds", f"tsshim / TensorSocket, samples/s of all, speeds {label}", 1.5,
        [rates[0] / rates[1]], below=False)


def _peers(setup, sweeps):
    """Rows and notes about TensorSocket, where it is installed."""
    rows, raw = [], {}
    notes = ["TensorSocket, the published release, is helped to send a batch once to all; without "
             "a GPU it sends the bytes."]
    try:
        tensorsocket.python()
    except tsjobs.Unavailable as error:
        if os.environ.get("TSSHIM_TEST_MUST", "0") != "0":
            raise
        return raw, rows, [f"TensorSocket was not measured: {error}"]
    for name, (shares, _) in sweeps.items():
        raw[name], note, line = _against_tensorsocket(setup, name, shares)
        rows += [line] if line else []
        notes.append(note)
    return raw, rows, [notes[0], "\n".join(notes[1:])]


def _driven(setup):
    """A job with nothing else to do, and one that takes a third of what that gets alone."""
    lone = _run(setup, [0], None, "driven-alone")
    slow = _rates(lone)[0] / 3
    plain = _run(setup, [slow], None, "driven-slow")
    raw = _run(setup, [0, slow], "free", "driven")
    each = [found["cpu"][-1] / _rates(found)[-1] for found in (raw, plain)]
    return {"alone": lone, "plain": plain, "free": raw}, [
        row("speeds", "fast job without other work / alone, a slow one beside it", .95,
            [_rates(raw)[0] / _rates(lone)[0]], below=False),
        row("speeds", "CPU per sample of the slow one / plain", .25, [each[0] / each[1]])]


def _in_step(setup, many):
    """As many jobs in each order, which take turns: while one order goes on the other rests."""
    before, turns, each = (1, 1, 1) if setup.quick else (TURNS_BEFORE, TURNS, TURN)
    groups = {order: setup.place.group(f"speeds-step-{many}-{order}") for order in ORDERS}
    jobs = {order: [_start(setup, group, 0, order, None) for _ in range(many)]
            for order, group in groups.items()}
    begin = _begin([job for some in jobs.values() for job in some])
    for place, some in enumerate(jobs.values()):
        starts = [begin + (len(ORDERS) * turn + place) * each
                  for turn in range(before + turns + 1)]
        _go(some, [(start, start + each) for start in starts])
    raw = {}
    time.sleep(len(ORDERS) * (before + turns + 1) * each)
    for order, some in jobs.items():
        given, distinct = _given(some, groups[order])
        raw[order] = {"given": given, "distinct": distinct}
    for order, some in jobs.items():
        _end(setup, some, groups[order])
    sums = {order: [sum(turn) for turn in zip(*found["given"])][before:-1]
            for order, found in raw.items()}
    ratios = [free / strict for free, strict in zip(sums["free"], sums["strict"])]
    return raw, [row("speeds", f"K={many} in step, samples/s, free / strict", .98, ratios,
                     below=False)]


def _choosing(setup):
    """What choosing costs the process that iterates; epochs of 1.3 million indices."""
    group = setup.place.group("speeds-choosing")
    job = setup.place.start([setup.python, f"{setup.root}/bench/workloads/choosing.py"], group,
                            options=("--align", "--order", "free"))
    found = json.loads(job.answer("{"))
    setup.place.end([job])
    setup.place.forget(group)
    return found, [
        row("speeds", "choosing, CPU per sample of 1.3 million", 5,
            [found["choose_us"] + found["begin_us"]], unit="us"),
        row("speeds", "memory of the order of 1.3 million", 16, [found["bytes"] / 1e6],
            unit="MB")]


def measure(setup):
    sweeps = {"two": SWEEPS["two"]} if setup.quick else SWEEPS
    shares = sorted({share for speeds, _ in sweeps.values() for share in speeds}, reverse=True)
    lone = {share: _run(setup, [share * PER_SECOND], None, "alone") for share in shares}
    alone = {share: _rates(found)[0] for share, found in lone.items()}
    choosing, rows = _choosing(setup)
    raw = {"alone": {str(share): found for share, found in lone.items()}, "choosing": choosing}
    for name, (speeds, bar) in sweeps.items():
        raw[name], more = _sweep(setup, name, speeds, bar, alone)
        rows += more
    raw["driven"], more = _driven(setup)
    rows += more
    for many in (2,) if setup.quick else (4, 8):
        raw[f"step {many}"], more = _in_step(setup, many)
        rows += more
    raw["peers"], more, notes = _peers(setup, sweeps)
    rows += more
    return {"title": "Jobs of different speed", "rows": rows, "raw": raw, "notes": notes,
            "settings": setup.settings(items=ITEMS, per_second=PER_SECOND,
                                       alone_median=statistics.median(alone.values()))}
