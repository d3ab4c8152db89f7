# SPDX-License-Identifier: MIT
"""
torchdata's StatefulDataLoader (0.11): its iterators go on in the middle of an epoch, so what is
kept of a loader must say which epoch of ours that was.
"""

import functools
import sys

from ... import guard_importlib_bootstrap as guard

_KEY = "tsshim"  # in the state of a loader, which is a dictionary: [epoch, ordinal, again]
_MODULE = "torchdata.stateful_dataloader.stateful_dataloader"
_NAMES = ("_StatefulSingleProcessDataLoaderIter", "_StatefulMultiProcessingDataLoaderIter")


@functools.lru_cache(None)
def iterators():
    """The classes of its iterators, which tell their epoch from now on."""
    module = sys.modules[_MODULE]
    kinds = tuple(getattr(module, name) for name in _NAMES if hasattr(getattr(module, name, None), "state_dict"))
    for kind in kinds:
        _keep_epoch(kind)
    return kinds


def is_one(iterator):
    """Whether @iterator is one of them."""
    return _MODULE in sys.modules and type(iterator) in iterators()


def _keep_epoch(kind):
    def state_dict(self, *_args, **_kwargs):
        state, _ = yield
        plan = getattr(self, "_tsshim_plan", None)
        if plan is not None and type(state) is dict:
            state[_KEY] = [plan.epoch, plan.ordinal, plan.again]
        return state

    guard.wrap(kind, "state_dict", state_dict)


def kept(loader):
    """(epoch, ordinal, again) that an iterator of @loader, which begins now, goes on with, or None."""
    state = getattr(loader, "next_iter_state", None)
    found = state.get(_KEY) if type(state) is dict else None
    is_ours = type(found) is list and list(map(type, found)) == [int] * 3
    return tuple(found) if is_ours else None


def goes_on(iterator):
    """Whether @iterator, of which nothing was asked yet, is in the middle of an epoch."""
    return bool(getattr(iterator, "_sampler_iter_yielded", 0))


def has_ended(iterator):
    """Whether @iterator was kept at the end of an epoch."""
    return bool(getattr(iterator, "_finished", False))
