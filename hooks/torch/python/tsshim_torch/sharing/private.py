# SPDX-License-Identifier: MIT
"""
Generators of random numbers that a data set has of its own, seeded for each item as the global
ones are.

Which there are says the walk over the data set (fingerprint/drawing.py), with the path that leads
to each.  What one is seeded with follows from the numbers that the item's global generators are
seeded with and that path, so it is the same in all jobs, whatever each had seeded it with.
"""

import hashlib
import struct
import sys

from . import generators

_SEEDS = struct.Struct("=QQQQ")  # of 32 bytes


class _Python:
    """random.Random."""

    def __init__(self, owner):
        self.save, self.restore = owner.getstate, owner.setstate
        self.owner = owner

    def seed(self, numbers):
        self.owner.seed(numbers[0])


class _Torch:
    """torch.Generator of the CPU."""

    def __init__(self, owner):
        self.save, self.restore = owner.get_state, owner.set_state
        self.owner = owner

    def seed(self, numbers):
        self.owner.manual_seed(numbers[0] >> 1)


class _State:
    """NumPy's RandomState, where its memory is not known."""

    def __init__(self, owner):
        self.save, self.restore = owner.get_state, owner.set_state
        self.owner = owner

    def seed(self, numbers):
        self.owner.seed(numbers[0] & 0xffffffff)


class _Known:
    """NumPy's RandomState, where its memory is: a tenth of the time."""

    def __init__(self, place):
        self.save, self.restore, self.place = place.save, place.restore, place

    def seed(self, numbers):
        self.place.seed(numbers[0] & 0xffffffff)


def _pcg(numbers):
    return {"state": {"state": numbers[0] << 64 | numbers[1],
                      "inc": numbers[2] << 64 | numbers[3] | 1}}


def _philox(numbers):
    words = sys.modules["numpy"].array
    return {"state": {"counter": words([0] * 4, dtype="u8"),
                      "key": words(numbers[:2], dtype="u8")},
            "buffer": words([0] * 4, dtype="u8"), "buffer_pos": 4}


def _sfc(numbers):
    # The last word counts and begins with one.
    return {"state": {"state": sys.modules["numpy"].array((*numbers[:3], 1), dtype="u8")}}


_STATES = {"PCG64": _pcg, "PCG64DXSM": _pcg, "Philox": _philox, "SFC64": _sfc}


class _Bits:
    """One of NumPy's bit generators, behind a numpy.random.Generator."""

    def __init__(self, owner):
        self.owner = owner
        self.name = type(owner).__name__
        self.state = _STATES.get(self.name)

    def save(self):
        return self.owner.state

    def restore(self, state):
        self.owner.state = state

    def seed(self, numbers):
        if self.state is None:
            self.owner._legacy_seeding(numbers[0] & 0xffffffff)  # a Mersenne twister
        else:
            self.owner.state = {"bit_generator": self.name, "has_uint32": 0, "uinteger": 0,
                                **self.state(numbers)}


def _source(owner):
    kind = type(owner)
    if kind.__module__ == "random":
        return _Python(owner)
    if not kind.__module__.startswith("numpy."):
        return _Torch(owner)
    if kind.__name__ != "RandomState":
        return _Bits(owner)
    place = generators.place_of(owner)
    return _State(owner) if place is None else _Known(place)


class Private:
    """The generators that one data set has of its own; for one process."""

    def __init__(self, found):
        """@found are (path, generator), as fingerprint() notes them; one may be there twice."""
        self.paths = [path for path, _ in found]
        self._ids = {}
        for path, owner in found:
            self._ids.setdefault(id(owner), (path, owner))
        self._sources = [(path.encode("utf-8", "surrogatepass"), _source(owner))
                         for path, owner in self._ids.values()]
        self._states = None

    def has_more_than(self, before):
        """Whether there is one that was not in @before."""
        return not self._ids.keys() <= before._ids.keys()

    def seed(self, numbers):
        """Seed each; @numbers, bytes, are those of the item.  Until restore()."""
        if self._states is None:
            self._states = [source.save() for _, source in self._sources]
        for path, source in self._sources:
            made = hashlib.blake2b(numbers + path, digest_size=32, person=b"tsshim own").digest()
            source.seed(_SEEDS.unpack(made))

    def restore(self):
        """Let them be as they were before the first seed()."""
        if self._states is not None:
            states, self._states = self._states, None
            for (_, source), state in zip(self._sources, states):
                source.restore(state)


NONE = Private(())
