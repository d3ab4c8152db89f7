# SPDX-License-Identifier: MIT
"""
A zoo of datasets for fingerprints_child.py, which describes it: what is the same, what differs.
"""

import collections
import contextlib
import decimal
import functools
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import types

import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import Dataset, TensorDataset
from torchvision import transforms

from tsshim_torch.fingerprint import library

CASES = []
WORK = tempfile.mkdtemp()


def case(kind):
    """Decorator: a case of this @kind, a generator of datasets, or of what one holds as its .value."""
    def register(function):
        CASES.append((kind, function.__name__, function))
        return function
    return register


@contextlib.contextmanager
def changed(owner, name, value):
    """Set an attribute for a while."""
    before = owner.__dict__[name] if name in owner.__dict__ else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Plain(Dataset):
    """A dataset that holds whatever it is told to."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __getitem__(self, index):
        return index


SIZE = 3
TABLE = {"a": [1, 2]}


class Settings:
    """As people write them."""

    SCALE = 1.0


def double(value):
    """Reads a global."""
    return value * SIZE


def calls_double(value):
    """Reads one through another function."""
    return double(value) + 1


@case("differ")
def values():
    yield from (  # as attributes of a dataset
                  0, 1, True, 0.0, -0.0, float("nan"), float("inf"), 1j, complex(0, -0.0), 1 << 80,
                  "", "1", "\ud800", b"", b"1", (), [], {}, set(), frozenset(), None, ..., "a" * 99,
                  (1,), [1], [True], [1.0], {1: 2}, {1: 3}, {2: 2}, {1}, frozenset({1}), [[1]],
                  [(1,)], ["1"], range(3), range(4), slice(1), slice(1, 2), NotImplemented,
                  bytearray(b"1"), [[], [1]], [[1], []], (("a", 1), ("b", 2)), (("a", 1), ("b", 3)),
                  collections.OrderedDict(a=1), collections.defaultdict(int),
                  collections.defaultdict(list), collections.deque([1]), collections.deque([1], 2),
                  collections.Counter("a"), pathlib.Path("a"), pathlib.PurePath("a"),
                  re.compile("a"), re.compile("a", re.I), re.compile(b"a"), decimal.Decimal("1.0"),
                  decimal.Decimal("1.00"), types.SimpleNamespace(a=1), types.SimpleNamespace(a=2),
                  types.MappingProxyType({"a": 1}), torch.Size([1]), torch.float32, torch.int8,
                  torch.device("cpu"), numpy.float32(1), numpy.float64(1), numpy.int64(1),
                  numpy.dtype("f4"), numpy.dtype("f8"), numpy.dtype([("a", "f4")]), int, Plain)


@case("differ")
def dict_order():
    yield from ({"a": 1, "b": 2}, {"b": 2, "a": 1}, collections.OrderedDict([("a", [object]), ("b", 2)]),
                collections.OrderedDict([("b", 2), ("a", [object])]))


@case("same")
def set_order():
    words = ["w%d" % number for number in range(50)]
    yield Plain(value=set(words), other=frozenset(words), kinds={int, str, Plain, double})
    yield Plain(other=frozenset(words), value=set(words[::-1]), kinds={double, str, int, Plain})


@case("same")
def interning():
    text = "".join(["ab", "cd"])
    yield ["abcd", "abcd", ("abcd", 1)]
    yield [text, sys.intern(text), tuple(["".join(["a", "bcd"]), 1])]


@case("differ")
def cycles():
    loop, inner = [1], [object]
    loop.append(loop)
    yield from (loop, [1, [1, None]], [inner, inner], [[object], [object]])


@case("same")
def deep():
    chain = None
    for _ in range(50000):
        chain = [chain, object]
    yield from (chain, chain)


@case("differ")
def module_global():
    yield calls_double
    for name, value in (("SIZE", 4), ("double", lambda value: value)):
        with changed(sys.modules[__name__], name, value):
            yield calls_double


@case("differ")
def class_attribute():
    function = lambda value: value * Settings.SCALE  # noqa: E731
    yield function
    with changed(Settings, "SCALE", 2.0):
        yield function
    for kind in (Plain, Dataset):
        kind.more = 1
        yield function
        del kind.more


@case("differ")
def user_module():
    with open(os.path.join(WORK, "users_module.py"), "w") as file:
        file.write("SIZE = 1\nTABLE = {}\ndef f(x):\n    return x + SIZE\n")
    sys.path.insert(0, WORK)
    import users_module
    function = lambda x: users_module.f(x)  # noqa: E731
    yield function
    with changed(users_module, "SIZE", 2):
        yield function
    yield users_module
    users_module.TABLE["a"] = 1
    yield users_module


@case("same")
def module_not_named():
    yield calls_double
    with changed(sys.modules[__name__], "TABLE", threading.Lock()):
        yield calls_double


@case("differ")
def functions():
    def closure(value, default=0):
        return lambda x, y=default, *, z=default: x + y + z + value
    yield from (closure(1), closure(2), closure(1, 1), lambda x: x + 1)
    yield from (lambda x: x + 2, lambda x: x - 1, lambda x: x in {"a", "b", "c"}, lambda x: x in {"a", "b", "d"})
    yield from (lambda x: [x + y for y in (1, 2)], lambda x: [x + y for y in (1, 3)])
    yield from (functools.partial(double, 1), functools.partial(double, 2), functools.lru_cache()(double),
                functools.wraps(double)(lambda x: x), Settings().__init__, TABLE.get, "abc".join, "abd".join, len, max)


@case("differ")
def variables():
    yield from _variables(lambda: os.environ["TSSHIM_TEST_X"],
                          lambda: os.getenv("TSSHIM_TEST_X", "1"),
                          lambda: "TSSHIM_TEST_X" in os.environ)


@case("~differ")  # in two processes, too
def any_variables():
    yield from _variables(lambda name: os.environ.get(name), lambda: dict(os.environ))


def _variables(*functions):
    for function in functions:
        os.environ.pop("TSSHIM_TEST_X", None)
        yield function
        os.environ["TSSHIM_TEST_X"] = "1"
        yield function
    del os.environ["TSSHIM_TEST_X"]


def compiled(name, number, file, ours="self.a"):
    """The method @name as in a class that a library has made, from what it calls @file."""
    made = {}
    source = "def %s(self):\n    return hash((%d, %s))\n" % (name, number, ours)
    exec(compile(source, file, "exec"), made)
    return made[name]


@case("same")
def numbers_that_attrs_mixes_into_hashes():
    for number in (3, 5 << 60, -7):
        yield compiled("__hash__", number, "<attrs generated __hash__ a.B>")


@case("differ")
def numbers_of_other_functions():
    for number in (3, 5):
        yield compiled("__hash__", number, "<attrs of the user's>")
        yield compiled("__eq__", number, "<attrs generated __eq__ a.B>")
    yield compiled("__hash__", 3, "<attrs generated __hash__ a.B>")
    yield compiled("__hash__", 3, "<attrs generated __hash__ a.B>", "self.b")


@case("same")
def other_variables():
    function = lambda: os.environ.get("TSSHIM_TEST_X", "1")  # noqa: E731
    yield function
    os.environ["TSSHIM_TEST_Y"] = "1"
    yield function
    del os.environ["TSSHIM_TEST_Y"]


def folder():
    """A little image folder; its path must be the same in two processes."""
    root = os.environ["TSSHIM_TEST_IMAGES"]
    with contextlib.suppress(FileExistsError):
        for number in range(300):
            os.makedirs(os.path.join(root, str(number % 3)), exist_ok=True)
            with open(os.path.join(root, str(number % 3), "%d.png" % number), "xb"):
                pass
    return root


def images(*extra):
    """ImageFolder with the usual transforms."""
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), *extra,
             transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
    return torchvision.datasets.ImageFolder(folder(), transforms.Compose(steps))


@case("differ")
def image_folder():
    yield images()
    for change in (lambda data: setattr(data.transform.transforms[0], "scale", (0.1, 1.0)),
                   lambda data: data.transform.transforms.reverse(), lambda data: data.samples.pop(),
                   lambda data: setattr(data, "loader", lambda path: Image.open(path))):
        dataset = images()
        change(dataset)
        yield dataset
    for step in (transforms.Grayscale(3), transforms.Resize(9, transforms.InterpolationMode.NEAREST),
                 transforms.Resize(9, transforms.InterpolationMode.BICUBIC),
                 transforms.Lambda(lambda image: image.rotate(1)), transforms.Lambda(lambda image: image.rotate(2))):
        yield images(step)


@case("differ")
def patches():
    functional, loading = transforms.functional, torchvision.datasets.folder
    yield images()
    for owner, name, value in (
            (functional, "hflip", lambda image: image), (functional, "hflip", functional.vflip),
            (functional.F_pil, "hflip", lambda image: image),
            (transforms.ToTensor, "__call__", lambda self, image: image),
            (loading, "pil_loader", lambda path: None),
            (loading.pil_loader, "__code__", (lambda path: None).__code__), (Image.Image, "resize", lambda *_: None),
            (Image, "MAX_IMAGE_PIXELS", 12345), (random, "random", lambda: 0.5), (torch, "rand", lambda *_: 0.5)):
        with changed(owner, name, value):
            yield images()


@case("differ")
def patched_arithmetic():
    def function(value):
        return numpy.add(value, 1)
    yield function
    with changed(numpy, "add", numpy.subtract):
        yield function


@case("same")
def patches_undone():
    yield images()
    with changed(transforms.functional, "hflip", lambda image: image):
        pass
    library._looks.clear()
    yield images()


@case("differ")
def arrays():
    data = numpy.arange(24, dtype=numpy.uint8).reshape(2, 3, 4)
    other = data.copy()
    other[1, 2, 3] = 0
    yield from (data, data.astype(numpy.int8), data.reshape(2, 4, 3), numpy.asfortranarray(data), data[::-1], other,
                numpy.array([0.0]), numpy.array([-0.0]), numpy.array(["a", None]), numpy.array(["b", None]),
                numpy.zeros(0), [numpy.int64(1), numpy.int64(2)], [numpy.int64(1), numpy.int64(3)])


@case("differ")
def tensors():
    data = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for parts in ((data,), (data.double(),), (data.clone().requires_grad_(),), (torch.nn.Parameter(data),),
                  (data.t().contiguous().t(),), (data, data), (data, data.clone()),
                  (torch.arange(6, dtype=torch.float32).reshape(3, 2),), (torch.cat([data, data])[::2],),
                  (torch.zeros(1),), (torch.tensor([-0.0]),), (torch.zeros(1).to(torch.bfloat16),)):
        yield TensorDataset(*parts)
    for seed in (0, 1):
        torch.manual_seed(seed)
        yield torch.nn.Conv2d(1, 2, 3)


@case("differ")
def mapped_files():
    path = os.path.join(os.environ["TSSHIM_TEST_IMAGES"], "..", "mapped")
    if not os.path.exists(path):
        numpy.arange(9000, dtype=numpy.uint8).tofile(path)
    yield from (numpy.memmap(path, numpy.uint8, "r"), numpy.memmap(path, numpy.uint8, "r", offset=8),
                numpy.memmap(path, numpy.uint8, "r")[1:], numpy.asarray(numpy.memmap(path, numpy.uint8, "r"))[2:],
                numpy.memmap(path, numpy.uint8, "c"))


@case("differ")
def pictures():
    for image in (("L", (8, 8), 0), ("L", (8, 8), 1), ("L", (4, 16), 0), ("P", (8, 8), 0)):
        yield Image.new(*image)
    image = Image.new("P", (8, 8))
    image.putpalette([1, 2, 3])
    yield image
