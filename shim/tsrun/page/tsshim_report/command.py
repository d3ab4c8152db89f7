# SPDX-License-Identifier: MIT
"""The command line, and the file that is written.  Messages are as tsrun's own are."""

import argparse
import importlib.util
import json
import os
import shutil
import stat
import sys
import tempfile

from . import log as logs, page, series

FAILED = 125
BEFORE = ".1"  # the file before this one, which was full (leader/events/events.h)
NOTES_SAID = 20
TRIED = "TSREPORT_TRIED"  # interpreters that do not have it, for the next one
SYSTEM = "/usr/bin/python3"


class Failed(Exception):
    """What to say, and what helps."""

    def __init__(self, what, hint=None):
        super().__init__(what)
        self.hint = hint


def say(what, hint=None):
    print("tsrun: " + what, file=sys.stderr)
    if hint:
        print("hint: " + hint, file=sys.stderr)


# ---- matplotlib ----------------------------------------------------------------------------


def how_to_install(python):
    """For this @python: the system's belongs to its packages."""
    if python == SYSTEM and shutil.which("apt"):
        return "apt install python3-matplotlib"
    return "%s -m pip install matplotlib" % python


def has_matplotlib():
    try:
        return importlib.util.find_spec("matplotlib") is not None
    except ImportError:
        return False


def find_matplotlib(words):
    """That it is there; else the `python3` of PATH, and the system's, get their turn."""
    tried = [path for path in os.environ.get(TRIED, "").split(":") if path] + [sys.executable]
    if has_matplotlib():
        return
    for other in (shutil.which("python3"), SYSTEM):
        if other and os.access(other, os.X_OK) and other not in tried:
            os.environ[TRIED] = ":".join(tried)
            os.execv(other, [other, "-B", sys.argv[0], *words])
    raise Failed("tsrun report needs matplotlib, which %s does not have" % tried[0],
                 how_to_install(tried[0]))


def load_charts():
    try:
        import logging
        # What it says of its caches and fonts is no concern of the page.
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        from . import charts
        return charts
    except Exception as error:  # pylint: disable=broad-except  # whatever a broken one raises
        raise Failed("matplotlib of %s cannot be used: %s" % (
            sys.executable, " ".join(str(error).split())[:200]),
            how_to_install(sys.executable)) from None


# ---- reading -------------------------------------------------------------------------------


def read_one(log, name):
    if name == "-":
        logs.read(log, "stdin", sys.stdin.buffer)
        return
    try:
        with open(name, "rb") as stream:
            logs.read(log, name, stream)
    except OSError as error:
        hint = None
        if isinstance(error, FileNotFoundError):
            hint = "jobs that are started with `tsrun --events` write one"
        raise Failed("cannot read '%s': %s" % (name, error.strerror), hint) from None


def read_all(names):
    log = logs.Log()
    for name in names:
        if name != "-" and os.path.exists(name + BEFORE):
            read_one(log, name + BEFORE)
        read_one(log, name)
    logs.finish(log)
    for name, line, what in log.notes[:NOTES_SAID]:
        say("%s:%d: %s, ignoring" % (name, line, what))
    if len(log.notes) > NOTES_SAID:
        say("%d more lines like these, ignoring" % (len(log.notes) - NOTES_SAID))
    if log.foreign and not log.sources:
        raise Failed("nothing that this version of tsrun can read",
                     "a log is read by the version of tsrun that wrote it")
    return log


def job_names(log, jobs):
    """What a job is called on the page: by its process, and its node where there are several."""
    names = {}
    for job in jobs:
        name = "pid %s" % (job.pid if job.pid is not None else job.identity.split(".")[0])
        names[job] = name if len(log.sources) < 2 else "%s, %s" % (job.source.name(), name)
    times = {}
    for job in jobs:  # a number of a process may have been given twice
        times.setdefault(names[job], []).append(job)
    for same in times.values():
        for number, job in enumerate(same[1:], 2):
            names[job] += " (%d)" % number
    return names


def compose(names, table):
    charts = load_charts()
    log = read_all(names)
    jobs = log.all_jobs()
    axis = series.Axis(log)
    called = job_names(log, jobs)
    return page.compose(log, jobs, called, axis,
                        charts.make(log, jobs, called, axis), table)


# ---- writing -------------------------------------------------------------------------------


def write_beside(path, text):
    """A new file takes the place of @path when it is complete; nobody else may read it."""
    handle, beside = tempfile.mkstemp(prefix=os.path.basename(path) + ".",
                                      dir=os.path.dirname(path) or ".")
    try:
        with open(handle, "wb") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def write(output, text):
    raw = text.encode("utf-8")
    if output == "-":
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
        return
    path = os.path.realpath(output)  # where a link leads is meant, not the link
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb", buffering=0) as file:  # a device or a pipe is not replaced
            file.write(raw)
    else:
        write_beside(path, raw)


def run(words):
    parser = argparse.ArgumentParser(prog="tsrun report", add_help=False)
    parser.add_argument("--table", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("logs", nargs="+")
    options = parser.parse_args(words)
    find_matplotlib(words)
    with open(options.table, encoding="utf-8") as file:
        table = json.load(file)
    text = compose(options.logs, table)
    try:
        write(options.output, text)
    except OSError as error:
        raise Failed("cannot write to '%s': %s" % (options.output, error.strerror)) from None


def main(words):
    try:
        run(words)
    except Failed as failed:
        say(str(failed), failed.hint)
        return FAILED
    except KeyboardInterrupt:
        return 130
    return 0
