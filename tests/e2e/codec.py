# SPDX-License-Identifier: MIT
"""Samples to bytes and back, and batches made of them: equal to what torch makes, or refused."""

import collections
import ctypes
import enum
import functools
import importlib.util
import os
import pathlib
import sys
import types

import pytest
import support

support.become_the_chosen_interpreter()
import numpy  # noqa: E402
import torch  # noqa: E402
from torch.utils.data import default_collate  # noqa: E402

sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
from tsshim_torch import asking  # noqa: E402
from tsshim_torch.sharing.batch import collate  # noqa: E402
from tsshim_torch.sharing.item import codec, objects  # noqa: E402

Point = collections.namedtuple("Point", "x y")


class Word(str):
    pass


class Colour(enum.IntEnum):
    RED = 1


class Flags(enum.Flag):
    ONE = 1
    TWO = 2


class Marked:
    """Nothing but its attributes."""

    def __init__(self, first, second):
        self.first, self.second = first, second


class Slotted:
    """Its attribute is no entry of a dict."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Stated(Marked):
    """Is not copied by its attributes."""

    def __init__(self, value):
        super().__init__(value, value)

    def __getstate__(self):
        return {"first": self.first}


def there_and_back(sample):
    encoded = codec.encode(sample)
    assert encoded.meta.startswith(codec.head(encoded.specs))
    room = filled(encoded)
    return codec.decode(encoded.meta, ctypes.addressof(room))


def filled(encoded):
    """The payload in memory of its own."""
    room = ctypes.create_string_buffer(encoded.bytes + 64)
    codec.fill(encoded.leaves, ctypes.addressof(room))
    return room


def same(a, b, where="sample"):
    """Equal in type, value, dtype, strides, order and to the last bit."""
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, torch.Tensor) and vars(a):
        same(vars(a), vars(b), where + ".__dict__")
    if isinstance(a, torch.Tensor) and a.layout is not torch.strided:
        same(parts_of(a), parts_of(b), where)
    elif isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), where
        assert a.numpy().tobytes() == b.numpy().tobytes() if a.dtype != torch.bfloat16 \
            else torch.equal(a.float(), b.float()), where
        assert not a.numel() or a.data_ptr() != b.data_ptr(), where
    elif isinstance(a, (numpy.ndarray, numpy.generic)):
        assert (a.dtype.str, a.shape) == (b.dtype.str, b.shape), where
        if a.dtype == object:
            same(a.tolist(), b.tolist(), where + ".tolist()")
        else:
            assert a.tobytes() == b.tobytes(), where
        if isinstance(a, numpy.ndarray):
            assert a.strides == b.strides and a.flags.writeable == b.flags.writeable, where
    elif isinstance(a, dict):
        assert list(a) == list(b), where
        for key in a:
            same(a[key], b[key], "%s[%r]" % (where, key))
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for number, (x, y) in enumerate(zip(a, b)):
            same(x, y, "%s[%d]" % (where, number))
    elif isinstance(a, Marked):
        same(vars(a), vars(b), where + ".__dict__")
    elif isinstance(a, float):
        assert a.hex() == b.hex(), where
    elif isinstance(a, complex):
        same((a.real, a.imag), (b.real, b.imag), where)
    else:
        assert a == b, where


def parts_of(tensor):
    """What a sparse @tensor consists of."""
    if tensor.layout is torch.sparse_coo:
        return tuple(tensor.shape), tensor.is_coalesced(), tensor._indices(), tensor._values()
    return tuple(tensor.shape), tensor.crow_indices(), tensor.col_indices(), tensor.values()


def image():
    return torch.arange(3 * 40 * 40, dtype=torch.float32).reshape(3, 40, 40)


def noted(tensor):
    """A plain tensor with an attribute."""
    tensor.notes = ["a", torch.ones(2)]
    return tensor


def twofold():
    """A sparse tensor that has one place twice."""
    return torch.sparse_coo_tensor([[1, 1], [0, 0]], [1.0, 2.0], (3, 4))


GOOD = [
    None, True, 0, -1, 1 << 80, 0.0, -0.0, float("inf"), 1e-310, 1 + 2j, "", "Grüße \ud800", b"\0",
    (), [], {}, (1, [2, {"a": (None, "b")}], b"c"), {"z": 1, "a": 2, 3: 4, None: 5},
    Point(1, torch.ones(2)), (image(), 7), {"image": image(), "boxes": torch.zeros(0, 4)},
    torch.tensor(5), torch.zeros(2, 0, 3), image().permute(1, 2, 0),
    image()[None].contiguous(memory_format=torch.channels_last), torch.ones(3, dtype=torch.bool),
    torch.ones(5, dtype=torch.bfloat16), torch.ones(5, dtype=torch.complex64), image()[1],
    torch.ones(4, dtype=torch.uint8), torch.ones(4, dtype=torch.float16),
    numpy.arange(12).reshape(3, 4), numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)),
    numpy.array(3.5), numpy.array(["a", "bcd"]), numpy.array([1], dtype=">i4"),
    numpy.float32(1.5), numpy.int64(-3), numpy.bool_(True), numpy.datetime64("2020-01-01"),
    numpy.frombuffer(b"read only", dtype=numpy.uint8), numpy.zeros((0, 3)),
    torch.ones(1).expand(5), image()[:, ::2], image()[:, 3:20, 4:30], numpy.arange(10)[::2],
    numpy.arange(10)[::-1], numpy.arange(24).reshape(2, 3, 4).transpose(1, 2, 0)[:, ::-1],
    Colour.RED, Flags.TWO, {Colour.RED: 1, (1, "a"): [2]}, pathlib.Path("/a/b"), (Colour.RED, Colour.RED),
    image()[:, ::8], image()[:, 3:5, 2:4].permute(1, 2, 0), numpy.arange(100)[::-9],
    numpy.asarray(["abc", "de"] * 9)[::7], torch.ones(90, dtype=torch.bfloat16)[::10],
    (image()[:, ::9, ::9], 5), noted(image()), (noted(image()), 3), torch.eye(3).to_sparse(), twofold(),
    {"graph": (torch.eye(3).to_sparse(), twofold().coalesce()), "x": torch.ones(3)}, numpy.array([["a", None], [1, 2.5]], dtype=object), Marked(torch.ones(2), [Colour.RED]),
    [Marked(1, 2), Marked(Marked(3, image()), "x")],
]
if hasattr(torch.Tensor, "to_sparse_csr"):
    GOOD.append((torch.eye(9).to_sparse_csr(), 1))


def is_refused(sample):
    try:
        codec.encode(sample)
    except codec.Unshareable:
        return True
    return False


def test_what_is_encoded_comes_back_equal():
    for sample in GOOD:
        same(sample, there_and_back(sample), repr(sample)[:60])


def test_what_says_how_it_is_pickled_comes_back_where_that_is_known(monkeypatch):
    """BatchFeature and BatchEncoding of transformers hold attributes and nothing else."""
    name = "transformers.feature_extraction_utils"
    module = types.ModuleType(name)
    pickled = {"__getstate__": lambda self: {"data": self.data}, "__module__": name}
    module.BatchFeature = type("BatchFeature", (collections.UserDict,), pickled)
    module.Another = type("Another", (collections.UserDict,), pickled)
    monkeypatch.setitem(sys.modules, name, module)
    sample = module.BatchFeature({"pixel_values": image(), "labels": 3})
    sample.skipped = None
    found = there_and_back(sample)
    assert type(found) is module.BatchFeature
    same(vars(found), vars(sample))
    sample._encodings = [object()]  # made in C: shows nothing of what it holds
    assert is_refused(sample) and is_refused(module.Another({"labels": 3}))


def test_a_list_or_dict_in_two_places_is_one():
    inner, table, coloured = [1, [2]], {"x": image()}, {Colour.RED: [3]}
    sample = {"a": [inner, inner, table], "b": (table, inner[1], coloured), "c": Marked(coloured, [inner])}
    found = there_and_back(sample)
    same({"a": sample["a"][:1]}, {"a": found["a"][:1]})
    one, other, again = found["a"]
    assert one is other and found["b"][0] is again and found["b"][1] is one[1]
    assert found["c"].first is found["b"][2] and found["c"].second[0] is one
    assert found["b"][2] == {Colour.RED: [3]} and again.keys() == {"x"}


class Traces(enum.Enum):
    """As MONAI's transforms tell of themselves."""

    NAME, ID = "class", "id"


def test_the_address_of_a_transform_is_that_of_the_one_here():
    first, second = [object(), object()], [object(), object()]
    sample = {"applied": [{Traces.NAME: "Flip", Traces.ID: id(first[1])},
                          {Traces.NAME: "Crop", Traces.ID: id(sample_of_nobody := object())}], "id": 1 << 40}
    del sample_of_nobody
    assert is_refused(sample)
    try:
        objects.use_transforms([b"name"])
        objects.learn_transforms(b"name", first)
        encoded = codec.encode(sample)
        objects.learn_transforms(b"name", second)  # as another job has them
        room = filled(encoded)
        found = codec.decode(encoded.meta, ctypes.addressof(room))
        assert found["applied"][0] == {Traces.NAME: "Flip", Traces.ID: id(second[1])} and found["id"] == 1 << 40
        assert found["applied"][1][Traces.ID] not in map(id, first + second)
        objects.use_transforms([b"name", b"forgotten"])  # whose transform it may be
        assert is_refused(sample)
        objects.learn_transforms(b"name", second[:1])
        with pytest.raises(codec.Unshareable):
            codec.decode(encoded.meta, ctypes.addressof(room))
    finally:
        objects.use_transforms([])


def test_nan_keeps_its_bits():
    strange = numpy.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f", dtype=numpy.float64)
    same(strange, there_and_back(strange))
    same(float(strange[0]), there_and_back(float(strange[0])))


def tensors_of_torchvision():
    from torchvision import tv_tensors
    bare = torch.arange(3 * 40 * 40).reshape(3, 40, 40)
    good = [tv_tensors.Image(image()), tv_tensors.Mask(bare > 7), tv_tensors.Video(bare[None]),
            {"image": tv_tensors.Image(bare.byte()), "labels": [1, tv_tensors.Mask(image())]},
            tv_tensors.Image(image().permute(1, 2, 0))]
    for sample in good:
        same(sample, there_and_back(sample), repr(sample)[:60])
        same(default_collate([sample] * 3), build([sample] * 3, (True, False)))
    # Rows in a batch, which default_collate() makes plain tensors of; alone they are none.
    batch = collate.Batch(2, True)
    for position in range(2):
        batch.put_value(position, good[0], codec.encode(good[0]))
    assert len(batch.rows) == 1
    same([good[0], good[0]], batch.samples())
    marked = tv_tensors.Image(image())
    marked.extra = 1
    boxes = tv_tensors.BoundingBoxes([[0, 0, 1, 1]], format="XYXY", canvas_size=(9, 9))
    back = there_and_back(boxes)
    same(boxes, back)
    assert (back.format, back.canvas_size) == (boxes.format, boxes.canvas_size)
    own = type("Own", (tv_tensors.Image,), {})
    leaf = tv_tensors.Image(image(), requires_grad=True)
    assert all(map(is_refused, (marked, own(image()), leaf)))


def test_what_would_not_be_equal_is_refused():
    marked, around = Marked(1, 2), [1]
    around.append({"x": around})
    for what, sample in {
        "subclass of str": Word("a"), "two flags": Flags.ONE | Flags.TWO,
        "slots": Slotted(1), "state of its own": Stated(1), "set": {1}, "object": object(),
        "bytearray": bytearray(b"a"), "ellipsis": ..., "class": StopIteration,
        "gradient": torch.ones(2, requires_grad=True), "parameter": torch.nn.Parameter(
            torch.ones(1)), "sparse and a gradient": torch.eye(3).to_sparse().requires_grad_(),
        "quantised": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "a list in itself": around, "the same object twice": [marked, marked],
        "objects": numpy.array([object()]),
        "records": numpy.zeros(2, dtype=[("a", "i4")]), "matrix": numpy.matrix([[1]]),
        "masked": numpy.ma.array([1]), "object as key": {Marked: 3}, "ordered": (
            collections.OrderedDict(a=1)), "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        "local namedtuple": collections.namedtuple("Local", "x")(1),
        "deep": functools.reduce(lambda sample, _: [sample], range(100000), []),
    }.items():
        assert is_refused(sample), what


def batches():
    def sample(i, side=40):
        return torch.full((3, side, 40), float(i)), i
    yield "pairs", [sample(i) for i in range(5)]
    yield "dictionaries", [{"image": sample(i)[0], "label": i, "name": "n%d" % i,
                            "nested": [sample(i)[0] + 1, {"x": float(i)}]} for i in range(5)]
    yield "named", [Point(sample(i)[0], numpy.float32(i)) for i in range(5)]
    yield "tensors alone", [sample(i)[0] for i in range(5)]
    yield "arrays", [(sample(i)[0].numpy(), i) for i in range(5)]
    yield "small", [(torch.ones(3) * i, i) for i in range(5)]
    yield "numbers", list(range(5))
    yield "permuted", [sample(i)[0].permute(1, 2, 0) for i in range(5)]
    yield "one", [sample(1)]
    yield "other shapes", [sample(i, 40 + i) for i in range(5)]
    yield "other structure", [sample(0), {"image": sample(1)[0]}]
    yield "other keys", [{"a": sample(0)[0]}, {"b": sample(1)[0]}]
    yield "keys in another order", [{"a": sample(0)[0], "b": sample(1)[0]},
                                    {"b": sample(2)[0], "a": sample(3)[0]}] * 2
    yield "another place", [(sample(0)[0], "a"), ("b", sample(1)[0])]
    yield "nothing there", [(sample(0)[0], None), (None, sample(1)[0])]
    yield "another dtype", [sample(0), (sample(1)[0].double(), 1)]
    yield "another dtype of five", [(sample(i)[0].double() if i == 1 else sample(i)[0], i)
                                    for i in range(5)]
    yield "another target", [(sample(i)[0], float(i) if i == 1 else i) for i in range(5)]
    yield "no target", [sample(i) if i != 1 else sample(i)[:1] for i in range(5)]


def outcome_of(work):
    try:
        return work(), None
    except asking.Raised as raised:  # what the loader's caller is given
        return None, (type(raised.args[0]), str(raised.args[0]))
    except Exception as error:
        return None, (type(error), str(error))


def take(batch, position, encoded, places):
    """As C takes a record that begins like the first one; whether it does."""
    head = codec.head(batch.specs)
    if not encoded.meta.startswith(head):
        return False
    room = filled(encoded)
    for offset, size, address in places:
        ctypes.memmove(address + position * size, ctypes.addressof(room) + offset, size)
    batch.put_taken(position, encoded.meta, len(head))
    return True


def build(samples, how):
    """The batch of @samples: how[i] tells those that are taken many at once (2, from the second
    on), records (True), and computed here."""
    batch, places = collate.Batch(len(samples), True), None
    # In an order that no collation would take.
    for position in sorted(range(len(samples)), key=lambda i: (i * 7) % 5):
        encoded = codec.encode(samples[position])
        if how[position % len(how)] == 2 and batch.rows and batch.direct:
            places = places or batch.destinations()
            if take(batch, position, encoded, places):
                continue
        if how[position % len(how)]:
            room = filled(encoded)
            batch.put_record(position, encoded.meta, ctypes.addressof(room), encoded.bytes)
            ctypes.memset(ctypes.addressof(room), 0xff, len(room))  # nothing may refer to it
        else:
            batch.put_value(position, samples[position], encoded)
    return batch.finish(default_collate)


def names_of(origins, samples, direct=True):
    """What the pool is told of the rows of a batch, the samples of which are these records."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collate.pool, "names", lambda: True)
        patch.setattr(collate.pool, "name", lambda rows, name: told.append((rows.shape, name)))
        batch = collate.Batch(len(samples), direct)
        for position, (sample, origin) in enumerate(zip(samples, origins)):
            encoded = codec.encode(sample)
            if position % 2:
                encoded.origin = origin
                batch.put_value(position, sample, encoded)
            else:
                room = filled(encoded)
                batch.put_record(position, encoded.meta, ctypes.addressof(room), encoded.bytes,
                                 origin)
        batch.finish(default_collate)
    return told


def test_batches_are_named_by_the_records_they_are_made_of():
    samples = [(torch.full((3, 40, 40), float(i)), torch.full((5, 999), i), i) for i in range(4)]
    origins = [bytes([i + 1] * 16) for i in range(4)]
    told = names_of(origins, samples)
    assert [shape[1:] for shape, _ in told] == [(3, 40, 40), (5, 999)], told
    assert len({name for _, name in told} | {bytes(16)}) == 3, "each part has its own"
    assert names_of(origins, samples) == told
    # Not by what is in them: nobody looks.
    others = names_of([origins[i] for i in (1, 0, 2, 3)], samples)
    assert not {name for _, name in others} & {name for _, name in told}
    fewer = names_of(origins[:3], samples[:3])
    assert not {name for _, name in fewer} & {name for _, name in told}
    # One that this job made for itself alone, and samples that are not stacked by us.
    for missing in range(4):
        assert not names_of([origin if i != missing else None
                             for i, origin in enumerate(origins)], samples)
    assert not names_of(origins, samples, direct=False)


def test_batches_are_what_default_collate_makes():
    for name, samples in batches():
        expected = outcome_of(lambda: default_collate(samples))
        for how in ((True,), (False,), (True, False), (False, False, True), (2,), (2, False),
                    (2, False, False, 2)):
            got = outcome_of(lambda: build(samples, how))
            assert got[1] == expected[1], (name, how, got[1], expected[1])
            if expected[1] is None:
                same(expected[0], got[0], "%s %s" % (name, how))


def test_a_changed_default_collate_is_noticed(monkeypatch):
    assert collate.is_default(default_collate)
    assert not collate.is_default(lambda samples: samples)
    # Newer versions have a table of functions, for tensors and for other kinds.
    for kind in list(getattr(collate.torch_collate, "default_collate_fn_map", ())):
        monkeypatch.setitem(collate.torch_collate.default_collate_fn_map, kind, lambda batch, **_: torch.tensor([len(batch)]))
        assert not collate.is_default(default_collate)
        monkeypatch.undo()


def test_a_wrapped_default_collate_is_noticed(monkeypatch):
    """It says that it is torch's, by functools.wraps()."""
    module = collate.torch_collate
    for name in ("default_collate", "collate", "collate_tensor_fn"):
        if hasattr(module, name):
            kept = getattr(module, name)
            monkeypatch.setattr(module, name, functools.wraps(kept)(lambda *rest, **more: kept(*rest, **more)))
            assert not collate.is_default(module.default_collate), name
            monkeypatch.undo()


def test_equal_samples_have_equal_bytes():
    """Verification compares them; identity and interning must not show."""
    word = "".join(["tra", "in"])
    pairs = [(("train", "train"), (word, "".join(["tr", "ain"]))),
             ((1000, 1000), (int("1000"), int("1000"))), ((1.5, 1.5), (float("1.5"), 3 / 2))]
    for one, other in pairs:
        assert codec.encode(one).meta == codec.encode(other).meta, one


def test_a_namedtuple_of_an_unknown_module_is_refused_when_it_is_read():
    encoded = codec.encode(Point(image(), 1))
    room, meta = filled(encoded), encoded.meta
    strange = meta.replace(Point.__module__.encode(), b"_" * len(Point.__module__))
    assert strange != meta
    with pytest.raises(codec.Unshareable):
        collate.Batch(1, True).put_record(0, strange, ctypes.addressof(room), encoded.bytes)


def test_damaged_meta_is_an_error_not_a_crash():
    """The record's check keeps such bytes out; should they come, nothing worse may happen."""
    meta = codec.encode({"image": image(), "label": 3}).meta
    for cut in range(len(meta)):
        try:
            codec.parse(meta[:cut])
        except (EOFError, ValueError, TypeError):
            continue
    with pytest.raises(ValueError):
        collate.Batch(1, True).put_record(0, meta, 0, 100)


# What Debian's torch does not have; PyPI's, with which all of this is run as well, does.
if importlib.util.find_spec("torchvision.tv_tensors"):
    test_tensors_of_torchvision = tensors_of_torchvision
if hasattr(torch, "set_default_device"):
    def test_another_default_device_is_no_obstacle():
        samples = [(torch.ones(3, 40, 40),), (torch.zeros(3, 40, 40),)]
        with torch.device("meta"):
            batch = build(samples, (True, False))
        same(default_collate(samples), batch)
