#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measure what docs/performance.md promises; write raw results, tables and plots."""
import argparse
import contextlib
import datetime
import errno
import importlib
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from tsbench import jobs as tsjobs  # noqa: E402
from tsbench import machine, results  # noqa: E402
from tsbench.setup import Setup, size  # noqa: E402
from tsbench.terminal import table  # noqa: E402

# Groups of benchmarks by the subject they measure; each name is a module beside this file.
SUBJECTS = {"decode": ("once", "price", "pipeline", "alone", "unrelated", "many"),
            "samples": ("prepare", "handover", "renewed", "cheap", "options", "private", "peers", "speeds", "keep", "sizes"),
            "storage": ("read",),
            "copies": ("bring",),
            "start": ("startup",),
            "nodes": ("scaling", "cluster", "across", "locality"),
            "log": ("events",)}
# Need what few machines have, so they run only where somebody asks for them.
BY_NAME = ("gpu", "accuracy", "loaders", "corpus", "crowd")
ALL = tuple(name for names in SUBJECTS.values() for name in names)
RENDERED = (*ALL, "accuracy", "loaders", "corpus")


def ring_size(text):
    try:
        size(text)
    except ValueError:
        raise argparse.ArgumentTypeError("must be a size such as 512M") from None
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__,
                                     allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help="of " + ", ".join((*SUBJECTS, *ALL)) + " (all), gpu, accuracy, loaders, corpus, or crowd")
    parser.add_argument("--images", metavar="DIR", default=os.environ.get("TSSHIM_BENCH_IMAGES"),
                        help="real photographs to measure with (default: made ones; also "
                        "TSSHIM_BENCH_IMAGES)")
    parser.add_argument("--jobs", type=int, default=4, help="K where it is not the subject (4)")
    parser.add_argument("--ring", type=ring_size, default="256M", help="(%(default)s)")
    parser.add_argument("-k", action="append", default=[], metavar="WORD", help="of sizes, only the parts "
                        "with WORD in their names; writes to the build directory")
    parser.add_argument("--quick", action="store_true",
                        help="few samples, to try the programs; writes to the build directory")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a bar is missed")
    parser.add_argument("--temp", metavar="DIR", help="for copies of the photographs, some GB "
                        "(default: the build directory)")
    parser.add_argument("--render", action="store_true", help="measure nothing, make the tables "
                        "and plots again from bench/results")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--gate", action="store_true", help="as first word: instead, run what "
                        "tests leave to idle machines; NAME is a part of a gate's name")
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.gate:
        parser.error("--gate has to be the first word")
    chosen = []
    for name in arguments.names or SUBJECTS:
        if name not in SUBJECTS and name not in (*ALL, *BY_NAME):
            known = ", ".join((*SUBJECTS, *ALL, *BY_NAME))
            parser.error(f"unknown benchmark '{name}' (of {known})")
        chosen += SUBJECTS.get(name, (name,))
    arguments.asked = tuple(arguments.names)
    arguments.names = list(dict.fromkeys(chosen))
    if arguments.images and not os.path.isdir(arguments.images):
        parser.error(f"--images: {arguments.images} is not a directory")
    return arguments


def public_command(arguments):
    """What to type to measure the same; directories are nobody's business."""
    command = ["scripts/bench", *arguments.names, "--jobs", str(arguments.jobs), "--ring",
               arguments.ring]
    if arguments.images:
        command += ["--images", "DIR"]
    for word in arguments.k:
        command += ["-k", word]
    return command + (["--quick"] if arguments.quick else [])


class Benchmark:
    """One benchmark: its place, and the files that it wants to be old (its class Data)."""

    def __init__(self, name, arguments):
        self.module = importlib.import_module(name)
        tsrun = os.path.join(arguments.build, "shim", "tsrun", "tsrun")
        if not os.path.exists(tsrun):
            raise tsjobs.JobError(f"{tsrun} does not exist; run scripts/bench, which builds it")
        temp = arguments.temp or os.path.join(arguments.build, "bench")
        os.makedirs(temp, exist_ok=True)
        with contextlib.ExitStack() as unfinished:
            place = unfinished.enter_context(tsjobs.Workplace(tsrun, temp, arguments.ring))
            self.setup = Setup(ROOT, arguments.build, place, arguments)
            self.data = [self.module.Data(self.setup)] if hasattr(self.module, "Data") else []
            self.close = unfinished.pop_all().close

    def measure(self):
        with contextlib.closing(self):
            return self.module.measure(self.setup, *self.data)


def run_one(name, arguments, facts, early):
    """Measure, save and print one benchmark. How many of its bars were missed."""
    print(f"{name}: {importlib.import_module(name).__doc__.split(':', 1)[1].strip().splitlines()[0]}",
          flush=True)
    begin = time.monotonic()
    result = (early.get(name) or Benchmark(name, arguments)).measure()
    result.update(name=name, machine=facts, command=public_command(arguments),
                  when=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"))
    directory = results_directory(arguments)
    path = results.save(directory, name, result)
    rows = [[row["label"], results.number(row["value"], row["unit"]),
             f"({results.number(row['min'], row['unit'])} ... "
             f"{results.number(row['max'], row['unit'])})", results.bar(row),
             results.verdict(row)] for row in result["rows"]]
    print(table(rows))
    for note in result.get("notes", []):
        print("  " + note)
    print(f"  {os.path.relpath(path, ROOT)}, {time.monotonic() - begin:.0f} s\n", flush=True)
    return sum(row["passed"] is False for row in result["rows"])


def results_directory(arguments):
    if arguments.quick or arguments.k:
        return os.path.join(arguments.build, "bench", "results")
    return os.path.join(HERE, "results")


def render(arguments):
    found = results.load_all(results_directory(arguments), RENDERED)
    plots = os.path.join(ROOT, "docs", "plots")
    for name, result in found.items():
        results.plot(plots, name, result)
        module = importlib.import_module(name)
        if hasattr(module, "render"):  # it has a page of its own
            module.render(ROOT, result)
    results.render(os.path.join(ROOT, "docs", "performance.md"), plots, found)


def make_early(arguments, stack):
    """In a quick run what has to become old is made before all else, and others need not wait."""
    early = {}
    for name in arguments.names if arguments.quick else ():
        if hasattr(importlib.import_module(name), "Data"):
            early[name] = stack.enter_context(contextlib.closing(Benchmark(name, arguments)))
    return early


def measure_all(arguments):
    facts = machine.facts(ROOT, os.environ.get("PYTHON", "/usr/bin/python3"))
    if facts["load_before"] > 0.5 and not arguments.quick:
        print(f"warning: the machine is not idle (load {facts['load_before']})", file=sys.stderr)
    missed, failed = 0, []
    with contextlib.ExitStack() as stack:
        early = make_early(arguments, stack)
        for name in arguments.names:
            try:
                missed += run_one(name, arguments, facts, early)
            except tsjobs.Unavailable as error:
                # Who asks for it by name wants to have it; who asks for all is told.
                if name in arguments.asked or os.environ.get("TSSHIM_TEST_MUST", "0") != "0":
                    failed.append(name)
                print(f"skipped: {name}: {error}\n", file=sys.stderr)
            except tsjobs.JobError as error:
                failed.append(name)
                print(f"error: {name}: {error}\n", file=sys.stderr)
    if not arguments.quick and not arguments.k:
        render(arguments)
    if failed:
        print(f"not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed or (arguments.check and missed) else 0


def main():
    arguments = parse_arguments()
    if arguments.check_options:
        return 0
    try:
        if arguments.render:
            render(arguments)
            return 0
        return measure_all(arguments)
    except tsjobs.JobError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the jobs and their shared memory are gone", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            print("hint: the disk is full; --temp names another one, a smaller --ring needs "
                  "less", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
