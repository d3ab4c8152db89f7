# SPDX-License-Identifier: MIT
"""
A build whose shared memory has another layout, beside this one in one group: whoever comes second
keeps apart and says why, both compute what they compute without us, and each tells what the other
has made.  (Builds with one layout share: package_deb.py.)
"""

import functools
import os
import re
import shutil

import pytest
import support
from support import Group, run, same_pictures

ROOT = os.path.dirname(os.path.dirname(support.HERE))
OTHERS = "it was made by another version of tsshim"
TOO_NEW = "shared memory was made by another version of tsshim"


def define(path, name, value):
    """Let the macro @name be another one there."""
    text, count = re.subn(r"(?m)^#define %s\s.*$" % name, "#define %s %s" % (name, value), support.read(path))
    assert count == 1, (path, name)
    support.write(path, text)


@functools.cache
def other():
    """The path of another version's build, whose ledger is larger as well."""
    sources = support.lasting()
    for name in run(["git", "-C", ROOT, "ls-files"]).output.splitlines():
        if not name.startswith(("tests/", "bench/", "docs/plots")):
            os.makedirs(os.path.dirname(os.path.join(sources, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(sources, name))
    define(sources + "/leader/group/layout.h", "TS_ABI", "4000000000u")
    define(sources + "/leader/group/ledger.h", "TS_LEDGER_BYTES", "106496u")
    for command in (["meson", "setup", "-Dtests=disabled", sources + "/build", sources],
                    ["ninja", "-C", sources + "/build"]):
        done = run(command, dict(os.environ))
        assert done.status == 0, (done.output[-1500:], done.errors[-1500:])
    return sources + "/build"


def job(build, group, *options):
    """Under the tsrun of @build."""
    return run([tsrun(build), "--group", group.name, "--ring", "256M", "--summary", *options, "--",
                support.victim("decode"), *support.pictures("s_baseline")])


def tsrun(build):
    return os.path.join(build, "shim", "tsrun", "tsrun")


def says(outcome):
    """What it decoded, without what we say of it."""
    outcome.errors = "\n".join(line for line in outcome.errors.splitlines()
                               if not line.startswith(("tsshim: ", "  ")))
    return outcome


@support.whole
@pytest.mark.parametrize("which", ["older", "newer"])
def test_one_of_another_version_beside(which):
    """@first has made the group and keeps it; @second comes, twice, and then cleans up."""
    first, second = [support.BUILD, other()][::1 if which == "older" else -1]
    plain = run([support.victim("decode"), *support.pictures("s_baseline")])
    with Group() as group:
        same_pictures(plain, says(job(first, group, "--keep", "1h")), "the first")
        made = group.leftovers() + group.leftovers("ledger")
        assert len(made) > 1, made
        for _ in range(2):
            late = job(second, group)
            assert TOO_NEW in late.errors, late.errors
            same_pictures(plain, says(late), "the second")
        shown = run([tsrun(second), "stats", "--group", group.name])
        assert shown.status != 0 and OTHERS in shown.errors, (shown.output, shown.errors)
        again = job(first, group, "--keep", "1h")
        assert TOO_NEW not in again.errors, again.errors
        same_pictures(plain, says(again), "the first, again")
        assert group.leftovers() + group.leftovers("ledger") == made
        run([tsrun(second), "gc", "--group", group.name])
        assert group.leftovers() + group.leftovers("ledger") == []
