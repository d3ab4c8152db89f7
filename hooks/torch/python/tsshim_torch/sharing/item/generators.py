# SPDX-License-Identifier: MIT
"""
The global generators of the CPU: to put them aside for a while, and to seed them.

NumPy takes 70 us to tell its state and to take it back, in which a dozen samples are taken.  So
that state is copied where it lies in memory: that it lies there is tried first, once.

No lock is taken, and none of NumPy's: a process forked by another thread meanwhile, as for a
loader's worker, would find it taken for ever.  The interpreter's own is kept instead.  Threads that
iterate use them one after the other (used()): a child forgets who did, and a wait has an end.
"""

import contextlib
import ctypes
import functools
import os
import random
import struct
import sys
import threading

import torch

COUNT = 624  # words of the state of a Mersenne twister, which a position goes with
WORDS = COUNT * 4  # bytes
GAUSS = 16  # bytes: whether a number of the normal distribution is left over, and which

# The one of ctypes lets other threads run meanwhile.
memmove = ctypes.PyDLL(None).memmove
memmove.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
memmove.restype = None


@functools.lru_cache(maxsize=None)
def _gauss_offset(kind):
    """Where in an object of NumPy's class RandomState, @kind, GAUSS are; None: not known."""
    probe = kind(1)
    name, key, place, _, _ = probe.get_state()
    found = set()
    for flag, number in ((1, 0.1234567890123), (0, 0.9876543210987), (1, 0.5432109876543)):
        probe.set_state((name, key, place, flag, number))
        memory = ctypes.string_at(id(probe), kind.__basicsize__)
        wanted = struct.pack("=i4xd", flag, number)
        at = memory.find(wanted[8:]) - 8
        same = at >= 0 and memory[at:at + 4] == wanted[:4] and memory.count(wanted[8:]) == 1
        found.add(at if same else None)
    return found.pop() if len(found) == 1 else None


class _Numpy:
    """Where the state of the generator behind numpy.random lies."""

    def __init__(self, owner, bits):
        self.bits = bits
        self.words = bits.ctypes.state_address
        self.gauss = id(owner) + _gauss_offset(type(owner))
        self.owner = owner

    def save(self):
        return (ctypes.string_at(self.words, WORDS + 4),
                ctypes.string_at(self.gauss, GAUSS))

    def restore(self, state):
        if self.owner._bit_generator is not self.bits:
            self._tell(*state)
            return
        memmove(self.words, state[0], WORDS + 4)
        memmove(self.gauss, state[1], GAUSS)

    def _tell(self, words, gauss):
        """Another generator was put in place meanwhile: let NumPy do what can be done."""
        key = sys.modules["numpy"].frombuffer(words, "=u4", 624)
        self.owner.set_state(("MT19937", key, *struct.unpack("=i", words[WORDS:]),
                              *struct.unpack("=i4xd", gauss)))

    def is_right(self):
        """Whether the memory holds what NumPy says."""
        _, key, place, flag, number = self.owner.get_state()
        words, gauss = self.save()
        return words == struct.pack("=%dIi" % len(key), *key.tolist(), place) and \
            struct.unpack("=i4xd", gauss) == (flag, number)


HAS_LOCK = getattr(sys, "_is_gil_enabled", lambda: True)()

_numpy = (None, None)  # (the generator, its _Numpy or None)


def own_of_numpy():
    """The RandomState behind numpy.random; None where there is no NumPy or it is another thing."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    module, inner = numpy.random, numpy.random.mtrand
    owner = getattr(inner, "_rand", None)
    # Other libraries put functions with generators of their own there, for a while or for good.
    is_its_own = module.seed is inner.seed and \
        getattr(module.get_state, "__self__", None) is owner \
        is getattr(module.set_state, "__self__", None)
    bits = getattr(owner, "_bit_generator", None)
    return owner if is_its_own and bits is not None and type(owner) is module.RandomState \
        and type(bits) is module.MT19937 else None


def _numpy_of():
    """The _Numpy of the generator behind numpy.random, or None: it has to be asked."""
    global _numpy
    owner = own_of_numpy()
    bits = getattr(owner, "_bit_generator", None)
    if bits is None or _numpy[0] is not bits:
        _numpy = (bits, owner and place_of(owner))
    return _numpy[1]


def place_of(owner):
    """The _Numpy of @owner, a RandomState, or None: it has to be asked."""
    bits = owner._bit_generator
    if not HAS_LOCK or type(bits) is not sys.modules["numpy"].random.MT19937 \
            or _gauss_offset(type(owner)) is None:
        return None
    place = _Numpy(owner, bits)
    return place if place.is_right() else None


def save_numpy():
    """What restore_numpy() needs."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    place = _numpy_of()
    return (place, numpy.random.get_state() if place is None else place.save())


_use = threading.RLock()
USE_S = 10  # a thread that holds it longer may be waiting for this one
has_clashed = False  # that was so; from then on threads use them as without us


def _forget_use():
    """In a child: the thread that holds it is not here."""
    global _use, has_clashed
    _use, has_clashed = threading.RLock(), False


os.register_at_fork(after_in_child=_forget_use)


@contextlib.contextmanager
def used():
    """
    This thread puts the generators aside, uses them and puts them back.  Another one that iterates a
    loader meanwhile waits, or what it put back would be what this one has seeded.
    """
    global has_clashed
    use = None if has_clashed else _use
    if use is not None and not use.acquire(timeout=USE_S):
        use, has_clashed = None, True
    try:
        yield
    finally:
        if use is not None:
            use.release()


def save():
    """What restore() needs; for this process, and no longer than the program lets them be."""
    return torch.default_generator.get_state(), random.getstate(), save_numpy()


def digest():
    """What tells whether anybody has drawn from them since it was asked for last."""
    numpy = sys.modules.get("numpy")
    found = numpy and numpy.random.get_state()
    return (torch.default_generator.get_state().numpy().tobytes(), random.getstate(),
            found and (found[0], found[1].tobytes(), *found[2:]))


def restore(state):
    """Let the generators be as they were when save() gave @state."""
    torch.default_generator.set_state(state[0])
    random.setstate(state[1])
    restore_numpy(state[2])


def restore_numpy(state):
    """The same of what save_numpy() gave."""
    if state is None:
        return
    place, value = state
    if place is None:
        sys.modules["numpy"].random.set_state(value)
    else:
        place.restore(value)


def numpy_places():
    """The addresses of words and GAUSS of the generator behind numpy.random, or None."""
    place = _numpy_of()
    return place and (place.words, place.gauss)


def seed_numpy(number):
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(number)


def seed(torch_seed, python_seed, numpy_seed):
    """Seed each; the first two take 64 bits, the last one 32."""
    # Not torch.manual_seed(), which would seed the GPUs of the trainer as well.
    torch.default_generator.manual_seed(torch_seed)
    random.seed(python_seed)
    seed_numpy(numpy_seed)
