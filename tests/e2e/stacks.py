# SPDX-License-Identifier: MIT
"""
First calls on small stacks: of a thread, a handler of signals, a coroutine.  They come to the same,
and use 4 KiB more than without us at most (exceptions.md).  tests/abi/stack.py adds up all ways;
here some are gone, and what is not the compiler's to tell is seen as well.
"""

import os
import tempfile

import pytest
import support
from support import Group, equal, run, victim

LIMIT = 4096
SMALL = 16384
# libjpeg needs more by itself, or glibc's readdir and fopen for a first buffer.
LARGE = 32768

STAGED = {"TSSHIM_STAGE": "shm", "TSSHIM_TEST_YOUNG_INPUTS": "1"}


def used(outcome):
    return int([line for line in outcome.output.splitlines() if line.startswith("~")][0][1:])


def look(how, what, path, **settings):
    """The call plain, then as the first of a group, and of a second job."""
    for size in (SMALL, LARGE):
        command = [victim("stacks"), how, what, path, str(size)]
        plain = run(command)
        assert plain.status == 0, (plain.status, plain.errors[-500:])
        with Group(support.TEST_LIBRARY, **settings) as group:
            group.keep()
            for _ in range(2):
                ours = run(command, group.environment())
                equal(plain, ours, "%s, %s, %d" % (how, what, size))
                assert used(ours) <= used(plain) + LIMIT, (how, what, used(plain), used(ours))
            done = [group.pixels("produced"), group.pixels("shared")] if what == "decode" else group.staged()[:2]
            assert sum(done) > 0 or what in ("stat", "list"), (how, what, done)
            group.release()
            group.gc()


WAYS = "thread", "handler", "coroutine"


@pytest.mark.parametrize("how", WAYS)
def test_files(how):
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as root:
        # Paths may be long: what is made of one is the largest that a frame would have.
        deep = os.path.join(root, *["d" * 200] * 10)
        os.makedirs(deep)
        for name in ("one", "two"):
            support.write(os.path.join(deep, name), name.encode() * 20000)
        path = os.path.join(deep, "one")
        for what in ("open", "fopen", "lock"):
            look(how, what, path, TSSHIM_DATASET="a=" + root, **STAGED)
        for what in ("open", "stat", "list"):
            look(how, what, path, TSSHIM_DATASET="a=" + root, TSSHIM_STAGE_METADATA="600", **STAGED)


@pytest.mark.parametrize("how", WAYS)
def test_decodes(how):
    look(how, "decode", (support.pictures("baseline") or support.pictures())[0])
