# SPDX-License-Identifier: MIT
"""
Default mode with other Pythons: what exact.py and fingerprints.py say of the one that always runs,
they have to say of those in the roots of package_roots.py, Debian 13's and 14's.  Others, with a
torch of their own, may be named in TSSHIM_TEST_PYTHONS, with colons between them; that none is named
is a skip, which TSSHIM_TEST_MAY_SKIP knows as "pythons".
"""

import os
import re
import sys
import tempfile

import package_roots
import support

GUARD = 3000  # seconds
NAMED = os.environ.get("TSSHIM_TEST_PYTHONS", "")
# All of exact.py's tests that are about code; the others are about what is done with a verdict.
ABOUT_CODE = ("verdicts", "code_of", "code_that", "equal_seeds", "the_program_changes")

# The interpreter of the root $1, which sees the directories that tests are in where they are.
PYTHON = """#!/bin/sh
exec unshare --mount sh -euc '
root=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for directory in %(seen)s; do
	mkdir -p "$root$directory"
	mount --rbind "$directory" "$root$directory"
done
exec chroot "$root" env -C "$PWD" /usr/bin/python3 "$@"' sh "%(root)s" "$@"
"""


def check(python):
    """All tests with @python, a program."""
    environment = dict(os.environ, TSSHIM_TEST_TORCH="pypi", TSSHIM_TEST_PYPI_PYTHON=python)
    for name, words in (("exact", ABOUT_CODE), ("fingerprints", ())):
        process = support.start([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", " or ".join(words),
                                 os.path.join(support.HERE, name + ".py")], environment)
        outcome = support.finish(process, GUARD)
        assert outcome.status == 0, (python, name, outcome.output[-3000:], outcome.errors[-3000:])
        passed, _, skipped, _ = map(int, re.findall(r"\d+", outcome.output.rpartition("# tests: ")[2]))
        assert passed >= 5 and skipped == 0, outcome.output[-3000:]


def check_root(release):
    root = os.path.join(package_roots.ROOTS, release)
    if not os.path.exists(root + "/complete"):
        raise support.Skip("roots", "no root of %s (scripts/deps roots)" % release)
    if os.geteuid() != 0:
        raise support.Skip("root", "only root changes its root")
    # Where the sources are (with a work tree's repository), what was built, and pictures.
    seen = {os.path.dirname(os.path.abspath(path)) for path in (
        os.path.join(support.HERE, "..", "..", "x"), support.BUILD)} | {tempfile.gettempdir()}
    with tempfile.NamedTemporaryFile("w", suffix="-python", delete=False) as file:
        file.write(PYTHON % {"root": root, "seen": " ".join(sorted(seen))})
    try:
        os.chmod(file.name, 0o755)
        check(file.name)
    finally:
        os.unlink(file.name)


@support.whole
def test_debian_13():
    check_root("trixie")


@support.whole
def test_debian_14_as_it_is_now():
    check_root("forky")


@support.whole
def test_those_that_are_named():
    pythons = list(filter(None, NAMED.split(":")))
    if not pythons:
        raise support.Skip("pythons", "TSSHIM_TEST_PYTHONS names none")
    for python in pythons:
        check(python)
