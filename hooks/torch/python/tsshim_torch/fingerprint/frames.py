# SPDX-License-Identifier: MIT
"""
Tables of pandas, Arrow and Polars: their cells as bytes, and what names them.

What a table remembers to be quicker (hash tables of an index, cached columns) is left out: it
comes while items are made.  Only the libraries' own classes are known, of which only library code
runs.
"""

import contextlib
import ctypes

from . import arrays, library
from .classes import instance_dict
from .walk import OTHERS, VALUES, joined, node, of_library

# Attributes of a DataFrame, Series or Index that hold its cells, or nothing that a user can see.
_OWN = frozenset(("_mgr", "_item_cache", "_cacher", "_is_copy", "_flags", "_data", "_cache", "_id",
                  "_references", "_no_setting_name", "_engine", "_range", "_levels", "_codes"))


# ---- pandas ----

@of_library("pandas")
def register_pandas(pandas):
    """Let walks know the classes of the module @pandas."""
    extensions = pandas.api.extensions
    adders = ((pandas.DataFrame, _add_frame), (pandas.Series, _add_frame), (pandas.Index, _add_index),
              (extensions.ExtensionArray, _add_extension), (extensions.ExtensionDtype, _add_dtype))

    def _others(walker, value):
        kind = type(value)
        for base, add in adders:
            if library.inherits(kind, base) and library.is_library_class(kind) and \
                    library.class_module(kind).partition(".")[0] == "pandas":
                walker.put(b"p", kind.__name__)
                add(walker, value)
                return True
        return False

    OTHERS.insert(0, _others)
    for kind in (pandas.Timestamp, pandas.Timedelta, type(pandas.NaT), type(pandas.NA)):
        VALUES[id(kind)] = _scalar


def _scalar(value):
    zone = getattr(value, "tzinfo", None)
    return ("p%s %r %s" % (type(value).__name__, value, zone)).encode()


def _add_rest(walker, value):
    """What the program may have set besides."""
    walker.add_pairs([pair for pair in (instance_dict(value) or {}).items()
                      if type(pair[0]) is str and pair[0] not in _OWN])


def _add_frame(walker, frame):
    manager = frame._mgr
    walker.put(b"p", repr(bool(frame.flags.allows_duplicate_labels)))
    walker.add_sequence(list(manager.axes))
    for block in manager.blocks:
        walker.add(block.mgr_locs.as_array, ".columns")
        walker.add(block.values, ".values")
    _add_rest(walker, frame)


def _add_index(walker, index):
    if hasattr(index, "_range"):
        walker.add(index._range)
    elif hasattr(index, "_levels"):
        walker.add_sequence(list(index.levels))
        walker.add_sequence(list(index.codes))
    else:
        walker.add(index._data, ".values")
    walker.add_sequence(list(index.names))
    _add_rest(walker, index)


# What holds the cells of an extension array, by what it is made of.
_CELLS = (("_pa_array",), ("_ndarray",), ("_data", "_mask"), ("_left", "_right"))


def _add_extension(walker, array):
    _add_dtype(walker, array.dtype)
    walker.put(b"p", repr(getattr(array, "_freq", None)))
    for names in _CELLS:
        if all(hasattr(array, name) for name in names):
            for name in names:
                walker.add(getattr(array, name), "." + name)
            return
    walker.fail("object")


def _add_dtype(walker, dtype):
    if hasattr(dtype, "categories"):
        walker.put(b"p", repr((dtype.name, dtype.ordered)))
        walker.add(dtype.categories, ".categories")
    else:
        walker.put(b"p", repr((type(dtype).__name__, str(dtype), getattr(dtype, "storage", None),
                               getattr(dtype, "na_value", None))))


# ---- Arrow ----

@of_library("pyarrow")
def register_arrow(arrow):
    """Let walks know the classes of the module @arrow."""
    def _others(walker, value):
        kind = type(value)
        if library.class_module(kind).partition(".")[0] != "pyarrow":
            return False
        for base, add in ((arrow.Array, _add_array), (arrow.Buffer, _add_buffer)):
            if isinstance(value, base):
                add(walker, value)
                return True
        for base, tag in ((arrow.ChunkedArray, b"c"), (arrow.Table, b"t"),
                          (arrow.RecordBatch, b"b")):
            if isinstance(value, base):
                walker.put(b"q", tag)
                if tag != b"c":
                    walker.add(value.schema, ".schema")
                walker.add_sequence(value.chunks if tag == b"c" else list(value.columns))
                if tag == b"c":
                    walker.put(b"q", _type(value.type))
                return True
        if isinstance(value, (arrow.DataType, arrow.Field, arrow.Schema)):
            walker.put(b"q", _type(value))
            return True
        return False

    OTHERS.insert(0, _others)


def _type(thing):
    """A type, field or schema as text, with what it says of itself."""
    if hasattr(thing, "to_string"):
        text = thing.to_string(show_field_metadata=True, show_schema_metadata=True,
                               truncate_metadata=False)
    else:
        text = repr((str(thing), getattr(thing, "metadata", None)))
    return type(thing).__name__ + " " + text


def _add_array(walker, array):
    walker.put(b"q", "%s %d %d" % (_type(array.type), len(array), array.offset))
    for buffer in array.buffers():
        walker.add(buffer)
    dictionary = getattr(array, "dictionary", None)
    if dictionary is not None:
        walker.add(dictionary, ".dictionary")


def _add_buffer(walker, buffer):
    if not buffer.is_cpu:
        walker.fail("object")
    if buffer.size:
        arrays.add_memory(walker, buffer.address, buffer.size)


# ---- Polars ----

# Its cells come by the stream of Arrow's C interface that each column gives.  No Python of Polars
# runs, and nothing of Arrow need be installed.
#
# Polars works with threads of its own, which are missing in a process that was forked: a call that
# waits for them never returns.  So a column is asked only for what the calling thread does alone.
# Its type comes first, and of one that is not in the tables below no cells are asked for.

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


@contextlib.contextmanager
def _given(walker, kind, function, stream):
    """What fills a structure, released in the end."""
    filled = kind()
    if function(stream, filled) != 0:
        walker.fail("object")
    try:
        yield filled
    finally:
        if filled.release:
            filled.release(filled)


def _add_stream(walker, capsule):
    """Write the columns behind the @capsule, which releases its stream itself."""
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    stream = _Stream.from_address(address)
    with _given(walker, _Schema, stream.get_schema, address) as schema:
        _add_type(walker, schema)
        while True:
            with _given(walker, _Array, stream.get_next, address) as array:
                if not array.release:  # the end
                    return
                _add_cells(walker, schema, array)


def _add_series(walker, series):
    walker.put(b"s", series.name())
    walker.put(b"s", repr([getattr(series, name)() for name in _FLAGS if hasattr(series, name)]))
    _add_stream(walker, series.__arrow_c_stream__())


def _add_polars_frame(walker, frame):
    walker.put(b"f", repr(frame.shape()))
    for number, series in enumerate(frame.get_columns()):
        walker.add(series, ".columns[%d]" % number)


@of_library("polars._plr", "polars.polars")  # which had another name once
def register_polars(module):
    """Let walks know the classes of the @module that is the compiled part of Polars."""
    node(module.PySeries)(_add_series)
    node(module.PyDataFrame)(_add_polars_frame)
