# SPDX-License-Identifier: MIT
"""
Free order: a loader goes through a shuffled epoch as others make what it lacks.

In the process that iterates, Epoch says which sample comes at each place (hooks/torch/order.h);
a Work carries it, and in the workers a batch has names of several epochs (docs/rooms/torch.md).
"""

import array
import collections
import ctypes
import errno
import functools
import types

import torch

from ... import asking, native
from ..item import generators
from ..naming import aligned_names, scopes
from . import align, recording

NO_DRAW = 0xffffffff  # TS_ORDER_NO_DRAW of hooks/torch/order.h

# What goes to a worker with each batch: whose the draws are, and which each sample has; None: all
# have that of the epoch.
Chosen = collections.namedtuple("Chosen", "ordinal epoch draws")

_stream_of = functools.lru_cache(256)(align.stream_of)


def tag_of(scope, dataset, ordinal):
    """What all epochs of such loaders of @dataset have in common, never 0; None: not shared."""
    prefix = scope.prefix(dataset, _stream_of("any", ordinal))
    return None if prefix is None else int.from_bytes(prefix[:8], "little") | 1


# ---- in a worker ----

def stream(work, position):
    """What the generators of the sample at @position are derived from."""
    chosen = work.free
    return _stream_of(chosen.draws[position] if chosen.draws else chosen.epoch, chosen.ordinal)


class Draws:
    """The draws of one batch as C has them: samples.h."""

    def __init__(self, chosen, count, tag):
        draws = chosen.draws or (chosen.epoch,) * count
        self.distinct = sorted(set(draws))
        places = {draw: place for place, draw in enumerate(self.distinct)}
        self.which = [places[draw] for draw in draws]
        self.tag, self.epoch = tag, chosen.epoch


def streams(scope, dataset, work):
    """(prefixes, streams, Draws) of the samples of @work, the first None: not to be shared."""
    tag = tag_of(scope, dataset, work.free.ordinal)
    if tag is None:
        return None, None, None
    count = len(work.indices) if type(work.indices) is list else 1
    draws = Draws(work.free, count, tag)
    if len(draws.distinct) > 256:  # numbered by bytes
        return None, None, None
    each = [_stream_of(draw, work.free.ordinal) for draw in draws.distinct]
    return b"".join([scope.prefix(dataset, one) for one in each]), b"".join(each), draws


def note(sample, scope, dataset, work, position, index):
    """Say of the sample that was just named which one it is, for those who choose."""
    chosen = work.free
    if type(index) is int and 0 <= index < 1 << 31:
        sample.note(tag_of(scope, dataset, chosen.ordinal), index,
                    chosen.draws[position] if chosen.draws else chosen.epoch, chosen.epoch)


# ---- in the process that iterates ----

class Order:
    """A struct ts_order: that of one iterator of a loader at a time."""

    def __init__(self, beside):
        self.handle = native.orders.tsshim_order_create(beside.handle if beside else None)
        if not self.handle:
            raise MemoryError
        self.walk = None  # align.Walk of who goes through it; None: nobody, any more

    def __del__(self):
        if getattr(self, "handle", None):
            native.orders.tsshim_order_destroy(self.handle)

    def is_in_use(self):
        iterator = self.walk and self.walk.iterator()
        plan = getattr(iterator, "_tsshim_plan", None)  # another one when it was begun anew
        return plan is not None and plan.walk is self.walk


class Orders:
    """Those of the iterators of a loader that live, and what is known of its data set."""

    def __init__(self, iterator, dataset):
        # Names have to be those that workers give.
        self.scope = aligned_names.ScopeOfWorkers(types.SimpleNamespace(
            dataset=dataset, collate_fn=iterator._collate_fn,
            auto_collation=iterator._auto_collation))
        self.all = []

    def idle(self):
        """An Order for an epoch that begins: one that nobody goes through any more, or a new one."""
        idle = [order for order in self.all if not order.is_in_use()]
        return idle[0] if idle else Order(self.all[0] if self.all else None)

    def use(self, order, walk):
        """@order, whose epoch has begun, knows what those had that nobody goes through; these go."""
        order.walk = walk
        self.all = [order] + [each for each in self.all if each is not order and each.is_in_use()]


class Epoch:
    """One epoch in free order; or as a recording has it, and in free order behind its end."""

    def __init__(self, order, scope, plan, dataset, outer, kind):
        self.order, self.scope = order, scope  # the former None once the epoch is over
        self.number = plan.epoch
        self.dataset = dataset  # whose samples are shared
        self.outer = outer  # by its index, what the sampler says; None: the same
        self.size = kind.size  # of a batch, or None: samples alone
        self.dropped = kind.dropped
        self.ordinal = plan.ordinal
        count = self.size or 1
        self.indices = (ctypes.c_int64 * count)()
        self.occurrences = (ctypes.c_uint32 * count)()
        self.draws = (ctypes.c_uint32 * count)()
        self.wanted = ctypes.c_uint32()
        self.places = (ctypes.addressof(self.indices), ctypes.addressof(self.occurrences),
                       ctypes.addressof(self.draws), ctypes.byref(self.wanted))
        self.replayed = None  # recording.Replayed
        self.recorded = None  # number of the epoch in what is recorded
        self.chosen = collections.deque()  # batches that are recorded once they are delivered

    def _choose(self, chosen):
        """Choose what comes behind @chosen samples; how many the next batch has."""
        count = len(self.indices)
        while chosen < count:
            chosen = native.orders.tsshim_order_choose(self.order.handle, chosen, count,
                                                       *self.places)
            draw = self.wanted.value
            if draw == NO_DRAW:
                break
            name = self.scope.prefix(self.dataset, _stream_of(draw, self.ordinal))
            native.orders.tsshim_order_scope(self.order.handle, draw, name)
        return chosen

    def _replay(self):
        """What the recording has of the next batch; how many samples that are."""
        samples = self.replayed.take(len(self.indices))
        for place, sample in enumerate(samples):
            if native.orders.tsshim_order_had(self.order.handle, *sample) != 0:
                raise self.replayed.unusable("this loader has no index %d left in epoch %d" % (
                    sample[0], self.number))
            self.indices[place], self.occurrences[place], self.draws[place] = sample
        return len(samples)

    def work(self, plan):
        """The next align.Work."""
        if self.order is None:  # it is another epoch's by now
            raise asking.Raised(StopIteration())
        chosen = self._choose(self._replay() if self.replayed is not None else 0)
        if chosen == 0 or self.dropped and chosen < self.size:
            self.order.walk = self.order = None
            raise asking.Raised(StopIteration())
        indices, draws = self.indices[:chosen], tuple(self.draws[:chosen])
        occurrences = self.occurrences[:chosen]
        if self.recorded is not None:
            self.chosen.append((indices, occurrences, draws))
        if self.outer is not None:
            indices = [self.outer[index] for index in indices]
        own = draws.count(plan.epoch) == chosen
        return plan.make_work(indices if self.size else indices[0], occurrences,
                              Chosen(self.ordinal, plan.epoch, None if own else draws))

    def deliver(self):
        """The program was given the next batch; raises recording.Unusable."""
        if self.replayed is not None:
            self.replayed.deliver()
        if self.recorded is not None and self.chosen:
            _recorder.note(self.recorded, self.number, *self.chosen.popleft())


# How a loader makes its batches; no size: it gives samples alone.
Kind = collections.namedtuple("Kind", "sampler size dropped")


def _why_strict(iterator, plan):
    """The Kind of a loader whose order may be free, or why it may not."""
    data = torch.utils.data
    sampler, size, dropped = iterator._index_sampler, None, False
    if iterator._auto_collation:
        if type(sampler) is not data.BatchSampler:
            return "its batches are made by a sampler of its own"
        sampler, size, dropped = sampler.sampler, sampler.batch_size, sampler.drop_last
    kind = type(sampler)
    if kind is data.SequentialSampler or getattr(sampler, "shuffle", True) is False:
        return "it is not shuffled"
    # Of others nobody knows whether their order means something: that of a sampler of the
    # program's may see to what is in a batch together.
    if kind not in (data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler,
                    data.distributed.DistributedSampler):
        return "its sampler is a %s" % kind.__qualname__
    if getattr(sampler, "generator", None) is not None:
        return "its sampler has a generator of its own"
    if plan.again:
        return "its sampler is told no new epoch (set_epoch)"
    if not _is_one(plan.dataset):
        return "its data set is put together of several"
    if scopes.fetches_batches(plan.dataset):
        return "its data set makes whole batches"
    return Kind(sampler, size, dropped)


def _own_order(plan, kind):
    """The indices of the epoch in the loader's own order."""
    own = generators.save()
    try:
        plan.seed()
        plan.seeds.set()
        return array.array("q", iter(kind.sampler))
    finally:
        plan.seeds.put_back()
        generators.restore(own)


def _inside(plan, indices):
    """(data set, its indices, what @plan's data set calls each of these; None: the same)."""
    if plan.unwrap is None or not indices:
        return plan.dataset, indices, None
    inside = array.array("q", [plan.unwrap(plan.dataset, index)[1] for index in indices])
    outer = array.array("q", bytes(8 * (max(inside) + 1)))
    for inner, index in zip(inside, indices):
        outer[inner] = index
    return plan.unwrap(plan.dataset, indices[0])[0], inside, outer


def _is_one(dataset):
    """Whether @dataset, or what it is a part of, is no concatenation."""
    data = torch.utils.data
    while type(dataset) is data.Subset:
        dataset = dataset.dataset
    return type(dataset) is not data.ConcatDataset


def _try(plan, iterator):
    """The Epoch, or why it is strict."""
    kind = _why_strict(iterator, plan)
    if type(kind) is str:
        return kind
    orders = plan.loader.orders or Orders(iterator, plan.dataset)
    orders.scope.look()
    dataset, indices, outer = _inside(plan, _own_order(plan, kind))
    tag = tag_of(orders.scope, dataset, plan.ordinal)
    if tag is None:
        return "its samples cannot be shared"
    order = orders.idle()
    epoch = Epoch(order, orders.scope, plan, dataset, outer, kind)
    _replay(epoch)
    if kind.dropped and (epoch.replayed is None or epoch.replayed.recorded is None):
        # What the strict order leaves out is left out.  A recording may be of other batches.
        del indices[len(indices) // kind.size * kind.size:]
    address, count = indices.buffer_info()
    r = native.orders.tsshim_order_begin(order.handle, address, count, plan.epoch, tag)
    if r != 0:
        return "its indices are not small numbers" if r == -errno.ERANGE \
            else "there is no memory for its indices"
    orders.use(order, plan.walk)
    plan.loader.orders = orders
    _record(epoch, iterator, count)
    return epoch


def begin(plan, iterator):
    """The Epoch of @plan, whose first batch is asked for now; None where the order is strict."""
    try:
        found = _try(plan, iterator)
    except recording.Unusable:
        raise  # the program's loader fails, before its first batch
    except Exception as error:  # the strict way meets it as well if it is the program's
        native.report(error)
        found = "its order cannot be told"
    if type(found) is not str:
        return found
    plan.loader.orders = None  # draws of strict epochs are not remembered
    _say_once("strict order for a loader of %s: %s" % (type(plan.dataset).__qualname__, found))
    return None


# ---- recordings ----

_recorder = None  # of this process, from its first epoch in free order on
_recording = None


def _name(epoch):
    """What tells loaders of a recording apart: 16 bytes."""
    return epoch.scope.prefix(epoch.dataset, _stream_of("any", epoch.ordinal))


def _replay(epoch):
    """Let @epoch begin as it is recorded, if it is."""
    global _recording
    if native.settings.replay is None:
        return
    if _recording is None:
        _recording = recording.Recording(native.settings.replay, native.settings.seed)
    epoch.replayed = _recording.epoch_of(_name(epoch), epoch.ordinal, epoch.number)


def _record(epoch, iterator, count):
    """Let what @epoch delivers be recorded, if it shall."""
    global _recorder
    if native.settings.record is None:
        return
    if not getattr(iterator, "_in_order", True):
        _say_once("not recorded: a loader that delivers in any order")
        return
    if _recorder is None:
        _recorder = recording.Recorder(native.settings.record, native.settings.seed, _say_once)
    epoch.recorded = _recorder.begin(_name(epoch), epoch.ordinal, epoch.number, count)


_said = set()


def _say_once(text):
    if text not in _said:
        _said.add(text)
        native.say(text)
