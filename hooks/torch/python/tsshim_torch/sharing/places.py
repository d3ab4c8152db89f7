# SPDX-License-Identifier: MIT
"""
Where in memory the states of generators lie, for C to seed them there (hooks/torch/numbers.h).

Of NumPy's bit generators their package tells the addresses; those of torch and random are looked
for.  Whether a generator then tells the state that was written is tried out once for each class, in
each process; where it does not, it is told the state by its own functions.
"""

import ctypes
import functools
import struct

import torch

from .. import native
from . import generators

# ---- random.Random ----


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
