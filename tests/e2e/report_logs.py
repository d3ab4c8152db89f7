# SPDX-License-Identifier: MIT
"""Event logs made up for the tests of `tsrun report`: no job runs, no clock is asked."""

import json
import math
import random

BEGIN = 1764000000.0
VERSION = "0.1.0"
REMARKS = ("--lr 0.1", "--lr 0.3", "--model vit", "--model resnet50", "--seed 7")


class Job:
    """Counts that grow; each of @speed samples a second is made with chance @made, or taken."""

    def __init__(self, number, begin, end, speed, made, mode="aligned", killed=False):
        self.pid = 4000 + 17 * number
        self.name = "%d.%d" % (self.pid, 1000 + number)
        self.begin, self.end, self.speed, self.made_share = begin, end, speed, made
        self.mode, self.killed = mode, killed
        self.made = self.taken = self.late = 0
        self.program = "python train.py " + REMARKS[number % len(REMARKS)]
        self.epoch = 0.0

    def step(self, seconds, at, chance):
        count = int(self.speed * seconds * (1 + 0.25 * math.sin(at / 70) + chance.uniform(-.1, .1)))
        made = min(count, round(count * self.made_share * chance.uniform(0.7, 1.3)))
        self.made += made
        self.taken += count - made
        self.late += chance.random() < 0.02
        self.epoch = (self.made + self.taken) / 50000

    def delivered(self):
        return self.made + self.taken

    def saved(self):
        return round(self.taken * 0.0113, 3)

    def cpu(self):
        return round(self.made * 0.0113 + self.delivered() * 0.0009, 3)

    def row(self, front, ended=None):
        kind = "pixels" if self.mode == "default" else "sample"
        counts = {"alone": self.made // 3, "verify": self.taken // 1000, "timeout": self.late,
                  "torch_young": self.made // 50}
        row = {"job": self.name, "pid": self.pid, "began": self.begin, "ended": ended,
               "dataset": "photos", "mode": self.mode, "align": 0, "program": self.program,
               "cpu_seconds": self.cpu(), kind: {
                   "produced": self.made, "shared": self.taken,
                   "shared_bytes": self.taken * 150000, "saved_seconds": self.saved()},
               "passed": {k: v for k, v in counts.items() if v}}
        if self.mode != "default":
            row.update(order="strict", epoch=round(self.epoch, 4),
                       behind=round(max(0, front - self.epoch), 4))
        return row


class Recorder:
    """Lines as `tsrun top -b --json` prints them."""

    def __init__(self, jobs, group="default", node="node7", begin=BEGIN, step=1.0, seed=1):
        self.jobs, self.group, self.node, self.begin, self.step = jobs, group, node, begin, step
        self.chance = random.Random(seed)
        self.lines = []
        self.at = 0.0
        self.put([])

    def put(self, rows):
        used = min(1, sum(job.made for job in self.jobs) / 14000)
        self.lines.append(json.dumps({
            "tsshim_events": 2, "t": round(self.begin + self.at, 3), "every": self.step,
            "version": VERSION, "group": self.group, "node": self.node,
            "ring": {"capacity": 2 << 30, "used": int(used * (2 << 30))}, "jobs": rows}))

    def run(self, until, writes=True):
        """The jobs go on, and what they count is written, or not while nobody records."""
        while self.at < until:
            self.at += self.step
            now = self.begin + self.at
            alive = [job for job in self.jobs if job.begin <= now and (
                now - self.step < job.end)]
            for job in alive:
                job.step(self.step, self.at, self.chance)
            front = max([job.epoch for job in alive], default=0)
            if writes:
                self.put([job.row(front, now if now >= job.end and not job.killed else None)
                          for job in alive])
        return self

    def text(self):
        return "".join(line + "\n" for line in self.lines)


def sweep(count=4, seconds=900, step=1.0, **more):
    """Jobs that begin one after another; the first makes most, the last takes most."""
    jobs = [Job(n, BEGIN + 5 + n * seconds / 12 % (seconds / 2),
                BEGIN + seconds * (0.9 if n % 4 == 1 else 0.97), 90 - 7 * (n % 5),
                (0.75, 0.2, 0.3, 0.1, 0.05)[n % 5], killed=n % 4 == 3) for n in range(count)]
    return Recorder(jobs, step=step, **more)
