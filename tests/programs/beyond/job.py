# SPDX-License-Identifier: MIT
"""
job.py MODULE.CLASS --data DIR --seed S --epochs E --batch B

Takes all that one pipeline delivers and prints a digest of it, how many samples that was, in which time
and for how much CPU time, workers included, from the first batch on; or from the beginning, where
the pipeline reads so far ahead that most is done by then.
"""

import argparse
import hashlib
import importlib
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "e2e")]


def parents():
    """{process: (its parent, CPU seconds)} of all processes, those waited for included."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # has ended
        found[int(name)] = int(words[1]), sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    return found


def spent():
    """CPU seconds of this process and of all that came from it."""
    found = parents()
    total, family = 0, {os.getpid()}
    grows = True
    while grows:
        more = {process for process, (parent, _) in found.items() if parent in family} - family
        family, grows = family | more, bool(more)
    for process in family:
        total += found.get(process, (0, 0))[1]
    return total


class Taker:
    """Is given batches.  Time is counted from the first one on: before it much else is done."""

    def __init__(self):
        self.hasher, self.count, self.first, self.last = hashlib.md5(), 0, None, None

    def begin(self):
        """Count from now on, instead of from the first batch."""
        self.first = time.monotonic(), spent()

    def take(self, batch):
        self.hasher.update(repr((batch.dtype.str, batch.shape)).encode())
        self.hasher.update(batch.tobytes())
        if self.first is None:
            self.begin()
        else:
            self.count += len(batch)
        self.last = time.monotonic()

    def report(self):
        """Lines that begin with ~ differ from run to run."""
        print("digest", self.hasher.hexdigest(), self.count)
        print("~times", self.last - self.first[0], spent() - self.first[1], flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pipeline")
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    import meeting
    module, _, name = options.pipeline.partition(".")
    pipeline = getattr(importlib.import_module(module), name)()
    meeting.arrive()
    taker = Taker()
    if getattr(pipeline, "AHEAD", False):
        taker.begin()
    if hasattr(pipeline, "run"):
        pipeline.run(options, taker.take)
    else:
        for batch in pipeline.batches(options):
            taker.take(batch)
    taker.report()
    meeting.part()


if __name__ == "__main__":
    main()
