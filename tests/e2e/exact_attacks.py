# SPDX-License-Identifier: MIT
"""
Attacks on default mode's check of code: data sets that must be refused, whatever it costs.

Each of them would give another sample in another job or at another time, change what later
samples are made of, or could do so with the same byte code.
"""

import collections
import contextlib
import functools
import os
import pathlib
import random
import sys
import threading
import time
import types
import uuid

import numpy
import numpy as np
import torch
import torchvision
import torchvision.transforms.functional as TF
from torchvision import transforms as T

from exact_zoo import Items, good

BAD = {}
SIZE = 16
COUNTS = [0]
EVENTS = []
BUFFER = np.zeros(3)
TENSOR = torch.zeros(3)
GENERATOR = torch.Generator()
RANDOM = random.Random()
EVENTS_APPEND = EVENTS.append
ITERATOR = iter(range(1000))
NORMALIZE = T.Normalize([.5], [.5], inplace=True)
PATH = pathlib.Path("/tmp/y")
OPENED = open(os.devnull)


def bad(function):
    """Decorator: the function gives a data set that must be refused."""
    BAD[function.__name__] = function
    return function


def refused(name, make, **attributes):
    """A data set that must be refused: an item is what @make gives."""
    BAD[name] = lambda: Items(make, **attributes)


def refused_item(function):
    """Decorator: so must be one whose items are what the function gives."""
    refused(function.__name__, function)
    return function


def refused_kind(*words, **attributes):
    """Decorator: so must be an object of the class, made of these."""
    def register(kind):
        BAD[kind.__name__] = lambda: kind(*words, **attributes)
        return kind
    return register


class During:
    """A data set that is judged between @before and @after."""

    def __init__(self, make, before, after):
        self.make, self.before, self.after = make, before, after

    def judged(self, judge):
        self.before()
        try:
            return judge(self.make())
        finally:
            self.after()


def during(name, make, before, after):
    """As During, under this @name."""
    BAD[name] = lambda: During(make, before, after)


def patched(name, module, attribute, value, make):
    """A data set that is judged while this @attribute of a module has another @value."""
    missing = object()
    before = vars(module).get(attribute, missing)
    during(name, lambda: Items(make), lambda: setattr(module, attribute, value),
           lambda: delattr(module, attribute) if before is missing else setattr(module, attribute, before))


refused("default_rng", lambda index: np.random.default_rng().random() + index)
refused("seeded_rng", lambda index: np.random.RandomState(index).rand())
refused("own_generator", lambda index: torch.rand(3, generator=GENERATOR))
refused("system_random", lambda index: random.SystemRandom().random())
refused("own_random", lambda index: RANDOM.random())
refused("seeds", lambda index: random.seed(index))
refused("torch_seeds", lambda index: torch.manual_seed(index))
refused("clock", lambda index: time.time())
refused("identity", lambda index: uuid.uuid4().hex)
refused("bytes_of_the_kernel", lambda index: os.urandom(3))
refused("environment", lambda index: os.environ.get("EXACT_VALUE", "0"))
refused("environment_by_getenv", lambda index: os.getenv("EXACT_VALUE"))
refused("worker_info", lambda index: torch.utils.data.get_worker_info())
refused("existence", lambda index: os.path.exists("/tmp/%d" % index))
refused("listing", lambda index: os.listdir("/tmp"))
refused("output", lambda index: print(index))
refused("writing", lambda index: open("/tmp/x", "w"))
refused("appending", lambda index: open("/tmp/x", mode="a"))
refused("mode_of_a_name", lambda index: open("/tmp/x", str(index)))
refused("descriptor", lambda index: open(3))
refused("dynamic_name", lambda index: getattr(random, "random" + str(index)))
refused("evaluated", lambda index: eval("index"))
refused("imported", lambda index: __import__("time").time())
refused("names", lambda index: globals())
refused("global_list", lambda index: COUNTS.append(index))
refused("global_element", lambda index: COUNTS.__setitem__(0, index))
refused("method_of_a_class", lambda index: list.append(COUNTS, index))
refused("bound_method", lambda index: EVENTS_APPEND(index))
refused("mapped_method", lambda index: list(map(EVENTS.append, [index])))
refused("sorted_with_effects", lambda index: sorted([1, 2], key=EVENTS.append))
refused("hash_of_a_string", lambda index: hash("a"))
refused("address", lambda index: id(index))
refused("thread", lambda index: threading.current_thread().name)
refused("frames", lambda index: sys._getframe())
refused("uninitialised", lambda index: torch.empty(3))
refused("code_of_a_function", lambda index: good.__code__)
refused("globals_of_a_function", lambda index: good.__globals__["COUNTS"].append(1))
refused("dict_of_a_class", lambda index: Items.__dict__)
refused("class_of_a_value", lambda index: index.__class__)
refused("new_object", lambda index: Items(index))
refused("new_type", lambda index: type("X", (), {})())
refused("into_an_argument", lambda index: np.add([1], [2], BUFFER))
refused("into_a_keyword", lambda index: torch.add(TENSOR, 1, out=TENSOR))
refused("into_by_star", lambda index: torch.add(TENSOR, 1, **{"out": TENSOR}))
refused("into_by_all", lambda index: np.add(*(BUFFER, BUFFER, BUFFER)))
refused("into_by_method", lambda index: BUFFER.max(0, BUFFER))
refused("into_by_bound", lambda index: list(map(BUFFER.max, [0], [BUFFER])))
refused("in_place_method", lambda index: TENSOR.add_(1))
refused("in_place_sort", lambda index: BUFFER.sort())
refused("in_place_resize", lambda index: BUFFER.resize(4))
refused("in_place_transform", T.Normalize([.5], [.5], inplace=True), data=torch.zeros(1, 2, 2))
BAD["in_place_on_own_memory"] = lambda: Items(
    lambda index: NORMALIZE(TENSOR.view(1, 1, 3)))
refused("in_place_functional", lambda index: TF.normalize(TENSOR, [1], [1], True))
refused("shuffled", lambda index: random.shuffle(COUNTS))
refused("renamed_file", lambda index: PATH.replace("/tmp/x"))
refused("file_status", lambda index: PATH.exists())
refused("match_of_state", lambda index: next(ITERATOR))
refused("threads_of_torch", lambda index: torch.set_num_threads(index))
refused("default_type", lambda index: torch.set_default_dtype(torch.float64))
refused("loaded_pickle", lambda index: torch.load("/tmp/x"))
refused("unpickled", lambda index: np.load("/tmp/x", allow_pickle=True))
refused("mapped_file", lambda index: np.load("/tmp/x", mmap_mode="r+"))
refused("descriptor_kept_open", lambda index: open(index, "rb", closefd=False))
refused("object_in_an_array", lambda index: index, data=np.array([time.time, None]))
refused("comprehension", lambda index: [COUNTS.append(number) for number in [1]])
refused("generator_expression", lambda index: list(COUNTS.append(number) for number in [1]))
refused("called_until", lambda index: list(iter(COUNTS.pop, 0)))
refused("largest_by", lambda index: max([1, 2], key=COUNTS.append))
refused("reduced", lambda index: functools.reduce(lambda a, b: a.append(b), [COUNTS, 1]))
refused("set_by_name", lambda index: setattr(NORMALIZE, "mean", index))
refused("set_by_object", lambda index: object.__setattr__(NORMALIZE, "mean", index))
refused("globals_by_format", lambda index: "{0.__globals__}".format(good))
refused("format_as_value", lambda index: list(map("{0.__globals__}".format, [good])))
refused("format_of_a_format", lambda index: "{0:{0.x}}".format(index))
refused("operator_as_value", lambda index: functools.reduce(np.add, [BUFFER] * 3))

@refused_item
def in_place_operator(index):
    values = COUNTS
    values += [index]
    return values


@refused_item
def either_of_two(index):
    values = [] if index else COUNTS
    values.append(index)
    return values


@refused_item
def loop_carries_it(index):
    values = []
    for _ in range(2):
        values.append(index)
        values = COUNTS
    return values


@refused_item
def element_of_what_is_new(index):
    values = [COUNTS]
    values[0].append(index)
    return values


@refused_item
def alias_of_a_copy(index):
    values = np.asarray(BUFFER)
    values[0] = index
    return values


@refused_item
def shared_memory_of_an_array(index):
    values = np.array(BUFFER, copy=False)
    values[0] = index
    return values


@bad
def nonlocal_counter():
    count = 0

    def make(index):
        nonlocal count
        count += 1
        return count
    return Items(make)


@refused_item
def global_counter(index):
    global SIZE
    SIZE += 0
    return SIZE


@refused_item
def default_argument(index, cache={}):
    cache[index] = 1
    return cache


@refused_item
def default_object(index, source=random.Random(3)):
    return source.random()


@refused_item
def swallowed_error(index):
    try:
        return open("/nonexistent").read()
    except OSError:
        return index


@refused_item
def swallowed_by_bare(index):
    try:
        index = 1 / index
    except:  # noqa: E722
        pass
    return index


@refused_item
def finally_returns(index):
    try:
        return open("/nonexistent").read()
    finally:
        return index  # noqa: B012


@refused_item
def suppressed(index):
    with contextlib.suppress(OSError):
        return open("/nonexistent").read()
    return index


@refused_item
def forked_generator(index):
    with torch.random.fork_rng(devices=[]):
        return torch.rand(())


@refused_item
def imports_inside(index):
    import time
    return time.time()


refused("generator_with_a_position", lambda index: index, source=(n for n in range(9)))
refused("method_of_a_module", time.time)


for _name, _value in (("function", lambda index: index), ("tensor", torch.zeros(1)),
                      ("dict", collections.OrderedDict())):
    _value.go = time.time
    refused("attribute_of_a_" + _name, lambda index: index, value=_value)


@bad
def other_built_ins():
    names = {"__builtins__": {"len": lambda value: time.time()}, "__name__": __name__}
    function = types.FunctionType((lambda index: len("a")).__code__, names)
    return Items(function)


@bad
def names_with_a_mind():
    class Names(dict):
        def __missing__(self, name):
            return time.time
    function = types.FunctionType((lambda index: anything()).__code__,  # noqa: F821
                                  Names(__builtins__=__builtins__))
    return Items(function)


@bad
def shadowed_built_in():
    names = {"len": time.time, "__name__": __name__, "__builtins__": __import__("builtins")}
    return Items(types.FunctionType((lambda index: len()).__code__, names))


@bad
def function_that_pretends():
    def default_loader(index):
        return time.time()
    default_loader.__module__ = "torchvision.datasets.folder"
    return Items(default_loader)


refused("shared_tensor", lambda index: index, event=threading.Event())
refused("open_file", lambda index: OPENED.read())
refused("module_held", lambda index: index, module=time)
refused("class_held", lambda index: index, kind=Items)


@refused_item
def inner_function_with_effects(index):
    def inner():
        return time.time()
    return inner()


patched("patched_in_a_library", numpy, "zeros", lambda shape: time.time(),
        lambda index: np.zeros(3))
patched("patched_built_in", __import__("builtins"), "len", lambda value: 1, lambda index: len([]))
patched("patched_generator", random, "choice", random.Random().choice,
        lambda index: random.choice([1, 2]))


@bad
def other_code():
    def make(index):
        return index
    make.__code__ = (lambda index: time.time()).__code__
    return Items(make)


patched("patched_by_a_partial", TF, "hflip", functools.partial(lambda image: image),
        T.RandomCrop(3))
patched("patched_by_an_object", TF, "hflip", Items(None), T.RandomCrop(3))
patched("patched_data_set", torch.utils.data.Dataset, "__getattr__", lambda self, name: 1,
        lambda index: index)
patched("patched_module_call", torch.nn.Module, "__call__", lambda self, x: x, T.RandomCrop(3))
patched("patched_class_of_built_ins", __import__("builtins"), "list", type("Numbers", (list,), {}),
        lambda index: index)


@refused_item
def element_in_place(index):
    table = dict(a=COUNTS)
    table["a"] += [index]
    return table


# ---- classes: methods that run when none is called ----

NAMESPACE = types.SimpleNamespace(copy=lambda: COUNTS)
SIZES, SCALES, TABLES = [], [], []


refused("cached", functools.lru_cache(maxsize=None)(lambda index: random.random()))


@refused_kind(None)
class cached_property(Items):
    @functools.cached_property
    def offset(self):
        return random.random()

    def __getitem__(self, index):
        return self.offset + index


@refused_kind(None, calls=0)
class counter(Items):
    def __getitem__(self, index):
        self.calls = self.calls + 1
        return self.calls


@refused_kind(None, cache={})
class caching(Items):
    def __getitem__(self, index):
        self.cache[index] = index
        return self.cache.setdefault(index, 1)


refused("missing_key", lambda index: index, table=collections.defaultdict(list))


@refused_kind(None)
class property_with_effects(Items):
    @property
    def size(self):
        EVENTS.append(1)
        return 3

    def __getitem__(self, index):
        return self.size


class Size:
    @property
    def width(self):
        return time.time()


refused("property_met_by_another", lambda index: SIZES[0].width, held=SIZES.append(Size()))
refused("property_by_format", lambda index: "{0[0].width}".format(SIZES))


for _name, _method, _value in (
        ("attributes_by_name", "__getattr__", lambda self, name: time.time()),
        ("attributes_of_all", "__getattribute__", lambda self, name: object.__getattribute__(self, name)),
        ("hides_state", "__getstate__", lambda self: {}), ("deleted", "__del__", lambda self: EVENTS.append(1))):
    refused_kind(lambda index: index)(type(_name, (Items,), {_method: _value, "__module__": __name__}))


@bad
def metaclass():
    class Meta(type):
        def __getattr__(cls, name):
            return time.time()

    class Data(Items, metaclass=Meta):
        pass
    return Data(lambda index: index)


def special(name, value):
    """A data set that holds an object whose special method @name has an effect."""
    def make():
        kind = type("Special", (), {name: value, "__module__": __name__})
        return Items(lambda index: index, held=kind())
    BAD["special" + name.strip("_")] = make


for NAME in ("__len__", "__getitem__", "__iter__", "__eq__", "__bool__", "__contains__", "__add__",
             "__rmul__", "__format__", "__str__", "__call__", "__enter__", "__array__", "__index__",
             "__fspath__", "__hash__", "__lt__", "__get__", "__torch_function__"):
    special(NAME, lambda self, *rest: EVENTS.append(1) or 1)
special("__call__", time.time)


@bad
def what_an_operator_gives():
    class Scale:
        def __add__(self, other):
            return COUNTS

    def make(index):
        values = SCALES[0] + 1
        values += [index]
        return values
    SCALES.append(Scale())
    return Items(make)


@bad
def what_a_copy_gives():
    class Table:
        def copy(self):
            return COUNTS
    return Items(lambda index: TABLES[0].copy().append(index), held=TABLES.append(Table()))


refused("what_a_copy_of_an_instance_gives", lambda index: NAMESPACE.copy().append(index))


class Text(str):
    def lower(self):
        return str(time.time())


class Numbers(list):
    pass


refused("string_of_its_own", lambda index: index, text=Text("a"))
refused("list_of_its_own", lambda index: index, numbers=Numbers())
refused("method_on_the_instance", lambda index: index, helper=lambda: time.time())


class Patched(Items):
    pass


Patched.__getitem__ = lambda self, index: time.time()
BAD["patched_class"] = lambda: Patched(None)


@bad
def pretends_to_be_a_library():
    kind = type("ImageFolder", (), {"__module__": "torchvision.datasets.folder",
                                    "__getitem__": lambda self, index: time.time()})
    return kind()


@bad
def module_with_state():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            return self.double().mean
    return Items(Layer())


@bad
def library_method():
    class Data(torchvision.datasets.VisionDataset):
        def __init__(self):
            self.transform = None

        def __getitem__(self, index):
            return self.__class__
    return Data()


@bad
def inherited_by_a_library():
    class Flip(T.RandomHorizontalFlip):
        def forward(self, image):
            EVENTS.append(image)
            return image
    return Items(Flip())


@bad
def called_by_a_library():
    class Crop(T.RandomCrop):
        @staticmethod
        def get_params(image, output_size):
            EVENTS.append(1)
            return 0, 0, 1, 1
    return Items(Crop(3))


@bad
def classmethod_for_a_library():
    class Crop(T.RandomCrop):
        @classmethod
        def get_params(cls, image, output_size):
            return 0, 0, 1, 1
    return Items(Crop(3))


@bad
def loader_by_the_class():
    class Data(torchvision.datasets.DatasetFolder):
        def __init__(self):
            self.samples, self.transform, self.target_transform = [("a", 0)], None, None

        def loader(self, path):
            return time.time()
    return Data()


@bad
def other_class():
    class Data(Items):
        def __getitem__(self, index):
            return time.time()
    data = Items(lambda index: index)
    data.__class__ = Data
    return data


@bad
def hook_of_a_module():
    step = T.Resize(3)
    step.register_forward_hook(lambda module, inputs, output: EVENTS.append(1))
    return Items(step)


@bad
def super_of_another():
    class Base(Items):
        def size(self):
            EVENTS.append(1)

    class Data(Base):
        def size(self):
            return 1

        def __getitem__(self, index):
            return super().size()
    return Data(None)


@bad
def method_called_with_another():
    class Data(Items):
        def go(self):
            return self.call()

        def call(self):
            return 1

        def __getitem__(self, index):
            return Data.go(SIZES[0])
    SIZES.append(types.SimpleNamespace(call=time.time))
    return Data(None)


try:
    from torchvision import tv_tensors
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.16
    pass
else:
    KERNELS = v2.functional._utils._KERNEL_REGISTRY[v2.functional.resize]
    during("registered_kernel", lambda: Items(v2.Resize(3)),
           lambda: KERNELS.update({Items: lambda image: time.time()}), lambda: KERNELS.pop(Items))
    during("other_return_type", lambda: Items(v2.Resize(3)),
           lambda: tv_tensors.set_return_type("TVTensor"),
           lambda: tv_tensors.set_return_type("Tensor"))
