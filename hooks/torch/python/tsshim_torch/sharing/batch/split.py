# SPDX-License-Identifier: MIT
"""
Uneven items: workers of a job make items of each other's batches (docs/rooms/torch.md).

A batch goes to one worker, and the program gets batches in order.  Where one item in twenty takes fifty
times as long as the others, all workers end up waiting for the one that has several of those.  So the
trainer writes on a *board* which batches are out, and whether it waits.  A worker that has nothing to do
while the trainer waits asks for items of the oldest batch, claims them as those of another job, and
publishes them.  Whose batch it is takes them from there, and delivers it in its turn.  As long as
nobody asks, a worker's own part of it are two words for each item.
"""

import array
import collections
import contextlib
import mmap

from ... import native
from ..item import generators
from ..order import align

SLOTS = 128  # batches that a board has room for
LARGEST = 1024  # indices of a batch

# Milliseconds between two looks of a worker that has nothing to do: while the trainer waits, and else.
PAUSE, LONG_PAUSE = 4, 16

# Words of the board: which batch the trainer waits for, plus 1, or 0; how many are sent; how many
# iterations have begun.
_AWAITED, _SENT, _ITERATION, _HEAD = range(4)
# Words of a slot: the number of its batch, plus 1; how many indices; so many of which its worker has
# begun or passed by; whether another worker asks for some; the stream of its names; the indices.
_NUMBER, _COUNT, _BEGUN, _ASKED, _STREAM, _INDICES = 0, 1, 2, 3, 4, 6


class Board:
    """
    What a trainer shares with the workers that it forks.  Of what is read while it is written a worker at
    most makes items in vain: their names say what they are.
    """

    def __init__(self, size):
        self.size = size
        self.words = memoryview(mmap.mmap(-1, 8 * (_HEAD + SLOTS * (_INDICES + size)))).cast("q")

    def slot(self, number):
        at = _HEAD + number % SLOTS * (_INDICES + self.size)
        return self.words[at:at + _INDICES + self.size]

    def write(self, number, indices, stream):
        """Batch @number, which is about to be sent, has these @indices; others see them if they can be named."""
        words, slot = self.words, self.slot(number)
        words[_ITERATION] += number == 0
        slot[_NUMBER] = slot[_BEGUN] = slot[_ASKED] = 0
        words[_SENT] = number + 1
        if type(indices) not in (list, tuple) or len(indices) > self.size or set(map(type, indices)) != {int}:
            return
        with contextlib.suppress(OverflowError):
            slot[_INDICES:_INDICES + len(indices)] = memoryview(array.array("q", indices))
            slot[_COUNT], slot[_STREAM:_INDICES] = len(indices), memoryview(stream).cast("q")
            slot[_NUMBER] = number + 1


# ---- the trainer ----

_expected = None  # the Board of the iterator that is about to begin, and of its workers


def expect(loader):
    """Workers are about to be forked for @loader."""
    global _expected
    settings, _expected = native.settings, None
    if loader.num_workers > 1 and loader.batch_sampler is not None and not (settings.across or settings.free):
        _expected = Board(min(getattr(loader, "batch_size", None) or LARGEST, LARGEST))


def post(iterator, indices):
    """@iterator sends @indices, or an align.Work, to its next worker."""
    global _expected
    if "_tsshim_board" not in iterator.__dict__:
        iterator._tsshim_board = _expected if hasattr(iterator, "_send_idx") else None
        _expected = None
    board = iterator._tsshim_board
    if board is None:
        return
    stream = bytes(16)
    if type(indices) is align.Work:
        stream, indices = indices.stream, None if indices.occurrences else indices.indices
    board.write(iterator._send_idx, indices, stream)


def await_next(iterator, waits):
    """The program asks @iterator for the next batch, or has got it."""
    board = iterator.__dict__.get("_tsshim_board")
    if board is not None:
        board.words[_AWAITED] = iterator._rcvd_idx + 1 if waits else 0


# ---- a worker ----

class Turn:
    """A batch that this worker makes, and that others may make items of."""

    def __init__(self, run, slot):
        self.run, self.slot, self.number = run, slot, slot[_NUMBER] - 1

    def begin(self, position):
        """The sample at @position is taken or made next."""
        self.slot[_BEGUN] = position + 1
        if self.slot[_ASKED] and not self.run.is_split:
            self.run.split(True)

    def goes_on(self):
        """Whether another item may be made that goes to nobody else."""
        self.slot[_BEGUN] += 1
        return not self.slot[_ASKED]

    def end(self):
        _helper.queue.idle = _helper.idle if self.run.may_help() else None
        if self.slot[_NUMBER] == self.number + 1:
            self.slot[_NUMBER] = 0
        if self.run.is_split:
            self.run.split(False)


class Helper:
    """What a worker does for the batches of others."""

    def __init__(self, board, queue):
        self.board, self.queue = board, queue
        self.works, self.end, self.iteration = collections.deque(), 0, 0  # of which there may be some left to make
        self.kind = self.scope = None  # of the last batch here

    def _has_work(self):
        """Whether there may be something to make, while the trainer waits."""
        words, works = self.board.words, self.works
        first = words[_AWAITED] - 1
        if first < 0:
            return False
        if words[_ITERATION] != self.iteration:
            works.clear()
            self.end, self.iteration = 0, words[_ITERATION]
        known, self.end = max(first, self.end), words[_SENT]
        works.extend(filter(None, map(self._read, range(known, self.end))))
        while works and works[0].number < first:
            works.popleft()
        return bool(works)

    def _read(self, number):
        """The align.Work of batch @number, or None."""
        slot = self.board.slot(number)
        if slot[_NUMBER] != number + 1:
            return None
        return align.Work(slot[_INDICES:_INDICES + slot[_COUNT]].tolist(), None, bytes(slot[_STREAM:_INDICES]), number)

    def help(self, run):
        """Make an item of the oldest batch that has one left, by way of @run; whether there was one."""
        if not self._has_work() or not run.may_help():
            return False
        run.split(True)
        for work in tuple(self.works):
            slot = self.board.slot(work.number)
            if run.turn is not None and run.turn.number == work.number:
                continue
            position = None
            if slot[_NUMBER] == work.number + 1:
                slot[_ASKED] = 1
                work.looked = max(work.looked, slot[_BEGUN])
                position = run.claim(work)
            if position is not None:
                if not run.take_ahead(work, position) and slot[_NUMBER] == work.number + 1:
                    slot[_NUMBER] = 0  # it will raise there, or go to nobody
                return True
            self.works.remove(work)
        return False

    def _help_alone(self):
        scope = self.scope
        with generators.used():
            scope.look()
            run = self.kind(scope, align.Work([], None, bytes(16)), [])
            scope.in_use = True
            try:
                return self.help(run)
            finally:
                scope.in_use = False
                run.split(False)
                run.leave()

    def idle(self, arrives):
        """Until something is queued, as @arrives(milliseconds) tells."""
        pause = 0
        while not arrives(pause) and not self.queue.is_orphan() and not self.scope.in_use:
            pause = PAUSE if self.board.words[_AWAITED] else LONG_PAUSE
            if self._has_work() and self._help_alone():
                pause = 0


_helper = None  # of this process


def begin(queue):
    """In a worker, which gets its batches from @queue."""
    global _helper
    _helper = Helper(_expected, queue) if _expected is not None else None


def turn_of(run):
    """The Turn of the batch of @run, or None."""
    if _helper is None or not run.scope.may_look_ahead:
        return None
    slot = _helper.board.slot(_helper.queue.number)
    if slot[_NUMBER] != _helper.queue.number + 1:
        return None
    if not run.splits:
        slot[_NUMBER] = 0
        return None
    _helper.kind, _helper.scope = type(run), run.scope
    return Turn(run, slot)


def help_others(run):
    """@run waits for an item that is in the making elsewhere: make one of another batch; whether there was one."""
    return run.turn is not None and _helper.help(run)
