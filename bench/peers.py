# SPDX-License-Identifier: MIT
"""peers: plain PyTorch, tsshim and TensorSocket feed the same K trainers, side by side.

The sides take turns, each with K trainers and K loader workers (TensorSocket four at most): one
epoch after the other over the same files.  Plain PyTorch and tsshim live through the run,
TensorSocket twice for a part of it: with its own packing, and then with a packing function that
sends a batch once to all instead of K times to each.  (All four at once, with eight trainers
each, do not fit into 24 GiB.)  Without a GPU to share memory of, TensorSocket sends the bytes of
every batch through sockets.
"""
import os
import time

from tsbench import footprint, machine, slices, tensorsocket
from tsbench import jobs as tsjobs
from tsbench.setup import RINGS, row, size

SAMPLE_BYTES = 3 * 224 * 224 * 4
ROUNDS = 4
BATCH = 64
TRAINERS = (4, 8)
QUICK = (2,)  # each imports torch, which is most of what a quick run costs
SIDES = ("plain", "tsshim", "tensorsocket", "packed")

# Loader workers of TensorSocket's one producer: twice the cores.  More only take them from it.
MOST_WORKERS = 4

# A trainer of TensorSocket that missed a heartbeat is not served until the next epoch, and waits
# for ever when it was the last.
PATIENCE, QUICK_PATIENCE = 600, 60

# Between two epochs its producer waits in a loop until all trainers have sent a heartbeat.  Real
# epochs are long enough not to notice; these are not, so the beats come before the clock starts.
BEATS_SECONDS = 1.5

# First and last round that a side lives in.  In its first everybody joins, and nothing is measured;
# as slow as TensorSocket is without a GPU, one round or two more tell enough.
LIFE = {"plain": (0, ROUNDS), "tsshim": (0, ROUNDS), "tensorsocket": (0, 1), "packed": (2, ROUNDS)}


# Where to look for ports; sides start at the same time and must not choose the same.
PORTS = {"tensorsocket": 20000, "packed": 25000}


class Starved(tsjobs.JobError):
    """A peer that runs, and has given no trainer anything."""


class Side:
    """K trainers that are fed in one way, and the processes that feed them."""

    def __init__(self, setup, data, kind, many):
        self.setup, self.data, self.kind, self.many = setup, data, kind, many
        self.group = setup.place.group(f"peers-{many}") if kind == "tsshim" else None
        self.feeders = []
        self.failure = None  # of the last turn: a side that has failed is given no other
        if kind in ("plain", "tsshim"):
            self.trainers = [self._start("samples.py", "train", data.where, "--size",
                                         str(data.slice), "--seed", str(100 + number))
                             for number in range(many)]
        else:
            self._start_tensorsocket()

    def _start(self, script, *arguments):
        path = os.path.join(self.setup.root, "bench", "workloads", script)
        return self.setup.place.start([tensorsocket.python(), path, *arguments], self.group,
                                      options=("--align",) if self.group else ())

    def _start_tensorsocket(self):
        port = str(tensorsocket.free_ports(PORTS[self.kind]))
        once = ("--pack-once",) if self.kind == "packed" else ()
        self.feeders = [self._start(
            "tensorsocket_job.py", "produce", self.data.where, "--port", port, "--size",
            str(self.data.slice), "--workers", str(min(self.many, MOST_WORKERS)), "--trainers",
            str(self.many), *once)]
        self.trainers = [self._start("tensorsocket_job.py", "receive", "--port", port)
                         for _ in range(self.many)]

    def wait_until_ready(self):
        for job in self.feeders or self.trainers:
            job.line(0)

    def try_turn(self):
        """
        A turn, or None if a peer cannot go on; that we can is not up for discussion.  A quick run
        is there to find what is broken here: not a TensorSocket that a busy machine kept from
        answering within its 500 ms.
        """
        try:
            return self.take_turn()
        except tsjobs.JobError as error:
            if not self.feeders or (self.setup.quick and not isinstance(error, Starved)):
                raise
            self.failure = str(error)
            self.end()
            return None

    def take_turn(self):
        slices.warm(self.data.paths)
        if self.feeders:
            time.sleep(BEATS_SECONDS)
        patience = QUICK_PATIENCE if self.feeders and self.setup.quick else PATIENCE
        with footprint.Peak((*self.trainers, *self.feeders)) as peak:
            found = slices.take_turn(self.trainers, self.feeders, patience)
        if not any(found["images"]):
            raise Starved(f"peers: no trainer of {self.kind} was given anything")
        found["peak"] = peak.bytes
        return found

    def end(self):
        for job in (*self.trainers, *self.feeders):
            job.kill()  # a trainer of TensorSocket waits for ever once its producer is gone
        self.trainers, self.feeders = [], []
        if self.group:
            self.setup.place.forget(self.group)


class Data:
    """Photographs for all rounds, and how many make one."""

    def __init__(self, setup):
        self.rounds = 1 if setup.quick else ROUNDS
        batches = RINGS * size(setup.ring) / SAMPLE_BYTES / self.rounds / BATCH
        self.slice = BATCH * (4 if setup.quick else int(batches + 1))
        self.where, self.paths = setup.streams(self.slice * (self.rounds + 1))

    def wait_for_age(self):
        slices.wait_for_age(self.paths)


def _life(setup, kind):
    """First and last round of a side; a quick run has two, and small sides."""
    return (0, 1) if setup.quick else LIFE[kind]


def _run(setup, data, many):
    """
    The turns of K=@many trainers by name of their side: those of its first round, and for each
    round that is measured those of all; and what ended a side before its time.
    """
    sides, joined, found = {}, {}, []
    lives = {kind: _life(setup, kind) for kind in SIDES}
    try:
        for number in range(data.rounds + 1):
            new = [kind for kind in SIDES if lives[kind][0] == number]
            for kind in new:
                sides[kind] = Side(setup, data, kind, many)
            for kind in new:
                sides[kind].wait_until_ready()
            turns = {}
            for kind in SIDES if number % 2 == 0 else SIDES[::-1]:
                first, last = lives[kind]
                if first <= number <= last and not sides[kind].failure:
                    (joined if number == first else turns)[kind] = sides[kind].try_turn()
                if number == last:
                    sides[kind].end()
            found.append({kind: turn for kind, turn in turns.items() if turn})
    finally:
        for side in sides.values():
            side.end()
    _check(data, [joined, *found])
    joined = {kind: turn for kind, turn in joined.items() if turn}
    return joined, found[1:], {kind: side.failure for kind, side in sides.items() if side.failure}


def _check(data, rounds):
    """Plain jobs and ours get every sample, and aligned ones the same."""
    for turns in rounds:
        for kind in ("plain", "tsshim"):
            if kind in turns and set(turns[kind]["distinct"]) != {data.slice}:
                raise tsjobs.JobError(f"peers: a trainer of {kind} did not get every sample")
        if "tsshim" in turns and len(set(turns["tsshim"]["checksums"])) != 1:
            raise tsjobs.JobError("peers: aligned jobs were given different samples")


def _rows(many, rounds):
    """One for each way to feed by TensorSocket that has lived through a round."""
    labels = {"tensorsocket": (f"own-{many}", f"tsshim / TensorSocket, images/s of all, K={many}"),
              "packed": (f"packed-{many}",
                         f"the same, TensorSocket helped to pack once, K={many}")}
    rows = []
    for kind, (name, label) in labels.items():
        faster = [slices.rate(turns["tsshim"]) / slices.rate(turns[kind]) for turns in rounds
                  if kind in turns]
        if faster:
            rows.append(row(name, label, 1.3, faster, below=False))
    return rows


def _note(many, kind, data, rounds):
    """One line about what a side delivered and took."""
    turns = [turn[kind] for turn in rounds if kind in turn]
    rates = sorted(slices.rate(turn) for turn in turns)
    got = [count for turn in turns for count in turn["distinct"]]
    cpu = sum(turn["cpu"] for turn in turns) / sum(sum(turn["images"]) for turn in turns)
    peak = max(turn["peak"] for turn in turns)
    lost = 1 - sum(got) / len(got) / data.slice
    return (f"- K={many}, {kind}: {rates[len(rates) // 2]:.0f} images/s of all trainers, "
            f"{1e3 * cpu:.2f} ms of CPU time per image, {peak / 2**30:.1f} GiB at most, "
            f"{min(got)} to {max(got)} of {data.slice} samples of an epoch "
            f"({100 * lost:.1f} % lost)")


def _notes(data, found, failures):
    notes = []
    for many, rounds in found.items():
        for kind in SIDES:
            if any(kind in turns for turns in rounds):
                notes.append(_note(many, kind, data, rounds))
            if kind in failures[many]:
                lines = failures[many][kind].splitlines()
                notes.append(f"- K={many}, {kind}: could not go on: {lines[-1]}")
    return "\n".join(notes)


def measure(setup, data):
    tensorsocket.python()
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(affinity)[:2])
    try:
        data.wait_for_age()
        chosen = QUICK if setup.quick else TRAINERS
        ran = {many: _run(setup, data, many) for many in chosen}
        cores = machine.cores()
    finally:
        os.sched_setaffinity(0, affinity)
    first = {str(many): joined for many, (joined, _, _) in ran.items()}
    found = {many: rounds for many, (_, rounds, _) in ran.items()}
    failures = {many: failed for many, (_, _, failed) in ran.items()}
    notes = ["TensorSocket without a GPU sends the bytes of every batch through sockets; its "
             "first row is the published release, the second is helped. Sums over all processes:"]
    notes.append(_notes(data, found, failures))
    return {"title": "Peers",
            "rows": [line for many, rounds in found.items() for line in _rows(many, rounds)],
            "notes": notes,
            "raw": {"first": first, **{str(many): rounds for many, rounds in found.items()}},
            "settings": setup.settings(images=data.slice * data.rounds, rounds=data.rounds,
                                       versions=machine.versions(tensorsocket.python()),
                                       bench_cores=cores)}
