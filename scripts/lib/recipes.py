#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
recipes.py SOURCE DIRECTORY: fill in the recipes of scripts/recipes, for others to build by.

Each becomes a directory of DIRECTORY, with the source package SOURCE beside it.
"""

import hashlib
import os
import re
import shutil
import sys

import wheel

FOLDER = os.path.join(wheel.ROOT, "scripts", "recipes")


def filled(text, words):
    return re.sub("@([A-Z0-9]+)@", lambda match: words[match.group(1)], text)


def write(source, directory):
    """The paths of the recipes."""
    with open(source, "rb") as file:
        words = {"VERSION": wheel.declared_version(),
                 "SHA256": hashlib.sha256(file.read()).hexdigest()}
    for kind in sorted(os.listdir(FOLDER)):
        place = os.path.join(directory, kind)
        os.makedirs(place, exist_ok=True)
        shutil.copy(source, place)
        for name in sorted(os.listdir(os.path.join(FOLDER, kind))):
            with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                file.write(filled(wheel.read("scripts", "recipes", kind, name).decode(), words))
            yield file.name


if __name__ == "__main__":
    print(*write(*sys.argv[1:]), sep="\n")
