# SPDX-License-Identifier: MIT
"""
Data sets that make whole batches (__getitems__), aligned: item by item where that is the same, which
is compared until it is known (docs/rooms/torch.md).  Where it is not, the batch is the data set's,
drawn for by its first index, and shared by jobs that have the same indices in one.
"""

import torch

from ..order import align
from ..naming.digests import digest


def get(dataset, index):
    """The item at @index of @dataset; for the Indices of a batch, the list of theirs."""
    if type(index) is align.Indices:
        return dataset.__getitems__(list(index))
    found = dataset.__getitems__([index])
    if len(found) != 1:
        raise ValueError("items")
    return found[0]


def kind_of(value):
    """What a filled-up item differs in from one alone."""
    kind = type(value)
    if kind is dict:
        return kind, tuple([(key, kind_of(part)) for key, part in value.items()])
    if kind in (tuple, list):
        parts = [kind_of(part) for part in value]
        same = len(set(map(repr, parts))) == 1
        return kind, len(parts), parts[0] if same else tuple(parts)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    size = getattr(value, "size", None) if shape is None else tuple(shape)
    return kind, None if callable(size) else size, str(dtype)


def is_equal(first, second):
    """Whether two items of one kind have the same values, as far as these can be told."""
    if isinstance(first, dict):
        return all(is_equal(first[key], second[key]) for key in first)
    if isinstance(first, (tuple, list)):
        return all(map(is_equal, first, second))
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if hasattr(first, "tobytes"):
        return first.tobytes() == second.tobytes()
    if type(first) in (int, float, str, bytes, bool):
        return first == second or first != first
    return True


def _word(name, kind):
    return int.from_bytes(digest("tsshim batches", name, repr(kind))[:8], "little")


class Whole(align.Work):
    """The work on @work as one item, which is a list of them."""

    def __init__(self, work):
        occurrences = work.occurrences and work.occurrences[:1]
        super().__init__([align.Indices(work.indices)], occurrences, work.stream, work.number, None)


class Known:
    """What is known of a data set that makes whole batches."""

    def __init__(self):
        self.is_whole = False  # batches are to be made at once
        self.is_single = False  # items are what they are in a batch, whatever they are like
        self.kind = None  # of all items so far; where all are like this it makes no difference

    def is_settled(self, kinds):
        """Whether items of these @kinds are known to be what they are in a batch."""
        return self.is_single or self.kind is not None and all(
            kind == self.kind for kind in kinds)

    def word(self, name):
        """What is known of the data set with this @name, for another worker; or 0."""
        if self.is_whole or self.kind is None and not self.is_single:
            return 0
        return _word(name, True if self.is_single else self.kind)

    def believe(self, word, name, kinds):
        """Take over the @word of another worker, if it is about the same @name, and @kinds."""
        if word == _word(name, True):
            self.is_single = True
        elif word == _word(name, kinds[0]):
            self.kind = kinds[0]

    def learn(self, kinds, singles, made, has_drawn):
        """
        Two items of a batch with @kinds came out as @singles and, at once, as @made; @has_drawn
        says whether numbers were drawn.  Gives whether that is the same.
        """
        self.is_whole = len(made) != 2 or \
            list(map(kind_of, singles)) != list(map(kind_of, made)) or \
            not has_drawn and not all(map(is_equal, singles, made))
        if kind_of(made[0]) != kind_of(made[-1]):
            self.is_single = not self.is_whole
        elif self.kind is None:
            self.kind = kinds[0]
        return not self.is_whole


def pair(kinds):
    """Two positions among items of these @kinds, of different ones if there are any."""
    for position, kind in enumerate(kinds):
        if kind != kinds[0]:
            return 0, position
    return 0, len(kinds) - 1
