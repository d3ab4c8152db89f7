# SPDX-License-Identifier: MIT
"""
Items of an aligned job that go to nobody else, for they cost next to nothing or the job is alone:
all that is done for one is to seed the generators, in one call (hooks/torch/samples.h).  To ask for an
item, and to make it for others, takes a lone job 80 to 220 us, the more the dearer items are.

They come in stretches, after each of which it is looked again what they cost, or whether somebody
else asks for the next one.  What does not fit is made singly, as other items are; so is a stretch
in which an item has put another generator in the place of one.
"""

import ctypes

from ... import clock, native
from ..item import seeding
from ..naming import unread
from . import bulk, fetch

STRETCH_NS = 40_000_000


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
    own = next(iter(owns))
    python = run.save_generators(own) or seeding.known.look()
    return Lone(run, names, own, python) if names and python is not None else None


def _names(scope, work, indices):
    """Only the seeds are wanted, which are the same whatever the data set."""
    if scope.unwrap is not None:
        indices = [scope.unwrap(scope.dataset, index)[1] for index in indices]
    if not fetch.can_be_named(indices):
        return None
    return fetch.Names(work.stream, work.stream, indices, work.occurrences)


class Lone:
    """The items of one batch, @names, of data sets with generators @own; @python is random's."""

    def __init__(self, run, names, own, python):
        self.run, self.names, self.own, self.python = run, names, own, python
        self.look = seeding.marks_of_now()
        self.marks = self.look()
        self.entry = native.Lone(run.sample.handle, ctypes.addressof(names.view),
                                 ctypes.addressof(seeding.known.entries))

    def make(self, start, reason):
        """
        Make some items from @start on, which are shared with nobody for @reason; where it came to,
        which is @start where it cannot.
        """
        run, scope = self.run, self.run.scope
        if self.look() != self.marks or run.sample.handle != self.entry.sample:
            return start
        run.save_generators(self.own)
        indices = run.indices[start:start + length(scope)]
        self.entry.position = start
        values, error = [], None
        native.lone_begin(ctypes.byref(self.entry))
        begin = clock.thread_ns()
        try:
            error = self._make(indices, values)
        finally:
            made = clock.thread_ns() - begin
            begun = self.entry.position - start
            stays = self.look() == self.marks
            native.lone_end(ctypes.byref(self.entry), begun if stays else 0,
                            stays and begun > len(values), reason)
        if not stays:
            native.count_pass(b"torch_again", begun)
            run.lone, scope.exchanges = False, True
            return start
        run.batch.put_values(start, values)
        end = start + len(values)
        run.progress[start:end] = bytes([native.PUT]) * len(values)
        if error is not None and not unread.notice_all(scope.armed):  # else it is made again, singly
            run.error, run.failed_at = error, end
        elif values:
            scope.learn_many(len(values), made)
        if not scope.in_directory and native.saw_relative():
            with native.unseen():
                scope.note_relative()
            run.lone = None  # what was looked at again may be another one
        if unread.noticed() != scope.noticed:
            scope.learn_reads()
            run.lone = None
        return end

    @staticmethod
    def _attempt(step):
        """Whether @step, of ours, works; what it raises is not the program's."""
        try:
            step()
            return True
        except Exception as error:
            native.failed(error)
            return False

    def _make(self, indices, values):
        """Add the items at @indices to @values; the error of one."""
        python, reference = self.python, ctypes.byref(self.entry)
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
