# SPDX-License-Identifier: MIT
"""
Values of the libraries that samples are made with: NumPy, PyTorch, Pillow; and of the standard
library where its objects are made in C.  A library is asked for only when it is loaded.
"""

import collections
import ctypes
import datetime
import decimal
import hashlib
import os
import pathlib
import re
import sys

from . import handles, library, shared, traced
from .walk import OTHERS, VALUES, inline, node, of_library, value

# Classes in C -> function(walker, object), of what an object of a class that Python derives from one holds.
BASES = {}
LARGEST = 8 << 30  # bytes of one array; reading more takes longer than sharing it can save
PIECE = 64 << 20
LARGE = 1 << 20  # bytes of an array from which its digest is worth keeping
TENSORS = 8  # of a tuple of tensors that are looked at


@value(pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath)
def _path(path):
    # Not its slots, which are filled when they are needed.
    return b"P" + type(path).__name__.encode() + os.fsencode(str(path))


@value(re.Pattern)
def _pattern(pattern):
    data = inline((pattern.pattern, pattern.flags))
    return None if data is None else b"E" + data


@value(datetime.datetime, datetime.time)
def _time(time):
    if time.tzinfo is not None and type(time.tzinfo) is not datetime.timezone:
        return None
    return _by_text(time)


@value(decimal.Decimal, datetime.timedelta, datetime.date, datetime.timezone, type(NotImplemented))
def _by_text(thing):
    return b"T" + type(thing).__name__.encode() + repr(thing).encode()


def is_large(thing):
    """Whether @thing is an array, a tensor or a tuple with one of those that has LARGE bytes."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if type(thing) is tuple:
        return any(map(is_large, thing[:TENSORS]))
    if torch is not None and type(thing) is torch.Tensor:
        return thing.numel() * thing.element_size() >= LARGE
    return numpy is not None and type(thing) is numpy.ndarray and thing.nbytes >= LARGE


def _hash_memory(walker, address, size, stays=True):
    if size > min(LARGEST, walker.room):
        walker.fail("large")
    walker.room -= size
    walker.put(b"y", b"%d" % size)
    if size >= LARGE and stays and not walker.is_made_up():
        digest = walker.notes.digests.get((address, size))
        if digest is None:
            digest = walker.notes.digests[address, size] = \
                walker.at_once(_digest_large, address, size)
        walker.hash.update(digest)
    elif size:
        walker.at_once(_read_memory, walker.hash, address, size)


def _digest_large(address, size):
    """16 bytes: the library's, where it is there, take a thirteenth of the time of hashlib's."""
    native = sys.modules.get(__package__.rpartition(".")[0] + ".native")
    if native is not None:
        return native.digest_at(address, size)
    hasher = hashlib.blake2b(digest_size=16)
    _read_memory(hasher, address, size)
    return hasher.digest()


def _read_memory(hasher, address, size):
    memory = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
    for begin in range(0, size, PIECE):
        hasher.update(memory[begin:begin + PIECE])


# A line of /proc/self/maps.
_LINE = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (.)(.).(.) ([0-9a-f]+) \S+ (\d+) *(.*)")
_Mapping = collections.namedtuple(
    "_Mapping", "begin end is_read is_written is_shared offset inode path")


def maps():
    """The text of /proc/self/maps."""
    with open("/proc/self/maps", "rb", buffering=0) as file:
        return file.readall()


def _first_address(line):
    return int(line[:line.index(b"-")], 16)


def add_memory(walker, address, size, stays=True):
    """
    Write the @size bytes at @address, or the file that is mapped there for reading only.  @stays:
    what is there is there for as long as the walk's notes are good.
    """
    mapping = _mapping(walker, address)
    if mapping is not None and not mapping.is_shared and \
            not _is_of_a_file(mapping, address + size):
        mapping = None
    if mapping is None:
        _hash_memory(walker, address, size, stays)
    elif mapping.is_shared and mapping.is_written:
        walker.fail("memmap")
    else:
        _add_place(walker, mapping, address)


def _mapping(walker, address):
    """The mapping of this process that @address lies in, or None."""
    lines = walker.memory.get("maps")
    if lines is None:
        lines = walker.memory["maps"] = maps().split(b"\n")[:-1]  # by address
    begin, end = 0, len(lines)
    while begin < end:
        middle = (begin + end) // 2
        if _first_address(lines[middle]) <= address:
            begin = middle + 1
        else:
            end = middle
    found = _LINE.fullmatch(lines[begin - 1]) if begin else None
    if found is None:
        return None
    first, last, read, write, kind, offset, inode, path = found.groups()
    mapping = _Mapping(int(first, 16), int(last, 16), read == b"r", write == b"w", kind == b"s",
                       int(offset, 16), int(inode), path)
    return mapping if address < mapping.end else None


def _shared_mapping(walker, address):
    """The same where it is a shared one; else None."""
    mapping = _mapping(walker, address)
    return mapping if mapping is not None and mapping.is_shared else None


def _is_of_a_file(mapping, end):
    """
    Whether the private @mapping, up to @end at least, is one of a file that is there still, and
    can only be read, as Arrow maps them.
    """
    if end > mapping.end or mapping.is_written or not mapping.is_read or \
            not mapping.path.startswith(b"/"):
        return False
    try:
        return os.stat(mapping.path).st_ino == mapping.inode
    except OSError:
        return False


@of_library("numpy")
def _numpy(numpy):
    node(numpy.ndarray, numpy.memmap)(_add_array)
    BASES[numpy.ndarray] = _add_array

    def _others(walker, data):
        if not library.inherits(type(data), numpy.dtype):
            return False
        walker.put(b"d", repr(_type(data)))
        return True

    OTHERS.insert(0, _others)
    for kind in set(numpy.sctypeDict.values()) - {numpy.object_, numpy.void}:
        if library.inherits(kind, numpy.generic):
            VALUES[id(kind)] = _scalar


def _type(dtype):
    return (dtype.str, repr(dtype))


def _scalar(number):
    return b"N" + number.dtype.str.encode() + number.tobytes()


def _add_array(walker, data):
    """Type, shape, strides and bytes of an ndarray; of a mapped file who it is."""
    numpy = sys.modules["numpy"]
    data = numpy.ndarray.view(data, numpy.ndarray)
    walker.put(b"A", repr((_type(data.dtype), data.shape, data.strides,
                           data.flags.writeable)))
    if data.dtype.hasobject:
        walker.add(data.ravel().tolist(), ".flat")
        return
    if data.size == 0:
        return
    mapping = _shared_mapping(walker, data.__array_interface__["data"][0])
    if mapping is not None:
        _add_mapped(walker, numpy, data, mapping)
        return
    if not data.flags.c_contiguous:
        data = data.T if data.flags.f_contiguous else numpy.ascontiguousarray(data)
    _hash_memory(walker, data.__array_interface__["data"][0], data.nbytes)


def _add_mapped(walker, numpy, data, mapping):
    """
    A memmap of a file, opened for reading only: the file's identity and where in it.  The path
    may lead to another file by now, or the mapping be writable: then who knows.
    """
    base = data
    while type(base) is numpy.ndarray or type(base) is numpy.memmap:
        found, base = base, base.base
    if type(found) is not numpy.memmap and mapping.is_written:
        if not shared.note(walker, data, data.nbytes):
            walker.fail("shared_memory")
        return
    if mapping.is_written or getattr(found, "mode", "r") != "r":
        walker.fail("memmap")
    _add_place(walker, mapping, data.__array_interface__["data"][0])


def _add_place(walker, mapping, address):
    """Which place of which file is mapped at @address; the path may lead to another by now."""
    if not mapping.path.startswith(b"/"):
        walker.fail("memmap")
    try:
        status = os.stat(mapping.path)
    except OSError:
        walker.fail("memmap")
    if status.st_ino != mapping.inode:
        walker.fail("memmap")
    walker.put(b"w", mapping.path)
    walker.put(b"w", "%s %d" % (handles.identity(status),
                                address - mapping.begin + mapping.offset))


@of_library("torch")
def _torch(torch):
    from .. import any_torch
    node(torch.Tensor, torch.nn.Parameter)(_add_tensor)

    @value(torch.dtype, torch.device, torch.layout, torch.memory_format)
    def _name(thing):
        return b"t" + type(thing).__name__.encode() + str(thing).encode()

    @value(torch.Size)
    def _size(size):
        return b"S" + repr(tuple(size)).encode()

    def _others(walker, thing):
        kind = type(thing)
        if not library.inherits(kind, torch.Tensor):
            return False
        if any_torch.has_dispatch(kind) or \
                library.class_module(kind).startswith("torch."):
            walker.fail("tensor")
        walker.add(kind, ".__class__")
        with disabled():
            plain = thing.as_subclass(torch.Tensor)
            attributes = dict(object.__getattribute__(thing, "__dict__"))
        attributes.update((name, traced.without_addresses(walker, attributes[name]))
                          for name in traced.TRACES if name in attributes)
        walker.add(attributes, ".__dict__")
        _add_tensor(walker, plain)
        return True

    disabled = getattr(torch._C, "DisableTorchFunctionSubclass", None) or \
        torch._C.DisableTorchFunction
    OTHERS.insert(0, _others)


def _add_tensor(walker, tensor):
    torch = sys.modules["torch"]
    from .. import any_torch
    if tensor.device.type != "cpu":
        walker.fail("tensor")
    if tensor.layout is not torch.strided or tensor.is_quantized or getattr(tensor, "is_nested", False):
        _add_parts(walker, tensor)
        return
    shape, strides = tuple(tensor.shape), tensor.stride()
    walker.put(b"X", repr((type(tensor).__name__, str(tensor.dtype), shape, strides,
                           tensor.requires_grad, any_torch.is_conj(tensor),
                           any_torch.is_neg(tensor), any_torch.is_inference(tensor))))
    attributes = object.__getattribute__(tensor, "__dict__")
    if attributes:
        walker.add(attributes, ".__dict__")
    if 0 in shape:
        return
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    size = tensor.numel() * tensor.element_size()
    if tensor.is_shared() or _shared_mapping(walker, tensor.data_ptr()) is not None:
        if extent != tensor.numel() or not shared.note(walker, tensor, size):
            walker.fail("shared_tensor")
        return
    if extent != tensor.numel():  # has holes, or repeats itself
        tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    _hash_memory(walker, tensor.data_ptr(), size)


# What holds the values of a tensor that is no plain piece of memory, by its layout or scheme.
_PARTS = {"torch.sparse_coo": ("_indices", "_values", "is_coalesced"),
          "torch.sparse_csr": ("crow_indices", "col_indices", "values"),
          "torch.sparse_bsr": ("crow_indices", "col_indices", "values"),
          "torch.sparse_csc": ("ccol_indices", "row_indices", "values"),
          "torch.sparse_bsc": ("ccol_indices", "row_indices", "values"),
          "torch.per_tensor_affine": ("int_repr", "q_scale", "q_zero_point"),
          "torch.per_channel_affine": ("int_repr", "q_per_channel_scales", "q_per_channel_zero_points",
                                       "q_per_channel_axis"),
          "nested": ("unbind", "is_contiguous")}


def _add_parts(walker, tensor):
    """A tensor that is made of others, which are asked of it anew each time."""
    is_nested = getattr(tensor, "is_nested", False)
    kind = "nested" if is_nested else str(tensor.qscheme() if tensor.is_quantized else tensor.layout)
    if kind not in _PARTS or object.__getattribute__(tensor, "__dict__"):
        walker.fail("tensor")
    if tensor.is_quantized and tensor.is_shared():  # the parts of others are asked as well
        walker.fail("shared_tensor")
    walker.make_up()
    walker.put(b"X", repr((type(tensor).__name__, kind, str(tensor.dtype), tensor.requires_grad)))
    if not is_nested:
        walker.put(b"X", repr(tuple(tensor.shape)))
    for name in _PARTS[kind]:
        walker.add(getattr(tensor.detach(), name)(), "." + name + "()")


@of_library("PIL.Image")
def _pillow(module):
    @node(module.Image)
    def _image(walker, image):
        _add_pixels(walker, image)
        walker.add(image.info, ".info")

    def _others(walker, thing):
        if not library.inherits(type(thing), module.Image):
            return False
        if not library.is_library_class(type(thing)):
            walker.fail("object")
        if walker.notes.generators is None:
            walker.fail("handle")  # an image file: open, or made of one
        _add_picture(walker, thing)
        return True

    OTHERS.insert(0, _others)


def _add_pixels(walker, image):
    walker.put(b"J", repr((image.mode, image.size, image.readonly)))
    walker.put(b"y", image.tobytes())
    walker.add(image.im.getpalette() if image.mode in ("P", "PA") else None, ".palette")


def _add_picture(walker, picture):
    """
    A picture of a file: what Pillow knows of it, with the file where it is open still; of what was
    read the pixels.
    """
    attributes = dict(vars(picture))
    pixels = [attributes.pop(name, None) for name in ("_im", "im")]
    walker.add(type(picture), ".__class__", as_kind=True)
    walker.add_pairs(list(attributes.items()))
    if any(part is not None for part in pixels):
        if attributes.get("tile"):  # to be read over what was read
            walker.fail("handle")
        _add_pixels(walker, picture)
