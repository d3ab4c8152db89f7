#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Write a copy of a file in step with another copy, as soon as that has got its memory.

    follow.py SOURCE LEADER TARGET      LEADER: a pattern of the other copy's names
    stdout: "ready", and at the end how far it has been behind, in bytes, at most

So both are given pages of the same kind by the kernel. It knows nothing of tsshim.
"""
import contextlib
import glob
import os
import sys
import time

PIECE = 1 << 20
PATIENCE = 60  # seconds in which nothing grows


def opened(pattern):
    """The leader as soon as there is one; renamed later, it is the same file."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for path in glob.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY)
        time.sleep(0.001)
    sys.exit(f"follow.py: no {pattern}")


def follow(source, leader, target):
    size, done, lag = os.fstat(source).st_size, 0, 0
    deadline = time.monotonic() + PATIENCE
    while done < size:
        there = min(os.fstat(leader).st_blocks * 512, size)
        lag = max(lag, there - done)
        while done < there:
            done += os.write(target, os.pread(source, PIECE, done))
            deadline = time.monotonic() + PATIENCE
        if time.monotonic() > deadline:
            sys.exit("follow.py: it does not grow any more")
        time.sleep(0.001)
    return lag


def main():
    source = os.open(sys.argv[1], os.O_RDONLY)
    target = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT, 0o600)
    print("ready", flush=True)
    print(follow(source, opened(sys.argv[2]), target), flush=True)


if __name__ == "__main__":
    main()
