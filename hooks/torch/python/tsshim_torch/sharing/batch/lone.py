# SPDX-License-Identifier: MIT
"""
Items of an aligned job that are made in a row: all that is done for one is to seed the generators, in
one call (hooks/torch/samples.h).

Items that go to nobody else, for the job is alone, come in stretches, after each of which it is looked
again what they cost, or whether somebody else asks for the next one: to ask for an item, and to make
it for others, takes a lone job 80 to 220 us.  Those of a chunk go to everybody (chunks.py).

What does not fit is made singly, as other items are; so is a stretch in which an item has put another
generator in the place of one.
"""

import ctypes

from ... import clock, native
from ..item import generators, seeding
from ..naming import unread
from . import bulk, fetch

STRETCH_NS = 40_000_000

STILL = 64  # items in a row that have drawn nothing: the next ones are taken to be like them


def length(scope):
    """How many items make a stretch; one where none has told yet what it costs."""
    return 1 if scope.item_ns is None else max(1, STRETCH_NS // max(scope.item_ns, 1))


def of(run):
    """What makes the items of @run, an aligned.Drawn; None: they are made singly."""
    scope, work, indices = run.scope, run.work, run.indices
    if scope.exchanges:
        return None
    owns = {id(own): own for own in [scope.private(index) for index in indices]}.values() \
        if scope.unwrap is not None else [scope.private(indices[0])]
    if len(owns) > 1 and any(own.paths for own in owns):
        return None
    names = run._names(work, indices) if work.free is not None else _names(scope, work, indices)
    row = names and Row.of(run, next(iter(owns)))
    return Lone(row, names) if row else None


def _names(scope, work, indices):
    """Only the seeds are wanted, which are the same whatever the data set."""
    if scope.unwrap is not None:
        indices = [scope.unwrap(scope.dataset, index)[1] for index in indices]
    if not fetch.can_be_named(indices):
        return None
    return fetch.Names(work.stream, work.stream, indices, work.occurrences)


class Row:
    """Makes items in a row, of data sets with generators @own; @python is random's."""

    def __init__(self, run, own, python):
        self.run, self.own, self.python = run, own, python
        self.look = seeding.marks_of_now()
        self.marks = self.look()

    @classmethod
    def of(cls, run, own):
        """None: a generator is not at its known place."""
        python = run.save_generators(own) or seeding.known.look()
        return None if python is None or run.scope.exchanges else cls(run, own, python)

    def entry(self, names):
        """What native.lone_next() wants, for items with @names."""
        return native.Lone(self.run.sample.handle, ctypes.addressof(names.view),
                           ctypes.addressof(seeding.known.entries))

    def is_as_it_was(self):
        """Whether no other generator was put in the place of one."""
        return self.look() == self.marks

    def make(self, entry, indices, values):
        """Add the items at @indices to @values; the error of one."""
        scope, start = self.run.scope, entry.position
        if scope.undrawn >= STILL and not self.own.paths:
            error = self._make_still(entry, indices, values)
            if scope.undrawn:
                return error
            native.count_pass(b"torch_again", entry.position - start)
            entry.position = start
            values.clear()
        entry.still, entry.is_seeded = scope.undrawn, 0
        error = self._make_seeded(entry, indices, values)
        scope.undrawn = entry.still
        return error

    def _make_still(self, entry, indices, values):
        """
        The same of items like those that have drawn nothing: they need no seeds.  If one draws all the
        same .undrawn is 0, and all are to be made again.
        """
        python, begun = self.python, entry.position
        native.lone_next(ctypes.byref(entry))
        python.gauss_next = None
        before = seeding.known.snapshot(python)
        error = None
        try:
            self._get_all(indices, values)
        except Exception as raised:  # the program's own
            error = raised.with_traceback(raised.__traceback__.tb_next.tb_next)
        if seeding.known.snapshot(python) != before:
            self.run.scope.undrawn = 0
        entry.position = begun + len(values) + (error is not None)
        return error

    def _get_all(self, indices, values):
        dataset, put = self.run.scope.dataset, values.append
        if self.run.scope.bulk is None:
            for index in indices:
                put(dataset[index])
        else:
            for index in indices:
                put(bulk.get(dataset, index))

    def _make_seeded(self, entry, indices, values):
        """The same, each with the seeds of its own."""
        python, reference = self.python, ctypes.byref(entry)
        dataset, is_single = self.run.scope.dataset, self.run.scope.bulk is None
        seed, put = native.lone_next, values.append
        seed_private = self.run.seed_private if self.own.paths else None
        try:
            for index in indices:
                seed(reference)
                python.gauss_next = None
                if seed_private is not None and not self._attempt(seed_private):
                    break  # the rest is made singly
                put(dataset[index] if is_single else bulk.get(dataset, index))
        except Exception as error:  # the program's own; raised again when it is its turn
            return error.with_traceback(error.__traceback__.tb_next)
        return None

    @staticmethod
    def _attempt(step):
        """Whether @step, of ours, works; what it raises is not the program's."""
        try:
            step()
            return True
        except Exception as error:
            native.failed(error)
            return False

    def give_up(self, begun):
        """Another generator is in the place of one: @begun items are made again, singly, as all from now on."""
        native.count_pass(b"torch_again", begun)
        self.run.lone, self.run.scope.exchanges = False, True

    def learn(self):
        """See to what items have read; whether all is as it was when they were named."""
        scope, same = self.run.scope, True
        if not scope.in_directory and native.saw_relative():
            with native.unseen():
                scope.note_relative()
            same = False
        if unread.noticed() != scope.noticed:
            scope.learn_reads()
            same = False
        if not same:
            self.run.lone = None  # what was looked at again may be another one
        return same


class Lone:
    """The items of one batch, @names, which @row makes."""

    def __init__(self, row, names):
        self.row, self.names = row, names
        self.entry = row.entry(names)

    def make(self, start, reason, most=None):
        """
        Make some items from @start on, @most at most, which are shared with nobody for @reason; where
        it came to, which is @start where it cannot.
        """
        row, run, scope = self.row, self.row.run, self.row.run.scope
        if not row.is_as_it_was() or run.sample.handle != self.entry.sample:
            return start
        run.save_generators(row.own)
        end = start + min(length(scope), most or len(run.indices))
        others = run.progress[start:end].lstrip(bytes([native.UNSEEN]))
        indices = run.indices[start:min(end, len(run.indices)) - len(others)]
        self.entry.position = start
        values, error = [], None
        native.lone_begin(ctypes.byref(self.entry))
        begin = clock.thread_ns()
        try:
            error = row.make(self.entry, indices, values)
        finally:
            made = clock.thread_ns() - begin
            begun = self.entry.position - start
            stays = row.is_as_it_was()
            native.lone_end(ctypes.byref(self.entry), begun if stays else 0,
                            stays and begun > len(values), reason)
        if not stays:
            row.give_up(begun)
            return start
        run.batch.put_values(start, values)
        end = start + len(values)
        run.progress[start:end] = bytes([native.PUT]) * len(values)
        if error is not None and not unread.notice_all(scope.armed):  # else it is made again, singly
            run.error, run.failed_at = error, end
        elif values:
            scope.learn_many(len(values), made)
        row.learn()
        return end


class Made:
    """Items of a chunk."""

    def __init__(self, values, error, may_publish):
        self.values, self.error, self.may_publish = values, error, may_publish
        self.extra = None  # what goes into the record besides them


class Seeded:
    """What makes the items of chunks for @run, each with the seeds of its own."""

    def __init__(self, run):
        self.run, self.row = run, None

    def _row_for(self, index):
        """What makes the item at @index and its like, or None."""
        own = self.run.scope.private(index)
        if self.row is None or self.row.own is not own:
            self.row = Row.of(self.run, own)
        return self.row if self.row is not None and self.row.is_as_it_was() else None

    def values(self, work, chunk, how):
        """The items of @chunk Made, @how as tsshim_sample_begin() has it; None: they are made singly."""
        run, scope, sample = self.run, self.run.scope, self.run.sample
        indices, whole = chunk.indices, len(chunk.indices)
        if scope.unwrap is not None:
            indices = [scope.unwrap(scope.dataset, index)[1] for index in indices]
        row = self._row_for(chunk.indices[0])
        if row is None:
            return None
        names = fetch.Names(work.stream, work.stream, indices, chunk.occurrences)
        entry = row.entry(names)  # which refers to them
        run.save_generators(row.own)
        values, error, stays, may_publish = [], None, False, False
        sample.begin(how)
        begin = clock.thread_ns()
        try:
            error = row.make(entry, chunk.indices, values)
            stays = row.is_as_it_was()
        finally:
            ns = clock.thread_ns() - begin
            sample.weigh(max(min(entry.position, chunk.rows.stop) - chunk.rows.start, 0), whole)
            outcome = native.RAISED if error is not None else native.MADE
            may_publish = sample.end(outcome if stays else native.NOTHING)
            scope.note_files(sample.unfit())
        if not stays:
            row.give_up(entry.position)
            return None
        if error is not None and unread.notice_all(scope.armed):
            row.learn()
            return None
        if error is None:
            scope.learn_many(whole, ns)
        same, moved = row.learn(), scope.have_moved()
        if moved:
            scope.note_moved()
        return Made(values, error, may_publish and same and not moved and len(values) == whole
                    and not generators.has_clashed)
