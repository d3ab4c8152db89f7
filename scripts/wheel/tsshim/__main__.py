# SPDX-License-Identifier: MIT
"""python -m tsshim ...: tsrun, wherever pip has put it."""

import os
import sys
import sysconfig


def places():
    """Paths that tsrun may have, the most likely first."""
    yield os.path.join(sysconfig.get_path("scripts"), "tsrun")
    here = os.path.dirname(os.path.abspath(__file__))
    parent = os.path.dirname(here)
    # Of `pip install --target`; of a home or a prefix: lib/pythonX.Y/site-packages lies below it.
    yield os.path.join(parent, "bin", "tsrun")
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(parent))), "bin", "tsrun")


def main():
    for path in places():
        if os.access(path, os.X_OK):
            os.execv(path, [path] + sys.argv[1:])
    sys.exit("error: tsrun is not there; install the package tsshim again")


if __name__ == "__main__":
    main()
