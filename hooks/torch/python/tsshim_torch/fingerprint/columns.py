# SPDX-License-Identifier: MIT
"""
Frames and series of Polars: their cells as bytes, by the stream of Arrow's C interface that each
column gives.  No Python of Polars runs, and nothing of Arrow need be installed.

Polars works with threads of its own, which are missing in a process that was forked: a call that
waits for them never returns.  So a column is asked only for what the calling thread does alone.
Its type comes first, and of one that is not in the tables below no cells are asked for.
"""

import ctypes

from . import arrays
from .walk import joined, node

_pointer = ctypes.c_void_p


class _Schema(ctypes.Structure):
    """struct ArrowSchema"""


class _Array(ctypes.Structure):
    """struct ArrowArray"""


class _Stream(ctypes.Structure):
    """struct ArrowArrayStream"""

    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.POINTER(_Schema))),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.POINTER(_Array))),
        ("get_last_error", _pointer), ("release", _pointer), ("private_data", _pointer)]


_Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", _pointer),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))), ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))), ("private_data", _pointer)]
_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(_pointer)), ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))), ("private_data", _pointer)]

_capsule_pointer = ctypes.PYFUNCTYPE(_pointer, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))

# Bytes of a cell, by the format of its column; those of times and decimals go by their beginning.
_WIDTHS = {b"c": 1, b"C": 1, b"s": 2, b"S": 2, b"e": 2, b"i": 4, b"I": 4, b"f": 4, b"l": 8, b"L": 8,
           b"g": 8, b"tdD": 4, b"tdm": 8, b"tts": 4, b"ttm": 4, b"ttu": 8, b"ttn": 8,
           b"_pli128": 16, b"_plu128": 16}
_TIMES = (b"tss:", b"tsm:", b"tsu:", b"tsn:", b"tDs", b"tDm", b"tDu", b"tDn")
_VIEWS = (b"vu", b"vz")  # of text and bytes
_VIEW = 16
_OFFSETS = {b"u": 4, b"z": 4, b"U": 8, b"Z": 8, b"+l": 4, b"+L": 8}  # bytes of each
_FLAGS = ("is_sorted_ascending_flag", "is_sorted_descending_flag", "can_fast_explode_flag")


def _width(form):
    """Bytes of a cell of this format, or None: it has no cells of one size."""
    if form.startswith(_TIMES):
        return 8
    if form.startswith(b"d:"):
        parts = form[2:].split(b",")
        return int(parts[2]) // 8 if len(parts) == 3 else 16
    return _WIDTHS.get(form)


def _is_known(form):
    return form in (b"n", b"b", b"+s") or form in _VIEWS or form in _OFFSETS or \
        form.startswith(b"+w:") or _width(form) is not None


# ---- types ----

def _words(address):
    """The keys and values behind the address of an ArrowSchema's metadata."""
    def number():
        nonlocal address
        address += 4
        return ctypes.c_int32.from_address(address - 4).value

    words = []
    for _ in range(2 * number()):
        size = number()
        words.append(ctypes.string_at(address, size))
        address += size
    return words


def _add_type(walker, schema):
    """Write the type of a column with all it says of itself, if its cells can be told."""
    if not _is_known(schema.format):
        walker.fail("object")
    walker.put(b"q", joined([schema.format, schema.name or b"", b"%d %d %d" % (
        schema.flags, schema.n_children, bool(schema.dictionary))]))
    if schema.metadata:
        walker.put(b"q", joined(_words(schema.metadata)))
    for number in range(schema.n_children):
        _add_type(walker, schema.children[number].contents)
    if schema.dictionary:
        _add_type(walker, schema.dictionary.contents)


# ---- cells ----

def _add_memory(walker, address, size):
    if size and not address:
        walker.fail("object")
    if size:
        # What was made for this stream only is gone after it, and something else is there.
        arrays.add_memory(walker, address, size, stays=False)


def _add_bits(walker, address, begin, count):
    walker.put(b"q", b"%d" % (begin % 8))
    _add_memory(walker, address + begin // 8, (begin + count + 7) // 8 - begin // 8)


def _add_views(walker, array):
    """Views: short texts, or places in the buffers behind them, whose sizes come last."""
    count = array.n_buffers - 3
    _add_memory(walker, array.buffers[1] + array.offset * _VIEW, array.length * _VIEW)
    for number in range(count):
        size = ctypes.c_int64.from_address(array.buffers[count + 2] + 8 * number).value
        walker.put(b"q", b"%d" % size)
        _add_memory(walker, array.buffers[2 + number], size)


def _add_offsets(walker, array, width, has_bytes):
    kind = ctypes.c_int32 if width == 4 else ctypes.c_int64
    begin = array.buffers[1] + array.offset * width
    _add_memory(walker, begin, (array.length + 1) * width)
    if has_bytes:
        first, last = (kind.from_address(begin + at * width).value for at in (0, array.length))
        _add_memory(walker, (array.buffers[2] or 0) + first, last - first)


def _add_cells(walker, schema, array):
    """Write the cells of one chunk, whose type was written."""
    form = schema.format
    walker.put(b"q", b"%s %d %d %d" % (form, array.length, array.n_buffers, array.n_children))
    if array.n_children != schema.n_children or bool(array.dictionary) != bool(schema.dictionary):
        walker.fail("object")
    if array.length and form != b"n":
        if array.buffers[0]:
            _add_bits(walker, array.buffers[0], array.offset, array.length)
        _add_values(walker, form, array)
    # Of parts of a whole that begins further on the beginning is not left out.
    walker.put(b"q", b"%d" % (array.offset if array.n_children else 0))
    for number in range(array.n_children):
        _add_cells(walker, schema.children[number].contents, array.children[number].contents)
    if array.dictionary:
        _add_cells(walker, schema.dictionary.contents, array.dictionary.contents)


def _add_values(walker, form, array):
    width = _width(form)
    if form == b"b":
        _add_bits(walker, array.buffers[1], array.offset, array.length)
    elif form in _VIEWS:
        _add_views(walker, array)
    elif form in _OFFSETS:
        _add_offsets(walker, array, _OFFSETS[form], not form.startswith(b"+"))
    elif width is not None:
        _add_memory(walker, array.buffers[1] + array.offset * width, array.length * width)


# ---- streams ----

class _Given:
    """What fills a structure, released in the end."""

    def __init__(self, walker, kind, function, stream):
        self.value = kind()
        if function(stream, self.value) != 0:
            walker.fail("object")

    def __enter__(self):
        return self.value

    def __exit__(self, *_):
        if self.value.release:
            self.value.release(self.value)


def _add_stream(walker, capsule):
    """Write the columns behind the @capsule, which releases its stream itself."""
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    stream = _Stream.from_address(address)
    with _Given(walker, _Schema, stream.get_schema, address) as schema:
        _add_type(walker, schema)
        while True:
            with _Given(walker, _Array, stream.get_next, address) as array:
                if not array.release:  # the end
                    return
                _add_cells(walker, schema, array)


def _add_series(walker, series):
    walker.put(b"s", series.name())
    walker.put(b"s", repr([getattr(series, name)() for name in _FLAGS if hasattr(series, name)]))
    _add_stream(walker, series.__arrow_c_stream__())


def _add_frame(walker, frame):
    walker.put(b"f", repr(frame.shape()))
    for number, series in enumerate(frame.get_columns()):
        walker.add(series, ".columns[%d]" % number)


def register(module):
    """Let walks know the classes of the @module that is the compiled part of Polars."""
    node(module.PySeries)(_add_series)
    node(module.PyDataFrame)(_add_frame)
