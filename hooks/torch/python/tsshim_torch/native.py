# SPDX-License-Identifier: MIT
"""
The C interface of hooks/torch/samples.h by ctypes.

Short calls keep the interpreter lock: giving it up costs more than they do.  Only a wait for
somebody else's work, and copies of samples, let other threads of the program run.
"""

import contextlib
import ctypes
import mmap
import os
import traceback
from functools import partial

ABI = 21

HIT, CLAIM, BUSY, PASS = range(4)
ODD, UNSEEN = 4, 5  # states in a batch besides these; hooks/torch/samples.h
# What was taken and is in the batch, what other nodes were asked for; C passes by states that it
# does not know.
PUT, ASKED = 6, 7
NEST, WATCH, AGAIN, AHEAD = 1, 2, 4, 8  # how an item is computed,
MADE, RAISED, NOTHING = range(3)  # and what came of it
NOW, WAIT, MOMENT, STAY = range(4)  # how long take() waits for what is BUSY
OTHER, NUMPY, PYTHON, PCG, PHILOX, SFC, TORCH = range(7)  # generators; hooks/torch/numbers.h
LOADER_UNSAID, LOADER_SAID, LOADER_COUNTED = range(3)  # hooks/torch/samples.h
LOADER_SAMPLES, LOADER_BATCHES, LOADER_NOT = 1, 2, 3  # leader/group/loaders.h
LOADER_ITERABLE, LOADER_PERSISTENT, LOADER_ALIGNED, LOADER_FREE = 1, 2, 4, 8
SHARE_AUTO, SHARE_SAMPLES, SHARE_PIXELS, SHARE_OFF = range(4)


_pointer, _text, _number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64
_int, _small = ctypes.c_int, ctypes.c_uint32


class _View(ctypes.Structure):
    _fields_ = [("meta", _pointer), ("meta_bytes", _number), ("payload", _pointer),
                ("payload_bytes", _number), ("torch_seed", _number), ("python_seed", _number),
                ("numpy_seed", _small), ("verify", _small), ("origin", _number * 2),
                ("inputs", _pointer), ("input_bytes", _number), ("is_alone", _number), ("unfit", _text)]


class Leaf(ctypes.Structure):
    """struct ts_sample_leaf of hooks/torch/samples.h."""

    _fields_ = [("offset", _number), ("bytes", _number), ("base", _pointer)]


class BatchView(ctypes.Structure):
    """struct ts_sample_batch of hooks/torch/samples.h."""

    _fields_ = [("scope", _text), ("stream", _text), ("which", _text), ("draws", _pointer),
                ("tag", _number), ("epoch", _small), ("reserved", _small), ("indices", _pointer),
                ("occurrences", _pointer), ("count", _number), ("states", _pointer), ("head", _text),
                ("head_bytes", _number), ("payload_bytes", _number), ("leaves", _pointer),
                ("leaf_count", _number), ("metas", _pointer), ("meta_bytes", _pointer),
                ("meta_room", _number), ("origins", _pointer)]


class Generator(ctypes.Structure):
    """struct ts_generator of hooks/torch/numbers.h."""

    _fields_ = [("kind", _number), ("words", _pointer), ("more", _pointer), ("rest", _pointer),
                ("path", _text), ("path_bytes", _number), ("numbers", _number * 4)]


class Lone(ctypes.Structure):
    """struct ts_sample_lone of hooks/torch/samples.h."""

    _fields_ = [("sample", _pointer), ("batch", _pointer), ("globals", _pointer),
                ("position", _number), ("still", _number), ("is_seeded", _number)]


def _file(name):
    """The file that an option names, or None; whether it is a good one, shim/config.c says."""
    value = os.environ.get(name, "off")
    return value if value.startswith("/") else None


class Settings:
    """What this process was told; see shim/options.def."""

    def __init__(self):
        numbers = _small(), _number(), _number(), _small(), _small(), _small()
        library.tsshim_sample_settings(*map(ctypes.byref, numbers))
        self.aligned, self.seed, self.epoch, self.share, self.free, self.across = (
            each.value for each in numbers)
        self.orders = os.environ.get("TSSHIM_ALIGN_ORDERS") == "1"
        self.locality = os.environ.get("TSSHIM_LOCALITY") == "1"
        self.record, self.replay = map(_file, ("TSSHIM_RECORD", "TSSHIM_REPLAY"))
        # Names of options that the user vouches for.
        self.ignored = frozenset(os.environ.get("TSSHIM_IGNORE", "off").split(",")) - {"off", ""}


# As samples.h and order.h of hooks/torch say: (name, result, arguments).
_FUNCTIONS = (
    ("sample_abi", _small, []),
    ("sample_settings", None, [_pointer] * 6),
    ("sample_create", _pointer, []),
    ("sample_destroy", None, [_pointer]),
    ("sample_name", None, [_pointer, _text, _text, _text, _number, _small, _int]),
    ("sample_weigh", None, [_pointer, _small, _small]),
    ("sample_note", None, [_pointer, _number, _small, _small, _small]),
    ("sample_take", _int, [_pointer, _int]),
    ("sample_across", _int, [_pointer]),
    ("sample_seek", _int, [_pointer]),
    ("sample_found", _int, [_pointer, _small]),
    ("sample_taken", None, [_pointer]),
    ("sample_verified", None, [_pointer, _int]),
    ("sample_drop", None, [_pointer]),
    ("sample_begin", None, [_pointer, _int]),
    ("sample_end", _int, [_pointer, _int]),
    ("sample_reserve", _pointer, [_pointer, _text, _number, _number]),
    ("sample_publish", None, [_pointer]),
    ("sample_take_batch", _number, [_pointer, _pointer, _number, _int]),
    ("sample_claim_batch", _number, [_pointer, _pointer, _number]),
    ("sample_copy", None, [_pointer, _pointer, _number, _number]),
    ("sample_lone_begin", None, [_pointer]),
    ("sample_lone_next", None, [_pointer]),
    ("sample_lone_end", None, [_pointer, _number, _int, _text]),
    ("sample_pass", None, [_text, _small]),
    ("sample_drawn", None, [_text, _number, _number]),
    ("sample_refused", None, [_text]),
    ("sample_progress", None, [_text, _number, _number, _number, _int]),
    ("sample_words", None, [_pointer, _number]),
    ("sample_relative", _int, []),
    ("sample_pause", _pointer, []),
    ("sample_resume", None, [_pointer]),
    ("sample_hash", None, [_pointer, _number, _pointer]),
    ("sample_are_words", ctypes.c_bool, [_pointer, _pointer, _number]),
    ("sample_seed", None, [_pointer, _number, _text, _number]),
    ("sample_seed_globals", None, [_pointer, _number, _number, _small]),
    ("order_create", _pointer, [_pointer]),
    ("order_destroy", None, [_pointer]),
    ("order_begin", _int, [_pointer, _pointer, _number, _small, _number]),
    ("order_had", _int, [_pointer, ctypes.c_int64, _small, _small]),
    ("order_scope", None, [_pointer, _small, _text]),
    ("order_choose", _number, [_pointer, _number, _number, _pointer, _pointer, _pointer, _pointer]),
    ("loader_say", _int, [_small, _pointer, _pointer, _small, _text, _text, _text, _small]))


def _load(kind, names=None):
    """The library by way of @kind; with @names only these functions of it."""
    found = kind(None)
    for name, result, arguments in _FUNCTIONS:
        if names is None or name in names:
            function = getattr(found, "tsshim_" + name)
            function.restype = result
            function.argtypes = arguments
    return found


library = orders = _load(ctypes.PyDLL)
if library.tsshim_sample_abi() != ABI:
    raise ImportError("libtsshim.so has another interface")
# What may take longer: other threads of the program run meanwhile.
_unlocked = _load(ctypes.CDLL, ("sample_take", "sample_take_batch", "sample_copy", "sample_across",
                                "sample_found", "sample_hash"))
say_loader = library.tsshim_loader_say

settings = Settings()
_count_pass = library.tsshim_sample_pass
count_drawn = library.tsshim_sample_drawn
say_progress = library.tsshim_sample_progress
copy = _unlocked.tsshim_sample_copy
are_words = library.tsshim_sample_are_words
lone_begin = library.tsshim_sample_lone_begin
lone_next = library.tsshim_sample_lone_next
lone_end = library.tsshim_sample_lone_end
seed = library.tsshim_sample_seed
seed_globals = library.tsshim_sample_seed_globals
saw_relative = library.tsshim_sample_relative


@contextlib.contextmanager
def unseen():
    """What is opened meanwhile is no file of the item that this thread may be making."""
    paused = library.tsshim_sample_pause()
    try:
        yield
    finally:
        library.tsshim_sample_resume(paused)


def count_pass(reason, count=1):
    """Count @count samples that were not shared; @reason is an id of shim/reasons.def."""
    _count_pass(reason, count)


def digest(data):
    """16 bytes for @data."""
    room = ctypes.create_string_buffer(16)
    library.tsshim_sample_hash(data, len(data), room)
    return room.raw


def digest_at(address, size):
    """16 bytes for the @size bytes at @address; other threads run meanwhile."""
    room = ctypes.create_string_buffer(16)
    _unlocked.tsshim_sample_hash(address, size, room)
    return room.raw


def words(number):
    """The words of a Mersenne twister seeded with @number of 64 bits; none of them is drawn yet."""
    found = (ctypes.c_uint32 * 624)()
    library.tsshim_sample_words(found, number)
    return tuple(found)


def report(error):
    """An error of ours, for those who look for it; the program goes on without us."""
    if os.environ.get("TSSHIM_DEBUG") == "debug":
        text = "tsshim: " + "".join(traceback.format_exception(
            type(error), error, error.__traceback__))
        try:
            os.write(2, text.encode())
        except OSError:
            pass


_has_failed = mmap.mmap(-1, 1)  # shared with processes that are forked


def failed(error):
    """An error of ours, counted and said once; what it was about goes on without us."""
    try:
        report(error)
        count_pass(b"torch_settings")
        if not _has_failed[0]:
            _has_failed[0] = 1
            at = traceback.extract_tb(error.__traceback__)[-1:]
            where = ", %s:%d" % (os.path.basename(at[0].filename), at[0].lineno) if at else ""
            say("an error of tsshim's own (%s: %s%s); the loader goes on without tsshim where it happened; "
                "please report it, TSSHIM_DEBUG=debug shows all of it" % (
                    type(error).__name__, error, where))
    except Exception:  # then nothing is said of it
        pass


def explain(text):
    """Why the samples of a data set are not shared, for those who look for it; each once."""
    if text in _explained:
        return
    _explained.add(text)
    library.tsshim_sample_refused(text.encode("utf-8", "backslashreplace"))
    if os.environ.get("TSSHIM_DEBUG") == "debug":
        say("samples are not shared: " + text)


_explained = set()


def say(text):
    """A line on stderr, for the user."""
    try:
        os.write(2, ("tsshim: %s\n" % text).encode("utf-8", "backslashreplace"))
    except OSError:
        pass


class Sample:
    """One struct ts_sample, for one thread; the methods are those of samples.h."""

    def __init__(self):
        self.handle = library.tsshim_sample_create()
        if not self.handle:
            raise MemoryError
        self.view = _View.from_address(self.handle)
        for name in ("taken", "verified", "drop", "begin", "weigh", "note", "seek", "claim_batch"):
            setattr(self, name, partial(getattr(library, "tsshim_sample_" + name), self.handle))
        for name in ("take_batch", "across", "found"):
            setattr(self, name, partial(getattr(_unlocked, "tsshim_sample_" + name), self.handle))

    def __del__(self):
        if getattr(self, "handle", None):
            library.tsshim_sample_destroy(self.handle)

    def name(self, scope, stream, index, occurrence, drawn=False):
        library.tsshim_sample_name(self.handle, scope, stream, index, len(index), occurrence,
                                   drawn)

    def take(self, wait=NOW):
        take = _unlocked.tsshim_sample_take if wait else library.tsshim_sample_take
        return take(self.handle, wait)

    def meta(self):
        """The meta of a hit, copied."""
        return ctypes.string_at(self.view.meta, self.view.meta_bytes)

    def origin(self):
        """What the record's bytes are known by, as bytes; None: not known."""
        found = self.view.origin
        return bytes(found) if found[0] else None

    def inputs(self):
        """The list of the files it was made from, copied; None: it cannot be told."""
        view = self.view
        return ctypes.string_at(view.inputs, view.input_bytes) if view.inputs else None

    def unfit(self):
        """Why the files of the item that was made last keep it from others, or ""."""
        return (self.view.unfit or b"").decode("utf-8", "backslashreplace")

    def end(self, outcome):
        """Whether the item may be published."""
        return library.tsshim_sample_end(self.handle, outcome) == 0

    def reserve(self, meta, payload_bytes):
        return library.tsshim_sample_reserve(self.handle, meta, len(meta), payload_bytes)

    def publish(self):
        """The origin of the record, if there is one now."""
        library.tsshim_sample_publish(self.handle)
        return self.origin()
