# SPDX-License-Identifier: MIT
"""
The global generators, seeded for an item in one call: torch and random take 40 us between them
where an item has emptied the processor's caches.

Libraries and programs put other generators in their place.  So each time these are looked at;
one that is not known to be the usual one is asked, as generators.py does it.
"""

import random
import sys

import torch

from .. import native
from . import generators, places, private

_TORCH, _PYTHON, _NUMPY = range(3)


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
            entry.kind, entry.words, entry.more, entry.rest = places.place_of(
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
        owner = getattr(random.seed, "__self__", None)
        if type(owner) is not random.Random or not self._has_place(_PYTHON, owner):
            self.entries[_PYTHON].kind, self.owners[_PYTHON] = native.OTHER, None
            owner = None
        are_known = self._has_place(_TORCH, torch.default_generator)
        if not self._has_numpys() and "numpy" in sys.modules:
            are_known = False
        return owner if are_known else None

    def seed(self, torch_seed, python_seed, numpy_seed):
        """As generators.seed()."""
        self.look()
        if self.entries[_TORCH].kind == native.OTHER:
            generators.seed_torch(torch_seed)
        if self.entries[_PYTHON].kind == native.OTHER:
            random.seed(python_seed)
        if self.entries[_NUMPY].kind == native.OTHER:
            generators.seed_numpy(numpy_seed)
        native.seed_globals(self.entries, torch_seed, python_seed, numpy_seed)
        if self.owners[_PYTHON] is not None:
            self.owners[_PYTHON].gauss_next = None


def marks():
    """What differs from before where somebody has put another generator in the place of one."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return torch.default_generator, random.seed
    module, inner = numpy.random, numpy.random.mtrand
    owner = getattr(inner, "_rand", None)
    return (torch.default_generator, random.seed, module.seed, inner.seed, module.get_state,
            module.set_state, owner, getattr(owner, "_bit_generator", None))


known = Globals()
seed = known.seed
