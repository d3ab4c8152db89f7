# SPDX-License-Identifier: MIT
"""How long a look at a busy node takes; on a machine that is otherwise idle."""

import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.setdefault("TSSHIM_TEST_BUILD", os.path.join(ROOT, "build-test"))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import support  # noqa: E402

JOBS = 32
LOOKS = 10
MEMBER = os.path.join(BUILD, "tests", "unit", "tsrun", "tsrun-member")


def gate_a_look_at_32_jobs():
    """`tsrun stats` and one picture of `tsrun top`, from start to end: 50 ms each."""
    with support.Group() as group:
        jobs = [subprocess.Popen([MEMBER, group.name, "photos"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE) for _ in range(JOBS)]
        try:
            for job in jobs:
                assert job.stdout.readline() == b"ready\n"
            for words in (["stats"], ["top", "-b", "-n", "1"]):
                took = []
                for _ in range(LOOKS):
                    begin = time.monotonic()
                    said = subprocess.run([support.TSRUN, *words, "--group", group.name],
                                          check=True, stdout=subprocess.PIPE).stdout
                    took.append(1e3 * (time.monotonic() - begin))
                    assert b"%d jobs" % JOBS in said, said
                print("# tsrun %s: %.1f to %.1f ms" % (words[0], min(took), max(took)))
                assert sorted(took)[LOOKS // 2] <= 50, (words, took)
        finally:
            for job in jobs:
                job.communicate()
