# SPDX-License-Identifier: MIT
"""Where what is tested lies, wherever the checkout does and whoever may read it."""

import atexit
import os
import shutil
import tempfile


def sayable(path):
    """A name of the directory @path that LD_PRELOAD, PATH and the like can tell: a link to it where
    that has a blank, a colon or '$', for as long as this process lives."""
    if not set(path) & set(" :$"):
        return path
    place = tempfile.mkdtemp(prefix="tsshim-build.")
    atexit.register(shutil.rmtree, place)
    os.chmod(place, 0o755)
    os.symlink(path, os.path.join(place, "build"))
    return os.path.join(place, "build")


def for_others(build, directory):
    """A tsrun that every user may run, though the checkout may be its owner's alone: a copy of what
    it needs of @build in @directory.  Its path."""
    place = os.path.join(directory, "for-others", "shim", "tsrun")
    os.makedirs(place)
    for name in ("libtsshim.so", os.path.join("shim", "tsrun", "tsrun")):
        copy = os.path.join(directory, "for-others", name)
        shutil.copyfile(os.path.join(build, name), copy)
        os.chmod(copy, 0o755)
    for part in (directory, *(os.path.join(directory, "for-others", name)
                              for name in ("", "shim", os.path.join("shim", "tsrun")))):
        os.chmod(part, 0o755)
    return os.path.join(place, "tsrun")
