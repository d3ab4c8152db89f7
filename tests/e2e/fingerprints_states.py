# SPDX-License-Identifier: MIT
"""
Objects of libraries for fingerprints_child.py that are named by their state where items are seeded.
"""

import array
import ctypes
import datetime
import gc
import io
import itertools
import json
import mmap
import multiprocessing
import os
import random
import re
import struct
import sys
import weakref
import xml.etree.ElementTree as tree

import numpy
import torch
from PIL import Image, ImageFont

from fingerprints_zoo import WORK, Plain, Settings, case, changed


def there(name, make):
    """The path of a file that is the same in two processes; the first makes it."""
    path = os.path.join(os.environ["TSSHIM_TEST_IMAGES"], "..", name)
    if not os.path.exists(path):
        make(path)
    return path


def written(name, content):
    """A file with this @content."""
    def make(path):
        with open(path, "wb") as file:
            file.write(content)
    return there(name, make)


def elements():
    """Trees that differ in one place each."""
    for text in ("<a/>", "<b/>", "<a>t</a>", "<a>u</a>", "<a><b/></a>", "<a><b/>t</a>", "<a><b/>u</a>",
                 "<a lr='1'/>", "<a lr='2'/>", "<a><b/><c/></a>", "<a><c/><b/></a>"):
        yield tree.fromstring(text)
    yield tree.ElementTree(tree.fromstring("<a/>"))


def moved(file, place):
    """The @file, read up to this @place."""
    file.seek(place)
    return file


@case("differ+")
def states():
    yield from (
            *elements(), re.match("(a)|b", "a"), re.match("(a)|b", "b"), re.match("a|b", "a"),
            re.match("(a)|b", "ab"), re.compile("(a)|b").match("xa", 1), re.compile("a").sub,
            re.compile("b").sub, struct.Struct("i"), struct.Struct("q"), io.BytesIO(b"a"),
            io.BytesIO(b"b"), io.StringIO("a"), array.array("i", [1]), array.array("i", [2]),
            array.array("h", [1]), memoryview(b"a"), memoryview(b"b"), memoryview(b"ab"),
            memoryview(b"ab").cast("b"), memoryview(bytearray(b"ab")), ValueError("a"), ValueError("b"),
            KeyError("a"), json.JSONDecoder(), json.JSONDecoder(parse_float=str),
            numpy.random.SeedSequence(1), numpy.random.SeedSequence(2),
            numpy.ones(1, [("a", "f4")])[0], numpy.zeros(1, [("a", "f4")])[0],
            numpy.zeros(1, [("b", "f4")])[0])
    if sys.version_info >= (3, 9):
        yield from (list[int], list[Settings])
    if sys.version_info >= (3, 10):
        yield from (int | None, int | str)


@case("differ+")
def times_of_a_zone():
    try:
        import zoneinfo
        zones = [zoneinfo.ZoneInfo(name) for name in ("Europe/Berlin", "Europe/Rome")]
    except Exception:  # an old Python, or a machine without a table of zones
        zones = [datetime.timezone.utc, datetime.timezone(datetime.timedelta(1 / 24))]
    yield from (datetime.datetime(2020, 1, 1, tzinfo=zone) for zone in zones)


@case("differ+")
def scripts():
    for width in (2, 3):
        torch.manual_seed(width)
        yield torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.ReLU()))
    torch.manual_seed(0)
    made = torch.jit.script(torch.nn.Linear(2, 2))
    yield made
    with torch.no_grad():
        made.bias[1] += 1
    yield made
    made.more = [1]
    yield made


@case("differ+")
def kinds_of_arrays():
    """Their classes, values, masks and places count; of a sparse tensor also the order."""
    data = numpy.array([(1, 2.0)], [("a", "i4"), ("b", "f4")])
    yield from (numpy.matrix([[1, 2]]), numpy.matrix([[1, 3]]), numpy.array([[1, 2]]), numpy.rec.array(data), data,
                numpy.ma.array([1, 2], mask=[0, 1]), numpy.ma.array([1, 2], mask=[1, 0]),
                numpy.ma.array([1, 2], mask=[1, 0], fill_value=7))
    for scale in (1.0, 2.0):
        yield torch.quantize_per_tensor(torch.ones(2), scale, 0, torch.quint8)
        yield torch.quantize_per_channel(
            torch.ones(2, 1), torch.tensor([1.0, scale]), torch.tensor([0, 0]), 0, torch.quint8)
    if hasattr(torch, "nested"):
        yield from (torch.nested.nested_tensor([torch.ones(2), torch.ones(size)]) for size in (1, 2))
    for made in (torch.eye(2), torch.eye(2) * 2):
        yield from (made.to_sparse(), made.to_sparse_csr())
    of_three, of_four = (torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0]), (size,)) for size in (3, 4))
    yield from (of_three, of_three.coalesce(), of_four)


@case("differ+")
def clahe():
    try:
        import cv2
    except ImportError:
        cv2 = None
    for limit, tiles in ((2.0, (8, 8)), (3.0, (8, 8)), (2.0, (8, 4))):
        yield (limit, tiles) if cv2 is None else cv2.createCLAHE(limit, tiles)


@case("~differ+")
def pictures_of_files():
    paths = [written("picture%d.png" % number, b"") and there("seen%d.png" % number, lambda path:
             Image.new("RGB", (4, 4), (number, 0, 0)).save(path)) for number in (1, 2)]
    for path in paths:
        yield Image.open(path)
        image = Image.open(path)
        image.load()
        yield image
        image.putpixel((1, 1), (9, 9, 9))
        yield image


@case("~differ+")
def files_and_memory():
    for path in [written("bytes%d" % number, bytes([number]) * 5000) for number in (1, 2)]:
        with open(path, "rb") as file:
            yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        numpy.savez(path + ".npz", a=numpy.arange(3))
        yield numpy.load(path + ".npz")
    closed = mmap.mmap(-1, 10)
    closed.close()
    yield closed


@case("differ+")
def fonts():
    import glob
    found = sorted(glob.glob("/usr/share/fonts/truetype/*/*.ttf"))[:2] or [None]
    for path in found:
        for size in (10, 11):
            try:
                yield ImageFont.truetype(path, size)
            except (OSError, ImportError):  # no fonts here
                yield path, size


@case("differ+")
def weak_references():
    """To what is held anyway: which one counts, and whether it is there."""
    first, second = Plain(), Plain()
    gone = Settings()
    dead = weakref.ref(gone)
    proxy = weakref.proxy(gone)
    del gone
    gc.collect()
    for value in (weakref.ref(first), weakref.ref(second), dead, weakref.proxy(first),
                  weakref.proxy(second), proxy, weakref.WeakValueDictionary(a=first),
                  weakref.WeakValueDictionary(a=second), weakref.WeakValueDictionary(b=second),
                  weakref.WeakKeyDictionary({first: 1}), weakref.WeakKeyDictionary({first: 2})):
        yield Plain(held=[first, second], value=value)


class Point(ctypes.Structure):
    """Of the program's, with code in it."""

    _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_double * 2)]

    @property
    def length(self):
        """Of it."""
        return self.x


class Swapped(ctypes.BigEndianStructure):
    """The same bytes are other numbers."""

    _fields_ = Point._fields_[:1]


class Native(ctypes.Structure):
    """The same fields."""

    _fields_ = Point._fields_[:1]


class Bits(ctypes.Structure):
    """A part of a number."""

    _fields_ = [("x", ctypes.c_int, 5), ("rest", ctypes.c_int, 27)]


class Either(ctypes.Union):
    """One of two."""

    _fields_ = [("point", Native), ("bits", Bits)]


def of_one_name(*fields):
    """Structures whose classes differ in their @fields."""
    return [type("Made", (ctypes.Structure,), {"_fields_": own})(*range(1, 2)) for own in fields]


def with_more(value, **attributes):
    """The @value, and attributes of the program's."""
    vars(value).update(attributes)
    return value


@case("differ+")
def structures():
    """Each field, its type and order, what the program has added."""
    count = type("Count", (ctypes.c_int,), {"step": 1})
    yield from (
            Point(1), Point(2), Point(1, (0.0, 1.0)), Swapped(1), Native(1), Bits(1), Either(Native(1)),
            Either(Native(2)), with_more(Point(1), scale=1), with_more(Point(1), scale=2), (Point * 2)(Point(1)),
            (Point * 3)(Point(1)), (Point * 2)(Point(2)), ctypes.c_int(1), ctypes.c_int(2), ctypes.c_uint(1),
            ctypes.c_int.__ctype_be__(1 << 24), count(1), (ctypes.c_int * 2)(1), (ctypes.c_int * 2)(2),
            *of_one_name([("a", ctypes.c_int)], [("b", ctypes.c_int)], [("a", ctypes.c_uint)],
                         [("a", ctypes.c_int, 31)], [("a", ctypes.c_int), ("b", ctypes.c_int)]))
    with changed(Point, "length", property(lambda self: self.y[0])):
        yield Point(1)
    with changed(count, "step", 2):
        yield count(1)


def shared(*numbers):
    """A tensor that processes share."""
    return torch.tensor(numbers).share_memory_()


def array_of_processes(number):
    """An array of NumPy's over memory that processes share."""
    return numpy.frombuffer(multiprocessing.RawArray("i", [number, 0]), numpy.int32)


@case("differ+")
def small_shared_tensors():
    """As they are now: looked at again they have other names."""
    yield from (shared(1), shared(1.0), shared(1, 2), shared(2, 1), shared(1, 2).view(2, 1),
                torch.tensor([1]), array_of_processes(1), array_of_processes(2),
                torch.from_numpy(array_of_processes(3)))
    epoch, point = shared(7), Point(7)
    for number in (8, 9):
        epoch[0] = point.x = number
        yield epoch
        yield point


def compiled(text):
    """What eval() is given, in any place."""
    return compile(text, "at %s" % COMPILED, "eval")


COMPILED = []
FACTOR = 1


class Evaluates(Plain):
    """Its items are worked out by code that it holds."""

    def __getitem__(self, index):
        return eval(self.code)


@case("differ+")
def held_code():
    """What it does, and the globals that it reads where the program runs it."""
    for text in ("1 + 2", "1 + 3", "1 - 2", "index", "index * FACTOR", "(lambda: FACTOR)()", "abs(1)"):
        yield Evaluates(code=compiled(text))
    with changed(sys.modules[__name__], "FACTOR", 2):
        yield Evaluates(code=compiled("index * FACTOR"))
        yield Evaluates(code=compiled("(lambda: FACTOR)()"))
    globals()["abs"] = float  # in the place of what is built in
    yield Evaluates(code=compiled("abs(1)"))
    del globals()["abs"]


@case("same+")
def equal_code():
    for _ in range(2):
        COMPILED.append(1)
        yield Evaluates(code=compiled("index * FACTOR"))


@case("same+")
def equal_states():
    held = [Settings()]
    for place in (0, 1):
        yield Plain(tree=list(elements()), file=moved(io.BytesIO(b"abc"), place),
                    match=re.match("(a)", "ab"[:2]), memory=memoryview(bytes([1, 2])),
                    array=array.array("d", [1.5]), point=Point(1, (2.0, 3.0)), bits=Either(bits=Bits(3)),
                    raw=multiprocessing.RawArray("d", 2),
                    value=multiprocessing.RawValue(Point, 1), shared=shared(1, 2), code=compiled("x + 1"), error=ValueError("a", [2]),
                    sparse=torch.eye(3).to_sparse(), held=held, behind=weakref.ref(held[0]))


class Trap:
    """Of the program's, and in the state of an object of a library; nothing of it may run."""

    def __reduce_ex__(self, _):
        raise AssertionError("ran")

    __reduce__ = __getstate__ = __getattr__ = __reduce_ex__


@case("differ+")
def what_is_the_programs_in_a_state():
    """Walked as data, and never asked."""
    for number in (1, 2):
        held = Trap()
        held.__dict__["number"] = number
        root = tree.Element("a")
        root.text = held
        yield from (root, ValueError(held))


class Mine(array.array):
    """A class of the program's, which may pickle itself in any way."""


class Behind(ctypes.Structure):
    """What it leads to counts for items, and lies elsewhere."""

    _fields_ = [("text", ctypes.c_char_p)]


class EitherBehind(ctypes.Union):
    """The same, in one of two."""

    _fields_ = [("number", ctypes.c_long), ("held", Behind)]


class Position:
    """Has a number that items may move."""


@case("unknown+")
def refused_states():
    only = Position()
    for reason, values in (
            ("object", [Mine("i", [1]), sys._getframe(), memoryview(b"ab")[::-1],
                        memoryview(numpy.array([None])), hashlib_state(), OSError(__file__)]),
            ("iterator", [iter([1]), iter(range(3)), itertools.count(), itertools.cycle([1]),
                          reversed([1]), zip([1])]),
            ("generator", [random.SystemRandom()]),
            ("handle", [open(os.path.join(WORK, "writing"), "w")]),
            ("weakref", [weakref.ref(only), weakref.proxy(only), weakref.WeakSet([only]),
                         weakref.WeakValueDictionary(a=only), weakref.WeakMethod(Plain.__getitem__.__get__(only)),
                         weakref.finalize(only, int)]),
            ("shared_memory", [ctypes.c_char_p(b"a"), ctypes.pointer(ctypes.c_int(1)), Behind(), EitherBehind(),
                               (Behind * 2)(), (ctypes.c_char * 5000)(), ctypes.CDLL(None).abs,
                               numpy.frombuffer(multiprocessing.RawArray("i", 5000), numpy.int32)]),
            ("shared_tensor", [torch.zeros(5000).share_memory_(), torch.zeros(9).share_memory_()[::2],
                               [shared(1) for _ in range(33)]]),
            ("memmap", [mmap.mmap(-1, 10), memoryview(mmap.mmap(-1, 10))])):
        for value in values:
            yield reason, value


def hashlib_state():
    """What shows nothing, and cannot be pickled."""
    import hashlib
    return hashlib.md5()
