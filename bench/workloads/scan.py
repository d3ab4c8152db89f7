#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Look through a tree of files on command, as data sets do when they are made.

    scan.py ROOT {stat,folder}      stdin: any line         stdout: one line of JSON

stat: every directory is listed and every file asked for its attributes (os.scandir and
DirEntry.stat()); folder: what torchvision's ImageFolder does, which lists and asks nothing of
files.  It knows nothing of tsshim.
"""
import hashlib
import json
import os
import sys
import time


def with_stat(root):
    found = []
    places = [root]
    while places:
        with os.scandir(places.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    places.append(entry.path)
                else:
                    status = entry.stat()
                    found.append((entry.path, status.st_size, status.st_mtime_ns))
    return found


def folder():
    from torchvision.datasets import folder as module

    def scan(root):
        _, classes = module.find_classes(root)
        return module.make_dataset(root, classes, extensions=module.IMG_EXTENSIONS)

    return scan


def main():
    root, how = sys.argv[1:]
    scan = with_stat if how == "stat" else folder()
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.monotonic_ns()
        found = scan(root)
        spent = time.monotonic_ns() - start
        # Where the storage is mounted differs from time to time.
        names = sorted((os.path.relpath(path, root), *rest) for path, *rest in found)
        print(json.dumps({"files": len(found), "wall_ns": spent,
                          "sum": hashlib.sha256(repr(names).encode()).hexdigest()}), flush=True)


if __name__ == "__main__":
    main()
