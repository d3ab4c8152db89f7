# SPDX-License-Identifier: MIT
"""
What an interpreter runs because of the preload: leave no trace, then wait for torch.

start.c put this directory into PYTHONPATH.  Every interpreter of a job comes through here, pip
and tools included, so there is little of it, and it imports nothing that is not there already.
"""

import os
import sys

HERE = os.path.dirname(__file__)
LOADER = "torch.utils.data.dataloader"
OTHERS = ("grain", "keras", "tensorflow")  # without torch; what is said of them, others.py knows


def report(error):
    """One line for who asked for it; what is wrong with us is of no concern to the program."""
    if os.environ.get("TSSHIM_DEBUG") == "debug":
        text = "tsshim: torch: %s: %s\n" % (type(error).__name__, error)
        os.write(2, text.encode(errors="replace"))


def leave():
    """Take this directory out of the search path and the environment, as if never there."""
    sys.path[:] = [entry for entry in sys.path if entry != HERE]
    for entry in (HERE, HERE + "/"):
        sys.path_importer_cache.pop(entry, None)
    # DIRECTORY, DIRECTORY/ or DIRECTORY:VALUE: the variable was unset, empty, VALUE (start.c).
    first, colon, value = os.environ.get("PYTHONPATH", "").partition(":")
    if first == HERE and not colon:
        del os.environ["PYTHONPATH"]
    elif first in (HERE, HERE + "/"):
        os.environ["PYTHONPATH"] = value


def expect_end():
    """Under --align, let a program with a loader of @OTHERS be told what is not aligned."""
    import atexit
    if os.environ.get("TSSHIM_ALIGN", "off") != "off":
        atexit.register(attempt, say_at_end, os.getpid())


def say_at_end(process):
    if os.getpid() == process:
        from tsshim_torch import others
        others.say_what_came_by()


class Finder:
    """Stands in sys.meta_path, for our own package, one module of torch, and others' names."""

    __module__ = "tsshim_torch"  # where who prints sys.meta_path would look for it
    done = False  # set by start.activate()
    expected = False  # one of OTHERS was imported
    report = staticmethod(report)

    def find_spec(self, name, path=None, target=None):
        if name in OTHERS and not self.expected:
            self.expected = True
            attempt(expect_end)
        if name != "tsshim_torch" and (self.done or not name.startswith("torch.utils.data.")):
            return None
        try:
            if name == "tsshim_torch":
                from importlib.machinery import PathFinder
                return PathFinder.find_spec(name, [HERE])
            if name == LOADER or LOADER in sys.modules:
                from tsshim_torch import start
                return start.find_spec(self, name, path, target)
        except Exception as error:
            report(error)
        return None


def run_other():
    """
    The user's own sitecustomize, as if we were not there: site looks for it again, which is
    what reports its errors, and importlib hands out what is in sys.modules when we return.
    """
    del sys.modules["sitecustomize"]
    sys.modules["site"].execsitecustomize()


def wait():
    """For torch, unless the user's sitecustomize has imported it."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    if LOADER in sys.modules:
        from tsshim_torch import start
        start.look(finder)


def attempt(step, *arguments):
    """What goes wrong in @step is not for the program to see."""
    try:
        step(*arguments)
    except Exception as error:
        report(error)


attempt(leave)
run_other()
attempt(wait)
if "sitecustomize" not in sys.modules:
    raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
