# SPDX-License-Identifier: MIT
"""
Aligned mode: every sample has a name, and the workers of all jobs split them (docs/rooms/torch.md).
"""

import contextlib
import struct

import torch

from ... import native
from ..item import generators, private, seeding
from ..naming import aligned_names, hints, scopes, unread
from ..order import align, free
from . import ahead, bulk, chunks, collate, fetch, lone


def expect_workers(loader):
    """This process may be about to fork workers for @loader."""
    Batch.expect_workers()
    scopes.expect_workers(loader, judges=not scopes.holds_data(loader.dataset))
    hints.expect(loader)


_SEEDS = struct.Struct("=QQL")

worker_queue = None  # of this worker process, set by patch.py


class Drawn(fetch.Fetch):
    """A batch of items each of which draws from generators that its name says."""

    moves = True

    def __init__(self, scope, work, indices):
        super().__init__(scope, work, indices)
        self.moments = 0  # of the wait for the next batch
        self.put_back = None  # a function, for the program's own generators
        self.private = private.NONE
        self.threads = torch.get_num_threads()
        self.lone = None  # lone.Lone; False: items are made singly
        self.is_alone = False  # nobody else was asking for the item before
        self.how = 0  # native.AGAIN, for an item that its chunk has as well
        self.chunks = None  # chunks.Chunks, where samples go by these

    @classmethod
    def expect_workers(cls):
        """This process may be about to fork workers that make such batches."""

    def leave(self):
        super().leave()
        self.lone = None  # it has us: what was made would live until Python looks for cycles
        if self.put_back is not None:
            self.put_back()
            if self.threads != 1:
                torch.set_num_threads(self.threads)
        self.private.restore()

    def _streams(self, dataset, work):
        if work.free is not None:
            return free.streams(self.scope, dataset, work)
        return self.scope.prefix(dataset, work.stream), work.stream, None

    def _name(self, work, position, index):
        """Say which sample is meant; whether it may be shared."""
        occurrence = work.occurrences[position] if work.occurrences else 0
        dataset = self.scope.dataset
        if self.scope.unwrap is not None:
            dataset, index = self.scope.unwrap(dataset, index)
        number, index = index, align.index_bytes(index)
        stream = work.stream if work.free is None else free.stream(work, position)
        prefix = self.scope.prefix(dataset, stream)
        # What cannot be named draws by its place in the epoch, which is no worse than any.
        self.sample.name(prefix or stream, stream,
                         b"?%d %d" % (work.number, position) if index is None else index,
                         occurrence)
        if work.free is not None and prefix is not None:
            free.note(self.sample, self.scope, dataset, work, position, number)
        if index is None:
            native.count_pass(b"torch_index")
        elif prefix is None:
            native.count_pass(self.scope.reason)
        return index is not None and prefix is not None

    def _fill(self):
        self.chunks = self._by_chunk()
        if self.chunks is not None:
            self.chunks.fill()
        super()._fill()
        if self.scope.item_bytes is None and self.scope.is_cheap() and self.error is None:
            chunks.learn_form(self.scope, self.batch.sample(0, False))

    def _by_chunk(self):
        """The Chunks of this batch; None: its samples go singly."""
        scope, work = self.scope, self.work
        if work.free is not None or not scope.auto or scope.bulk is not None or \
                scope.is_unshareable() or scope.exchanges:
            return None
        dataset, indices = chunks.inside(scope, self.indices)
        if indices is None:
            return None
        guess = chunks.guess(scope)
        if guess is not None and guess != scope.hinted:
            scope.hinted = guess
            hints.tell(scope, guess)
        scope.size = chunks.size_of(self, *self._streams(dataset, work)[:2], guess)
        if scope.size is None or scope.size <= chunks.SINGLE:
            return None
        if scope.is_untried:
            if not self._try_first():
                return None
        self.batch.row_min = 1
        return chunks.Chunks(self, lone.Seeded(self), scope.size)

    def _try_first(self):
        """Make the first item, which its chunk has as well; whether it was made."""
        self._name(self.work, 0, self.indices[0])
        self.how = native.AGAIN
        try:
            self._compute(0, None)
        finally:
            self.how = 0
        return not self.scope.is_untried

    def _next(self, position, patient):
        if patient and not self.scope.is_untried:
            position = self._make_lone(position)
            if position >= self.failed_at:
                return position, None
        position, verdict = super()._next(position, patient)
        self.is_alone = verdict == native.PASS and self.sample.view.is_alone \
            and self.scope.lone >= self.lone_nests and lone.length(self.scope) > 1
        return position, verdict

    def _make_lone(self, position):
        """
        Make the items from @position on that go to nobody else: as long as they are cheap, and some
        more after one that nobody else was asking for; where it came to.
        """
        while position < self.failed_at and (self.is_alone or self.scope.is_cheap()):
            if self.lone is None:
                self.lone = lone.of(self) or False
            if not self.lone:
                break
            reason, self.is_alone = b"alone" if self.is_alone else b"torch_cheap", False
            if reason == b"torch_cheap":
                self.scope.tell_cheap()
            before, position = position, self.lone.make(position, reason)
            if before == position:
                break
        return position

    def _ask(self, position, wait=native.NOW):
        if not self._name(self.work, position, self.indices[position]):
            return None
        if self.scope.is_cheap():
            self.scope.tell_cheap()
            native.count_pass(b"torch_cheap")
            return None
        if self.scope.is_unshareable():
            native.count_pass(b"torch_sample")
            return None
        return None if self.scope.is_doubtful() else self.sample.take(wait)

    def save_generators(self, own):
        """
        The generators of the program and, of its data set's own, all but @own.  Gives what
        Globals.look() does, where it has looked.
        """
        python = None
        if self.put_back is None:
            python, self.put_back = seeding.known.save()
            if self.threads != 1:
                torch.set_num_threads(1)  # sums depend on it, and workers have one
        if own is not self.private:
            self.private.restore()
            self.private = own
        self.arm()
        return python

    def seed(self, index):
        """Let the generators be those of the sample that was named, which is the one at @index."""
        view = self.sample.view
        self.save_generators(self.scope.private(index))
        seeding.seed(view.torch_seed, view.python_seed, view.numpy_seed)
        if self.private.paths:
            self.seed_private()

    def seed_private(self):
        """The same for those that its data set has of its own."""
        view = self.sample.view
        self.private.seed(_SEEDS.pack(view.torch_seed, view.python_seed, view.numpy_seed))

    def _compute(self, position, verdict):
        if self.work.raised and position in self.work.raised:
            self.error = self.work.raised[position]
            self.failed_at = position
        else:
            super()._compute(position, verdict)

    def _item(self, index, verdict=None):
        noticed = self.scope.noticed  # when what it is published under was named
        self.seed(index)
        value = self._listed_item(index, verdict)
        if value is fetch.RAISED and unread.notice_all(self.scope.armed):
            # Code may not take a bag that is watched for what it is: it is asked again as it was.
            self.error = None
            self.scope.learn_reads()
            self.seed(index)
            value = self._listed_item(index, verdict, native.AGAIN)
        if self.scope.is_untried and value is not fetch.RAISED:
            self.scope.is_untried = False
            before = self.private
            with native.unseen():
                self.scope.look_again()  # what the first item opens or makes is there from now on
            if self.scope.private(index).has_more_than(before):
                self.seed(index)
                value = self._listed_item(index, verdict, native.AGAIN)
        if not self.scope.in_directory and native.saw_relative():
            with native.unseen():
                self.scope.note_relative()
        has_read, have_moved = unread.noticed() != noticed, self.scope.have_moved()
        if verdict == native.CLAIM and (generators.has_clashed or has_read or have_moved):
            self.sample.drop()  # another thread may have drawn meanwhile, or the name lacks a leaf
        if has_read:
            self.scope.learn_reads()
        if have_moved:
            self.scope.note_moved()
        return value

    def _item_without_us(self, position):
        with contextlib.suppress(Exception):  # as far as that works: it says what to draw
            self._name(self.work, position, self.indices[position])
        return super()._item_without_us(position)

    def _listed_item(self, index, verdict, how=0):
        """As the superclass does it, in sight of the library."""
        if verdict is not None:
            return super()._item(index, verdict)
        self.sample.begin(how or self.how)
        raised = True
        try:
            value = super()._item(index)
            raised = value is fetch.RAISED
            return value
        finally:
            self.sample.end(raised)

    # ---- claims ----

    def _is_sought(self, work, position, is_ahead=False):
        """
        A claim was won, of @work, which is queued where @is_ahead: whether the sample is looked for
        elsewhere first.  Where not, it is made here and now.
        """
        return False

    def _settle(self, position, verdict):
        if verdict == native.CLAIM and self._is_sought(self.work, position):
            self.progress[position] = native.ASKED
        else:
            super()._settle(position, verdict)

    def _take_ahead(self, work, position, verdict):
        if verdict == native.CLAIM:
            own, self.error = self.error, None
            self._produce(work.indices[position], verdict, native.AHEAD)
            if self.error is not None:  # its own batch will raise it
                work.raised = {**(work.raised or {}), position: self.error}
            self.error = own

    # ---- ahead ----

    def _wait(self, position):
        return self.wait(lambda wait: self._ask(position, wait))

    def wait(self, ask):
        """What @ask(how long to wait) says of what is BUSY, once there is nothing else to do; or BUSY."""
        if self._look_ahead():
            self.moments = 0
            return native.BUSY
        wait = native.WAIT
        if self.moments < ahead.MOMENTS and self._may_be_sent_more():
            wait, self.moments = native.MOMENT, self.moments + 1
        return ask(wait)

    def _may_look_ahead(self):
        return self.scope.may_look_ahead and worker_queue is not None and self.error is None \
            and not self.scope.is_doubtful() \
            and not (self.scope.bulk and self.scope.bulk.is_whole)

    def _may_be_sent_more(self):
        """
        Whether another batch may be about to be queued: the trainer sends one when it gets the
        batch before this one, which has only just been sent where batches are small.
        """
        return self._may_look_ahead() and not worker_queue.stashed()

    def _look_ahead(self):
        """Compute one sample of a later batch; False when there is none to do."""
        if not self._may_look_ahead():
            return False
        for work in worker_queue.waiting():
            if type(work.indices) not in (list, tuple):
                continue
            if self.chunks is not None:
                if self.chunks.look_ahead(work):
                    return True
                continue
            position = self._claim_ahead(work)
            if position is not None:
                if not self._is_sought(work, position, True):
                    self._take_ahead(work, position, native.CLAIM)
                return True
        return False

    def _claim_ahead(self, work):
        """The position of a sample of @work that is ours to make now, or None."""
        count = len(work.indices)
        if work.looked < count and (work.names is None
                                    or work.names[0] is not self.scope.prefixes):
            work.names = (self.scope.prefixes, self._names(work, work.indices))
        if work.looked < count and work.names[1]:
            position = self.sample.claim_batch(work.names[1].reference, work.looked)
            work.looked = position + 1
            return position if position < count else None
        while work.looked < count:
            position, work.looked = work.looked, work.looked + 1
            if not self._name(work, position, work.indices[position]):
                return None
            verdict = self.sample.take()
            if verdict == native.CLAIM:
                return position
            self.sample.drop()
            if verdict == native.PASS:
                return None
        return None


Batch = Drawn  # of batches that are shared; across.py puts its own class here


class Apart(Drawn):
    """A batch that is made without sharing, under the same generators; for when we are in doubt."""

    def _fill(self):
        for position, index in enumerate(self.indices):
            self._name(self.work, position, index)
            self._compute(position, None)
            if position >= self.failed_at:
                return


def _aligned_batch(fetcher, work, indices):
    scope = scopes.scope_of(fetcher, aligned_names.Scope)
    scope.look()
    if scopes.is_alone(scope):
        return Batch(scope, work, indices).run()
    if scope.in_use:
        scope = aligned_names.Scope(fetcher)
    return Apart(scope, work, indices).run()


def _whole_batch(fetcher, work):
    """The samples that the data set makes in one call, aligned by their first index."""
    native.count_pass(b"torch_getitems", len(work.indices))
    whole = bulk.Whole(work)
    return _aligned_batch(fetcher, whole, whole.indices).samples()[0]


def _is_item_by_item(fetcher, work, batch):
    """Whether the singly made items in @batch are what the data set makes of them at once."""
    scope = scopes.scope_of(fetcher, aligned_names.Scope)
    kinds = batch.kinds(bulk.kind_of)
    if scope.bulk.is_settled(kinds):
        return True
    name = scope.name_of(work.indices[0])
    scope.bulk.believe(hints.told(scope), name, kinds)
    if scope.bulk.is_settled(kinds):
        return True
    first, second = bulk.pair(kinds)
    indices = [work.indices[first], work.indices[second]]
    run = Drawn(scope, work, indices)
    try:
        run._name(work, first, indices[0])
        run.seed(indices[0])
        before = generators.digest()
        made = fetcher.dataset.__getitems__(indices)
        has_drawn = bool(generators.digest() != before or scope.private(indices[0]).paths)
    finally:
        run.leave()
    same = scope.bulk.learn(kinds, [batch.sample(place, False) for place in (first, second)], made, has_drawn)
    if name is not None and scope.bulk.word(name):
        hints.tell(scope, scope.bulk.word(name))
    return same


def _bulk_batch(fetcher, work):
    """The finished batch of a data set that makes whole ones."""
    scope = scopes.scope_of(fetcher, aligned_names.Scope)
    if not scope.bulk.is_whole and work.indices and type(work.indices) in (list, tuple):
        batch = None
        try:
            made = _aligned_batch(fetcher, work, work.indices)
            if scope.bulk.is_single or _is_item_by_item(fetcher, work, made):
                batch = made
        except Exception as error:  # then the data set raises it for the whole batch
            native.report(error)
        if batch is not None:
            return batch.finish(fetcher.collate_fn)
        scope.bulk.is_whole = True
    return collate.asked(fetcher.collate_fn, _whole_batch(fetcher, work))


def run(fetcher, work):
    """What _MapDatasetFetcher.fetch() gives for the batch of @work; Raised where that raises."""
    with generators.used():
        return _run(fetcher, work)


def _run(fetcher, work):
    if fetcher.auto_collation and scopes.fetches_batches(fetcher.dataset):
        batch = _bulk_batch(fetcher, work) if work.indices else fetch.NOT_OURS
    elif not fetcher.auto_collation:
        sample = _aligned_batch(fetcher, work, [work.indices]).samples()[0]
        batch = collate.asked(fetcher.collate_fn, sample)
    else:
        batch = _aligned_batch(fetcher, work, work.indices).finish(fetcher.collate_fn)
    scopes.tell_of(fetcher)
    return batch
