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
import mmap
import sys
import types

from .. import clock, collecting
from . import bags, parts, traced, walk
from . import frames, nodes  # noqa: F401 -- register what they know
from .classes import instance_dict
from .environment import environment
from .library import class_dict, class_name, inherits, is_library_function
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
        walk.register()
        before = _refusal(dataset)
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
        kind = _kind(dataset)
        _refusals[kind] = unknown.reason, unknown.where, unknown.kind  # it leads to all that was seen
        if _found is not None:
            _found[hash(kind) % PLACES] = 1 + _REASONS.index(unknown.reason)


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


# ---- refusals ----

# Data sets that could not be told, after a walk that took long: the workers of an epoch, and those
# of the next, need not find out again.  They are remembered by their class and the classes of their
# attributes, for a program may make a new one for each epoch.  Others that look the same are not
# shared either, which is never wrong.  No name is remembered: what a data set holds may change.
#
# A process that is forked knows what the one did that forks it; expect() lets that one, and others
# that it forks, know what a forked one finds.  One that is spawned finds out for itself.

PLACES = 1 << 12  # bytes of shared memory, one for each kind; two that meet in one are taken alike
ATTRIBUTES = 64  # of a data set that are looked at

_REASONS = tuple(sorted(REASONS))
_refusals = {}  # kind -> what an Unknown says, of this process
_found = None  # shared with the processes to come


def expect():
    """This process may be about to fork others."""
    global _found
    if _found is None:
        _found = mmap.mmap(-1, PLACES)


def _kind(dataset):
    """What is looked at of @dataset, inside of torch's Subset; equal in a process and its forks."""
    subset = getattr(sys.modules.get("torch.utils.data.dataset"), "Subset", None)
    while type(dataset) is subset and "dataset" in (instance_dict(dataset) or {}):
        dataset = instance_dict(dataset)["dataset"]
    attributes = instance_dict(dataset) or {}
    kinds = tuple((name, id(type(part))) for name, part in list(attributes.items())[:ATTRIBUTES]
                  if type(name) is str)
    kind = dataset if inherits(type(dataset), type) else type(dataset)
    return id(kind), class_name(kind), kinds


def _refusal(dataset):
    """The Unknown that a data set like @dataset was refused for, or None."""
    if not _refusals and _found is None:
        return None
    kind = _kind(dataset)
    reason, where, name = _refusals.get(kind) or (None, "dataset", class_name(type(dataset)))
    if reason is None:
        number = _found[hash(kind) % PLACES] if _found is not None else 0
        if number == 0:
            return None
        reason = _REASONS[number - 1]
    unknown = Unknown(reason, where)
    unknown.kind = name
    return unknown


# ---- data sets of PyTorch's around others ----

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
