# SPDX-License-Identifier: MIT
"""
What the tests left in /dev/shm, whatever else runs on the machine.

    leftovers.py list               names of the rings that are there, and of what goes with one
    leftovers.py since FILE         those that are not in FILE, less those of others; 1 if there is one

An object is another's where a living process that is not of this run has it open, or where its
group is named for such a process, as the tests of another clone name theirs.  Processes of this
run have the environment variable SUITE_OF_TSSHIM with the same value.
"""

import contextlib
import glob
import os
import re
import sys

MARK = "SUITE_OF_TSSHIM"
NAME = re.compile(r"tsshim\.%d\.[^.]*\.(.*)\.(ring|device|journal|loaders)" % os.getuid())


def objects():
    return sorted(name for name in os.listdir("/dev/shm") if NAME.fullmatch(name))


def is_of_this_run(pid):
    with open("/proc/%s/environ" % pid, "rb") as file:
        return os.fsencode("%s=%s" % (MARK, os.environ[MARK])) in file.read().split(b"\0")


def held_by(pid):
    """Names of objects that a process has mapped or open."""
    with open("/proc/%s/maps" % pid, encoding="utf-8", errors="replace") as file:
        paths = [line.split(None, 5)[5].rstrip("\n") for line in file if "/dev/shm/" in line]
    for link in glob.glob("/proc/%s/fd/*" % pid):
        with contextlib.suppress(OSError):
            paths.append(os.readlink(link))
    return {os.path.basename(path) for path in paths}


def of_others():
    """Objects that living processes of others hold, and the numbers of these."""
    held, alive = set(), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if not is_of_this_run(pid):
                alive.add(pid)
                held |= held_by(pid)
    return held, alive


def main(words):
    if words == ["list"]:
        print("\n".join(objects()))
        return 0
    with open(words[1], encoding="utf-8") as file:
        before = file.read().split("\n")
    held, alive = of_others()
    left = [name for name in objects() if name not in before and name not in held
            and not alive.intersection(re.findall("[0-9]+", NAME.fullmatch(name).group(1)))]
    for name in left:
        print(name, "was left in /dev/shm")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
