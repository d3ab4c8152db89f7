# SPDX-License-Identifier: MIT
"""
Fingerprints of map-style datasets: equal in independent processes when nothing that dataset[i]
is made of differs, and an exception when that cannot be told.

What counts: the dataset with all it refers to; the code of its classes and functions, of their
closures, defaults and the globals they name; what is changed in the libraries used.  What
dataset[i] asks the world (files, clocks, random numbers) while it runs is not judged here.
"""

import bisect
import math
import sys
import types

from .. import clock, collecting
from . import arrays, bags, frames, parts, remembered, traced
from . import nodes  # noqa: F401 -- registers what it knows
from .classes import instance_dict
from .environment import environment
from .library import class_dict, is_library_function
from .walk import REASONS, Notes, Unknown, Walker

SLOW = 0.1  # seconds of CPU time from which a walk that came to nothing is made once

__all__ = ("REASONS", "Notes", "Unknown", "environment", "fingerprint", "unwrap")


@collecting.put_off()
def fingerprint(dataset, constants=None, room=math.inf, notes=None):
    """
    16 bytes for @dataset.  Raises Unknown and nothing else.  Runs no code of the user's.  Costs
    some milliseconds, and a second for each gigabyte the dataset holds; takes no lock, may be
    called in any thread, but not while another one changes the dataset.

    @constants is a list of the caller's, empty at first, that makes the next look at the same
    dataset cheaper: it refers to what the dataset's lists held that cannot change.  More than @room
    bytes of arrays are Unknown.  @notes, Notes of the caller's, say what else was seen, also where
    Unknown is raised; with those of a moment ago large arrays and libraries are as they were.
    """
    constants = [] if constants is None else constants
    known = tuple(constants)
    constants.clear()
    notes, before = notes or Notes(), None
    start = clock.thread()
    try:
        arrays.register()
        frames.register()
        before = remembered.refusal(dataset)
        if before is not None:
            notes.generators = _held(dataset, notes)
            raise before
        walker = Walker("dataset", known, room, notes)
        walker.add(dataset)
        try:
            walker.digest()
            traced.tell(walker)
            digest = bags.finish(walker, walker.hash.digest())
            if notes.parts is not None:
                notes.parts[parts.LEAVES:parts.LEAVES] = parts.of_objects(walker)
        finally:
            notes.has_looked = True
        constants[:] = walker.constants
        return digest
    except Unknown as unknown:
        if before is None and clock.thread() - start >= SLOW:
            _remember(dataset, unknown, notes)
        raise
    except Exception as error:
        raise Unknown("internal", "%s: %s" % (type(error).__name__, error)) from error


def _remember(dataset, unknown, notes):
    """
    Have a long walk that came to nothing not made again: in no worker of the job, of no epoch.
    Where it found generators that a look at the data alone would not find, it is made again.
    """
    if unknown.reason == "large" and not notes.is_cut:
        return  # there may be room for it later
    held = _held(dataset, notes)
    if notes.is_cut:
        notes.generators = held  # not those that one job finds in time and another one does not
    if held is None or len(held) == len(notes.generators):
        remembered.remember(dataset, unknown)


def _held(dataset, notes):
    """The generators that @dataset holds, code left out; None where @notes ask for none."""
    if notes.generators is None:
        return None
    found = Notes(seeds=True)
    walker = Walker("dataset", notes=found, data_only=True)
    try:
        walker.add(dataset)
        walker.digest()
    except Unknown:
        pass
    return found.generators


def unwrap(dataset, index):
    """
    The (dataset, index) that @dataset[@index] comes down to when @dataset is one of PyTorch's
    own Subset and ConcatDataset, once or several times; else the arguments.  An index that is
    wrong, or not an int, is left to them.
    """
    library = sys.modules.get("torch.utils.data.dataset")
    while library is not None:
        kind = type(dataset)
        if kind is library.__dict__.get("Subset"):
            inner = _in_subset(dataset, index)
        elif kind is library.__dict__.get("ConcatDataset"):
            inner = _in_concatenation(dataset, index)
        else:
            break
        if inner is None or not _is_original(kind):
            break
        dataset, index = inner
    return dataset, index


def _is_original(kind):
    method = class_dict(kind).get("__getitem__")
    return (type(method) is types.FunctionType and is_library_function(method)
            and method.__qualname__ == kind.__name__ + ".__getitem__")


def _in_subset(dataset, index):
    attributes = instance_dict(dataset)
    indices = attributes.get("indices")
    if type(index) is not int or "dataset" not in attributes or not _is_sequence(indices):
        return None
    try:
        return attributes["dataset"], indices[index]
    except IndexError:
        return None


def _is_sequence(indices):
    """Whether @indices[i] runs no code of the user's."""
    kind = type(indices)
    if kind in (list, tuple, range):
        return True
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (numpy is not None and kind is numpy.ndarray
            or torch is not None and kind is torch.Tensor)


def _in_concatenation(dataset, index):
    attributes = instance_dict(dataset)
    ends, parts = attributes.get("cumulative_sizes"), attributes.get("datasets")
    if (type(index) is not int or type(ends) is not list or type(parts) is not list
            or not ends or len(ends) != len(parts) or set(map(type, ends)) != {int}):
        return None
    if index < 0:
        index += ends[-1]
    if not 0 <= index < ends[-1]:
        return None
    which = bisect.bisect_right(ends, index)
    return parts[which], index - (ends[which - 1] if which else 0)
