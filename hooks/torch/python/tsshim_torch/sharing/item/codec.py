# SPDX-License-Identifier: MIT
"""
Samples as bytes: a small structure ("meta") and the bytes of the large leaves ("payload").

Encoded are exactly: None, bool, int, float, complex, str, bytes, tuple, list, dict, the leaves of
tensors.py, and what objects.py can tell.
Whatever comes back is equal in type, value, dtype, strides and order; anything that could not be
(other objects, gradients, one object in two places) raises Unshareable, and the sample is not shared.
Where leaves lie on one memory, so does what comes back.  A list or dict in two places is one there, too.

The meta is marshal's: it knows these builtin types exactly, is fast, and cannot run code.
Two singletons that no sample may hold mark what is not builtin: Ellipsis stands for the next
leaf, a tuple that begins with StopIteration for an object.
"""

import ctypes
import marshal
import sys

import torch

from . import objects, tensors
from .objects import Unshareable

VERSION = 2  # of marshal: floats binary; later ones tell equal values of other identity apart

FORMAT = 6  # of records; part of the key

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))
_FLAT = _PLAIN | {type(Ellipsis)}
_JOINED = frozenset((tuple, list, dict))


def _align(offset):
    return (offset + 63) & ~63


class _Encoder:
    def __init__(self):
        self.leaves = []
        self.met = {}  # id -> list, dict or object, which keeps its id its own
        self.numbers = {}  # id -> number of the list or dict, in the order in which they are done
        self.has_objects = False

    def once(self, value):
        """The same object in two places would come back as two."""
        if id(value) in self.met:
            raise Unshareable("one object twice")
        self.met[id(value)] = value

    def container(self, value, strip):
        """The list or dict @value by what strip(value) gives; where it was met, which one it is."""
        number = self.numbers.get(id(value))
        if number is not None:
            self.has_objects = True
            return objects.MARK, objects.AGAIN, number, None, ()
        self.once(value)  # or it is in itself
        found = strip(value)
        self.numbers[id(value)] = len(self.numbers)
        return found

    def strip(self, value):
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is torch.Tensor and tensors.is_bare(value):
            self.leaves.append(tensors.leaf_of(value))
            return Ellipsis
        if kind is tuple:
            return tuple([self.strip(item) for item in value])
        if kind is list:
            return self.container(value, self.strip_list)
        if kind is dict:
            return self.container(value, self.strip_dict)
        return self.strip_rare(value, kind)

    def strip_list(self, value):
        return [self.strip(item) for item in value]

    def strip_dict(self, value):
        if not all(type(key) in _PLAIN for key in value):
            return self.strip_pairs(value)
        return {key: self.strip(item) for key, item in value.items()}

    def strip_rare(self, value, kind):
        numpy = sys.modules.get("numpy")
        if numpy is not None and (kind is numpy.ndarray or
                                  isinstance(value, numpy.generic) and kind.__module__ == "numpy"):
            if kind is numpy.ndarray and value.dtype == object:
                return self.strip_objects(value)
            self.leaves.append(tensors.leaf_of_array(value, numpy))
            return Ellipsis
        for letter in tensors.VISION:
            if kind is tensors.vision_class(letter):
                self.leaves.append(tensors.leaf_of_vision(value, letter))
                return Ellipsis
        name, constant, parts, tensor = objects.tell(value, kind)
        self.has_objects |= name != "namedtuple"
        if name not in objects.IMMUTABLE:
            self.once(value)
        place = None
        if tensor is not None:
            leaf = tensors.leaf_of(tensor)
            leaf.spec = (tensors.PART, *leaf.spec[1:])
            self.leaves.append(leaf)
            place = Ellipsis
        return objects.MARK, name, constant, place, self.strip(parts)

    def strip_pairs(self, table):
        """A dict whose keys are enumerators or tuples, too."""
        self.has_objects = True
        return objects.MARK, "dict", None, None, tuple(
            [(self.strip(objects.key(key)), objects.address(item) if objects.is_address(key, item)
              else self.strip(item)) for key, item in table.items()])

    def strip_objects(self, array):
        """An array of Python's objects."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise Unshareable("strides")
        self.once(array)
        self.has_objects = True
        return objects.MARK, "array", array.shape, None, self.strip(array.ravel().tolist())


def _are_apart(leaves):
    """Whether no two @leaves lie on one memory."""
    spans = sorted((leaf.address, leaf.address + leaf.bytes) for leaf in leaves if leaf.bytes)
    for (_, end), (start, _) in zip(spans, spans[1:]):
        if start < end:
            return False
    return True


class Encoded:
    """A sample as bytes; the leaves refer to its memory."""

    __slots__ = ("meta", "specs", "skeleton", "leaves", "bytes", "origin", "is_whole")

    def __init__(self, specs, skeleton, leaves, extra, is_whole):
        self.meta = marshal.dumps((specs, skeleton, extra), VERSION)
        self.specs = specs
        self.skeleton = skeleton
        self.is_whole = is_whole  # it is collated as it is, not leaf by leaf
        self.leaves = leaves  # leaf i goes to offsets(sizes of the leaves)[i] of the payload
        self.bytes = payload_bytes([leaf.bytes for leaf in leaves])
        self.origin = None  # of the record that was published with it: native.Sample.publish()


def head(specs):
    """What the meta of every sample with these leaves begins with."""
    return marshal.dumps((specs, None, None), VERSION)[:-2]


def _of_pair(sample):
    """What _of_any() gives of a tensor and its target, as most samples are; None: it is another one."""
    if type(sample) is not tuple or len(sample) != 2:
        return None
    tensor, target = sample
    if type(tensor) is not torch.Tensor or type(target) not in _PLAIN or not tensors.is_bare(tensor):
        return None
    leaf = tensors.leaf_of(tensor)
    return (Ellipsis, target), [tensors.written(leaf)], tensors.has_holes(leaf)


def _of_any(sample):
    """(skeleton, leaves, whether @sample is collated as it is)."""
    encoder = _Encoder()
    try:
        skeleton = encoder.strip(sample)
    except RecursionError:
        raise Unshareable("depth") from None
    leaves = encoder.leaves
    if len(leaves) > 1 and not _are_apart(leaves):
        return skeleton, tensors.united(leaves), True
    if any(map(tensors.has_holes, leaves)):
        return skeleton, list(map(tensors.written, leaves)), True
    return skeleton, leaves, encoder.has_objects


def parts_of(sample):
    """(skeleton, leaves, whether it is collated as it is) of @sample.  Raises Unshareable."""
    return _of_pair(sample) or _of_any(sample)


def encode(sample, extra=None):
    """@sample Encoded.  @extra, plain values, goes along.  Raises Unshareable."""
    skeleton, leaves, is_whole = parts_of(sample)
    return Encoded(tuple([leaf.spec for leaf in leaves]), skeleton, leaves, extra, is_whole)


def payload_bytes(sizes):
    total = 0
    for size in sizes:
        total = _align(total) + size
    return total


def offsets(sizes):
    """Where each leaf begins in the payload."""
    result, at = [], 0
    for size in sizes:
        at = _align(at)
        result.append(at)
        at += size
    return result


def fill(leaves, address, copy=ctypes.memmove):
    """Copy the bytes of the leaves into the payload at @address."""
    at = 0
    for leaf in leaves:
        at = _align(at)
        if leaf.bytes:
            copy(address + at, leaf.address, leaf.bytes)
        at += leaf.bytes


def parse(meta):
    """(specs, skeleton, extra) of a meta that encode() made."""
    return marshal.loads(meta)


def skeleton_of(meta, head_bytes):
    """The skeleton alone, of a meta whose head() has @head_bytes."""
    return marshal.loads(meta[head_bytes:])  # which ignores what follows: the extra


def flat_kinds(skeleton):
    """
    What samples without structure in them have in common, if @skeleton is one: the types of the
    parts of a tuple, and of a dict's the keys before these.  None: it is another one.
    """
    kind = type(skeleton)
    if kind is tuple:
        kinds = tuple(map(type, skeleton))
        return kinds if _FLAT.issuperset(kinds) else None
    if kind is dict:
        kinds = tuple(map(type, skeleton.values()))
        return (tuple(skeleton), kinds) if _FLAT.issuperset(kinds) else None
    return None


def places(skeleton, path=()):
    """Where the leaves are: a path for each, in order; all of them begin with @path."""
    if skeleton is Ellipsis:
        return [path]
    kind = type(skeleton)
    if kind is tuple or kind is list:
        items = enumerate(skeleton)
    elif kind is dict:
        items = skeleton.items()
    else:
        return []
    return [found for key, item in items for found in places(item, (*path, key))]


def is_flat(specs, skeleton):
    """Whether leaf by leaf is as good as the whole sample; Unshareable when a class is not known."""
    return check(skeleton) and not tensors.are_views(specs)


def check(skeleton):
    """Whether there are no objects but namedtuples; Unshareable when one's class is not known."""
    kind = type(skeleton)
    if kind is tuple:
        if skeleton and skeleton[0] is objects.MARK:
            _, name, constant, _, parts = skeleton
            objects.check(name, constant)
            return check(parts) and name == "namedtuple"
        return all([check(item) for item in skeleton])
    if kind is list:
        return all([check(item) for item in skeleton])
    if kind is dict:
        return all([check(item) for item in skeleton.values()])
    return True


def join(skeleton, leaves, done=None):
    """Put the leaves (an iterator) back into their places; @done are the lists and dicts that are."""
    kind = type(skeleton)
    if skeleton is Ellipsis:
        return next(leaves)
    if kind not in _JOINED:
        return skeleton
    done = [] if done is None else done
    if kind is tuple:
        if skeleton and skeleton[0] is objects.MARK:
            return _join_object(skeleton, leaves, done)
        return tuple([join(item, leaves, done) for item in skeleton])
    if kind is list:
        found = [join(item, leaves, done) for item in skeleton]
    else:
        found = {key: join(item, leaves, done) for key, item in skeleton.items()}
    done.append(found)
    return found


def _join_object(skeleton, leaves, done):
    _, name, constant, place, parts = skeleton
    if name == objects.AGAIN:
        return done[constant]
    tensor = join(place, leaves, done)
    found = objects.build(name, constant, join(parts, leaves, done), tensor)
    if name == "dict":
        done.append(found)
    return found


def decode(meta, address):
    """The sample, with private memory of its own."""
    specs, skeleton, _ = parse(meta)
    sizes = [tensors.spec_bytes(spec) for spec in specs]
    found = [(spec, address + offset, size)
             for spec, offset, size in zip(specs, offsets(sizes), sizes)]
    made = tensors.make_leaves(found) if tensors.are_views(specs) else \
        [tensors.make_leaf(*one) for one in found]
    return join(skeleton, iter(made))
