# SPDX-License-Identifier: MIT
"""
Generators of random numbers that a data set has of its own, seeded for each item as the global
ones are.

The walk over the data set finds them (fingerprint/drawing.py), with the path that leads to each.
The seed of one follows from the item's seeds and that path, so it is the same in all jobs.

C writes the state where it lies in memory (hooks/torch/numbers.h).  NumPy's package tells the
addresses of its bit generators; those of torch and random are looked for.  A trial shows once for
each class, in each process, whether the generator then tells what was written; where it does not,
its own functions set the state.
"""

import ctypes
import functools
import random
import struct
import sys

import torch

from ... import native
from . import generators

# ---- random.Random: where its state lies ----

def of_python(owner):
    """(kind, addresses) of the random.Random @owner, or None."""
    _, words, _ = owner.getstate()
    known = bytes(memoryview((ctypes.c_uint32 * generators.COUNT)(*words[:-1])))
    memory = ctypes.string_at(id(owner), type(owner).__base__.__basicsize__)
    at = memory.find(known)
    if at < 4 or memory.count(known) != 1:
        return None
    return native.PYTHON, id(owner) + at, id(owner) + at - 4, None


# ---- torch.Generator ----

_HEAD = 160  # bytes, in which the engine of a generator begins (ATen/core/MT19937RNGEngine.h)
_WORDS_AT = 20  # in an engine: its seed, two counters and a flag come first
_LEFT_OVER = 28  # bytes behind the words: the normal double and float that are left over, if any
TORCH_BYTES = _WORDS_AT + generators.WORDS + _LEFT_OVER  # from where an engine begins, all of the state

# What get_state() tells has the form of Lua's torch: words of 64 bits, and these at its end.
_TOLD_WORDS = struct.Struct("=24x%dQ" % generators.COUNT)
_TOLD_REST = struct.Struct("=3d?7xf?3x")


def _engine_of(probe):
    """Where in the generator @probe its engine begins, or None."""
    seed = struct.pack("=Q", probe.initial_seed())
    head = ctypes.string_at(probe._cdata, _HEAD)
    told = _TOLD_WORDS.unpack_from(probe.get_state().numpy().tobytes())
    at = head.find(seed)
    if at < 0 or head.count(seed) != 1:
        return None
    words = ctypes.string_at(probe._cdata + at + _WORDS_AT, generators.WORDS)
    return at if words == struct.pack("=%dI" % generators.COUNT, *told) else None


def _flags_of(probe, start):
    """Where from @start on a generator notes that a double, and that a float, is left over."""
    state = bytearray(probe.get_state().numpy().tobytes())
    memories = []
    for double, single in ((False, False), (True, False), (False, True)):
        _TOLD_REST.pack_into(state, _TOLD_WORDS.size, 0, 0, 0, double, 0, single)
        probe.set_state(torch.tensor(state, dtype=torch.uint8))
        memories.append(ctypes.string_at(probe._cdata + start, _LEFT_OVER))
    places = [[at for at, values in enumerate(zip(*memories)) if values == wanted]
              for wanted in ((0, 1, 0), (0, 0, 1))]
    return [found[0] for found in places] if list(map(len, places)) == [1, 1] else None


@functools.lru_cache(maxsize=None)
def _torch_offsets():
    """Offsets in a generator of torch's: of its engine and of the two flags.  None: not known."""
    probe = torch.Generator()
    probe.manual_seed(0x6a09e667f3bcc908)
    engine = _engine_of(probe)
    if engine is None:
        return None
    end = engine + _WORDS_AT + generators.WORDS
    flags = _flags_of(probe, end)
    return flags and (engine, end + flags[0], end + flags[1])


def of_torch(owner):
    """(kind, addresses) of the torch.Generator @owner, or None."""
    if type(owner) is not torch.Generator or owner.device.type != "cpu" or not _torch_offsets():
        return None
    return native.TORCH, *(owner._cdata + offset for offset in _torch_offsets())


# ---- trying out ----

_right = {}  # class of generators -> whether what is written to its place is what it is told


def _plain(state):
    """@state for comparisons, without arrays."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    if isinstance(state, tuple):
        return [_plain(part) for part in state]
    return state.tolist() if hasattr(state, "tolist") else state


def _is_right(source, place):
    entry = (native.Generator * 1)(native.Generator(*place, b"path", 4))
    state = source.save()
    try:
        for numbers in (b"first", b"second"):
            native.seed(entry, 1, numbers, len(numbers))
            if source.after is not None:
                source.after()
            found = _plain(source.told())
            source.seed(tuple(entry[0].numbers))
            if _plain(source.told()) != found:
                return False
        return True
    finally:
        source.restore(state)


def place_of(source):
    """(kind, addresses of its state) of @source, native.OTHER where that is not known."""
    kind = type(source.owner)
    place = None
    if source.place is not None and generators.HAS_LOCK and _right.get(kind, True):
        try:
            place = source.place()
            if place is not None and kind not in _right:
                _right[kind] = _is_right(source, place)
        except Exception as error:
            native.report(error)
            _right[kind] = False
    return place if place is not None and _right.get(kind) else (native.OTHER, None, None, None)


def expect_workers():
    """Try out here, on generators that nobody uses, what each forked worker would try out again."""
    for owner in (random.Random(), torch.Generator()):
        place_of(source_of(owner))


# ---- sources: how each kind is saved, seeded and restored ----

# What torch.Generator.get_state() tells behind the seed: how many numbers are left, whether it is seeded,
# which is next, words of 64 bits (CPUGeneratorImplState in ATen/CPUGeneratorImpl.cpp).
_TOLD_BY_TORCH = struct.Struct("=8xiiq%dQ" % generators.COUNT)


def _numpys(number):
    """A state of NumPy's MT19937."""
    return {"key": sys.modules["numpy"].array(native.words(number), dtype="u4"), "pos": 0}


class _Source:
    """How a generator is saved, seeded and restored."""

    after = None  # what of it is left to set once its state was written to its place

    def __init__(self, owner, save, restore):
        self.owner, self.restore = owner, restore
        self.save = self.told = save


class Python(_Source):
    """random.Random."""

    def __init__(self, owner):
        super().__init__(owner, owner.getstate, owner.setstate)

    def seed(self, numbers):
        self.owner.setstate((3, (*native.words(numbers[0]), 0), None))

    def after(self):
        self.owner.gauss_next = None

    def place(self):
        return of_python(self.owner)


class Torch(_Source):
    """torch.Generator of the CPU."""

    def __init__(self, owner):
        super().__init__(owner, owner.get_state, owner.set_state)

    def seed(self, numbers):
        seed = numbers[0] >> 1
        self.owner.manual_seed(seed)
        told = self.owner.get_state().numpy().tobytes()
        begun = told[:8] + _TOLD_BY_TORCH.pack(generators.COUNT, 1, 1, *native.words(seed))[8:]
        self.owner.set_state(torch.tensor(bytearray(begun + told[len(begun):]), dtype=torch.uint8))

    def place(self):
        return of_torch(self.owner)


class State(_Source):
    """NumPy's RandomState."""

    def __init__(self, owner):
        super().__init__(owner, owner.get_state, owner.set_state)
        self.known = generators.place_of(owner)
        if self.known is not None:  # a tenth of the time
            self.save, self.restore = self.known.save, self.known.restore

    def seed(self, numbers):
        words = _numpys(numbers[0])
        self.owner.set_state(("MT19937", words["key"], words["pos"], 0, 0.0))

    def place(self):
        return self.known and (native.NUMPY, self.known.words, self.known.gauss, None)


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


class _Bits(_Source):
    """One of NumPy's bit generators, behind a numpy.random.Generator."""

    def __init__(self, owner):
        super().__init__(owner, lambda: owner.state, lambda state: setattr(owner, "state", state))
        self.name = type(owner).__name__
        self.state = _STATES.get(self.name)

    def seed(self, numbers):
        if self.state is None:  # a Mersenne twister
            self.owner.state = {"bit_generator": self.name, "state": _numpys(numbers[0])}
        else:
            self.owner.state = {"bit_generator": self.name, "has_uint32": 0, "uinteger": 0,
                                **self.state(numbers)}

    def place(self):
        """As numpy/random/src has it: pcg64.h, philox.h, sfc64.h, mt19937.h."""
        at = self.owner.ctypes.state_address
        pointers = (ctypes.c_void_p * 2).from_address(at)
        if self.state is _pcg:
            return native.PCG, pointers[0], at + 8, None
        if self.state is _philox:
            return native.PHILOX, pointers[1], pointers[0], at + 16
        if self.state is _sfc:
            return native.SFC, at, at + 32, None
        return native.NUMPY, at, None, None


def source_of(owner):
    kind = type(owner)
    if kind.__module__ == "random":
        return Python(owner)
    if not kind.__module__.startswith("numpy."):
        return Torch(owner)
    return State(owner) if kind.__name__ == "RandomState" else _Bits(owner)


class Private:
    """The generators that one data set has of its own; for one process."""

    def __init__(self, found):
        """@found are (path, generator), as fingerprint() notes them; one may be there twice."""
        self.paths = [path for path, _ in found]
        self._ids = {}
        for path, owner in found:
            self._ids.setdefault(id(owner), (path, owner))
        self._sources = [source_of(owner) for _, owner in self._ids.values()]
        self._states = None
        names = [path.encode("utf-8", "surrogatepass") for path, _ in self._ids.values()]
        self._entries = (native.Generator * len(names))(*[
            native.Generator(*place_of(source), name, len(name))
            for source, name in zip(self._sources, names)])
        # What is left to do in Python.
        self._others = [(source, entry) for source, entry in zip(self._sources, self._entries)
                        if entry.kind == native.OTHER]
        self._afters = [source.after for source, entry in zip(self._sources, self._entries)
                        if entry.kind != native.OTHER and source.after is not None]

    def has_more_than(self, before):
        """Whether there is one that was not in @before."""
        return not self._ids.keys() <= before._ids.keys()

    def seed(self, numbers):
        """Seed each; @numbers, bytes, are those of the item.  Until restore()."""
        if self._states is None:
            self._states = self.states()
        self.begin(numbers)

    def begin(self, numbers):
        """Seed each with what follows from @numbers, for good."""
        native.seed(self._entries, len(self._entries), numbers, len(numbers))
        for source, entry in self._others:
            source.seed(tuple(entry.numbers))
        for after in self._afters:
            after()

    def restore(self):
        """Let them be as they were before the first seed()."""
        if self._states is not None:
            states, self._states = self._states, None
            self.put(states)

    def states(self):
        """What put() needs to let them be as they are now."""
        return [source.save() for source in self._sources]

    def put(self, states):
        for source, state in zip(self._sources, states):
            source.restore(state)


NONE = Private(())
