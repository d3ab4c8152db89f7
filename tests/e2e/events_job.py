# SPDX-License-Identifier: MIT
"""A job for events.py: does what it is told on its standard input, a word a line, and answers."""

import ctypes
import os
import re
import sys

from PIL import Image

PICTURES = sys.argv[1:]
PR_SET_CHILD_SUBREAPER = 36


def decode():
    for path in PICTURES:
        with Image.open(path) as picture:
            picture.load()


def children():
    """What a program can find of children that are not its own."""
    found = []
    for flags in (os.WNOHANG, os.WNOHANG | 0x40000000, os.WNOHANG | 0x80000000 - (1 << 32)):  # __WALL, __WCLONE
        try:
            found.append(os.waitpid(-1, flags))
        except ChildProcessError:
            found.append("none")
    return found


def facts():
    names = []
    for fd in os.listdir("/proc/self/fd"):
        try:  # the listing's own is gone
            names.append(fd + " " + re.sub(r"\d+", "N", os.readlink("/proc/self/fd/" + fd)))
        except FileNotFoundError:
            pass
    environment = {k: v for k, v in os.environ.items() if k != "TSSHIM_EVENTS"}
    return [sorted(names), sorted(environment.items()), children()]


def fork():
    pid = os.fork()
    if pid == 0:
        decode()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def subreaper():
    return ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def read_word():
    """Byte by byte: what is left is for the program that follows."""
    word = b""
    for byte in iter(lambda: os.read(0, 1), b""):
        if byte == b"\n":
            break
        word += byte
    return word.decode()


def main():
    for word in iter(read_word, ""):
        if word == "exec":
            os.execv(sys.executable, [sys.executable, *sys.argv])
        print("%s: %r" % (word, globals()[word]()), flush=True)


main()
