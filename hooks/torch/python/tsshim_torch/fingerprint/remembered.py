# SPDX-License-Identifier: MIT
"""
Data sets that could not be told, after a walk that took long: the workers of an epoch, and those of
the next, need not find out again.

A data set is remembered by its class and the classes of its attributes, for a program may make a
new one for each epoch.  Others that look the same are not shared either, which is never wrong.  No
name is remembered: what a data set holds may change, and sharing relies on it.

A process that is forked knows what the one did that forks it; expect() lets that one, and others
that it forks, know what a forked one finds.  One that is spawned finds out for itself.
"""

import mmap
import sys

from . import classes, library, walk

PLACES = 1 << 12  # bytes of shared memory, one for each kind; two that meet in one are taken alike
ATTRIBUTES = 64  # of a data set that are looked at

_refusals = {}  # kind -> what a walk.Unknown says, of this process
_found = None  # shared with the processes to come


def expect():
    """This process may be about to fork others."""
    global _found
    if _found is None:
        _found = mmap.mmap(-1, PLACES)


def _kind(dataset):
    """What is looked at of @dataset, inside of torch's Subset; equal in a process and its forks."""
    subset = getattr(sys.modules.get("torch.utils.data.dataset"), "Subset", None)
    while type(dataset) is subset and "dataset" in (classes.instance_dict(dataset) or {}):
        dataset = classes.instance_dict(dataset)["dataset"]
    attributes = classes.instance_dict(dataset) or {}
    parts = [(name, id(type(part))) for name, part in list(attributes.items())[:ATTRIBUTES]
             if type(name) is str]
    kind = dataset if library.inherits(type(dataset), type) else type(dataset)
    return id(kind), library.class_name(kind), tuple(parts)


def refusal(dataset):
    """The Unknown that a data set like @dataset was refused for, or None."""
    if not _refusals and _found is None:
        return None
    kind = _kind(dataset)
    reason, where, name = _refusals.get(kind) or (None, "dataset", library.class_name(type(dataset)))
    if reason is None:
        number = _found[hash(kind) % PLACES] if _found is not None else 0
        if number == 0:
            return None
        reason = _REASONS[number - 1]
    unknown = walk.Unknown(reason, where)
    unknown.kind = name
    return unknown


_REASONS = tuple(sorted(walk.REASONS))


def remember(dataset, unknown):
    """A data set like @dataset is refused, as @unknown says."""
    kind = _kind(dataset)
    _refusals[kind] = unknown.reason, unknown.where, unknown.kind  # it leads to all that was seen
    if _found is not None:
        _found[hash(kind) % PLACES] = 1 + _REASONS.index(unknown.reason)
