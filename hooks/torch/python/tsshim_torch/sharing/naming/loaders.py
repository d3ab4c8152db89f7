# SPDX-License-Identifier: MIT
"""
What `tsrun explain` is told of a loader: what it is over, and whether its samples are shared.

The process that iterates a loader notes what it is, and says nothing: most often it has not joined
the store.  Whoever makes the samples, a worker or that process itself, says both as soon as it knows
whether they are shared, and again when that changes.  What others of the program have said stands
in memory that it shares with the processes it forks, so each thing is said about once, and not by
the workers of each epoch.

Reads attributes of torch's objects and what lies in dictionaries of others'; runs no code of the
user's, not even to ask how long the data set is.
"""

import ctypes
import dis
import mmap
import os
import sys
import types
import weakref

from torch.utils.data._utils import worker as torch_worker

from ... import native
from ...fingerprint import library, parts
from ..order import fastai

SAMPLES, BATCHES, NOT = native.LOADER_SAMPLES, native.LOADER_BATCHES, native.LOADER_NOT
UNKNOWN = (1 << 64) - 1
NAME, PLACE, OTHER = 127, 191, 63  # bytes of texts

MOST = 4096  # loaders of a program that are told of; what it makes beyond is left alone
# What a byte of the shared memory stands for: a verdict, or a reason for there being none.
_SAID = (None, SAMPLES, BATCHES, b"disabled", b"torch_cheap", b"torch_dataset", b"torch_getitems",
         b"torch_impure", b"torch_index", b"torch_iterable", b"torch_sample", b"torch_settings",
         b"torch_versions", b"torch_changed", b"torch_young", b"torch_inputs", b"torch_walk")
_BEYOND = 255  # or that it found no place

_met = weakref.WeakKeyDictionary()  # loader -> Met
_by_facts = {}  # facts -> [Met], of loaders that look alike
_numbers = 0  # loaders that were met
_said = None  # a byte for each, which processes that are forked share
_current = None  # Met of the loader that was asked for an iterator last


# ---- what a loader is ----

def _text(value, room):
    """@value in UTF-8, cut in front: the end of a path or name says more."""
    data = value.encode("utf-8", "backslashreplace").replace(b"\0", b"?")
    if len(data) > room:
        data = data[len(data) - room + 3:]
        while data and data[0] & 0xc0 == 0x80:  # not within a character
            data = data[1:]
        data = "\u2026".encode() + data
    return data


def _class_of(value):
    return library.class_name(type(value)) if value is not None else ""


def _name_of(function):
    """module.name of what collates."""
    if type(function) in (types.FunctionType, types.BuiltinFunctionType):
        name = "%s.%s" % (function.__module__, function.__qualname__)
        return "" if name == "torch.utils.data._utils.collate.default_collate" else name
    return _class_of(function)


def place_of(kind):
    """file:line where class @kind is written, as far as its methods tell; "" of what is made in C."""
    found = []
    for value in library.class_dict(kind).values():
        value = value.__func__ if type(value) in (staticmethod, classmethod) else value
        value = value.fget if type(value) is property else value
        if type(value) is types.FunctionType and value.__module__ == library.class_module(kind):
            found.append((value.__code__.co_firstlineno, value.__code__.co_filename))
    if not found:
        return ""
    line, file = min(found)
    begin = library.class_dict(kind).get("__firstlineno__")  # from Python 3.13 on
    return "%s:%d" % (file, begin if type(begin) is int else line)


def _known_length(value):
    """len(@value) where that runs no code of the user's, or None."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if type(value) in (list, tuple, dict, str, bytes, range, set, frozenset):
        return len(value)
    if type(value) is torch.Tensor or numpy is not None and type(value) is numpy.ndarray:
        return value.shape[0] if value.ndim else None
    return None


# A method's instructions that say nothing, or only how its value is reached.
_SILENT = frozenset(("RESUME", "CACHE", "NOP", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS"))
_SELF = frozenset(("LOAD_FAST", "LOAD_FAST_BORROW"))
_CALLS = frozenset(("CALL", "CALL_FUNCTION"))
_ENDS = frozenset(("RETURN_VALUE",))


def _steps(function):
    return [step for step in dis.get_instructions(function) if step.opname not in _SILENT]


def _simple_length(dataset, function):
    """
    What @function, the __len__ of @dataset, gives where it is `return len(self.name)`, `return
    self.name` or a constant, worked out without running it; else None.
    """
    steps = _steps(function)
    names = [step.opname for step in steps]
    if names in (["RETURN_CONST"], ["LOAD_CONST", "RETURN_VALUE"], ["LOAD_SMALL_INT", "RETURN_VALUE"]):
        return steps[0].argval
    asks = bool(steps) and steps[0].opname == "LOAD_GLOBAL" and steps[0].argval == "len" and \
        "len" not in function.__globals__ and steps[-1].opname in _ENDS and \
        len(steps) > 2 and steps[-2].opname in _CALLS
    rest = steps[1:-2] if asks else steps[:-1]
    if not rest or rest[0].opname not in _SELF or steps[-1].opname not in _ENDS or \
            rest[0].argval != function.__code__.co_varnames[0]:
        return None
    value = dataset
    for step in rest[1:]:
        attributes = getattr_dict(value)
        if step.opname != "LOAD_ATTR" or step.argval not in attributes:
            return None
        value = attributes[step.argval]
    return _known_length(value) if asks else value


def getattr_dict(value):
    """The attributes of the object @value, without asking it."""
    from ...fingerprint.classes import instance_dict
    return instance_dict(value) or {}


def length_of(dataset):
    """How many items @dataset has, where that can be told without running code of the user's."""
    data, attributes = sys.modules["torch.utils.data"], getattr_dict(dataset)
    kind = type(dataset)
    if kind is data.ConcatDataset:
        ends = attributes.get("cumulative_sizes")
        return ends[-1] if type(ends) is list and ends and type(ends[-1]) is int else None
    if kind is data.TensorDataset:
        tensors = attributes.get("tensors")
        return _known_length(tensors[0]) if type(tensors) is tuple and tensors else None
    for base in library.mro(kind):
        function = library.class_dict(base).get("__len__")
        if function is not None:
            found = None
            if type(function) is types.FunctionType:
                found = _simple_length(dataset, function)
            return found if type(found) is int and 0 <= found < UNKNOWN else None
    return _known_length(dataset)


def _number(value):
    return value if type(value) is int and 0 <= value < UNKNOWN else UNKNOWN


def _facts(loader):
    """(numbers, texts) of @loader, in the order of leader/group/loaders.h."""
    data = sys.modules["torch.utils.data"]
    attributes = vars(loader)
    dataset = attributes["dataset"]
    is_iterable = library.inherits(type(dataset), data.IterableDataset)
    if fastai.is_one(loader):
        attributes = {**attributes, **fastai.facts(loader)}
        dataset, is_iterable = attributes["dataset"], True
    batches, size = attributes.get("batch_sampler"), attributes.get("batch_size")
    if size is None:  # of batches, that its own sampler makes; or there are none
        size = UNKNOWN if batches is not None else 0
        sampler = batches if batches is not None else attributes.get("sampler")
    else:
        sampler = attributes.get("sampler")
    bits = native.LOADER_ITERABLE * is_iterable + \
        native.LOADER_PERSISTENT * bool(attributes.get("persistent_workers")) + \
        native.LOADER_ALIGNED * bool(native.settings.aligned) + \
        native.LOADER_FREE * bool(native.settings.free)
    length = attributes.get("n") if is_iterable else length_of(dataset)  # of fastai's loaders
    texts = (_text(_class_of(dataset), NAME), _text(place_of(type(dataset)), PLACE),
             _text("" if is_iterable else _class_of(sampler), OTHER),
             _text(_name_of(attributes.get("collate_fn")), OTHER))
    return (_number(length), _number(size), _number(attributes.get("num_workers")), bits), texts


# ---- those that were met ----

class Met:
    """A loader that was met; the same in the processes that are forked from this one."""

    def __init__(self, loader, number, facts):
        self.loader = weakref.ref(loader)
        self.number, (self.numbers, self.texts) = number, facts
        self.key = (os.getpid() * 0x9e3779b1 + number) & 0xffffffff or 1
        self.last = None  # what this process has said of it

    def is_of(self, dataset, collate_fn):
        loader = self.loader()
        return loader is not None and vars(loader).get("dataset") is dataset and (
            vars(loader).get("collate_fn") is collate_fn or fastai.is_one(loader))

    def tell(self, verdict, reason=None, detail="", named=0, made_of=()):
        """
        Its samples are shared (SAMPLES, BATCHES), or NOT for @reason, an id of shim/reasons.def;
        @named says what they are named by, as far as they are, and that is @made_of these parts.
        """
        now = verdict if reason is None else reason
        if now == self.last:
            return
        self.last = now
        code = _SAID.index(now) if now in _SAID else 0
        if _said[self.number] in (code or _BEYOND, _BEYOND):
            return  # by another process
        numbers = (ctypes.c_uint64 * (len(self.numbers) + 1))(*self.numbers, named)
        texts = (ctypes.c_char_p * len(self.texts))(*self.texts)
        found = native.say_loader(self.key, numbers, texts, verdict, reason or b"",
                                  detail.encode("utf-8", "backslashreplace").replace(b"\0", b"?"),
                                  *parts.packed(made_of))
        if found != native.LOADER_UNSAID:
            _said[self.number] = code if found == native.LOADER_SAID else _BEYOND


def _like(loader, facts):
    """The Met of a loader that looked the same and is gone, as one that is made for each epoch."""
    for met in _by_facts.get(facts, ()):
        if met.loader() is None:
            met.loader = weakref.ref(loader)
            return met
    return None


def meet(loader):
    """@loader is asked for an iterator: the Met of it, or None where nothing is told of it."""
    global _numbers, _said, _current
    _current = None
    if torch_worker._worker_info is not None:
        return None  # a loader inside of an item
    met = _met.get(loader)
    if met is None:
        if _said is None:
            _said = mmap.mmap(-1, MOST)
        facts = _facts(loader)
        met = _like(loader, facts)
        if met is None:
            if _numbers == MOST:
                return None
            met = Met(loader, _numbers, facts)
            _by_facts.setdefault(facts, []).append(met)
            _numbers += 1
        _met[loader] = met
    _current = met
    return met


def met(loader):
    """The Met of @loader, or None."""
    return _met.get(loader)


def begin(loader):
    """@loader is asked for an iterator.  What no process that makes its samples would say is said."""
    met = meet(loader)
    if met is None or native.settings.aligned:
        return met
    if native.settings.share == native.SHARE_PIXELS:
        met.tell(NOT, b"disabled", "--share pixels")
    elif met.numbers[3] & native.LOADER_ITERABLE:
        met.tell(NOT, b"torch_iterable", "an iterable data set, without --align")
    return met


def refuse(loader, detail):
    """@loader cannot be aligned."""
    met = meet(loader)
    if met is not None:
        met.tell(NOT, b"torch_iterable", "not aligned: " + detail)


def note(iterator, met):
    """@iterator is of the loader @met; its fetcher, if it is here, is to know."""
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if met is not None and fetcher is not None:
        fetcher._tsshim_loader = met


def of(fetcher):
    """The Met of the loader whose samples @fetcher makes, or None."""
    found = vars(fetcher).get("_tsshim_loader")
    if found is not None or torch_worker._worker_info is None:
        return found
    wanted = fetcher.dataset, fetcher.collate_fn
    if _current is not None and _current.is_of(*wanted):
        return _current
    found = [met for met in _met.values() if met.is_of(*wanted)]
    return found[0] if len(found) == 1 else None
