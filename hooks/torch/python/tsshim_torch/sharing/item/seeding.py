# SPDX-License-Identifier: MIT
"""
The global generators, seeded for an item in one call: torch and random take 40 us between them
where an item has emptied the processor's caches.

Libraries and programs put other generators in their place.  So each time these are looked at;
one that is not known to be the usual one is asked, as generators.py does it.  Sentinels tell of
items of whose code no draw is known whether they drew all the same.
"""

import ctypes
import functools
import random
import sys

import torch

from ... import native
from . import generators, private

_TORCH, _PYTHON, _NUMPY = range(3)

_PYTHON_BYTES = 4 + generators.WORDS  # a position and the words


def _own_of_random():
    """The generator behind random, None where something else was put in its place."""
    owner = getattr(random.seed, "__self__", None)
    return owner if type(owner) is random.Random else None


def _ask(owner, source, number, seed):
    """Let @owner be told the state that C would write; where it takes none, @seed(number)."""
    try:
        if owner is not None:
            return source(owner).seed((number,))
    except Exception as error:
        native.report(error)
    return seed(number)


class Globals:
    """What is known of them in this process; copies of it in forked ones hold as well."""

    def __init__(self):
        self.entries = (native.Generator * 3)()
        self.owners = [None] * 3  # whom each entry is about

    def _has_place(self, which, owner):
        """Whether the entry has a place, which is that of @owner's state."""
        if self.owners[which] is not owner:
            self.owners[which] = owner
            entry = self.entries[which]
            entry.kind, entry.words, entry.more, entry.rest = private.place_of(
                private.source_of(owner))
        return self.entries[which].kind != native.OTHER

    def _has_numpys(self):
        found = generators.numpy_places()
        if self.owners[_NUMPY] != found:
            self.owners[_NUMPY] = found
            entry = self.entries[_NUMPY]
            entry.kind, (entry.words, entry.more) = \
                (native.NUMPY, found) if found else (native.OTHER, (None, None))
        return found is not None

    def look(self):
        """
        Look which they are.  Gives random's own, if its place is known and those of the others
        are as well: then seeding is native.seed_globals() and to forget what its gauss() left.
        """
        owner = _own_of_random()
        if owner is None or not self._has_place(_PYTHON, owner):
            self.entries[_PYTHON].kind, self.owners[_PYTHON] = native.OTHER, None
            owner = None
        are_known = self._has_place(_TORCH, torch.default_generator)
        if not self._has_numpys() and "numpy" in sys.modules:
            are_known = False
        return owner if are_known else None

    def save(self):
        """
        (as look(), a function that lets all three be as they are now).  Torch and random take 80 us to
        tell their states and to take them back, in which some items are made; so these are copied
        where they lie.
        """
        owner = self.look()
        if owner is None:
            return None, functools.partial(generators.restore, generators.save())
        memories, left_over, numpy = self.snapshot(owner)
        return owner, functools.partial(_put_back, memories, self.owners[_TORCH], owner, left_over, numpy)

    def snapshot(self, owner):
        """All of the states, where they have their places; @owner is what look() gave."""
        found = ((self.entries[_TORCH].words, private.TORCH_BYTES),
                 (self.entries[_PYTHON].more, _PYTHON_BYTES))
        return ([(at, ctypes.string_at(at, size)) for at, size in found], owner.gauss_next,
                generators.save_numpy())

    def seed(self, torch_seed, python_seed, numpy_seed):
        """Seed all three, the first two with 64 bits, the last one with 32."""
        self.look()
        if self.entries[_TORCH].kind == native.OTHER:
            _ask(torch.default_generator, private.Torch, torch_seed << 1,
                 torch.default_generator.manual_seed)
        if self.entries[_PYTHON].kind == native.OTHER:
            _ask(_own_of_random(), private.Python, python_seed, random.seed)
        if self.entries[_NUMPY].kind == native.OTHER:
            _ask(generators.own_of_numpy(), private.State, numpy_seed, generators.seed_numpy)
        native.seed_globals(self.entries, torch_seed, python_seed, numpy_seed)
        if self.owners[_PYTHON] is not None:
            self.owners[_PYTHON].gauss_next = None


def _put_back(memories, _, python, left_over, numpy):
    for at, words in memories:
        generators.memmove(at, words, len(words))
    python.gauss_next = left_over
    generators.restore_numpy(numpy)


def marks_of_now():
    """
    A function whose result differs from before where somebody has put another generator in the
    place of one that look() found at its place.
    """
    owner = generators.own_of_numpy()
    if owner is None:
        return lambda: (torch.default_generator, random.seed, "numpy" in sys.modules)
    module, inner = sys.modules["numpy"].random, sys.modules["numpy"].random.mtrand
    return lambda: (torch.default_generator, random.seed, module.seed, inner.seed,
                    module.get_state, module.set_state, inner._rand, owner._bit_generator)


known = Globals()
seed = known.seed


# ---- sentinels: functions whose results differ when the state of a generator does ----

def _of_torch():
    return torch.default_generator.get_state().numpy().tobytes()


def _at(address, owner):
    """The sentinel of @owner, with the words and the position of a Mersenne twister at @address."""
    def look():
        return ctypes.string_at(address, _PYTHON_BYTES)

    look.owner = owner
    return look


@functools.lru_cache(maxsize=None)
def _of_python():
    """That of random; to read the state where it lies takes a fiftieth of asking for it."""
    owner = random._inst
    place = private.of_python(owner) if type(owner) is random.Random else None
    return _at(place[2], owner) if place is not None else random.getstate


def _of_numpy():
    """That of numpy.random, or None when it is not an ordinary one."""
    bits = getattr(getattr(sys.modules["numpy.random"].mtrand, "_rand", None), "_bit_generator", None)
    return _at(bits.ctypes.state_address, bits) if type(bits).__name__ == "MT19937" else None


def _of_gpus():
    """That of the generators of the GPUs, where this process uses any."""
    if not torch.cuda.is_initialized():
        return ()
    return [generator.get_state().numpy().tobytes() for generator in torch.cuda.default_generators]


def sentinels_but(names):
    """Sentinels for the generators that are not in @names, judgement's; no key names the GPUs'."""
    from ...judge import judgement  # aligned jobs do without
    found = [_of_gpus]
    if judgement.TORCH not in names:
        found.append(_of_torch)
    if judgement.PYTHON not in names:
        found.append(_of_python())
    if judgement.NUMPY not in names and "numpy.random" in sys.modules:
        found.append(_of_numpy())
    return tuple(look for look in found if look is not None)
