# SPDX-License-Identifier: MIT
"""
An hour of trouble: eight jobs of five kinds, and one that lasts, on two nodes (network namespaces), while
processes are killed and stopped, memory and names run out, servers end, files and the library are replaced, and
clocks step.  Whatever happens, each sample is that of a plain run; a job ends early only where a fault was
its own; nobody hangs; and nothing is left.

usage: scripts/soak [MINUTES] [--seed N] [--output FILE] [--faults N]
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import soak_runs  # noqa: E402, I001 -- finds the others
import soak_faults  # noqa: E402
import support  # noqa: E402
from soak_runs import SLOTS, Run  # noqa: E402

COLUMNS = ("minute", "faults", "runs", "ended", "early", "samples", "wrong", "hangs", "processes", "descriptors", "MiB",
           "objects", "shm MiB", "helpers", "elder fds", "elder MiB", "taken %")
HELPERS = ("tsshim-recorder", "tsshim-peer", "tsshim-stager")


class Soak:
    """@place, with jobs that are started anew whenever they end."""

    def __init__(self, place, rate):
        self.place, self.rate, self.runs = place, rate, {}
        self.faults = soak_faults.Faults(place, self.runs)
        self.turns = collections.Counter()
        self.totals, self.begun = collections.Counter(), collections.Counter()
        self.rows, self.wrong, self.closing = [], [], False

    def start(self, slot):
        node, _, kinds, fake = SLOTS[slot]
        kinds = [kind for kind in kinds if kind in self.place.kinds] or ["default"]
        kind = kinds[self.turns[slot] % len(kinds)]
        self.turns[slot] += 1
        hurt = self.faults.short[node] if soak_runs.RECIPES[kind].workers or fake else ()
        self.begun[slot] = time.monotonic()
        self.runs[slot] = Run(self.place, slot, kind, hurt)
        self.totals["runs"] += 1

    def end(self, run):
        """Compare what a run delivered."""
        self.totals["samples"] += run.check()
        self.totals["ended" if run.process.returncode == 0 else "early"] += 1
        self.totals["hangs"] += bool(run.hung)
        if run.wrong:
            self.totals["wrong"] += 1
            self.wrong.append("%s (job %d, after %s): %s\n%s" % (
                run.kind, run.slot, sorted(run.hurt) or "nothing", run.wrong, run.said()))
            print("WRONG:", self.wrong[-1], flush=True)

    def tick(self):
        """Jobs that ended are compared, and begin again."""
        for slot, run in list(self.runs.items()):
            if run.is_over():
                del self.runs[slot]
                self.end(run)
        for slot in range(len(SLOTS)):
            if slot not in self.runs and not self.closing and time.monotonic() > self.begun[slot] + 2:
                self.start(slot)
        self.faults.tick()

    # ---- what is counted ----

    def objects(self):
        """(names of ours in /dev/shm of both nodes, their bytes)"""
        names, size = [], 0
        for number in range(2):
            top = self.place.shm(number)
            for name in os.listdir(top):
                if name.startswith("tsshim"):
                    names.append(name)
                    try:
                        size += os.stat(os.path.join(top, name)).st_blocks * 512
                    except FileNotFoundError:
                        pass
        return names, size

    def helpers(self):
        return [process for number in range(2) for name in HELPERS for process in self.place.site.programs(number, name)]

    def measure(self, process):
        """(descriptors, bytes) of a process."""
        try:
            return len(os.listdir("/proc/%d/fd" % process)), int(support.read("/proc/%d/statm" % process).split()[1]) * 4096
        except (OSError, IndexError):
            return 0, 0

    def statistics(self):
        """(samples made, samples taken, differences that jobs themselves found)"""
        found = collections.Counter()
        for number, group in ((0, "a"), (1, "a"), (0, "b")):
            done = self.place.site.nodes.run(number, [support.TSRUN, "stats", "--json", "--group", self.place.name + group])
            said = json.loads(done.output) if done.status == 0 else {}
            found["mismatched"] += said.get("mismatched", 0)
            for row in said.get("datasets", []):
                for kind in row.get("kinds", row).values():
                    if isinstance(kind, dict) and "produced" in kind:
                        found["made"] += kind["produced"]
                        found["taken"] += kind["shared"]
        return found

    def row(self, minute):
        processes = [process for number in range(2) for process in self.place.site.nodes.processes(number)]
        measured = [self.measure(process) for process in processes]
        names, size = self.objects()
        elder = self.measure(self.runs[len(SLOTS) - 1].pid) if len(SLOTS) - 1 in self.runs else (0, 0)
        found = self.statistics()
        self.totals["mismatched"] = max(self.totals["mismatched"], found["mismatched"])
        values = (minute, sum(self.faults.counts.values()), *(self.totals[name] for name in COLUMNS[2:8]), len(processes),
                  sum(one for one, _ in measured), sum(one for _, one in measured) >> 20, len(names), size >> 20,
                  len(self.helpers()), elder[0], elder[1] >> 20, 100 * found["taken"] // max(1, found["made"] + found["taken"]))
        self.rows.append(values)
        print(" ".join("%*d" % (max(len(name), 5), value) for name, value in zip(COLUMNS, values)), flush=True)

    # ---- from begin to end ----

    def go(self, minutes):
        print(" ".join("%5s" % name for name in COLUMNS), flush=True)
        begin, fault = time.monotonic(), time.monotonic() + 5
        minute, searcher = 1, threading.Thread(target=self.place.search)
        searcher.start()
        while minute <= minutes:
            self.tick()
            now = time.monotonic()
            if now >= fault:
                self.faults.one()
                fault = max(fault, now - 30) + self.faults.random.expovariate(self.rate / 60)
            if now >= begin + 60 * minute:
                self.row(minute)
                minute += 1
                if not searcher.is_alive():
                    searcher = threading.Thread(target=self.place.search)
                    searcher.start()
            time.sleep(.05)
        searcher.join()

    def close(self):
        """No more faults; jobs go on to their ends, helpers end by themselves, and gc takes the kept ring."""
        self.closing = True
        while self.faults.undo:
            self.faults.tick(everything=True)
            time.sleep(.1)
        support.write(self.place.path("until"), "")

        def over():
            self.tick()
            return not self.runs
        support.wait_until(over, lambda: [run.kind for run in self.runs.values()], guard=2 * soak_runs.GUARD)
        self.row(self.rows[-1][0] + 1)
        support.wait_until(lambda: not self.helpers(), "helpers end with their jobs", guard=120)
        for number in range(2):
            self.place.site.nodes.run(number, [self.place.tsrun, "gc"])
        self.row(self.rows[-1][0] + 1)
        self.wrong += [*self.faults.said, *("no draw of free order: " + sample for sample in sorted(self.place.search()))]
        left = self.objects()[0]
        for number in range(2):
            left += [support.read("/proc/%d/comm" % process).strip() for process in self.place.site.nodes.processes(number)
                     if support.read("/proc/%d/comm" % process).strip() not in ("memcached", "slowfs")]
        self.totals["left"] = len(left)
        if left:
            self.wrong.append("left: %s" % left)
        if self.totals["mismatched"]:
            self.wrong.append("jobs found %d differences" % self.totals["mismatched"])


def soak(minutes, seed, faults, output=None):
    """What went wrong; everything that was counted is in the file @output."""
    print("seed %d" % seed, flush=True)
    folder = soak_runs.temporary()
    try:
        with soak_runs.Place(folder, random.Random(seed)).stand() as place:
            one = Soak(place, faults / minutes)
            try:
                one.go(minutes)
                one.close()
            finally:
                for run in one.runs.values():
                    run.signal(signal.SIGKILL, everybody=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    counts = one.faults.counts
    if output:
        support.write(output, json.dumps({
            "title": "An hour of trouble", "seed": seed, "minutes": minutes, "columns": COLUMNS, "rows": one.rows,
            "wrong": one.wrong, "faults": dict(sorted(counts.items())), "totals": one.totals}, indent=1) + "\n")
    print(" ".join("%s %d" % pair for pair in sorted(counts.items())))
    print("soak: %d minutes, %d faults of %d kinds, %d runs (%d ended early), %d samples compared, %d wrong, %d hangs, "
          "%d left" % (minutes, sum(counts.values()), len(counts), *map(one.totals.get, (
              "runs", "early", "samples", "wrong", "hangs", "left"), [0] * 6)), flush=True)
    return one.wrong


@support.whole
def test_two_minutes_of_trouble():
    assert soak(2, 1, 40) == []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__.split("\n\n")[0])
    parser.add_argument("minutes", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--faults", type=int, help="so many in all (default: fourteen a minute)")
    parser.add_argument("--output", help="a file of JSON (default: bench/results/soak.json after an hour and more)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and leave nothing
    root = os.path.dirname(os.path.dirname(soak_runs.HERE))
    output = options.output or (os.path.join(root, "bench/results/soak.json") if options.minutes >= 60 else None)
    sys.exit(bool(soak(options.minutes, options.seed, options.faults or 14 * options.minutes, output)))
