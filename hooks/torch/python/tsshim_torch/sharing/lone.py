# SPDX-License-Identifier: MIT
"""
Items of an aligned job that cost next to nothing, and so go to nobody else: all that is done for
one is to seed the generators, in one call (hooks/torch/lone.h).

They come in stretches, after each of which it is looked again what they cost.  What does not fit
(an index that is no number, a generator that is not where it is known to be) is made singly, as
other items are.
"""

import ctypes

from .. import clock, native
from . import batches, bulk, seeding

STRETCH = 16  # items


def of(run):
    """What makes the items of @run, an aligned.Drawn; None: they are made singly."""
    scope, work, indices = run.scope, run.work, run.indices
    owns = {id(own): own for own in [scope.private(index) for index in indices]}.values() \
        if scope.unwrap is not None else [scope.private(indices[0])]
    if len(owns) > 1 and any(own.paths for own in owns):
        return None
    names = run._names(work, indices) if work.free is not None else _names(scope, work, indices)
    return Lone(run, names, next(iter(owns))) if names else None


def _names(scope, work, indices):
    """Only the seeds are wanted, which are the same whatever the data set."""
    if scope.unwrap is not None:
        indices = [scope.unwrap(scope.dataset, index)[1] for index in indices]
    if not batches.can_be_named(indices):
        return None
    return batches.Names(work.stream, work.stream, indices, work.occurrences)


class Lone:
    """The items of one batch, @names, of data sets with generators @own."""

    def __init__(self, run, names, own):
        self.run, self.names, self.own = run, names, own
        self.entry = native.Lone(run.sample.handle, ctypes.addressof(names.view),
                                 ctypes.addressof(seeding.known.entries))

    def make(self, start):
        """Make some items from @start on; where it came to, which is @start where it cannot."""
        run, scope = self.run, self.run.scope
        python = seeding.known.look()
        if python is None or run.sample.handle != self.entry.sample:
            return start
        run.put_aside(self.own)
        indices = run.indices[start:start + STRETCH]
        self.entry.position = start
        values, error = [], None
        native.lone_begin(ctypes.byref(self.entry))
        begin = clock.thread_ns()
        try:
            error = self._make(indices, python, values)
        finally:
            made = clock.thread_ns() - begin
            begun = self.entry.position - start
            native.lone_end(ctypes.byref(self.entry), begun, begun > len(values))
        run.batch.put_values(start, values)
        end = start + len(values)
        run.progress[start:end] = bytes([native.PUT]) * len(values)
        if error is not None:
            run.error, run.failed_at = error, end
        elif values:
            scope.learn_many(len(values), made)
        if not scope.in_directory and native.saw_relative():
            with native.unseen():
                scope.note_relative()
            run.lone = None  # what was looked at again may be another one
        return end

    def _make(self, indices, python, values):
        """Add the items at @indices to @values, as far as generators stay; the error of one."""
        marks, reference = seeding.marks(), ctypes.byref(self.entry)
        dataset, is_single = self.run.scope.dataset, self.run.scope.bulk is None
        seed, look, put = native.lone_next, seeding.marks, values.append
        seed_private = self.run.seed_private if self.own.paths else None
        try:
            for index in indices:
                if look() != marks:
                    break
                seed(reference)
                python.gauss_next = None
                if seed_private is not None:
                    seed_private()
                put(dataset[index] if is_single else bulk.get(dataset, index))
        except Exception as error:  # the program's own; raised again when it is its turn
            return error.with_traceback(error.__traceback__.tb_next)
        return None
