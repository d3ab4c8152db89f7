# SPDX-License-Identifier: MIT
"""
fastai's loaders (2.8, fastai/data/load.py): each hands torch's iterators a loader of its own
making, whose data set is itself and gives whole batches.  The order of an epoch is chosen just
before these are made, with a generator that was seeded when the loader was.
"""

import random
import sys
import weakref

from ... import native
from ..item import generators

_MODULE, _CLASS = "fastai.data.load", "_FakeLoader"

_told = weakref.WeakSet()  # loaders whose order is not aligned


def is_one(loader):
    """Whether @loader is what fastai hands to torch's iterators."""
    kind = type(loader)
    return (kind.__module__, kind.__qualname__) == (_MODULE, _CLASS)


def facts(loader):
    """What loaders.py asks of @loader, by the names of torch's attributes."""
    own = vars(loader.d)
    return {"dataset": own.get("dataset"), "batch_size": own.get("bs"), "n": own.get("n"), "collate_fn": None}


def _tell(loader):
    if loader not in _told:
        _told.add(loader)
        native.say("order not aligned: loader over %s: %s has an order of its own" % (
            type(loader.d.dataset).__qualname__, type(loader.d).__qualname__))


def align(loader, seed):
    """
    Let the order of the epoch that begins now follow from @seed(), which lets the global
    generators do so.  @loader.d is the program's loader; the samples that it shall give it keeps
    for its workers, which are not there yet.
    """
    inner = loader.d
    shuffle = getattr(getattr(inner, "shuffle_fn", None), "__func__", None)
    known = getattr(getattr(sys.modules[_MODULE], "DataLoader", None), "shuffle_fn", None)
    if shuffle is None or shuffle is not known or not {"rng", "_DataLoader__idxs"} <= vars(inner).keys():
        _tell(loader)  # LMDataLoader's, say, shuffles what the epoch before has left
        return
    own, before = generators.save(), inner.rng
    try:
        seed()
        inner.rng = random.Random(random.getrandbits(32))
        inner._DataLoader__idxs = inner.get_idxs()
    except Exception:  # of the program's, which is asked a second time
        inner.rng = before
        _tell(loader)
    finally:
        generators.restore(own)
