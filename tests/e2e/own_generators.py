# SPDX-License-Identifier: MIT
"""Generators of a data set's own: seeded where their state lies, to what their libraries make."""

import os
import random
import subprocess
import sys

import support

if support.LIBRARY != os.environ.get("LD_PRELOAD"):  # native.py looks for it when it is imported
    with support.Group() as group:
        sys.exit(subprocess.call([sys.executable, *sys.argv], env=group.environment(
            TSSHIM_TEST_BUILD=support.BUILD)))

import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
from tsshim_torch import native  # noqa: E402
from tsshim_torch.sharing import generators, private  # noqa: E402

generators.fill = native.twister  # as aligned.py sets it


def owners():
    return {"python": random.Random(1), "state": numpy.random.RandomState(1),
            "torch": torch.Generator(),
            **{kind: getattr(numpy.random, kind)(1)
               for kind in ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")}}


def told(owner):
    """What @owner says of its state."""
    for name in ("getstate", "get_state"):
        if hasattr(owner, name):
            state = getattr(owner, name)()
            return state.tolist() if hasattr(state, "tolist") else repr(private._plain(state))
    return repr(private._plain(owner.state))


def used():
    """Owners in the middle of something: with numbers left over."""
    found = owners()
    found["python"].gauss(0, 1)
    found["state"].normal()
    for name in ("PCG64", "PCG64DXSM", "Philox", "SFC64"):
        numpy.random.Generator(found[name]).integers(1 << 20, dtype=numpy.uint32)
    return found


def test_every_place_is_known():
    """Else seeding them takes three times as long, and nobody is told."""
    found = private.Private([(name, owner) for name, owner in owners().items()])
    kinds = {name: entry.kind for (name, _), entry in zip(found._ids.values(), found._entries)}
    assert kinds == {"python": native.PYTHON, "state": native.NUMPY, "torch": native.OTHER,
                     "PCG64": native.PCG, "PCG64DXSM": native.PCG, "Philox": native.PHILOX,
                     "SFC64": native.SFC, "MT19937": native.NUMPY}, kinds


def test_what_is_written_is_what_the_library_makes():
    for number in range(20):
        there, asked = used(), used()
        found = private.Private([(name, owner) for name, owner in there.items()])
        found.seed(b"item %d" % number)
        for (name, _), entry in zip(found._ids.values(), found._entries):
            private._source(asked[name]).seed(tuple(entry.numbers))
            assert told(there[name]) == told(asked[name]), name
        assert len({tuple(entry.numbers) for entry in found._entries}) == len(there)


def test_they_are_put_back():
    there, kept = used(), used()
    found = private.Private([(name, owner) for name, owner in there.items()])
    found.seed(b"one")
    found.seed(b"another")
    found.restore()
    assert {name: told(owner) for name, owner in there.items()} == \
        {name: told(owner) for name, owner in kept.items()}


if __name__ == "__main__":
    support.main(support.functions(globals()))
