# SPDX-License-Identifier: MIT
"""
Seeds that a library takes from the clock, the process or a job's own generators when an iteration
begins, where a walk over the data set finds no generator yet to be seeded.

WebDataset (0.2 to 1.0, webdataset/filters.py, shardlists.py, compat.py): shuffle() without a seed takes
process id and time; resampled shards these and what the system gives, unless deterministic; the
order of shards is a number that was drawn when the data set was made.  Each is given a number
that follows from the iteration instead.  A seed that is the same in all workers stays so: who
splits what was shuffled would lose samples otherwise.
"""

import hashlib
import inspect
import random
import sys

_LIBRARY = "webdataset"
_DEPTH = 8  # pipelines inside of one another


def _number(numbers, *path):
    made = hashlib.blake2b(repr(path).encode() + numbers, digest_size=4, person=b"tsshim order")
    return int.from_bytes(made.digest(), "little") >> 1


def _parameters(function):
    """The names of what @function takes; none where that cannot be told."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _settle_filter(stage, path, common, worker):
    """A function of the library's with its arguments."""
    filters = sys.modules.get(_LIBRARY + ".filters")
    shuffle = getattr(filters, "_shuffle", None)
    if shuffle is None or stage.__dict__.get("f") is not shuffle:
        return
    args, named = stage.__dict__.get("args"), stage.__dict__.get("kw")
    # Buffer, first fill, generator, seed: one that is given as a generator is found by the walk.
    if type(args) is not tuple or len(args) > 2 or type(named) is not dict \
            or named.get("rng") is not None:
        return
    fixed = named.get("seed") is not None
    takes = _parameters(shuffle)
    if "seed" in takes:
        named["seed"] = _number(common if fixed else worker, "shuffle", *path)
    elif "rng" in takes:  # up to 0.2.86; the walk finds it from now on, and it is seeded as others are
        named["rng"] = random.Random()


def _settle_stage(stage, path, common, worker):
    kind = type(stage)
    fields = getattr(stage, "__dict__", None)
    if type(fields) is not dict or (kind.__module__ or "").partition(".")[0] != _LIBRARY:
        return
    if kind.__name__ == "FilterFunction" or "f" in fields and "kw" in fields:
        _settle_filter(stage, path, common, worker)
    elif kind.__name__ == "ResampledShards":
        fields["deterministic"] = True
    # detshuffle counts its epochs from a seed; others have None: they are not to be shuffled.
    if type(fields.get("seed")) in (int, float):
        fields["seed"] = _number(common, "seed", *path)


def is_needed():
    """Whether settle() may do something."""
    return _LIBRARY in sys.modules


def settle(dataset, common, worker):
    """
    Let @dataset, of this process alone, draw on these bytes where it would draw on something else:
    @common are the same in all workers, @worker in this one.
    """
    if is_needed():
        _settle(dataset, (), common, worker)


def _settle(dataset, path, common, worker):
    _settle_stage(dataset, path, common, worker)
    fields = getattr(dataset, "__dict__", {})
    for name in ("pipeline", "datasets", "dataset"):
        inside = fields.get(name)
        inside = inside if type(inside) in (list, tuple) else [inside]
        for place, stage in enumerate(inside):
            if len(path) < 2 * _DEPTH and hasattr(stage, "__dict__"):
                _settle(stage, path + (name, place), common, worker)
