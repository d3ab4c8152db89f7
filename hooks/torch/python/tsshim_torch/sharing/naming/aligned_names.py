# SPDX-License-Identifier: MIT
"""
What names the items of an aligned job: the data sets of a fetcher as scopes.py knows them, and the
generators of their own; and what workers inherit of it from the process that forks them.
"""

import mmap
import os
import types

import torch
from torch.utils.data._utils import worker as torch_worker

from ... import clock, native
from ...fingerprint import shared
from ..batch import bulk, lone
from ..item import objects, private
from ..order import align
from . import hints, loaders, scopes, unread

MOVES = 64  # of shared numbers, by which a data set that is looked at for each has no name any more

# Bytes that workers share with the process that forks them: whether an item of one of them has
# opened a relative name, and whether one has changed numbers that processes share.
_told = mmap.mmap(-1, 2)
_RELATIVE, _MOVES = 0, 1


class Scope(scopes.Scope):
    """The same, and which generators of their own the data sets draw from."""

    def __init__(self, fetcher):
        super().__init__(fetcher)
        self.privates = {}  # id -> private.Private, of the data sets of .identities
        self.cells = []  # (numbers that processes share, their bytes in the names)
        self.moves = _told[_MOVES] * MOVES  # of these, that came too soon
        self.is_stream = isinstance(self.dataset, torch.utils.data.IterableDataset)
        self.counted = None  # of a stream: names of leaves that count, where others may not
        self.is_untried = True  # no item was made here yet
        self.may_keep = False  # what was read before the first item, and not be seen
        self.in_directory = native.saw_relative()
        self.spares = []  # structs like .sample, for across.py
        self.undrawn = 0  # items in a row that drew nothing
        self.asks_from = 0  # .items from which the chunks of a lone job are asked for again
        _inherit(self)
        if self.auto and scopes.fetches_batches(self.dataset):
            self.bulk = bulk.Known()
        else:
            self.hinted = hints.told(self)

    def _fingerprint(self, dataset, kept):
        from ...fingerprint import datasets, handles
        handles.with_devices = not native.settings.across
        notes = self.notes.setdefault(id(dataset), datasets.Notes(seeds=True))
        notes.generators.clear()
        notes.read, notes.traced = self._names_read(), []
        notes.cells = [] if self.moves < MOVES else None
        try:
            return self._walk(dataset, kept, notes)
        finally:
            self.cells = [pair for known in self.notes.values() for pair in known.cells or ()]
            self.privates[id(dataset)] = private.Private(notes.generators)
            self.may_keep |= self.is_untried and notes.has_cache

    def _names_read(self):
        if not self.is_stream:
            return super()._names_read()
        if self.counted is None and torch_worker._worker_info is not None:
            self.counted = unread.names()  # of all the iteration, but for what it reads itself
        return self.counted if self.all_are_noticed() else None

    def is_cheap(self):
        return super().is_cheap() if self.size is None else self.size != 1

    def is_to_be_asked_later(self):
        """Whether nobody else was asking for chunks a moment ago."""
        return self.items < self.asks_from

    def ask_later(self):
        """Nobody else asks for chunks."""
        if not self.is_to_be_asked_later():
            self.asks_from = self.items + lone.length(self)

    def arm(self):
        self.use_transforms()
        return super().arm()

    def stay_armed(self):
        self.use_transforms()  # which a loader inside an item may have changed
        super().stay_armed()

    def look(self):
        if self.have_moved():
            self.note_moved(clock.thread() - self.checked < scopes.RECHECK * self.cost and 1)
        super().look()

    def is_doubtful(self):
        """Whether items may change numbers that processes share: the first one, in its place, tells."""
        return self.is_untried and bool(self.cells)

    def have_moved(self):
        """Whether numbers that processes share are no more what the names say."""
        return bool(self.cells) and any(shared.now(cell) != data for cell, data in self.cells)

    def note_moved(self, moves=MOVES):
        """They are not, and @moves count: those that items move are no part of a name that others have."""
        self.moves += moves
        _told[_MOVES] = self.moves >= MOVES
        with native.unseen():
            self.look_again()

    def learn_reads(self):
        read = super().learn_reads()
        if self.counted is not None:
            self.counted |= read
        return read

    def still(self, dataset):
        """What names @dataset as it was looked at last, whatever shared numbers are by now; None: no name."""
        known = self.identities.get(id(dataset))
        if known is None or known[1] is None:
            return None
        return b"".join((self.notes[id(dataset)].still, *self.parts[id(dataset)][1:]))

    def _identity(self, dataset):
        if native.settings.share == native.SHARE_PIXELS:  # no name is wanted, but what to seed
            from ...fingerprint import datasets
            try:
                self._fingerprint(dataset, [])
            except datasets.Unknown as unknown:
                self.explain(str(unknown))
        identity = super()._identity(dataset)
        if identity is not None:
            objects.learn_transforms(identity, self.notes[id(dataset)].traced)
        return identity

    def use_transforms(self):
        """Samples that are made or taken now are of these data sets."""
        objects.use_transforms([identity for _, identity in self.identities.values() if identity])

    def _directory(self, dataset, name):
        # Of what was opened by an absolute name everybody has the same.
        keeps = self.may_keep or self.saw_relative()
        return super()._directory(dataset, name) if keeps else b""

    def saw_relative(self):
        """Whether an item that this scope names may have opened a relative name."""
        return bool(native.saw_relative())

    def note_relative(self):
        """Items do, from now on: they are named anew, and who iterates can see it."""
        self.in_directory = True
        _told[_RELATIVE] = 1
        self.look_again()

    def take_over(self, other):
        """Know of the data set what @other does, of the process that has just forked this one."""
        self.identities, self.constants, self.notes = other.identities, other.constants, other.notes
        self.privates, self.judged, self.parts = other.privates, other.judged, other.parts
        self.reason, self.may_keep, self.left = other.reason, other.may_keep, other.left
        self.detail, self.noticed, self.cells = other.detail, other.noticed, other.cells
        self.is_untried = other.is_untried
        self.cost, self.checked = other.cost, clock.thread()

    def _inside(self, index):
        return self.dataset if self.unwrap is None else self.unwrap(self.dataset, index)[0]

    def name_of(self, index):
        """16 bytes for the data set that makes the item at @index, whatever the epoch, or None."""
        return self.prefix(self._inside(index), b"")

    def private(self, index):
        """The private.Private of the data set that makes the item at @index."""
        dataset = self._inside(index)
        if id(dataset) not in self.identities:
            self._identify(dataset)
        return self.privates[id(dataset)]


class ScopeOfWorkers(Scope):
    """The same in the process that iterates, of items that its workers make."""

    def look(self):
        if not self.in_directory and self.saw_relative():
            self.in_directory = True
            self.look_again()
        super().look()

    def saw_relative(self):
        return super().saw_relative() or _told[_RELATIVE] != 0


_prepared = None  # (process, Scope) for the workers that it is about to fork
_known = (None, None)  # what the last data set was, and whether its items keep nothing; None: not asked yet


def _keeps_nothing(dataset, identity):
    """
    Whether the first item of @dataset, which is what it was at the last iteration, leaves nothing to look for.  To
    judge costs as much as a few looks, so that is done for the second iteration, and of no large arrays.
    """
    global _known
    if identity is None or _known[0] != identity:
        _known = (identity, None)
        return False
    if _known[1] is None:
        _known = (identity, not scopes.holds_data(dataset) and not scopes.keeps_names(dataset))
    return _known[1]


def prepare(loader, iterator):
    """
    The workers of @iterator are about to be forked from this process, which names what each of
    them would: here it costs less than in one of them, for no page has to be copied.  Until
    forget().
    """
    global _prepared
    _prepared = None
    plan = iterator._tsshim_plan
    notes, plan.notes = plan.notes, None
    if not scopes.forks_quietly(loader):
        return
    dataset, data = loader.dataset, torch.utils.data
    start = clock.thread()
    scope = Scope(types.SimpleNamespace(dataset=dataset, collate_fn=iterator._collate_fn,
                                        auto_collation=iterator._auto_collation))
    scope.of_workers, scope.met = True, loaders.met(loader)
    while type(dataset) is data.Subset:
        dataset = dataset.dataset
    if type(dataset) is not data.ConcatDataset:
        scope.constants[id(dataset)] = align.constants_of(dataset)
        if notes is not None:
            scope.notes[id(dataset)] = notes
        scope.prefix(dataset, b"")
        scope.is_untried = not _keeps_nothing(dataset, scope.identities[id(dataset)][1])
        scope.cost = max(clock.thread() - start, 1e-4)
        _prepared = os.getpid(), scope


def forget():
    """The workers are there, and have what was prepared; the data set is the program's alone."""
    global _prepared
    _prepared = None


def _inherit(scope):
    """Let @scope, which is made in a worker, begin with what was prepared for it."""
    global _prepared
    if _prepared is None or torch_worker._worker_info is None:
        return
    process, prepared = _prepared
    if process == os.getppid() and prepared.dataset is scope.dataset:
        _prepared = None  # for what it begins with: later the data set may be another one
        scope.take_over(prepared)
