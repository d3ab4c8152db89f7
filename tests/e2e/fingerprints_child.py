# SPDX-License-Identifier: MIT
"""
Fingerprints of a zoo of datasets, for fingerprints.py: a line "kind name result..." for each.

A case is a generator of datasets.  Kinds: "differ", all fingerprints must differ; "same", all must
be equal; "unknown", each result is "ok" when the right reason was given.  Two processes must
print the same, but for lines that begin with "~".  Kinds that end in "+" are named as an aligned job's.
"""

import collections
import ctypes
import dataclasses
import enum
import functools
import io
import multiprocessing
import os
import pickle
import queue
import random
import socket
import sys
import tarfile
import tempfile
import threading
import types
import warnings
import weakref
import zipfile

import numpy
import torch
import torchvision
from PIL import Image
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset
from torchvision import transforms

import fingerprints_states  # noqa: F401 -- more cases
from fingerprints_zoo import CASES, SIZE, WORK, Plain, Settings, case, changed, images
from tsshim_torch.fingerprint import library
from tsshim_torch.fingerprint.datasets import (
    REASONS, Notes, Unknown, environment, fingerprint, unwrap)


class Colour(enum.Enum):
    """An enumeration of the user's."""

    RED = 1
    BLUE = 2


class Number(enum.IntFlag):
    """Another."""

    ONE = 1
    TWO = 2


Pair = collections.namedtuple("Pair", "a b")


@case("differ")
def sets_of_members():
    """Of an enumeration; also in two processes, in which they come in different orders."""
    yield from ({Colour.RED, Colour.BLUE}, frozenset({Colour.RED, Colour.BLUE}), {Colour.RED}, {Colour.RED, Number.ONE})


@dataclasses.dataclass
class Options:
    """A data class."""

    size: int = 1
    names: list = dataclasses.field(default_factory=list)


class Slots:
    """No dict."""

    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class Words(list):
    """A list with attributes."""


class Strange(type):
    """A metaclass."""

    answer = 42


class Made(metaclass=Strange):
    """A class of another class."""


@case("differ")
def classes():
    words = Words([1])
    words.more = 1
    yield from (Colour.RED, Colour.BLUE, Number.ONE, Number.TWO, Pair(1, 2), Pair(1, 3), Options(1), Options(2),
                Options(1, ["a"]), Slots(1), Slots(2), Words([1]), Words([2]), words, Made(), Made, Settings(), Settings)
    with changed(Strange, "answer", 43):
        yield Made


class Cached:
    """Things that classes hold."""

    def __init__(self):
        self.function = staticmethod(len)

    @functools.cached_property
    def one(self):
        """Cached."""
        return 1

    @property
    def two(self):
        """Computed."""
        return 2

    @classmethod
    def three(cls, scale=SIZE):
        """Of the class."""
        return scale

    @functools.lru_cache(maxsize=3)
    def four(self):
        """Remembered."""
        return super().__repr__()


@case("same")
def what_classes_hold():
    yield from (Cached(), Cached())


@case("same")
def pickled():
    for _ in range(2):
        dataset = Plain(options=Options(), pair=Pair(1, [2]), slots=Slots(3), colour=Colour.RED,
                        data=numpy.zeros(3), tensor=torch.zeros(3), images=images(),
                        words=Words([1]))
        yield dataset
        yield pickle.loads(pickle.dumps(dataset))


@case("same")
def used():
    root = os.path.join(os.environ["TSSHIM_TEST_IMAGES"], "..", "used")
    os.makedirs(root + "/1", exist_ok=True)
    Image.new("RGB", (9, 9)).save(root + "/1/1.jpg")
    steps = [transforms.RandomResizedCrop(5), transforms.ColorJitter(0.1), transforms.ToTensor()]
    dataset = torchvision.datasets.ImageFolder(root, transforms.Compose(steps))
    yield dataset
    for _ in torch.utils.data.DataLoader(dataset, num_workers=1):
        dataset[0]
    library._looks.clear()  # what libraries set when they are first used does not count
    yield dataset


@case("same")
def imports_in_functions():
    def function(path):
        import cv2
        import json
        from os import path as paths
        return cv2.imread(paths.join(path, json.dumps(1)))
    for _ in range(2):
        yield [function, numpy.mean, torch.nn.functional.max_pool2d, numpy.random.rand, random.randint, numpy.add,
               numpy.fft.fft, torch.nn.functional.linear, torch.relu]


@case("differ")
def a_module_of_the_users_that_is_imported_later():
    def imports():
        import users_later  # noqa: F401
        return users_later

    for number in range(2):
        place = tempfile.mkdtemp(dir=WORK)
        with open(os.path.join(place, "users_later.py"), "w") as file:
            file.write("X = %d\n" % number)
        sys.path.insert(0, place)
        yield imports


@case("~differ")
def open_files():
    """Each by what it is, not by where it stands."""
    for number in range(2):
        path = os.path.join(WORK, "open%d" % number)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", "b")
        yield from (open(path, "rb"), zipfile.ZipFile(path))
    closed = open(path)
    closed.close()
    yield closed


@case("~same")
def places_in_open_files():
    path = os.path.join(WORK, "read")
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "a")
    file, archive = held = open(path, "rb"), tarfile.open(path)
    yield held
    file.read(7)
    archive.getmembers()
    yield held


@case("unknown")
def unknowns():
    class Iterable(IterableDataset):
        def __iter__(self):
            return iter(())

    def generator():
        yield 1

    shared = torch.zeros(3).share_memory_()
    array = multiprocessing.Array("i", 3)
    path = os.path.join(WORK, "writable")
    numpy.zeros(9000, numpy.uint8).tofile(path)
    gone = os.path.join(WORK, "gone")
    numpy.zeros(9000, numpy.uint8).tofile(gone)
    deleted = numpy.memmap(gone, numpy.uint8, "r")
    os.unlink(gone)
    def imports():
        import users_folder  # noqa: F401
        return users_folder

    os.mkdir(os.path.join(WORK, "users_folder"))  # a package without a file
    sys.path.insert(0, WORK)
    things = [
        ("handle", [open(os.devnull), io.BytesIO(), socket.socket(),
                    open(os.devnull, "rb")]),
        ("lock", [threading.Lock(), threading.RLock(), threading.Condition(), threading.Event(),
                  threading.local(), queue.Queue(), multiprocessing.Lock()]),
        ("process", [threading.Thread(), multiprocessing.Process()]),
        ("iterator", [generator(), iter([1]), map(len, []), zip(), enumerate([])]),
        ("generator", [random.Random(1), random.SystemRandom(), numpy.random.default_rng(1),
                       numpy.random.RandomState(1), torch.Generator(), numpy.random.PCG64(),
                       random.Random(1).random, numpy.random.RandomState(1).rand]),
        ("shared_memory", [multiprocessing.Value("i"), array, multiprocessing.RawArray("i", 3),
                           ctypes.c_int(1), numpy.frombuffer(array.get_obj(), numpy.int32)]),
        ("shared_tensor", [shared, [shared[1:]], torch.from_numpy(
            numpy.frombuffer(array.get_obj(), numpy.int32))]),
        ("tensor", [torch.zeros(1, device="meta")]),
        ("weakref", [weakref.ref(Plain), weakref.WeakValueDictionary(), weakref.proxy(Plain)]),
        ("memmap", [numpy.memmap(path, numpy.uint8, "r+"), deleted]),
        ("iterable", [Iterable()]),
        ("set", [{Settings()}]),
        ("import", [imports]),
        ("object", [memoryview(b"a"), sys._getframe(), iter_module()]),
    ]
    for reason, values in things:
        for value in values:
            yield reason, value


def iter_module():
    """A module of a class of its own."""
    class Lazy(types.ModuleType):
        pass
    return Lazy("lazy")


class Trap(Exception):
    """User code ran."""


def trap(*_, **__):
    """What must not be called."""
    raise Trap


class Meta(type):
    """A metaclass full of traps."""

    __eq__ = __hash__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = __repr__ = trap


NAMES = ("__getstate__ __reduce__ __reduce_ex__ __eq__ __ne__ __lt__ __hash__ __repr__ __str__ "
         "__getattr__ __getattribute__ __iter__ __len__ __contains__ __bool__ __index__ __int__ "
         "__float__ __bytes__ __fspath__ __format__ __dir__ __copy__ __deepcopy__ __array__ "
         "__instancecheck__ __call__ __enter__ __get__ __set_name__ __missing__ keys items values "
         "__sizeof__ __length_hint__ __reversed__ __del__")


def trapped(*bases, **more):
    """An instance full of traps of a class with these bases."""
    body = {name: trap for name in NAMES.split() if name not in ("__set_name__", "__del__")}
    body.update(more, __class__=property(trap), __dict__=property(trap) if not bases else None,
                item=property(trap))
    if bases:
        del body["__dict__"]
    base = bases[0] if bases else object
    kind = type("Trapped", bases or (object,), body)
    return base.__new__(kind) if base is not type else kind


@case("same")
def traps():
    values = [trapped(), trapped(list), trapped(dict), trapped(tuple), trapped(str), trapped(int),
              trapped(float), trapped(Dataset), trapped(bytes), Meta("Class", (), {})]
    for _ in range(2):
        yield Plain(values=values, method=types.MethodType(len, values[0]), key={"a": values[0]},
                    descriptor=type("Holder", (), {})())


def environment_changes():
    """All environments here must differ."""
    from PIL import ImageFile
    found = {"plain": environment()}
    os.environ["OMP_DYNAMIC"] = "true"
    found["variable"] = environment()
    del os.environ["OMP_DYNAMIC"]
    for setter, value, undone in ((torch.set_default_dtype, torch.float64, torch.float32),
                                  (torch.use_deterministic_algorithms, True, False), (torch.set_flush_denormal, True, False)):
        if setter(value) is not False:  # this machine has it
            found[setter.__name__] = environment()
            setter(undone)
    for what, there in (("truncated", changed(ImageFile, "LOAD_TRUNCATED_IMAGES", True)),
                        ("backend", changed(torchvision, "_image_backend", "accimage")),
                        ("arithmetic", numpy.errstate(all="raise")), ("printing", numpy.printoptions(precision=3))):
        with there:
            found[what] = environment()
    torch.set_printoptions(precision=3)
    found["printing_tensors"] = environment()
    torch.set_printoptions(profile="default")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found["warnings"] = environment()
    here = os.getcwd()
    os.chdir("/")
    assert environment() == found["plain"]
    os.chdir(here)
    torch.set_num_threads(1 + torch.get_num_threads() % 2)
    assert environment() == found["plain"]
    assert len(set(found.values())) == len(found), found
    return found["plain"].hex()


def unwrapping():
    """unwrap() against what the dataset itself does."""
    class Tuples(Dataset):
        def __init__(self, name, length):
            self.name, self.length = name, length

        def __getitem__(self, index):
            return self.name, index, type(index).__name__

        def __len__(self):
            return self.length

    class Mine(Subset):
        pass

    a, b = Tuples("a", 5), Tuples("b", 7)
    both = ConcatDataset([a, Subset(b, [6, 5, 1]), Subset(b, numpy.array([2, 3]))])
    nested = Subset(both, range(len(both) - 1, -1, -1))
    for dataset in (both, nested, Subset(nested, torch.tensor([1, 2]))):
        for index in range(-len(dataset), len(dataset)):
            inner, place = unwrap(dataset, index)
            assert repr(inner[place]) == repr(dataset[index]), (index, inner, place)
            assert type(inner) is Tuples or type(place) is not int
    assert unwrap(both, 10) == (both, 10) and unwrap(both, -11) == (both, -11)
    assert unwrap(both, True) == (both, True) and unwrap(a, 1) == (a, 1)
    mine = Mine(a, [1])
    assert unwrap(mine, 0) == (mine, 0)
    with changed(Subset, "__getitem__", lambda self, index: 1):
        assert unwrap(nested, 0) == (nested, 0)
    assert fingerprint(nested) != fingerprint(both)
    return "ok"


class Column(list):
    pass


class Columns(tuple):
    pass


def looking_again():
    """What is kept from look to look finds every change that a look without it finds."""
    paths = [("/data/%d.jpg" % number, number % 10) for number in range(20000)]
    holder = Plain(paths=paths, labels=list(range(20000)), lists=[[n] for n in range(100)],
                   table={n: ("a", n) for n in range(100)}, large=[b"x" * 4096] * 100)
    kept, seen = [], []

    def change(what, *arguments):
        what(*arguments)
        seen.append(fingerprint(holder, kept))
        assert seen[-1] == fingerprint(holder), (what, arguments)
        return seen[-1]

    first = change(lambda: None)
    assert change(lambda: None) == first
    assert sum(len(held) for held, _ in kept) == 2 * 20000 + 100 + 100  # no list, nothing large
    equal = ("/data/%d.jpg" % 7, 7)
    assert equal is not paths[7] and change(paths.__setitem__, 7, equal) == first
    assert change(paths.__setitem__, 7, ("/data/7.jpg", True)) != first
    assert change(paths.__setitem__, 7, equal) == first
    for index in (0, 8191, 8192, 19999):
        old = paths[index]
        assert change(paths.__setitem__, index, ("/other.jpg", 1)) != first
        assert change(paths.__setitem__, index, old) == first
    change(holder.labels.__setitem__, 5, 5.0)
    change(holder.lists[5].append, 6)
    change(holder.table.__setitem__, 5, ["a", 5])  # a list now, changed in its place later
    change(holder.table[5].__setitem__, 1, 6)
    change(paths.pop)
    change(paths.reverse)
    change(setattr, holder, "paths", tuple(paths))
    change(setattr, holder, "labels", Plain())
    change(setattr, holder, "paths", Columns(paths))
    change(setattr, holder, "paths", Column(paths))
    holder.paths = (number for number in ())
    try:
        fingerprint(holder, kept)
        assert False
    except Unknown:
        assert kept == []
    assert len(set(seen)) == len(seen) - 7, "changes that nobody saw"
    return "ok"


def looking_once():
    """Libraries are as they were a moment ago for who looks with the notes of then, for nobody else."""
    kept, notes = [], Notes()
    library_module = sys.modules["torchvision.transforms.functional"]
    holder = Plain(function=library_module.hflip)
    first = fingerprint(holder, kept, notes=notes)
    original, library_module.vflip = library_module.vflip, lambda picture: picture
    try:
        assert fingerprint(holder, kept, notes=notes) == first
        assert fingerprint(holder, kept) != first != fingerprint(holder, kept, notes=Notes())
    finally:
        library_module.vflip = original
    return "ok"


def result(kind, made):
    """What to print for one dataset of a case."""
    notes = Notes(seeds=True, read=set()) if kind.endswith("+") else None
    if kind.startswith("unknown"):
        reason, value = made
        try:
            fingerprint(Plain(attribute=value), notes=notes)
        except Unknown as unknown:
            right = unknown.reason == reason and unknown.where.startswith("dataset.attribute")
            assert reason in REASONS
            return "ok" if right or reason == "iterable" else "%s/%s/%s/%r" % (
                reason, unknown.reason, unknown.where, value)
        return "%s/known/%r" % (reason, value)
    if not issubclass(type(made), Dataset):
        made = Plain(value=made)
    try:
        return fingerprint(made, notes=notes).hex()
    except Unknown as unknown:
        return "!%s/%s" % (unknown.reason, str(unknown.where).replace(" ", "_"))


def main():
    """One line for each case; the rest by name."""
    for kind, name, function in CASES:
        print(kind, name, *[result(kind, made) for made in function()], flush=True)
    print("check environment", environment_changes())
    print("check unwrap", unwrapping())
    print("check again", looking_again())
    print("check once", looking_once())


if __name__ == "__main__":
    main()
