#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Where the time of the last run of scripts/test went: by step, by program, by test."""
import glob
import json
import os
import re
import signal
import sys

SLOWEST = 30  # so many of each are told
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What tests/e2e/support.py prints of each test.
ONE_TEST = re.compile(r"^# +([0-9.]+) s, +([0-9.]+) s of CPU: (.*)$", re.MULTILINE)


def steps_of(path):
    """[(seconds, of CPU, name)]"""
    with open(path, encoding="utf-8") as lines:
        rows = [line.split() for line in lines]
    return [(int(seconds), int(cpu), name) for name, _, seconds, cpu in rows]


def programs_of(path, steps):
    """[(seconds, step and program, what it printed)] of the logs that Meson wrote since @path."""
    for step in steps:
        for log in glob.glob(os.path.join(ROOT, "build-*", "meson-logs", "log-*-%s*.json" % step)):
            if not re.search("-%s(-setarch|-valgrind)?\\.json$" % step, log):
                continue
            with open(log, encoding="utf-8") as lines:
                for line in lines:
                    test = json.loads(line)
                    name = "%s: %s" % (step, test["name"].split(" / ")[-1])
                    yield test["duration"], name, test.get("stdout", "")


def main(path):
    try:
        steps = steps_of(path)
    except FileNotFoundError:
        sys.exit("error: nothing is known yet; scripts/test writes " + path)
    print("seconds  of CPU  step")
    for seconds, cpu, name in sorted(steps, reverse=True):
        print("%7d %7d  %s" % (seconds, cpu, name))
    programs = list(programs_of(path, [name for _, _, name in steps]))
    print("\nseconds  step: program")
    for seconds, name, _ in sorted(programs, reverse=True)[:SLOWEST]:
        print("%7.1f  %s" % (seconds, name))
    tests = [(float(seconds), float(cpu), program, test) for _, program, output in programs
             for seconds, cpu, test in ONE_TEST.findall(output)]
    print("\nseconds  of CPU  step: program: test")
    for seconds, cpu, program, test in sorted(tests, reverse=True)[:SLOWEST]:
        print("%7.1f %7.1f  %s: %s" % (seconds, cpu, program, test))


signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `scripts/test --times | head`
main(sys.argv[1])
