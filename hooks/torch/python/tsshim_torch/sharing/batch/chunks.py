# SPDX-License-Identifier: MIT
"""
Samples that cost next to nothing to make, shared by the chunk: samples that lie side by side in the
order of an epoch, in one record.  So one question, one lease and one copy for each leaf serve all of
them, and what is left for a sample is a few microseconds.

A chunk begins at a multiple of its size in the order, wherever batches end, so jobs with other batch
sizes have the same chunks.  It is named by the names of its samples, and each of these is drawn as
if it were alone: that they come by the chunk changes nothing in them.

How many samples a chunk has, or that they go singly, must be the same in all jobs.  So the first job
that has timed some says it in the ring (size_of()), for one epoch.
"""

import ctypes
import marshal

from ... import native
from ..item import codec, tensors
from ..naming import scopes
from ..order import align
from . import fetch

MOST = align.MOST  # samples of a chunk: a Work has so much of what lies around it
SINGLE, ALONE = 1, 0  # in the place of a size: they are shared singly; they are not shared

WORK_NS = 4_000_000  # which a chunk is to be worth: asking for one costs some 50 us
FEWEST = 8
# What an item takes at least: to take one costs 8 us where it goes into a batch as rows, and some 50
# where it is made anew, and to write one twice as much.
ROWS_NS, LEAST_NS = 20_000, 100_000
MOST_BYTES = 4 << 20

_ROWS, _LIST = b"R", b"L"  # how a record has them: leaf by leaf, or as one list


def guess(scope):
    """How many samples make a chunk, a power of two, as far as those say that were made here, or None."""
    if scope.item_ns is None or scope.items < scopes.CHEAP_AFTER:
        return scope.hinted or None
    if not scopes.Scope.is_cheap(scope):
        return SINGLE
    if scope.item_bytes is None:
        return scope.hinted or None
    if scope.item_ns < (ROWS_NS if scope.has_rows and scope.direct else LEAST_NS):
        return ALONE
    size = MOST
    while size > FEWEST and size * scope.item_ns > 2 * WORK_NS:
        size //= 2
    while size > SINGLE and size * scope.item_bytes > MOST_BYTES:
        size //= 2
    return size


def learn_form(scope, value):
    """Note how large samples like @value are, and whether they go into a batch as rows."""
    try:
        _, leaves, is_whole = codec.parts_of(value)
        scope.item_bytes, scope.has_rows = sum(leaf.bytes for leaf in leaves), not is_whole
    except codec.Unshareable:
        scope.item_bytes, scope.has_rows = 0, False


class Chunk:
    """Some samples of an epoch's order, and which of them a batch wants."""

    __slots__ = ("indices", "occurrences", "rows", "start")

    def __init__(self, indices, occurrences, rows, start):
        self.indices = indices  # of all of them
        self.occurrences = occurrences  # or None: all 0
        self.rows = rows  # a range, of those that the batch wants
        self.start = start  # where the first of these is in the batch

    def wanted(self):
        """Those that the batch wants alone."""
        rows = slice(self.rows.start, self.rows.stop)
        return Chunk(self.indices[rows], self.occurrences and self.occurrences[rows],
                     range(len(self.rows)), self.start)


def of(work, size):
    """The Chunks, of this @size, that the batch of @work is made of."""
    around = work.around
    if around is None:  # its place in the epoch is not known: those that lie in the batch
        before, indices, counts = 0, work.indices, work.occurrences
    else:
        place, lead, tail, lead_counts, tail_counts = around
        before = place % size
        parts = [(lead, lead_counts), (work.indices, work.occurrences), (tail, tail_counts)]
        begin, end = len(lead) - before, -(before + len(work.indices)) % size
        indices, counts = [
            [*first[begin:], *own, *last[:end]] for first, own, last in zip(*[
                (part, [0] * len(part) if found is None else found) for part, found in parts])]
        counts = counts if any(counts) else None
    found = []
    end = before + len(work.indices)
    for at in range(0, end, size):
        rows = range(max(before - at, 0), min(size, end - at))
        found.append(Chunk(indices[at:at + size], counts and counts[at:at + size], rows,
                           at + rows.start - before))
    return found


# ---- what a record holds ----

def encode(values, extra=None):
    """(meta, leaves, bytes) of a chunk with these @values.  Raises Unshareable."""
    found = [codec.parts_of(value) for value in values]
    skeletons, leaves, wholes = zip(*found)
    specs = tuple([leaf.spec for leaf in leaves[0]])
    if any(wholes) or any(tuple([leaf.spec for leaf in row]) != specs for row in leaves[1:]):
        one = codec.encode(list(values), extra)
        return _LIST + one.meta, one.leaves, one.bytes
    kinds = set(map(codec.flat_kinds, skeletons))
    meta = marshal.dumps((specs, len(kinds) == 1 and None not in kinds, list(skeletons), extra), codec.VERSION)
    columns = list(zip(*leaves))
    size = codec.payload_bytes([column[0].bytes * len(column) for column in columns])
    return _ROWS + meta, columns, size


def fill(leaves, address):
    """Copy @leaves, of encode(), to the payload at @address."""
    if not leaves or isinstance(leaves[0], tuple):
        offsets = codec.offsets([column[0].bytes * len(column) for column in leaves])
        for offset, column in zip(offsets, leaves):
            at, size = address + offset, column[0].bytes
            for leaf in column:
                ctypes.memmove(at, leaf.address, size)
                at += size
    else:
        codec.fill(leaves, address, fetch.copy_to_ring)


def is_equal(values, extra, rows, meta, address, size):
    """Whether the record with @meta and the @size bytes at @address has these @values in its @rows."""
    found, leaves, count = encode(values, extra)
    if meta[:1] == _LIST:
        return found == meta and count == size and fetch.is_equal(leaves, address)
    specs, _, skeletons, its_extra = marshal.loads(meta[1:])
    its_specs, _, made, _ = marshal.loads(found[1:])
    if marshal.dumps((specs, skeletons[rows.start:rows.stop], its_extra), codec.VERSION) != \
            marshal.dumps((its_specs, made, extra), codec.VERSION):
        return False
    sizes = [column[0].bytes for column in leaves]
    return all(
        b"".join([ctypes.string_at(leaf.address, leaf.bytes) for leaf in column]) ==
        ctypes.string_at(address + offset + rows.start * one, len(rows) * one)
        for offset, one, column in zip(codec.offsets([one * len(skeletons) for one in sizes]), sizes, leaves))


def put(batch, chunk, meta, payload, size):
    """
    Put the samples that @batch wants of @chunk into it, from a record; gives its extra.  Raises when
    it is none here.
    """
    if meta[:1] == _LIST:
        specs, _, extra = codec.parse(meta[1:])
        if codec.payload_bytes(list(map(tensors.spec_bytes, specs))) != size:
            raise ValueError("sizes")
        values = codec.decode(meta[1:], payload)
        if type(values) is not list or len(values) != len(chunk.indices):
            raise ValueError("samples")
        batch.put_values(chunk.start, values[chunk.rows.start:chunk.rows.stop])
        return extra
    specs, are_flat, skeletons, extra = marshal.loads(meta[1:])
    if len(skeletons) != len(chunk.indices):
        raise ValueError("samples")
    batch.put_rows(chunk.start, specs, skeletons, chunk.rows, payload, size, are_flat)
    return extra


# ---- the chunks of one batch ----

class Chunks:
    """How the batch of @run, a fetch.Fetch, comes by chunks; @maker makes items, as lone.Lone does."""

    def __init__(self, run, maker, size):
        self.run, self.maker, self.size = run, maker, size

    def fill(self):
        """Put what comes by chunks into the batch; where the maker gives up, the rest is UNSEEN as before."""
        run, busy, is_alone = self.run, [], self.run.scope.is_to_be_asked_later()
        for chunk in of(run.work, self.size):
            if chunk.start >= run.failed_at:
                break
            if is_alone:
                self._make_rest(chunk.start)
                break
            verdict = self._ask(run.work, chunk, native.WAIT if run.draws else native.NOW)
            if verdict == native.BUSY:
                busy.append(chunk)
            else:
                self._settle(chunk, verdict)
                is_alone = verdict == native.PASS and run.sample.view.is_alone
        if is_alone:
            run.scope.ask_later()
        for chunk in busy:
            self._await(chunk)

    def _await(self, chunk):
        run = self.run
        while chunk.start < run.failed_at:
            verdict = self._ask(run.work, chunk, native.NOW)
            if verdict == native.BUSY:
                verdict = run.wait(lambda wait: self._ask(run.work, chunk, wait))
            if verdict != native.BUSY:
                self._settle(chunk, verdict)
                return

    def _make_rest(self, start):
        """Make all from position @start on, which nobody else asks for."""
        work = self.run.work
        native.count_pass(b"alone", len(work.indices) - start)
        self._make_alone(Chunk(work.indices[start:], work.occurrences and work.occurrences[start:],
                               range(len(work.indices) - start), start))

    def _make_alone(self, chunk):
        """Make the samples that the batch wants of @chunk, for it alone."""
        wanted = chunk.wanted()
        self.run.sample.drop()
        self._put_made(wanted, self.maker.values(self.run.work, wanted, 0))

    def _ask(self, work, chunk, wait):
        """As Fetch._ask() does; None as well where it has no name."""
        run = self.run
        dataset, indices = inside(run.scope, chunk.indices)
        prefix, stream, _ = run._streams(dataset, work) if indices else (None, None, None)
        if prefix is None:
            native.count_pass(b"torch_index" if indices is None else run.scope.reason, len(chunk.rows))
            return None
        chunk_name = b"chunk" + fetch.as_bytes(indices) + bytes(str(chunk.occurrences or ""), "ascii")
        run.sample.name(prefix, stream, chunk_name, 0, run.draws)
        run.sample.weigh(len(chunk.rows), len(indices))
        return run.sample.take(wait)

    def _settle(self, chunk, verdict):
        """Put @chunk into the batch."""
        if verdict == native.HIT and self._take(chunk):
            return
        if verdict == native.CLAIM:
            self._make(chunk)
        else:
            self._make_alone(chunk)

    def _take(self, chunk):
        run, sample = self.run, self.run.sample
        if sample.view.verify:
            return self._verify(chunk)
        try:
            extra = put(run.batch, chunk, sample.meta(), sample.view.payload, sample.view.payload_bytes)
        except Exception as error:  # nothing that is understood here
            native.report(error)
            return False
        sample.taken()
        self._mark(chunk)
        run.took(extra)
        return True

    def _verify(self, chunk):
        """Make what the batch wants as well, and use that."""
        sample, meta = self.run.sample, self.run.sample.meta()
        payload, size = sample.view.payload, sample.view.payload_bytes
        wanted = chunk if meta[:1] == _LIST else chunk.wanted()
        made = self.maker.values(self.run.work, wanted, 0)
        if made is None or made.error is not None:
            sample.drop()
        else:
            try:
                sample.verified(is_equal(made.values, made.extra, chunk.rows, meta, payload, size))
            except codec.Unshareable:
                sample.verified(False)
        self._put_made(wanted, made)
        return True

    def _make(self, chunk):
        """Make @chunk, for others as well."""
        run, sample = self.run, self.run.sample
        made = self.maker.values(run.work, chunk, native.NEST)
        is_put = made is not None and made.may_publish and self._publish(chunk, made)
        if not is_put:
            sample.drop()
            self._put_made(chunk, made)

    def _publish(self, chunk, made):
        """Whether the values that were @made are in the ring, and in the batch if it wants @chunk."""
        run, sample = self.run, self.run.sample
        try:
            meta, leaves, size = encode(made.values, made.extra)
        except codec.Unshareable:
            native.count_pass(b"torch_sample", len(made.values))
            run.scope.unshareable += 1
            return False
        run.scope.unshareable = 0
        address = sample.reserve(meta, size)
        if not address:
            return False
        fill(leaves, address)
        if chunk.rows and run.batch.direct:
            put(run.batch, chunk, meta, address, size)
            self._mark(chunk)
        elif chunk.rows:
            self._put_made(chunk, made)
        sample.publish()
        return True

    def _put_made(self, chunk, made):
        """Put the values of @chunk that were @made, as far as it came; the rest is made singly."""
        if made is None:
            return
        run, rows = self.run, chunk.rows
        values = made.values[rows.start:rows.stop]
        run.batch.put_values(chunk.start, values)
        self._mark(chunk, len(values))
        if made.error is not None and len(made.values) in rows:
            run.error, run.failed_at = made.error, chunk.start + len(values)

    def _mark(self, chunk, count=None):
        count = len(chunk.rows) if count is None else count
        self.run.progress[chunk.start:chunk.start + count] = bytes([native.PUT]) * count

    def look_ahead(self, work):
        """Make one chunk of @work, which is queued; False when there is none to make."""
        run, found = self.run, of(work, self.size)
        while work.looked < len(found):
            chunk = found[work.looked]
            work.looked += 1
            verdict = self._ask(work, chunk, native.NOW)
            if verdict == native.CLAIM:
                self._make_ahead(work, chunk)
                return True
            run.sample.drop()
            if verdict != native.HIT and verdict != native.BUSY:
                work.looked = len(found)
        return False

    def _make_ahead(self, work, chunk):
        sample = self.run.sample
        chunk.rows = range(0)
        made = self.maker.values(work, chunk, native.NEST)
        if made is None or not made.may_publish or not self._publish(chunk, made):
            sample.drop()


def inside(scope, indices):
    """(the data set that has the items at @indices, their indices there); None: several have, or no numbers."""
    dataset = scope.dataset
    if scope.unwrap is not None:
        found = [scope.unwrap(dataset, index) for index in indices]
        if len({id(inner) for inner, _ in found}) != 1:
            return None, None
        dataset, indices = found[0][0], [index for _, index in found]
    return (dataset, indices) if fetch.can_be_named(indices) else (None, None)


def size_of(run, prefix, stream, own):
    """
    How many samples a chunk has where names begin with @prefix, as the first job that has timed some
    says, or what stands in the place of a size; @own is the guess of this one.  None: not known.
    """
    sizes, sample = run.scope.sizes, run.sample
    if prefix is None or prefix in sizes:
        return sizes.get(prefix)
    if run.scope.is_to_be_asked_later():
        return own
    sample.name(prefix, stream, b"size of chunks", 0, run.draws)
    sample.weigh(0, 1)
    verdict = sample.take()
    if verdict == native.HIT:
        found = sample.meta()
        if len(found) == 1 and found[0] <= MOST and found[0] & (found[0] - 1) == 0:
            own = sizes[prefix] = found[0]
    elif verdict == native.CLAIM and own is not None:
        sample.begin(0)
        if sample.end(native.NOTHING) and sample.reserve(bytes([own]), 0):
            sample.publish()
            sizes[prefix] = own
    sample.drop()
    if len(sizes) > MOST:
        sizes.clear()  # of epochs long past
    return own
