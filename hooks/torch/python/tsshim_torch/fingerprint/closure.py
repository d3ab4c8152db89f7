# SPDX-License-Identifier: MIT
"""
The library modules that a walk has met, with all that they use: written at its end, as one.

A data set of Hugging Face's leads to a hundred modules, and a walk is made for every worker of
every epoch.  While nothing in them was bound anew, what they come to is known already.
"""

import hashlib
from operator import is_

from . import library, walk

CLOSURES = 64  # that are remembered; a program has few sets of modules that data sets lead to

_closures = {}  # ids of modules -> Closure


class Closure:
    """
    Library modules and all others that these use.

    .digest   bytes that stand for what they are and what their names are bound to
    .foreign  [(label, value)] that do not come from a library: to be walked
    """

    def __init__(self, modules, once):
        self.looks, met, waiting = [], set(), list(modules)
        for module in waiting:
            if id(module) not in met:
                met.add(id(module))
                self.looks.append(library.look(module, once))
                waiting += self.looks[-1].modules
        self.looks.sort(key=lambda look: library.module_name(look.module))
        parts, self.foreign = [], []
        for look in self.looks:
            name = library.module_name(look.module)
            parts += (walk.encoded(name), library.module_content(look.module), look.data)
            self.foreign += [(":%s.%s" % (name, path), value) for path, value in look.foreign]
        self.digest = hashlib.blake2b(walk.joined(parts), digest_size=16).digest()
        self._modules = [look.module for look in self.looks]

    def is_same(self, once):
        """Whether these modules are as they were; with @once, whether another look saw them so."""
        return all(map(is_, [library.look(module, once) for module in self._modules], self.looks))


def _closure_of(modules, once):
    key = tuple(map(id, modules))
    known = _closures.get(key)
    if known is None or not known.is_same(once):
        if len(_closures) >= CLOSURES:
            _closures.clear()
        known = _closures[key] = Closure(modules, once)
    return known


def note(walker, module):
    """The current object of @walker, or what it belongs to, is library @module."""
    walker.memory.setdefault(note, {})[id(module)] = module


@walk.ending
def _finish(walker):
    """Write what was noted since the last time; what it leads to of the user's is walked."""
    modules = walker.memory.pop(note, None)
    if modules:
        modules = sorted(modules.values(), key=library.module_name)
        closure = _closure_of(modules, walker.notes.has_looked)
        walker.put(b"h", closure.digest)
        for label, value in closure.foreign:
            walker.add(value, label)
