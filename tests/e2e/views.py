# SPDX-License-Identifier: MIT
"""
Samples whose leaves lie on one memory, to bytes and back: what is written into one leaf shows in the
others just as in the sample itself.
"""

import ctypes
import importlib.util
import random

import pytest
import codec as samples  # in the interpreter that is chosen
import numpy
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from tsshim_torch.sharing.batch import collate
from tsshim_torch.sharing.item import codec, tensors


def encoded_of(sample):
    """What codec makes of @sample; it is to hold views."""
    encoded = codec.encode(sample)
    assert tensors.are_views(encoded.specs)
    return encoded


def volume():
    return torch.arange(4 * 20 * 20 * 20, dtype=torch.float32).reshape(4, 20, 20, 20)


def crops():
    whole = volume()
    return [whole[:, a:a + 12, a:a + 12, a:a + 12] for a in (1, 5)]


def leaves_of(sample):
    """The tensors and arrays in @sample, in order."""
    if isinstance(sample, (torch.Tensor, numpy.ndarray)):
        return [sample]
    parts = sample.values() if isinstance(sample, dict) else sample
    return [leaf for part in parts for leaf in leaves_of(part)] \
        if isinstance(sample, (dict, list, tuple)) else []


def write(leaf, draw):
    """Other bits into one element of @leaf; whether that can be."""
    if 0 in leaf.shape or isinstance(leaf, numpy.ndarray) and not leaf.flags.writeable:
        return False
    place = tuple(draw.randrange(size) for size in leaf.shape)
    if isinstance(leaf, numpy.ndarray):
        if leaf.dtype.kind == "U":
            leaf[place] = "w%d" % draw.randrange(9)
        else:
            leaf[place] = draw.randrange(2, 100)
    else:
        leaf[place] = not leaf[place] if leaf.dtype is torch.bool else draw.randrange(2, 100)
    return True


def alike(sample, found, seed=0, times=3):
    """Equal, and equal still after each of many writes into the same leaf of both."""
    samples.same(sample, found)
    old, new = leaves_of(sample), leaves_of(found)
    for one, other in zip(old, new):
        assert [one is leaf for leaf in old] == [other is leaf for leaf in new]
    for number in range(len(old)):
        for turn in range(times):
            draws = [random.Random("%d %d %d" % (seed, number, turn)) for _ in range(2)]
            if write(old[number], draws[0]):
                write(new[number], draws[1])
                samples.same(sample, found, "after a write into leaf %d" % number)


def cases():
    whole, base = volume(), numpy.arange(100.0)
    yield "crops", crops()
    yield "crops in dictionaries", [{"image": crop, "label": number, "other": torch.ones(3)}
                                    for number, crop in enumerate(crops())]
    yield "a tensor and what is in it", (whole, whole[2:], 7)
    yield "what is in it and the tensor", (whole[2:], whole)
    yield "the very same", [whole, {"again": whole}]
    yield "equal ones", (whole, whole[:])
    yield "arrays", (base, base[2:], base[10:20])
    yield "the very same array", (base, base)
    yield "backwards and forwards", (base[::-1], base[::2], base[50:10:-3], numpy.float64(3))
    yield "windows", list(torch.arange(50.0).unfold(0, 20, 5))
    yield "one leaf of windows", (torch.arange(50.0).unfold(0, 20, 5), 1)
    yield "repeated", (whole[0, 0, 0], whole[0, 0, 0, :1].expand(9))
    yield "by columns", (whole[..., ::2], whole[..., 1::2])
    yield "two of each", (whole, whole[1], base[3:], base)
    yield "an array and its tensor", (base, torch.from_numpy(base))
    yield "a tensor and its array", (whole.numpy(), whole)
    yield "tensors of arrays that overlap", (torch.from_numpy(base[:60]), torch.from_numpy(base[40:]))
    yield "of another kind", (whole, whole.view(torch.int32)[1:], whole[:1].view(torch.uint8)[..., 3:])
    yield "complex", (torch.view_as_complex(whole.reshape(-1, 2)), whole)
    yield "words", (numpy.array(["abc", "de", "f"])[:2], numpy.array(["g"]))
    words = numpy.array(["abc", "de", "f"] * 5)
    yield "words of one", (words[:8], words[::3], words[7:])
    frozen = numpy.arange(9)
    looked_at = frozen[2:]
    looked_at.flags.writeable = False
    yield "one to be looked at", (frozen, looked_at)
    text = numpy.frombuffer(b"nobody may write to it", dtype=numpy.uint8)
    yield "all to be looked at", (text[1:], text[:7])
    yield "objects", [samples.Marked(crop, 1) for crop in crops()]
    yield "and nothing", (whole, whole[:0], torch.zeros(0), whole[1:])
    yield "three in a row", (base[:40], base[30:60], base[55:], base[90:])
    numbers = torch.arange(4.0)
    yield "what is in a sparse one", (torch.sparse_coo_tensor([[0, 1, 2, 3]], numbers)._values(), numbers[1:])
    yield "one dimension", (torch.tensor(3.0), whole[0, 0, 0, 0], whole[0, 0])


@pytest.mark.parametrize("name", dict(cases()))
def test_each_write_shows_where_it_did(name):
    sample = dict(cases())[name]
    alike(sample, samples.there_and_back(sample))


def test_those_that_do_not_overlap_are_as_ever():
    whole = volume()
    for sample in ((whole[:2], whole[2:]), [*whole], (whole, volume()), {"a": whole, "b": 1}):
        encoded = codec.encode(sample)
        assert not tensors.are_views(encoded.specs) and not encoded.is_whole
        alike(sample, samples.there_and_back(sample))


def test_what_they_cover_is_written_once():
    whole = torch.arange(1000.0)
    for sample in ((whole, whole[2:]), list(whole.unfold(0, 500, 10)), (whole[:600], whole[400:]),
                   (whole[3:700], whole[300:], whole[:310])):
        assert 4000 <= encoded_of(sample).bytes < 4000 + 64 * 60


def test_holes_are_not_written():
    whole = torch.arange(50.0 * 50 * 50).reshape(50, 50, 50)
    parts = [whole[a:a + 8, a:a + 8, a:a + 8] for a in (3, 5)]
    for sample, count in ((parts, 2), ([part.numpy() for part in parts], 2), (parts[:1], 1)):
        assert codec.encode(sample).bytes < count * 8 ** 3 * 4 + 64 * 3
        alike(sample, samples.there_and_back(sample), times=20)


def test_equal_samples_have_equal_bytes():
    """Wherever they lie: the order of addresses is not to be seen."""
    def made(first, second):
        return [first[:600], second[400:], first[500:], second[:500]]
    one, other = torch.arange(2000.0).split(1000), torch.arange(2000.0).split(1000)
    metas = {encoded_of(made(*pair)).meta for pair in
             (one, other, (one[0], other[1]), (other[0].clone(), one[1]))}
    assert len(metas) == 1
    assert encoded_of(made(one[1], one[0])).meta in metas


def some_leaf(draw, leaf):
    """@leaf seen in another way."""
    is_array = isinstance(leaf, numpy.ndarray)
    kind = draw.choice(["part", "part", "part", "step", "turn", "pick", "same", "back", "wide", "type",
                        "windows", "other"])
    sizes = [number for number, size in enumerate(leaf.shape) if size > 1]
    place = draw.choice(sizes) if sizes else None
    cut = [slice(None)] * len(leaf.shape)
    if kind == "part" and sizes:
        begin = draw.randrange(leaf.shape[place])
        cut[place] = slice(begin, draw.randint(begin + 1, leaf.shape[place]))
        return leaf[tuple(cut)]
    if kind == "step" and sizes:
        cut[place] = slice(draw.randrange(2), None, draw.choice([2, 3]))
        return leaf[tuple(cut)]
    if kind == "turn" and len(sizes) > 1:
        axes = draw.sample(range(len(leaf.shape)), len(leaf.shape))
        return leaf.transpose(axes) if is_array else leaf.permute(axes)
    if kind == "pick" and sizes and len(leaf.shape) > 1:
        cut[place] = draw.randrange(leaf.shape[place])
        return leaf[tuple(cut)]
    if kind == "back" and is_array and sizes:
        cut[place] = slice(None, None, -1)
        return leaf[tuple(cut)]
    if kind == "wide" and not is_array and leaf.dim():
        return leaf[None].expand(2, *leaf.shape)
    if kind == "type" and leaf.dtype in (torch.float32, numpy.float32):
        return leaf.view(numpy.int32 if is_array else torch.int32)
    if kind == "windows" and not is_array and sizes:
        return leaf.unfold(place, draw.randint(1, leaf.shape[place]), 1)
    if kind == "other" and leaf.dtype in (torch.float32, numpy.float32, numpy.int64, torch.int64):
        return torch.from_numpy(leaf) if is_array and leaf.flags.writeable and \
            all(stride >= 0 for stride in leaf.strides) else leaf
    return leaf


def a_sample(draw):
    """Leaves on one memory or two, of which most overlap."""
    shape = [draw.randint(1, 6) for _ in range(draw.randint(1, 4))]
    kind = draw.choice([numpy.float32, numpy.int64, numpy.uint8, numpy.float64, numpy.bool_, "<U3"])
    found = []
    for _ in range(draw.choice([1, 1, 2])):
        array = numpy.arange(numpy.prod(shape)).reshape(shape).astype(kind)
        found.append(array if kind == "<U3" or draw.random() < 0.4
                     else torch.from_numpy(array).clone())
    for _ in range(draw.randint(1, 8)):
        leaf = draw.choice(found)
        for _ in range(draw.randint(1, 3)):
            leaf = some_leaf(draw, leaf)
        found.append(leaf)
    return draw.sample(found, draw.randint(2, len(found)))


def test_random_views():
    counts = {}
    for seed in range(1000):
        sample = a_sample(random.Random(seed))
        try:
            encoded = codec.encode(sample)
        except codec.Unshareable as error:
            counts[str(error)] = counts.get(str(error), 0) + 1
            continue
        room = samples.filled(encoded)
        found = codec.decode(encoded.meta, ctypes.addressof(room))
        ctypes.memset(ctypes.addressof(room), 0xff, len(room))  # nothing may refer to it
        try:
            alike(sample, found, seed, 2)
        except Exception as error:
            raise AssertionError(seed) from error
        name = "views" if tensors.are_views(encoded.specs) else "apart"
        counts[name] = counts.get(name, 0) + 1
    print("#", counts)
    assert counts["views"] > 800 and set(counts) <= {"views", "apart", "strides", "offset"}, counts


def test_a_sparse_tensor_and_what_is_in_it():
    numbers = torch.arange(4.0)
    found = samples.there_and_back((torch.sparse_coo_tensor([[0, 1, 2, 3]], numbers), numbers))
    found[1][2] = 7
    assert found[0].to_dense().tolist() == [0, 1, 7, 3]


def test_autograd_is_told_as_it_was():
    """What is written into one is a change of those that are views of one tensor."""
    base = numpy.arange(100.0)
    whole = torch.arange(100.0)
    for sample in ((whole[:60], whole[40:]), (whole, whole[40:]), (whole[40:], whole),
                   (whole[:60], whole.data[40:]), (torch.from_numpy(base), torch.from_numpy(base))):
        found = samples.there_and_back(sample)
        for one, other in (sample, found):
            one._version, other._version
        changed = []
        for one, other in (sample, found):
            before = other._version
            one.add_(1)
            changed.append(other._version != before)
        assert changed[0] == changed[1], sample
        assert [leaf._is_view() for leaf in sample] == [leaf._is_view() for leaf in found]


class Given(Dataset):
    """A sample as it is, or as it comes back."""

    def __init__(self, comes_back):
        self.comes_back = comes_back

    def __len__(self):
        return len(list(cases()))

    def __getitem__(self, index):
        name, sample = list(cases())[index]
        if name in ("a tensor and its array", "objects"):
            return name, None  # torch lets the array's memory go; no leaves of ours
        return name, samples.there_and_back(sample) if self.comes_back else sample


def as_it_is(batch):
    return batch[0]


def test_what_a_worker_sends_is_on_one_memory_where_it_was():
    plain, ours = (list(DataLoader(Given(comes_back), num_workers=1, collate_fn=as_it_is))
                   for comes_back in (False, True))
    for (name, sample), (_, found) in zip(plain, ours):
        try:
            alike(sample, found, times=20)
        except Exception as error:
            raise AssertionError(name) from error


def test_batches_of_them_are_what_default_collate_makes():
    def windows(start):
        series = torch.arange(start, start + 5000.0)
        return series[:4000], series[1000:], start
    given = [windows(start) for start in range(5)]
    mixed = [(torch.ones(4000), torch.ones(4000), 9), *given, (torch.ones(4000), torch.ones(4000), 9)]
    for batch in (given, mixed, [crops() for _ in range(5)]):
        for how in ((True,), (False,), (True, False), (2,), (2, False), (False, 2)):
            samples.same(default_collate(batch), samples.build(batch, how))


def test_a_batch_shows_them_to_any_collation():
    """Computed and taken, and with samples before that lie apart."""
    given = [[torch.ones(2, 3)] * 2, [torch.ones(2, 3), torch.ones(2, 3)], crops()]
    batch = collate.Batch(3, True)
    batch.put_value(1, given[1], codec.encode(given[1]))
    for position in (0, 2):
        encoded = encoded_of(given[position])
        room = samples.filled(encoded)
        batch.put_record(position, encoded.meta, ctypes.addressof(room), encoded.bytes)
    for sample, found in zip(given, batch.samples()):
        alike(sample, found)


def test_what_lies_askew_is_refused():
    """No memory that begins at a number of one kind is right for the other."""
    numbers = torch.arange(20, dtype=torch.int32)
    with pytest.raises(codec.Unshareable):
        codec.encode((numbers[1:], numbers[2:].view(torch.int64)))


def another_default_device():
    for _, sample in cases():
        with torch.device("meta"):
            found = samples.there_and_back(sample)
        alike(sample, found)


def test_damaged_views_are_an_error_not_a_crash():
    """The record's check keeps such bytes out; should they come, nothing worse may happen."""
    base = numpy.arange(100.0)
    for sample in (crops(), [base[:60], base[9:]], [base, torch.from_numpy(base)], [volume()] * 2):
        encoded = encoded_of(sample)
        room = samples.filled(encoded)
        for place, spec in enumerate(encoded.specs):
            for part, value in enumerate(spec):
                for other in (-1, 0, 3, 1 << 20, 1 << 62, None, (0, 1, True), (5, 0, False), spec):
                    changed = list(encoded.specs)
                    changed[place] = spec[:part] + (other,) + spec[part + 1:]
                    meta = codec.marshal.dumps((tuple(changed), encoded.skeleton, None), 2)
                    try:
                        collate.Batch(1, True).put_record(
                            0, meta, ctypes.addressof(room), encoded.bytes)
                    except Exception:
                        continue


def tensors_of_torchvision():
    from torchvision import tv_tensors
    picture = tv_tensors.Image(volume()[0])
    boxes = tv_tensors.BoundingBoxes(torch.arange(40.0).reshape(10, 4), format="XYXY", canvas_size=(9, 9))
    plain = picture.as_subclass(torch.Tensor)
    for sample in ((picture, picture[1]), (picture, picture), [plain[1:], picture],
                   (tv_tensors.Mask(plain[:10]), tv_tensors.Image(plain[5:])),
                   (boxes, boxes[3:]), (boxes[:5], boxes[3:])):
        alike(sample, samples.there_and_back(sample))

# What Debian's torch does not have; PyPI's, with which all of this is run as well, does.
if importlib.util.find_spec("torchvision.tv_tensors"):
    test_tensors_of_torchvision = tensors_of_torchvision
if hasattr(torch, "set_default_device"):
    test_another_default_device = another_default_device
