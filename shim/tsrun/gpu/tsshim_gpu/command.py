# SPDX-License-Identifier: MIT
"""The command line.  Each GPU is checked in processes of its own, for a driver may hang or end them: this one has no driver."""

import argparse
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

from . import checks, driver, other, verdict

SECONDS = 30  # for all GPUs; a test may say otherwise, whatever else its machine does
FAILED = 125  # as TS_EXIT_FAILED


def say(found):
    """A line for the process that started this one."""
    print(json.dumps(found), flush=True)


def list_gpus():
    """One line for each GPU that is visible."""
    cuda = driver.Driver()
    cuda.cuInit(0)
    version = cuda.get("cuDriverGetVersion", ctypes.c_int)
    for device in range(cuda.get("cuDeviceGetCount", ctypes.c_int)):
        say({"device": device, "name": cuda.name(device), "uuid": cuda.uuid(device), "cuda": version})


class Child:
    """A process of this program with all that it starts, which ends in time."""

    def __init__(self, *words):
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([sys.executable, "-B", other.PART, *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True)

    def lines(self, end):
        """Its lines until it ends; TimeoutError: it has not by then."""
        rest = b""
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from map(json.loads, whole)

    def finish(self):
        """All of it is gone, unless the kernel keeps it in a call.  (How it ended, its last words)."""
        for seconds in (1, 5):
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
        self.errors.seek(0)
        return self.process.returncode or 0, self.errors.read().decode(errors="replace").strip().rpartition("\n")[2]


def find_gpus(end):
    """The visible GPUs, or why there are none: ([...], "")."""
    child = Child("--list")
    try:
        found = list(child.lines(end))
        why = "no GPU is visible"
    except TimeoutError:
        found, why = [], "the driver does not say in time which GPUs there are"
    status, words = child.finish()
    return found, "" if found else words if status > 0 and words else why


def check(gpu, end, show):
    """All checks of @gpu: adds what they found, and the verdict."""
    child, begun, gpu["checks"], gpu["figures"], why = Child("--check", str(gpu["device"])), "start", [], {}, None
    complete = False
    try:
        for line in child.lines(end):
            begun = line.get("begin", begun)
            if "check" in line:
                gpu["checks"].append(line)
                show(line)
            if "figures" in line:
                gpu["figures"] = {way: {int(count): took for count, took in each.items()}
                                  for way, each in line["figures"].items()}
                complete = True
    except TimeoutError:
        why = f"{begun}: it does not end in time"
    status, words = child.finish()
    if not complete and not why:
        why = f"{begun}: the process " + (f"is killed by signal {-status}" if status < 0 else f"ends with {status}: {words}")
    wrong = [f"{line['check']}: {line['text']}" for line in gpu["checks"] if line["state"] == "no"]
    if why:
        line = {"check": begun, "state": "no", "text": why.partition(": ")[2]}
        gpu["checks"].append(line)
        show(line)
    gpu["why"] = (wrong or [why or ""])[0]
    gpu["verdict"] = "no" if gpu["why"] else "yes"


def show_times(figures):
    """A table of what copies take: a row for each way, a column for each size."""
    sizes = sorted({count for each in figures.values() for count in each})
    names = {"pinned": "from pinned memory", "pageable": "from pageable memory", "slot": "pinned, and into a slot",
             "taken": "from another process", "peer": "from the next GPU", "register": "to pin memory"}
    if sizes:
        print("     ms, the best of some:    " + "".join(f"{checks.size(count):>10}" for count in sizes))
    for way, name in names.items():
        if figures.get(way):
            print(f"     {name:<25}" + "".join(f"{figures[way][n]:>10.3f}" if n in figures[way] else f"{'-':>10}" for n in sizes))


def main_check(options):
    end = time.monotonic() + float(os.environ.get("TSSHIM_TEST_GPU_SECONDS", SECONDS))
    facts = {"module": verdict.module(), "kernel": os.uname().release, "node": os.uname().nodename,
             "day": time.strftime("%Y-%m-%d"), "version": options.version}
    gpus, why = find_gpus(end)
    if not options.json and not gpus:
        print(f"n/a  {why}")
    for gpu in gpus:
        if not options.json:
            print(f"GPU {gpu['device']}: {gpu['name']}", flush=True)
        check(gpu, end, (lambda line: None) if options.json else lambda line: print(
            f"{line['state']:<4} {line['check']:<12} {line['text']}", flush=True))
        if not options.json:
            show_times(gpu["figures"])
            print(verdict.text_of(gpu, facts))
    if gpus:
        try:
            verdict.keep(options.output, gpus, facts)
        except OSError as error:
            print(f"tsrun: the verdict cannot be kept: {options.output}: {error.strerror}", file=sys.stderr)
            return FAILED
    if options.json:
        print(json.dumps({**facts, "file": options.output, "why": why or None, "gpus": gpus}))
    elif gpus:
        print(f"kept in {options.output}")
    return 0 if gpus and all(gpu["verdict"] == "yes" for gpu in gpus) else 1


def main(words):
    parser = argparse.ArgumentParser(prog="tsrun doctor --gpu", add_help=False)
    parser.add_argument("--output")
    parser.add_argument("--version", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", type=int)
    parser.add_argument("--other", type=int, nargs=2)
    options = parser.parse_args(words)
    try:
        if options.other:
            other.serve(*options.other)
        elif options.list or options.check is not None:
            other.end_with_parent()
            if options.list:
                list_gpus()
            else:
                checks.run(options.check, say)
        else:
            return main_check(options)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (OSError, driver.Refused) as error:
        print(error, file=sys.stderr)
        return 1
    return 0
