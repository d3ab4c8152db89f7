#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Read all files of a directory on command, each epoch in another order; say what it took.

    read.py DIRECTORY {read,mmap} SEED      one job; jobs of other seeds have other orders
    stdin:  epoch NUMBER                    stdout: one line of JSON

It knows nothing of tsshim.  read_ns is the time from before each open to after its close;
wall_ns has the checking too.  sum is the same for every order: each file's checksum takes its
name in, and they are added up.
"""
import json
import mmap
import os
import random
import sys
import time
import zlib


def with_read(path):
    """The whole file; also asks for its size, as file.read() of the library does."""
    fd = os.open(path, os.O_RDONLY)
    try:
        left = os.fstat(fd).st_size
        parts = []
        while left > 0:
            parts.append(os.read(fd, left))
            if not parts[-1]:
                break
            left -= len(parts[-1])
    finally:
        os.close(fd)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def with_mmap(path):
    """The whole file, through a mapping; an empty one cannot be mapped."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return b""
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as memory:
            return memory[:]
    finally:
        os.close(fd)


def regular_files(directory):
    """Paths below @directory, relative and sorted, so that all jobs begin with the same."""
    found = []
    for where, _, names in os.walk(directory):
        found += [os.path.relpath(os.path.join(where, name), directory) for name in names]
    return sorted(found)


def run(directory, names, read):
    wall = time.monotonic_ns()
    spent = size = total = 0
    for name in names:
        path = os.path.join(directory, name)
        start = time.monotonic_ns()
        data = read(path)
        spent += time.monotonic_ns() - start
        size += len(data)
        total += zlib.crc32(data, zlib.crc32(os.fsencode(name)))
    wall = time.monotonic_ns() - wall
    return {"files": len(names), "bytes": size, "read_ns": spent, "wall_ns": wall,
            "files_per_s": round(len(names) * 1e9 / max(spent, 1), 1), "sum": f"{total:016x}"}


def main():
    directory, way, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    read = {"read": with_read, "mmap": with_mmap}[way]
    names = regular_files(directory)
    print("ready", flush=True)
    for line in sys.stdin:
        epoch = int(line.split()[1])
        order = random.Random(f"{seed} {epoch}").sample(names, len(names))
        print(json.dumps(run(directory, order, read)), flush=True)


main()
