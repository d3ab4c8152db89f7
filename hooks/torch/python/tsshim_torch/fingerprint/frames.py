# SPDX-License-Identifier: MIT
"""
Tables of pandas and Arrow: their cells as bytes, and what names them; those of Polars are in
columns.py.

What a table remembers to be quicker (hash tables of an index, cached columns) is left out: it
comes while items are made.  Only the libraries' own classes are known, of which only library code
runs.
"""

import sys

from . import arrays, columns, library
from .classes import instance_dict
from .walk import OTHERS, VALUES

# Attributes of a DataFrame, Series or Index that hold its cells, or nothing that a user can see.
_OWN = frozenset(("_mgr", "_item_cache", "_cacher", "_is_copy", "_flags", "_data", "_cache", "_id",
                  "_references", "_no_setting_name", "_engine", "_range", "_levels", "_codes"))


def _of(kind, package):
    """Whether @kind is a class of the library @package, as that has it."""
    return library.class_module(kind).partition(".")[0] == package and \
        library.is_library_class(kind)


# ---- pandas ----

def register_pandas(pandas):
    """Let walks know the classes of the module @pandas."""
    kinds = (pandas.DataFrame, pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    scalars = (pandas.Timestamp, pandas.Timedelta, type(pandas.NaT), type(pandas.NA))
    adders = tuple(zip(kinds, (_add_frame, _add_frame, _add_index, _add_extension)))

    def _others(walker, value):
        kind = type(value)
        for base, add in adders:
            if library.inherits(kind, base) and _of(kind, "pandas"):
                walker.put(b"p", kind.__name__)
                add(walker, value)
                return True
        if library.inherits(kind, pandas.api.extensions.ExtensionDtype) and _of(kind, "pandas"):
            _add_dtype(walker, value)
            return True
        return False

    OTHERS.insert(0, _others)
    for kind in scalars:
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


# By the module that has the classes; that of Polars had another name once.
_LIBRARIES = (("pandas", register_pandas), ("pyarrow", register_arrow),
              ("polars._plr", columns.register), ("polars.polars", columns.register))
_known = set()  # names of libraries whose types are registered


def register():
    """Register the types of the libraries that were loaded since the last call."""
    for name, function in _LIBRARIES:
        module = sys.modules.get(name)
        if module is not None and name not in _known:
            try:
                function(module)
            except AttributeError:  # half imported in another thread: next time
                continue
            _known.add(name)
