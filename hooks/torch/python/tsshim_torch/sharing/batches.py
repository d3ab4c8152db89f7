# SPDX-License-Identifier: MIT
"""
Batches of samples for hooks/torch/samples.h: one call takes all that are there already.

Asking for them one by one costs as much as the copy of a photograph.  What this serves is the
common case, whole numbers as indices and samples that look like the first of their batch; for
anything else the caller asks one by one.
"""

import array
import ctypes

from .. import native
from . import codec

META_ROOM = 256  # bytes; a sample with more structure is taken one by one


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
