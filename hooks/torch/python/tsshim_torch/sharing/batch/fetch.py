# SPDX-License-Identifier: MIT
"""
Where indices become samples: take, or compute for everybody.

What both modes do with a batch.  Which samples are meant, who asks for them and in which order
the modes say (aligned.py, exact.py), in the methods at the end of Fetch.
"""

import array
import ctypes

from ... import asking, clock, native
from ...asking import Raised
from ..item import codec
from . import bulk, collate

RAISED = object()  # what Fetch._item() gives in place of a sample
NOT_OURS = object()  # what run() of a mode gives where torch's own function is to

# Whoever takes a sample takes it as one of about so many, most of which it has yet to read.
BATCH = 64

# Bytes of a sample that is not kept in private memory once it is in the ring (hooks/torch/samples.c).
LARGE = 16 << 20


def copy_to_ring(target, source, size):
    native.copy(target, source, size, BATCH * size)


# ---- many samples by one call (hooks/torch/samples.h) ----

# To ask for them one by one costs as much as the copy of a photograph.  This serves the common case,
# whole numbers as indices and samples that look like the first of their batch.

META_ROOM = 256  # bytes; a sample with more structure is taken one by one


def as_bytes(indices):
    """@indices, which can_be_named(), as bytes."""
    return array.array("q", indices).tobytes()


class Names:
    """The names of the samples of one batch as C has them; lives as long as they are used."""

    def __init__(self, prefix, stream, indices, occurrences, free=None):
        """
        @indices are whole numbers of 64 bits, the rest is as in tsshim_sample_name(); with @free
        (free.Draws) there are a prefix and a stream for each of its draws.
        """
        count = len(indices)
        self._indices = array.array("q", indices)  # a sixth of what an array of ctypes takes
        self.view = native.BatchView(scope=prefix, stream=stream, count=count,
                                     indices=self._indices.buffer_info()[0])
        if occurrences is not None:
            self._occurrences = (ctypes.c_uint32 * count)(*occurrences)
            self.view.occurrences = ctypes.addressof(self._occurrences)
        if free is not None:
            self._which = bytes(free.which)
            self._draws = (ctypes.c_uint32 * len(free.distinct))(*free.distinct)
            self.view.which = self._which
            self.view.draws = ctypes.addressof(self._draws)
            self.view.tag, self.view.epoch = free.tag, free.epoch
        self.reference = ctypes.byref(self.view)


def can_be_named(indices):
    """Whether @indices are what Names takes."""
    return set(map(type, indices)) == {int} and \
        -(1 << 63) <= min(indices) and max(indices) < 1 << 63


class Taking:
    """The samples of one batch that come by one call; the first of @batch must be known."""

    def __init__(self, names, batch, states):
        """@states, a bytearray, is the caller's, too: what is UNSEEN or BUSY there is taken."""
        self._batch = batch
        self._states = states
        self._reference = names.reference
        self._head = codec.head(batch.specs)
        leaves = batch.destinations()
        count = len(states)
        self._leaves = (native.Leaf * len(leaves))(*leaves)
        self._metas = bytearray(count * META_ROOM)
        self._sizes = (ctypes.c_uint32 * count)()
        view = names.view
        view.head, view.head_bytes = self._head, len(self._head)
        view.leaves, view.leaf_count = ctypes.addressof(self._leaves), len(leaves)
        view.payload_bytes = codec.payload_bytes([leaf[1] for leaf in leaves])
        view.states = _address(states)
        view.metas, view.meta_room = _address(self._metas), META_ROOM
        view.meta_bytes = ctypes.addressof(self._sizes)
        if batch.origins is not None:
            view.origins = _address(batch.origins)
        self._names = names

    def take(self, sample, start, patient):
        """
        Put what is there from position @start on into the batch; gives the first position that
        wants more, and leaves in @sample what tsshim_sample_take_batch() says.
        """
        end = sample.take_batch(self._reference, start, patient)
        position = self._states.find(native.HIT, start, end)
        while position >= 0:
            at = position * META_ROOM
            self._states[position] = native.PUT
            self._batch.put_taken(position, bytes(self._metas[at:at + self._sizes[position]]),
                                  len(self._head))
            position = self._states.find(native.HIT, position, end)
        return end


def _address(room):
    """Where a bytearray is, which must not change its size from now on."""
    return ctypes.addressof((ctypes.c_char * len(room)).from_buffer(room))


# ---- one batch ----

class Fetch:
    """The work on one batch."""

    def __init__(self, scope, work, indices):
        self.scope = scope
        self.sample = scope.sample
        self.work = work
        self.indices = indices
        self.batch = collate.Batch(len(indices), scope.direct, native.copy)
        self.batch.moves = self.moves
        self.progress = bytearray([native.UNSEEN]) * len(indices)
        self.taking = self.named_for = None
        self.failed_at = len(indices)
        self.error = None  # of the program's; its batch ends with it
        self.items = asking.Items(scope.dataset, scope.auto)
        self.at = self.made = None  # a position, and (the sample that was made for it last,)
        self.armed_at = None  # Scope.looks, when leaves of options were hidden for this batch

    def run(self):
        """
        The collate.Batch.  What comes out of here are exceptions of the data set's as Raised, unless
        ours cannot even be gone on without.
        """
        self.scope.in_use = True
        try:
            try:
                self._fill()
                return self._ended()
            except Raised:
                raise
            except Exception as error:
                self.failed(error)
                batch = collate.Batch(len(self.indices), False)  # which the collate function gets as it is
                batch.put_values(0, [self._without_us(place) for place in range(len(self.indices))])
                return batch
            finally:
                self._leave()
        finally:
            self.scope.in_use = False

    def _leave(self):
        try:
            self.leave()
        except Exception as error:  # the batch is made all the same
            self.failed(error)

    def _ended(self):
        if self.error is not None:
            raise Raised(self.error)
        return self.batch

    def failed(self, error):
        """An @error of ours."""
        native.failed(error)

    def _without_us(self, position):
        """The sample at @position after an error of ours; none is made twice."""
        if self.batch.parts[position] is not None:
            return self.batch.sample(position)
        if position == self.at and self.made is not None:
            return self.made[0]
        if position != self.at or self.error is None:
            self.at, self.made, self.error = position, None, None
            value = self._item_without_us(position)
            if value is not RAISED:
                return value
        raise Raised(self.error)

    def _item_without_us(self, position):
        """The item at @position as the mode has it, as far as that works."""
        try:
            return self._item(self.indices[position])
        except Exception:  # ours, once more
            if self.made is not None:
                return self.made[0]
            return RAISED if self.error is not None else Fetch._item(self, self.indices[position])

    def _next(self, position, patient):
        """
        (position, verdict) of the next sample from @position on that is not simply there; passing
        by those that are BUSY if @patient.  The verdict is that of _ask().
        """
        taking = self._taking()
        if taking is None:
            return position, self._ask(position)
        position = taking.take(self.sample, position, patient)
        if position == len(self.progress):
            return position, None
        verdict = self.progress[position]
        return position, native.HIT if verdict == native.ODD else verdict

    def _taking(self):
        """What takes many samples in one call, as soon as there is one to compare them with."""
        if not self.batch.direct or not self.batch.rows or self.scope.is_cheap():
            return None
        if self.named_for is not self.scope.prefixes:  # the data set is another one by now
            self.taking, self.named_for = None, self.scope.prefixes
        if self.taking is None:
            names = self._names(self.work, self.indices)
            self.taking = names and Taking(names, self.batch, self.progress)
        return self.taking or None

    def _names(self, work, indices):
        """The names of the samples at @indices of @work, or False: to be asked for singly."""
        dataset = self.scope.dataset
        if self.scope.unwrap is not None:
            found = [self.scope.unwrap(dataset, index) for index in indices]
            if len({id(inner) for inner, _ in found}) != 1:
                return False
            dataset, indices = found[0][0], [index for _, index in found]
        if not can_be_named(indices):
            return False
        prefix, stream, draws = self._streams(dataset, work)
        return prefix is not None and Names(prefix, stream, indices, work.occurrences, draws)

    def _settle(self, position, verdict):
        """Put the sample at @position into the batch, or mark it as BUSY."""
        if verdict == native.BUSY:
            self.progress[position] = native.BUSY
            return
        self.progress[position] = native.PUT
        if verdict != native.HIT or not self._use_hit(position):
            self._compute(position, verdict)

    def _use_hit(self, position):
        sample = self.sample
        if sample.view.verify:
            return self._verify(position)
        try:
            extra = self.batch.put_record(position, sample.meta(), sample.view.payload,
                                          sample.view.payload_bytes, sample.origin())
        except Exception as error:  # no sample that is understood here
            native.report(error)
            sample.drop()
            return False
        sample.taken()
        self.took(extra)
        return True

    def _verify(self, position):
        """Compute the hit as well, and use that."""
        sample = self.sample
        self.at, self.made = position, None
        value = self._item(self.indices[position])
        if value is RAISED:
            sample.drop()
            self.failed_at = position
            return True
        try:
            encoded = codec.encode(value, self.extra)
            equal = encoded.meta == sample.meta() and \
                encoded.bytes == sample.view.payload_bytes and \
                is_equal(encoded.leaves, sample.view.payload)
        except codec.Unshareable:
            encoded, equal = None, False
        sample.verified(equal)
        self.batch.put_value(position, value, encoded)
        return True

    def _produce(self, index, verdict, how=0):
        """(value, encoded) of an item that is ours to compute; published when it may be."""
        sample = self.sample
        nests = not self.scope.in_vain and (
            verdict == native.CLAIM or self.scope.lone < self.lone_nests)
        sample.begin(how | (native.NEST if nests else 0))
        self.scope.lone = 0 if verdict == native.CLAIM else self.scope.lone + 1
        raised = True
        try:
            value = self._item(index, verdict)
            raised = value is RAISED
        finally:
            publish = sample.end(raised)
            self.scope.note_files(sample.unfit())
        if raised:
            return RAISED, None
        if verdict == native.CLAIM:
            self.scope.in_vain = True  # until it is published
        try:
            encoded = codec.encode(value, self.extra)
        except codec.Unshareable:
            if publish:
                native.count_pass(b"torch_sample")
                sample.drop()
                self.scope.unshareable += 1
            return value, None
        self.scope.unshareable = 0
        if publish:
            address = sample.reserve(encoded.meta, encoded.bytes)
            if address:
                codec.fill(encoded.leaves, address, copy_to_ring)
                encoded.origin = sample.publish()
                self.scope.in_vain = False
        return value, encoded

    def _compute(self, position, verdict):
        """Make the sample at @position, for others as well unless @verdict is None."""
        self.at, self.made = position, None
        if verdict is not None:
            value, encoded = self._produce(self.indices[position], verdict)
            if self.moves and encoded is not None and encoded.origin is not None \
                    and encoded.bytes >= LARGE and self._ask(position) == native.HIT:
                value = encoded = self.made = None  # or there were two of it besides the ring's
                if self._use_hit(position):
                    return
                value = self._item(self.indices[position])
        else:
            value, encoded = self._item(self.indices[position]), None
        if value is RAISED:
            self.failed_at = position
        else:
            self.batch.put_value(position, value, encoded)

    # ---- what a mode does in its own way ----

    draws = False  # whether names say what state generators are in
    moves = False  # whether what a collate function made may go into memory of ours
    extra = None  # what goes into the next record besides the sample
    # Of items that go to nobody, so many in a row, no decodes are shared either: they are likely to
    # be asked for as a whole.
    lone_nests = 8

    def _streams(self, dataset, work):
        """
        (what the key of a sample of @dataset begins with or None, what its seeds do, None); with
        free.Draws as the last one these are several.
        """
        raise NotImplementedError

    def _ask(self, position, wait=native.NOW):
        """HIT, CLAIM, BUSY or PASS for the sample at @position; None: not to be shared."""
        raise NotImplementedError

    def _wait(self, position):
        """The verdict on the sample at @position, BUSY so far, once there is nothing else to do."""
        return self._ask(position, native.WAIT)

    def took(self, extra):
        """A record was taken that had this extra."""

    def _fill(self):
        """Put all samples into the batch that are not there yet; those in the making elsewhere last."""
        position = self.progress.find(native.UNSEEN)
        while 0 <= position < self.failed_at:
            position, verdict = self._next(position, True)
            if position < self.failed_at:
                self._settle(position, verdict)
            position = self.progress.find(native.UNSEEN, position)
        self._fill_rest()

    def _fill_rest(self):
        """Put those into the batch that are BUSY."""
        # The first of them was begun first; the others are likely to be there after it.
        position = self.progress.find(native.BUSY)
        while 0 <= position < self.failed_at:
            position, verdict = self._next(position, False)
            if verdict == native.BUSY:
                verdict = self._wait(position)
                if verdict == native.BUSY:
                    continue
            if position < self.failed_at:
                self._settle(position, verdict)
            position = self.progress.find(native.BUSY, position)

    def _item(self, index, verdict=None):
        """dataset[index], asked for with @verdict; RAISED with self.error when it raises."""
        start = clock.thread_ns()
        try:
            if self.scope.bulk is None:
                value = self.items.get(index)
            else:
                value = bulk.get(self.scope.dataset, index)
        except Exception as error:  # the program's own; raised again when it is its turn
            self.error = asking.theirs(error)
            return RAISED
        self.made = (value,)
        self.scope.learn(clock.thread_ns() - start)
        return value

    def arm(self):
        """Notice from now on who reads options that the name is made without."""
        if self.armed_at != self.scope.looks:  # the batch begins, or a data set got a name since
            self.scope.stay_armed()
            self.armed_at = self.scope.looks

    def leave(self):
        """Put everything back as the program had it."""
        self.sample.drop()
        if not self.scope.stays_armed:
            self.scope.disarm()


def is_equal(leaves, payload):
    places = zip(leaves, codec.offsets([leaf.bytes for leaf in leaves]))
    return all(ctypes.string_at(leaf.address, leaf.bytes)
               == ctypes.string_at(payload + offset, leaf.bytes) for leaf, offset in places)
