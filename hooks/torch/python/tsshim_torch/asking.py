# SPDX-License-Identifier: MIT
"""
The program's code is asked by torch's own lines, also where we say for what.

So a warning that counts frames from there, and a traceback, name torch's files as without us.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Raised(Exception):
    """Around an exception of the program's or the library's, which is to be seen."""


class Meant(Exception):
    """What the user asked to be told by; passes as it is."""


map_fetch = stream_init = stream_fetch = None  # torch's own; set by patch.py, before ours


def _is_torchs(function):
    module = sys.modules["torch.utils.data._utils.fetch"]
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename == module.__file__


def know(fetcher, stream):
    """Note torch's functions of its two classes of fetchers, unless somebody has changed them."""
    global map_fetch, stream_init, stream_fetch
    if _is_torchs(fetcher.fetch):
        map_fetch = fetcher.fetch
    if _is_torchs(stream.fetch) and _is_torchs(stream.__init__):
        stream_init, stream_fetch = stream.__init__, stream.fetch


def _first(data):
    return data[0]


def _same(data):
    return data


def _fetcher(name, dataset, batched, collate_fn):
    """One of torch's, nothing of which runs that we wrapped."""
    kind = getattr(sys.modules["torch.utils.data._utils.fetch"], name)
    made = object.__new__(kind)
    made.dataset, made.auto_collation, made.collate_fn = dataset, batched, collate_fn
    made.drop_last = False
    return made


class Items:
    """Asks @dataset for single items, as a loader does that makes batches if @batched."""

    def __init__(self, dataset, batched):
        self.batched = batched
        self.dataset = dataset
        self.fetcher = None
        if map_fetch is not None:
            self.fetcher = _fetcher("_MapDatasetFetcher", dataset, batched,
                                    _first if batched else _same)

    def get(self, index):
        if self.fetcher is None:
            return self.dataset[index]
        return map_fetch(self.fetcher, [index] if self.batched else index)


def collate(collate_fn, samples):
    """@collate_fn(@samples)."""
    if map_fetch is None:
        return collate_fn(samples)
    return map_fetch(_fetcher("_MapDatasetFetcher", (samples,), False, collate_fn), 0)


class Iterated:
    """The iterator over @dataset."""

    def __init__(self, dataset, batched):
        self.batched = batched
        if stream_fetch is None:
            self.fetcher, self.iterator = None, iter(dataset)
            return
        self.fetcher = _fetcher("_IterableDatasetFetcher", dataset, batched, _same)
        stream_init(self.fetcher, dataset, batched, _first if batched else _same, False)

    def __iter__(self):
        return self

    def __next__(self):
        if self.fetcher is None:
            return next(self.iterator)
        self.fetcher.ended = False  # whether there is more the data set's iterator says
        return stream_fetch(self.fetcher, (None,) if self.batched else None)

    def inner(self):
        """The data set's own."""
        return self.iterator if self.fetcher is None else self.fetcher.dataset_iter


def theirs(error):
    """@error, raised by code of the program's, without our frames above torch's or its own."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_HERE):
        found = found.tb_next
    return error.with_traceback(found)
