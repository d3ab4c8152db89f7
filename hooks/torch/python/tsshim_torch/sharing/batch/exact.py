# SPDX-License-Identifier: MIT
"""
Default mode: whole samples shared between jobs that would have computed the very same ones.

Where an item draws random numbers the key names the state of their generators before it, and
the record delivers the state after, so that a job that takes a sample goes on exactly as if it
had computed it.  Only data sets whose code is known take part (judge), or those the user vouches
for with --share samples.  An item that draws from a generator which its code was not found to
draw from shows that something was overlooked: it is not published.
"""

import collections
import contextlib
import ctypes
import marshal
import random
import sys
import threading

import torch
from torch.utils.data._utils import worker as torch_worker

from ... import any_torch, asking, clock, native
from ...fingerprint import environment
from ...judge import judgement, versions
from ..item import codec, generators, seeding
from ..naming import hints, scopes, unread
from ..order import align
from . import chunks, collate, fetch, lone

# Batches after which a data set whose items are cheap, or refused, is looked at again.
RETRY = 256

# Where the program itself makes the items it may change the data set between two batches, so
# each begins with a look; a batch that costs less than so many looks is left alone.
LOOKS = 50

# Bytes of arrays that are read for a name in any case, in 25 ms (CIFAR has 147 MiB); of more one for
# each 50 ns that this worker has given to items.
ROOM, ROOM_PART = 160 << 20, 50

# Items that are timed before anything is done that costs time itself.
TIMED = 2


# ---- generators ----

# How the state of a global generator is read, as bytes, and set.
Kind = collections.namedtuple("Kind", "get set")


def _numpys_state():
    name, key, place, has_gauss, gauss = sys.modules["numpy"].random.get_state()
    return marshal.dumps((name, key.tobytes(), place, has_gauss, gauss), 2)


def _set_numpys(state):
    numpy = sys.modules["numpy"]
    name, key, *rest = marshal.loads(state)
    numpy.random.set_state((name, numpy.frombuffer(key, dtype=numpy.uint32), *rest))


_KINDS = {
    judgement.TORCH: Kind(
        lambda: bytes(torch.default_generator.get_state().numpy()),
        lambda state: torch.default_generator.set_state(any_torch.of_bytes(state))),
    judgement.PYTHON: Kind(
        lambda: marshal.dumps(random.getstate(), 2),
        lambda state: random.setstate(marshal.loads(state))),
    judgement.NUMPY: Kind(_numpys_state, _set_numpys),
}


def _kinds(names):
    return [kind for name, kind in _KINDS.items()
            if name in names and (name != judgement.NUMPY or "numpy" in sys.modules)]


# ---- what is known of a fetcher ----

def _reason(error):
    """The reason for which samples are not shared when judging raised @error."""
    if isinstance(error, versions.Unjudged):
        return b"torch_versions"
    return b"torch_dataset" if isinstance(error, judgement.Refused) else b"torch_settings"


def expect_workers(loader):
    """This process may be about to fork workers for @loader."""
    if native.settings.share != native.SHARE_SAMPLES:  # else nothing is judged
        scopes.expect_workers(loader)
    hints.expect(loader)


class Scope(scopes.Scope):
    """As under alignment; the stream of the key is the state of the generators."""

    def __init__(self, fetcher):
        super().__init__(fetcher)
        self.off_until = 0  # batches to go by without us
        self.batches = 0
        self.kinds = None  # of generators; None: not judged yet
        self.unnamed = ()  # sentinels of the others
        self.stream = b"exact"
        self.said = False  # that samples are shared, to the workers of the next epoch
        self.quiet_until = 0  # batches to go by, for nobody else asks for the chunks of this data set
        self.batch_size = 1
        found = hints.left(self)
        if found is not None:
            self.reason, self.off_until = found, RETRY
        elif hints.are_shared(self):  # others have timed items
            self.items, self.item_ns, self.hinted = TIMED, scopes.CHEAP_NS, hints.told(self)
            if self.hinted:
                self.items, self.item_ns = scopes.CHEAP_AFTER, 0

    def rest(self, reason):
        self.reason = reason
        self.off_until = self.batches + RETRY
        hints.leave(self, reason)

    def say(self):
        """A batch was made with us; what was named in it is shared."""
        if not self.said and self.off_until == 0 and self.prefixes and self.batches > self.quiet_until:
            self.said = True
            hints.shares(self)
            hints.tell(self, self.size if self.is_cheap() and self.size else 0)
        if self.met is None:
            return
        obstacle = self.reason if self.off_until else self.obstacle()
        if obstacle is not None or self.prefixes and (self.size or not self.is_cheap()):
            self.tell(obstacle)

    def judge(self):
        """Whether samples may be shared, as far as the data set's code goes."""
        if native.settings.share == native.SHARE_SAMPLES:
            self.kinds = _kinds((judgement.TORCH, judgement.PYTHON, judgement.NUMPY))
            return True
        start = clock.thread()
        try:
            found = judgement.judge(self.dataset)
            if found.exposes and not self.direct:
                raise judgement.Refused("a collate function that may change the data set")
        except Exception as error:
            if isinstance(error, judgement.Refused):
                self.explain(str(error))
            else:
                native.report(error)
            self.rest(_reason(error))
            return False
        self.kinds = _kinds(found.generators)
        self.unnamed = seeding.sentinels_but(found.generators)
        # The order of a set of strings is the same in processes of equal seeds of the hashes.
        self.stream = b"exact by hash %d" % hash("tsshim") if found.by_hash else b"exact"
        self.stream += found.orders
        if found.by_threads:
            self.stream += environment.blas_threads()
        if torch_worker._worker_info is None:
            self.stream += environment.gpu()
        if self._may_change():  # then this is done for each batch
            self.cost += clock.thread() - start
        return True

    def _room(self):
        if native.settings.share == native.SHARE_SAMPLES:
            return super()._room()
        return max(ROOM, self.worked_ns // ROOM_PART)

    def _directory(self, dataset, name):
        vouched = native.settings.share == native.SHARE_SAMPLES
        return super()._directory(dataset, name) if vouched else b""  # others were judged

    def _may_change(self):
        """Whether code of the program's runs in this process between two batches."""
        return torch_worker._worker_info is None or not self.direct or \
            scopes.has_threads_of_the_program()

    def look(self):
        if self._may_change():
            self.checked = float("-inf")
            self.kinds = None
        before = self.prefixes
        super().look()
        if self.prefixes is not before:
            self.kinds = None  # another data set, to be judged anew

    def is_cheap(self):
        return self.items < TIMED or self.item_ns < scopes.CHEAP_NS

    def is_to_be_asked_later(self):
        return False

    def ask_later(self):
        """Nobody else asks for chunks."""
        batch_ns = max(1, self.item_ns * self.batch_size)
        self.quiet_until = self.batches + lone.STRETCH_NS // batch_ns
        hints.leave(self, b"alone")

    def is_not_worth_a_look(self, count):
        return self._may_change() and self.item_ns is not None and \
            self.item_ns * count < LOOKS * self.cost * 1e9

    def name_of(self, dataset):
        """16 bytes for @dataset here and now, or None."""
        return self.prefix(dataset, self.stream + b" %d" % torch.get_num_threads())


class Items(fetch.Fetch):
    """A batch of items that draw no random numbers: in any order, split between all jobs."""

    lone_nests = 0  # a job alone, or with others of other seeds, shares pixels as ever
    timed = None  # (codec.Encoded, digests of its leaves) of an item that was timed

    def _streams(self, dataset, work):
        name = self.scope.name_of(dataset)
        return name, name, None

    def _compute(self, position, verdict):
        super()._compute(position, verdict)
        # Of others the judge has read the code: it keeps no memory to fill.
        if native.settings.share == native.SHARE_SAMPLES and verdict is None and \
                self.scope.items <= TIMED and position < self.failed_at:
            self._look_at_memory(self.batch.values[position])

    def _look_at_memory(self, value):
        """
        Leave a data set alone that gives one buffer again and again: @value, an item that was
        timed, is where the one before is, which the batch still holds, and has other bytes.
        What torch then collates is what the last item of the batch has left there.
        """
        try:
            encoded = codec.encode(value)
        except codec.Unshareable:
            return
        found = [native.digest(ctypes.string_at(leaf.address, leaf.bytes))
                 for leaf in encoded.leaves]
        if self.timed is not None and any(
                leaf.place == before.place and leaf.bytes == before.bytes and digest != old
                for leaf, digest, before, old in zip(
                    encoded.leaves, found, self.timed[0].leaves, self.timed[1])):
            self.scope.rest(b"torch_sample")
        self.timed = encoded, found

    def _ask(self, position, wait=native.NOW):
        scope = self.scope
        if scope.off_until > scope.batches:
            return None
        if scope.is_cheap():
            if scope.items >= TIMED and not self._may_chunk():
                scope.tell_cheap()
                scope.rest(b"torch_cheap")
            return None
        dataset, index = scope.dataset, self.indices[position]
        if scope.unwrap is not None:
            dataset, index = scope.unwrap(dataset, index)
        index = align.index_bytes(index)
        prefix, stream, _ = self._streams(dataset, self.work)
        if index is None or prefix is None:
            native.count_pass(b"torch_index" if index is None else scope.reason, 1)
            self.sample.drop()
            return None
        self.sample.name(prefix, stream, index, 0, self.draws)
        return self.sample.take(wait)

    def _fill(self):
        if not self._fill_by_chunks():
            super()._fill()
            self._learn_size()

    def _fill_by_chunks(self):
        """Whether the batch came by chunks."""
        size = self._size()
        if size is None:
            return False
        self.batch.row_min = 1
        chunks.Chunks(self, self, size).fill()
        return True

    def _size(self):
        """Of the chunks that this batch comes by, or None."""
        scope = self.scope
        if scope.item_bytes is None and not scope.hinted or not self._may_chunk():
            return None
        name = scope.name_of(chunks.inside(scope, self.indices)[0])
        if name is None:  # each batch would find so
            scope.rest(scope.reason)
            return None
        scope.size = chunks.size_of(self, name, name, chunks.guess(scope))
        if scope.size == chunks.ALONE:
            scope.rest(b"torch_cheap")
        return scope.size if scope.size and scope.size > chunks.SINGLE else None

    def _may_chunk(self):
        """Whether these samples may go by chunks."""
        scope = self.scope
        return scope.off_until <= scope.batches and scope.auto and not scope.is_unshareable() and \
            chunks.inside(scope, self.indices)[1] is not None

    def _learn_size(self):
        """Of a cheap item, which may make chunks."""
        scope = self.scope
        if scope.item_bytes is None and scope.items >= TIMED and scope.is_cheap() and self.error is None:
            chunks.learn_form(scope, self.batch.sample(0, False))

    def values(self, _work, chunk, how):
        """The items of @chunk Made, as lone.Seeded does it."""
        scope, sample, get = self.scope, self.sample, self.items.get
        watched = [(look, look()) for look in scope.unnamed] if how else ()
        if how:
            self.arm()
        values, error = [], None
        sample.begin(how)
        begin = clock.thread_ns()
        try:
            for index in chunk.indices:
                values.append(get(index))
        except Exception as raised:  # the program's own; raised again when it is its turn
            error = asking.theirs(raised)
        finally:
            ns = clock.thread_ns() - begin
            sample.weigh(len(values) + (error is not None), len(chunk.indices))
            may_publish = sample.end(native.MADE if error is None else native.RAISED)
            scope.note_files(sample.unfit())
        if error is None:
            scope.learn_many(len(values), ns)
        made = lone.Made(values, error, may_publish)
        if unread.noticed() != scope.noticed:  # the name lacks a leaf
            scope.learn_reads()
            made.may_publish = False
        if any(look() != before for look, before in watched):
            native.count_pass(b"torch_impure", len(values))
            scope.rest(b"torch_impure")
            made.may_publish = False
        return made

    def wait(self, ask):
        return ask(native.WAIT)

    def _item(self, index, verdict=None):
        # Only what is to be published need be looked at.
        watched = [(look, look()) for look in self.scope.unnamed if verdict == native.CLAIM]
        if verdict == native.CLAIM:
            self.arm()
        value = super()._item(index, verdict)
        if unread.noticed() != self.scope.noticed:  # the name lacks a leaf
            self.sample.drop()
            self.scope.learn_reads()
        if any(look() != before for look, before in watched):
            self.sample.drop()
            native.count_pass(b"torch_impure")
            self.scope.rest(b"torch_impure")
        return value

    def failed(self, error):
        super().failed(error)
        self.scope.rest(b"torch_settings")


class Chain(Items):
    """A batch of items each of which draws from where the one before left the generators."""

    draws = True

    def __init__(self, scope, work, indices):
        super().__init__(scope, work, indices)
        self.after = None  # states that the last record left, not yet set
        self.computed = 0

    def _fill(self):
        self.extra = [kind.get() for kind in self.scope.kinds]
        self.digest = native.digest(b"".join(self.extra))
        try:
            if not self._fill_by_chunks():
                for position in range(len(self.indices)):
                    if position < self.failed_at:
                        self._settle(position, self._ask(position, native.WAIT))
                self._learn_size()
        finally:
            self._set_states()
            self._count_drawn()

    def _count_drawn(self):
        """For the advice of `tsrun stats`: --align would share these between all seeds."""
        if self.scope.is_cheap() and self.scope.size is None or not self.indices:
            return
        dataset = self.scope.dataset
        if self.scope.unwrap is not None:
            dataset, _ = self.scope.unwrap(dataset, self.indices[0])
        name = self.scope.name_of(dataset)
        if name is not None:
            native.count_drawn(name, self.computed, len(self.indices))

    def _set_states(self):
        if self.after is not None:
            for kind, state in zip(self.scope.kinds, self.after):
                kind.set(state)
            self.after = None

    def _streams(self, dataset, work):
        name = self.scope.name_of(dataset)
        name = name and native.digest(name + self.digest)
        return name, name, None

    def _item(self, index, verdict=None):
        self._set_states()
        self.computed += 1
        value = super()._item(index, verdict)
        self.extra = [kind.get() for kind in self.scope.kinds]
        self.digest = native.digest(b"".join(self.extra))
        return value

    def values(self, work, chunk, how):
        self._set_states()
        made = super().values(work, chunk, how)
        self.computed += len(made.values)
        made.extra = self.extra = [kind.get() for kind in self.scope.kinds]
        self.digest = native.digest(b"".join(self.extra))
        return made

    def took(self, extra):
        self.after = self.extra = extra
        self.digest = native.digest(b"".join(extra))


_in_threads = False  # items were asked for in another thread than the main one


def _note_thread():
    """The main thread goes on from no record any more while other threads draw."""
    global _in_threads
    if not _in_threads and torch_worker._worker_info is None and \
            threading.current_thread() is not threading.main_thread():
        with generators.used():  # it may have taken records whose states it has yet to set
            _in_threads = True


def _begin(fetcher, indices):
    """The work on a batch, or None: it is torch's own."""
    _note_thread()
    scope = scopes.scope_of(fetcher, Scope)
    scope.batches += 1
    batched = fetcher.auto_collation
    known = not batched or type(indices) in (list, tuple)
    count = len(indices) if batched and known else 1
    scope.batch_size = count
    if scope.batches <= scope.quiet_until:
        native.count_pass(b"alone", count)
        return None
    if scope.batches > scope.off_until:
        if scope.off_until:
            scope.off_until = scope.items = 0
            scope.item_ns = scope.kinds = None
        vouched = native.settings.share == native.SHARE_SAMPLES
        if not vouched and scopes.makes_up_attributes(scope.dataset):
            scope.rest(b"torch_dataset")  # as it would be judged, but it is not asked once more
        elif batched and scopes.fetches_batches(scope.dataset):
            scope.rest(b"torch_getitems")
        elif scope.is_not_worth_a_look(count):
            scope.rest(b"torch_cheap")
    if scope.batches > scope.off_until and known and scopes.is_alone(scope):
        scope.look()
        if scope.kinds is not None or scope.judge():
            work = align.Work(indices, None, b"")
            kind = Chain if scope.kinds else Items
            if kind is Items or torch_worker._worker_info is not None or not _in_threads:
                return kind(scope, work, list(indices) if batched else [indices])
    native.count_pass(scope.reason, count)
    scope.tell(scope.reason)
    return None


def run(fetcher, indices):
    """What _MapDatasetFetcher.fetch() gives in default mode; Raised where that raises."""
    made = _begin(fetcher, indices)
    if made is None:
        return fetch.NOT_OURS
    # What draws nothing may go on in several threads at once.
    with generators.used() if type(made) is Chain else contextlib.nullcontext():
        batch = made.run()
    if batch is made.batch:
        made.scope.say()
    if not fetcher.auto_collation:
        return collate.asked(fetcher.collate_fn, batch.samples()[0])
    return batch.finish(fetcher.collate_fn)
