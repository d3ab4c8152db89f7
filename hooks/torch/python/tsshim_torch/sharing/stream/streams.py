# SPDX-License-Identifier: MIT
"""
Iterable data sets under alignment, where the items are made.

An iteration is one per worker, and its items have places in it.  All jobs that have the same
iteration in a worker walk the same items, so the item at a place is made once: by the job that
claims the place.  That one claims the next place before it shows the item, so the others wait
for it rather than make it, and the iterators of these others stay behind.  Whoever finds nothing
at a place (the job in front has ended, or the ring has passed by) lets its own iterator go on
until it is there; that costs what was saved, and gives the same items.

	place   of the item that is delivered next
	made    items that the own iterator has given
	stock   of these, what is not delivered yet; so made is at most place + len(stock)
	ahead   the claim for a place that is not asked for yet

A worker in front that has nothing to do makes up to AHEAD items for its stock: the jobs behind it
may be a little faster than its own program.  Then it lets the claim go.  So a place that is claimed
is being made, and is waited for; whoever comes to one that is not, with an iterator that is
behind, waits only while its program has another batch.

An item depends on all files that the iteration has opened so far, so these are part of its name.

A stream that is `alone` neither takes nor publishes: in a process that the program shares with
it, where files cannot be told or are too young, and where the own iterator gave other items than
somebody else's.  That is looked at once per job and data set, with the first PROBES items.
"""

import collections
import mmap
import struct
import time

from torch.utils.data._utils import worker as torch_worker

from ... import asking, clock, native
from ...asking import Raised
from ..batch import aligned, collate, fetch
from ..item import codec, generators, private
from ..naming import aligned_names, digests, scopes, unread
from . import webdataset

# What is no input: Python looks for code once in a process.
_CODE = (b".py", b".pyc", b".so")

END = object()  # in the place of an item behind the last one
_ENTRY = struct.Struct("=5q2HI")  # leader/inputs/opens.c
_HEADER = 8  # bytes


def files_of(inputs):
    """The entries of a list of files, without code, as bytes."""
    found, at = [], _HEADER
    while at < len(inputs):
        end = at + _ENTRY.size + _ENTRY.unpack_from(inputs, at)[5]
        if end > len(inputs):
            raise ValueError("files")
        entry = inputs[at:end]
        if not entry.endswith(_CODE):
            found.append(entry)
        at = end
    return b"".join(found)


class Generators:
    """
    Those that an iteration draws from: the global ones, and those that its data set has of its
    own.  The latter are the same in all workers, as they are where these are forked.
    """

    def __init__(self, own, seed, numbers):
        self.own, self.seed, self.numbers = own, seed, numbers
        self.inside = self.outside = None

    def _states(self):
        return generators.save(), self.own.states()

    def _put(self, states):
        generators.restore(states[0])
        self.own.put(states[1])

    def enter(self):
        if self.outside is not None:
            return
        self.outside = self._states()
        if self.inside is not None:
            self._put(self.inside)
        else:
            self.begin()

    def begin(self):
        """Let them be as an iteration begins with them."""
        words = digests.digest("tsshim numpy", self.seed)
        generators.seed(self.seed, self.seed, int.from_bytes(words[:4], "little"))
        self.own.begin(self.numbers)

    def leave(self):
        if self.outside is not None:
            self.inside = self._states()
            self._put(self.outside)
            self.outside = None


class Leaves:
    """
    Those of bags of options that the name of an iteration lacks, {name: [bytes]} as it began.  They are
    hidden whenever its iterator runs; what has read one may be kept until its end.
    """

    def __init__(self, scope, left):
        self.scope, self.left = scope, dict(left)
        self.armed, self.have_read = [], False

    def hide(self):
        """The iterator is asked for its next item."""
        if self.left and not self.armed:
            self.armed = self.scope.arm()

    def read(self):
        """
        Leaves that have been read lately, with what they were as the iteration began: they are part
        of its name from now on.  A thread may read all of them when nobody looks.
        """
        if not self.left:
            return None
        names = set()
        if unread.noticed() != self.scope.noticed:
            names = self.scope.learn_reads()
        if not self.scope.all_are_noticed():
            names = set(self.left)
        self.have_read |= bool(names)
        return [(name, self.left.pop(name, [])) for name in sorted(names)]

    def forget(self):
        """The name is of no use any more."""
        self.left.clear()

    def reveal(self):
        """Count all that is hidden now; whether there was anything."""
        return unread.notice_all(self.armed)

    def give_back(self):
        """The batch is made."""
        armed, self.armed = self.armed, []
        unread.disarm(armed)


class Source:
    """The iterator over @dataset; @scope learns what its items cost."""

    def __init__(self, dataset, scope, own):
        self.dataset, self.scope, self.generators = dataset, scope, own
        self.iterator = None
        self.made = 0  # items that it has given, the END as well

    def _next(self):
        if self.iterator is None:
            self.iterator = asking.Iterated(self.dataset, self.scope.auto)
        return next(self.iterator)

    def begin_anew(self):
        """Let another iterator come to where this one has failed; one that cannot raises what it will."""
        self.iterator = None
        self.generators.begin()
        for _ in range(self.made):
            self._next()

    def make(self, sample, how):
        """
        The next item of the own iterator, observed by @sample; END behind the last one.  Gives
        (item, whether @sample may be published, the files it opened or None: not to be told).
        """
        self.generators.enter()
        sample.begin(how | native.WATCH)
        start, outcome = clock.thread_ns(), native.RAISED
        try:
            try:
                value, made = self._next(), native.MADE
            except StopIteration:
                value, made = END, native.NOTHING
            except Exception as error:  # the program's own
                raise Raised(asking.theirs(error)) from None
            outcome = made
        finally:
            publish = sample.end(outcome)
            inputs = sample.inputs()
        if value is not END:
            self.scope.learn(clock.thread_ns() - start)
        self.made += 1
        return value, publish, None if inputs is None else files_of(inputs)


# ---- data sets whose iterations were found to give the same items in several jobs ----

_SLOTS, NAME = 256, 16
_equal = None  # names of data sets, in memory that is shared with workers to come


def expect_workers(loader):
    """This process may be about to fork workers for @loader."""
    global _equal
    if _equal is None:
        _equal = mmap.mmap(-1, _SLOTS * NAME)
    scopes.expect_workers(loader, True)


def is_equal(name):
    return _equal is not None and any(
        _equal[at:at + NAME] == name for at in range(0, len(_equal), NAME))


def note_equal(name):
    """A slot that two workers write at once holds no name, or one of theirs."""
    for at in range(0, len(_equal or b""), NAME):
        if _equal[at:at + NAME] == bytes(NAME):
            _equal[at:at + NAME] = name
            return


# ---- one iteration ----

AHEAD, AHEAD_BYTES = 32, 64 << 20
PROBES = 2  # items that are made as well as taken, to compare them
STALL_S = 10  # nobody waits longer for somebody else's item
POLL_S = 0.01  # between two looks whether somebody has begun it

_END_MARK = "end"  # in the extra of its record: (mark, what state() gives behind the iteration)


class Stream:
    """One iteration of an iterable data set, in the process that makes its items."""

    is_busy = False  # an item is being made in this process

    def __init__(self, fetcher, turn, before=None, is_nested=False):
        info = torch_worker._worker_info
        self.info = info
        self.dataset = fetcher.dataset
        self.scope = aligned_names.Scope(fetcher)
        worker, count = (info.id, info.num_workers) if info is not None else (0, 1)
        numbers = digests.digest("tsshim iteration", turn.stream, turn.part)
        self.unsettled = None  # what names a data set whose seeds were replaced, before the first time
        if info is not None:
            if webdataset.is_needed():
                self.unsettled = self._identified() if before is None else before.unsettled
            # As torch has it in a new worker.  The class lets nobody change it, one way or another.
            object.__setattr__(info, "seed", turn.base + worker)
            webdataset.settle(self.dataset, numbers, digests.digest(numbers, worker))
        if self.unsettled is not None:
            self.scope.look_again()
        name = digests.digest(numbers, count, worker)
        self.prefix = self.scope.prefix(self.dataset, name)
        own = self.scope.privates.get(id(self.dataset), private.NONE)
        self.source = Source(
            self.dataset, self.scope, Generators(own, turn.base + worker, numbers))
        self.has_next = turn.has_next
        self.place = 0
        self.stock = collections.deque()  # (value, Encoded or None)
        self.is_persistent = turn.is_persistent
        self.history = bytes(NAME)  # of the files that were opened so far
        self.opened = {}  # place that was taken -> what it had opened, where that is something
        self.sample, self.ahead, self.watched = [native.Sample() for _ in range(3)]
        self.ahead_place = None
        self.has_ended = self.is_settled = False
        self.alone = None  # the reason, where nothing is shared
        if self.prefix is None:
            self.alone = self.scope.reason
        elif info is None or is_nested:
            self.alone = b"torch_iterable"
        self.leaves = Leaves(self.scope, {} if self.alone else self.scope.notes[id(self.dataset)].out)
        # What was found equal of it holds for all iterations, whose seeds differ.
        self.proof = native.digest(self.unsettled or self._identified() or b"")
        # What the iteration leaves the data set as; not told otherwise it changes nothing.
        self.left = self._state()
        self.probes = PROBES  # items yet to be compared
        if self.prefix is not None and is_equal(self.proof):
            self.probes = 0
        # Whether a worker that lives on is spared the items that others make.
        self.may_lag = before is None or before.may_lag

    def _identified(self):
        """What names the data set as it is here in each epoch, or None."""
        self.scope.prefix(self.dataset, b"")
        return self.scope.still(self.dataset)

    # ---- behind, and alone ----

    def _catch_up(self):
        """Let the own iterator come one item nearer to the place."""
        place = self.source.made
        prefix = self.prefix
        value, _, files = self._make(self.watched, native.AGAIN)
        if self.prefix != prefix or value is END or files is None or files != self.opened.pop(place, b""):
            self.leave_others(b"torch_changed")
        return value

    def leave_others(self, reason):
        """From now on this is alone, for @reason."""
        self.alone = self.alone or reason
        self.leaves.forget()
        self.sample.drop()
        self._let_go()

    def _let_go(self):
        self.ahead.drop()
        self.ahead_place = None

    # ---- asking ----

    def _name(self, sample, place):
        sample.name(self.prefix, self.prefix, b"@" + self.history + place.to_bytes(8, "little"), 0)

    def _is_shared(self):
        """Whether the item at the place is shared; counts why not."""
        if self.alone is None and self.scope.have_moved():
            self.leave_others(b"torch_changed")
        reason = self.alone
        if reason is None and self.scope.is_cheap():
            self.scope.tell_cheap()
            reason = b"torch_cheap"
        elif reason is None and self.scope.is_unshareable():
            reason = b"torch_sample"
        if reason is None:
            return True
        native.count_pass(reason)
        self._let_go()
        return False

    def _ask(self):
        """HIT, CLAIM or PASS for the item at the place."""
        if not self._is_shared():
            return native.PASS
        if self.ahead_place == self.place:
            self.sample, self.ahead, self.ahead_place = self.ahead, self.sample, None
            return native.CLAIM
        self._name(self.sample, self.place)
        verdict = self.sample.take(native.NOW)
        if verdict == native.HIT or verdict == native.CLAIM and self.source.made == self.place:
            return verdict
        return self._wait(verdict)

    def _wait(self, verdict):
        """The verdict once somebody else has made the item, or the own iterator is to do it."""
        until = time.monotonic() + STALL_S
        while verdict != native.HIT and time.monotonic() < until and not self._is_over():
            if verdict == native.BUSY:
                verdict = self.sample.take(native.STAY)
            elif self.source.made == self.place or self._is_urgent():
                return verdict
            else:
                self.sample.drop()
                time.sleep(POLL_S)
                verdict = self.sample.take(native.NOW)
        return native.PASS if verdict == native.BUSY else verdict

    def _is_urgent(self):
        """Whether the program may be out of batches: it has asked for the next one as well."""
        waiting = aligned.worker_queue
        return not self.has_next or waiting is None or waiting.has_more()

    # ---- delivering ----

    def deliver(self, batch, position):
        """Put the item at the place at @position of @batch; False: there is none."""
        self.scope.use_transforms()
        if not self.stock:
            verdict = self._ask()
            if verdict == native.HIT:
                given = self._take(batch, position)
                if given is not None:
                    return given
            if not self.stock and not self._produce(verdict == native.CLAIM):
                return False
        value, encoded = self.stock.popleft()
        self.place += 1
        self.has_ended = value is END
        if type(value) is Raised:
            raise value
        if not self.has_ended:
            self._put(batch, position, value, encoded)
        return not self.has_ended

    @staticmethod
    def _put(batch, position, value, encoded):
        try:
            batch.put_value(position, value, encoded)
        except Exception as error:  # the item is there, whatever went wrong with it
            native.report(error)
            batch.put_plain(position, value)

    def _take(self, batch, position):
        """Deliver the record that was found; None: the item comes from the own iterator."""
        sample = self.sample
        files = files_of(sample.inputs())
        if self.source.made == self.place and (self.probes or sample.view.verify):
            self._compare(files)
            return None
        if not self.may_lag:
            sample.drop()
            native.count_pass(b"torch_left")
            return None
        end = None
        try:
            if sample.view.payload_bytes == 0:
                end = codec.parse(sample.meta())[2]
            if end is not None and end[0] != _END_MARK:
                raise ValueError("end")
            if end is None:
                batch.put_record(position, sample.meta(), sample.view.payload,
                                 sample.view.payload_bytes, sample.origin())
        except Exception as error:  # no sample that is understood here
            native.report(error)
            sample.drop()
            return None
        if files:
            self.opened[self.place] = files
        if end is None:
            sample.taken()
        else:
            sample.drop()
            self.has_ended, self.left = True, end[1]
        self._went_by(files)
        self.place += 1
        return not self.has_ended

    def _compare(self, files):
        """Make the item that was found as well."""
        sample = self.sample
        value, _, own = self._make(self.watched, 0)
        encoded, mark = None, None
        try:
            if value is END:
                mark = (_END_MARK, None)
            encoded = codec.encode(None if mark else value, mark)
            meta = sample.meta()
            equal = own == files and (mark is not None and codec.parse(meta)[2] is not None
                                      or encoded.meta == meta
                                      and encoded.bytes == sample.view.payload_bytes
                                      and fetch.is_equal(encoded.leaves, sample.view.payload))
        except codec.Unshareable:
            equal = False
        if not self.probes and own == files:
            sample.verified(equal)
        sample.drop()
        if not equal:
            self.leave_others(b"torch_iterable" if own == files else b"torch_changed")
            if own == files:
                native.say("not aligned: iteration of %s: its items are others in each job" %
                           type(self.dataset).__qualname__)
        elif self.probes:
            self.probes -= 1
            if self.probes == 0:
                note_equal(self.proof)
        self._went_by(files)
        self.stock.append((value, encoded))

    def _went_by(self, files):
        """The item at the place had opened @files."""
        if files:
            self.history = native.digest(self.history + files)

    # ---- making ----

    def _make(self, sample, how):
        """What the source makes; it is not to be published where it has read what its name lacks."""
        self.leaves.hide()
        read = None
        try:
            value, publish, files = self._made(sample, how)
        finally:
            try:
                read = self.leaves.read()
                if read:
                    self.prefix = digests.digest("tsshim read", self.prefix, read)
                    self._let_go()
            except Exception as error:  # the program's may be on its way
                native.failed(error)
                self.leave_others(b"torch_settings")
        if self.scope.have_moved():  # by the item, or while it was made
            self.leave_others(b"torch_changed")
        return value, publish and not read, files

    def _made(self, sample, how):
        try:
            return self.source.make(sample, how)
        except Raised as raised:
            # Code may not take a bag that is watched for what it is: all is asked again as it was.
            if not self.leaves.reveal():
                raise
            try:
                self.source.begin_anew()
            except Exception:
                raise raised from None
            return self.source.make(self.watched, native.AGAIN)

    def _produce(self, is_claimed):
        """
        Let the own iterator give the item at the place, to others as well if @is_claimed; False:
        this worker is to end.
        """
        while self.source.made < self.place:
            if self._is_over() or self._catch_up() is END:
                self.has_ended = True
                return False
        sample = self.sample if is_claimed and self.alone is None else self.watched
        value, publish, files = self._make(
            sample, native.NEST if is_claimed and not self.scope.in_vain else 0)
        if is_claimed:
            self.scope.in_vain = True  # until it is published
        encoded = None
        try:
            if files is None:
                self.scope.explain(sample.unfit())
                self.leave_others(b"torch_inputs")
            else:
                self._went_by(files)
            encoded = self._publish(sample, value, publish, is_claimed)
        finally:  # it is made, whatever goes wrong with us
            self.stock.append((value, encoded))
        return True

    def _publish(self, sample, value, publish, is_claimed):
        """Show the item @value, which was made last, to others; gives its Encoded or None."""
        encoded = self._encode(value, publish)
        if is_claimed and self.alone is None and value is not END:
            self._claim_next()
        if publish and encoded is not None and self.alone is None:
            address = sample.reserve(encoded.meta, encoded.bytes)
            if address:
                codec.fill(encoded.leaves, address, fetch.copy_to_ring)
                encoded.origin = sample.publish()
                self.scope.in_vain = False
        sample.drop()
        return encoded

    def _encode(self, value, publish):
        try:
            if value is END:
                self.scope.look_again()
                return codec.encode(None, (_END_MARK, self._state())) if publish else None
            encoded = codec.encode(value)
        except codec.Unshareable:
            if publish:
                native.count_pass(b"torch_sample")
                self.scope.unshareable += 1
            return None
        self.scope.unshareable = 0
        return encoded

    def _claim_next(self):
        self._name(self.ahead, self.source.made)
        if self.ahead.take(native.NOW) == native.CLAIM:
            self.ahead_place = self.source.made
        else:
            self.ahead.drop()

    # ---- ahead ----

    def _may_make_ahead(self):
        # A data set that lives on would have gone further than the program saw.
        return self.alone is None and self.ahead_place == self.source.made and \
            not self.is_persistent and not self.scope.is_cheap() and \
            len(self.stock) < AHEAD and \
            sum(encoded.bytes for _, encoded in self.stock if encoded) < AHEAD_BYTES

    def idle(self, has_work):
        """Make items ahead until @has_work(), which says that the worker has something to do."""
        if Stream.is_busy:
            return
        Stream.is_busy = True
        try:
            while self._may_make_ahead() and not has_work():
                self.sample, self.ahead, self.ahead_place = self.ahead, self.sample, None
                self._produce_ahead()
            if not has_work():
                self._let_go()
        except Exception as error:
            native.failed(error)
            self.leave_others(b"torch_settings")
        finally:
            Stream.is_busy = False
            self.leave()

    def _produce_ahead(self):
        place, self.place = self.place, self.source.made
        try:
            self._produce(True)
        except Raised as raised:  # when it is its turn
            self.stock.append((raised, None))
        finally:
            self.place = place

    # ---- ends ----

    def go_on_alone(self):
        """The data set has raised an exception: what comes next its iterator says."""
        self.leave_others(b"torch_iterable")
        self.place = self.source.made
        self.stock.clear()

    def leave(self):
        """The batch is made: put everything back as the program had it."""
        self.source.generators.leave()
        self.leaves.give_back()
        self.sample.drop()
        self.watched.drop()

    def _is_over(self):
        """Whether the trainer lets this worker end."""
        return aligned.worker_queue is not None and aligned.worker_queue.is_over()

    def _state(self):
        """What tells the data set as it was looked at last from any other; None: unknown."""
        name = self.scope.still(self.dataset)
        return None if name is None else native.digest(name)

    def _is_left(self):
        """Whether the data set is already as the iteration leaves it."""
        self.scope.look_again()
        return self.left is not None and self._state() == self.left

    def end(self):
        """All was delivered; the program, which may move shared numbers now, has not seen it yet."""
        if self.is_persistent and self.scope.cells:
            self.settle()

    def settle(self):
        """
        The worker goes on to another iteration: let the data set be as if its own iterator had
        given all that was delivered.  One that counts its iterations does so when they begin.
        """
        self.leave_others(b"torch_iterable")
        if self.is_settled:
            return
        self.is_settled = True
        try:
            while self.source.made < min(PROBES, self.place):
                self._catch_up()
            if self.source.made < self.place and not self._is_left():
                self.may_lag &= self.leaves.have_read  # it is left as something else if only because more counts
                while self.source.made < self.place and self._catch_up() is not END:
                    pass
        except Raised as raised:  # in an iteration that others could go through
            native.report(raised)
        finally:
            self.leave()


# ---- batches, as torch's fetcher is asked for them ----

_last = None  # Stream of this process


def _begin(fetcher, turn):
    global _last
    if Stream.is_busy:  # a loader inside of an item
        return Stream(fetcher, turn, is_nested=True)
    if _last is not None and _last.info is torch_worker._worker_info is not None:
        _last.settle()
        _last = Stream(fetcher, turn, _last)
    else:
        _last = Stream(fetcher, turn)
    if aligned.worker_queue is not None:
        aligned.worker_queue.idle = _last.idle
    return _last


def _fill(stream, batch, count):
    """
    (how many items were put into @batch, the exception of the data set's that ended it or None);
    what went wrong with us is done again without.
    """
    position = 0
    while position < count:
        try:
            given = stream.deliver(batch, position)
        except Raised as raised:
            stream.go_on_alone()
            return position, raised.args[0]
        except Exception as error:
            if stream.alone is not None:
                raise
            native.failed(error)
            stream.leave_others(b"torch_settings")
            continue
        if not given:
            break
        position += 1
    return position, None


def stream_of(fetcher, turn):
    """The Stream of @fetcher; None: something of ours failed, and it works as without us."""
    if "_tsshim_stream" not in fetcher.__dict__:
        fetcher._tsshim_stream = None
        try:
            fetcher._tsshim_stream = _begin(fetcher, turn)
        except Exception as error:
            native.failed(error)
    return fetcher._tsshim_stream


class _Rest:
    """What a stream still has to give, in the order of its own iterator, without anything of ours."""

    def __init__(self, stream, values):
        self.source, self.place = stream.source, stream.place
        self.values = [*values, *(value for value, _ in stream.stock)]

    def __iter__(self):
        return self

    def __next__(self):
        if self.values:
            value = self.values.pop(0)
            if type(value) is Raised:
                raise value.args[0]
            if value is END:
                raise StopIteration
            return value
        own = self.source.iterator
        if own is None:
            own = self.source.iterator = iter(self.source.dataset)
        while self.source.made < self.place:  # others have made what was delivered
            self.source.made += 1
            next(own)
        return next(own)


def _give_up(fetcher, stream, batch, count):
    """Something of ours failed, and would again: leave the rest, and @count items of @batch, to torch."""
    fetcher.ended = stream.has_ended and not count
    fetcher._tsshim_stream, fetcher.dataset_iter = None, iter(())
    fetcher.dataset_iter = _Rest(stream, [batch.sample(place) for place in range(count)])


def run(fetcher, turn, stream):
    """What _IterableDatasetFetcher.fetch() gives for @turn."""
    if getattr(fetcher, "ended", False) or stream.has_ended:  # torch up to 1.8 does not note it
        raise Raised(StopIteration())
    many = fetcher.auto_collation
    count = len(turn.indices) if many else 1
    batch = collate.Batch(count, many and stream.scope.direct, native.copy)
    batch.moves = True
    was_busy, Stream.is_busy = Stream.is_busy, True
    try:
        try:
            found, error = _fill(stream, batch, count)
            if stream.has_ended:
                stream.end()
        finally:
            Stream.is_busy = was_busy
            stream.leave()
        stream.scope.tell(stream.alone or stream.scope.obstacle_of_items())
        if error is not None:
            raise Raised(error)
        return _finished(fetcher, batch, found)
    except Raised:
        raise
    except Exception:
        _give_up(fetcher, stream, batch, sum(part is not None for part in batch.parts))
        raise


def _finished(fetcher, batch, found):
    """What torch would make of the @found items in @batch."""
    many, count = fetcher.auto_collation, len(batch.parts)
    fetcher.ended = found < count
    if found == 0 or many and fetcher.drop_last and found < count:
        raise Raised(StopIteration())
    if not many:
        return collate.asked(fetcher.collate_fn, batch.samples()[0])
    if found < count:
        return collate.asked(fetcher.collate_fn, batch.samples()[:found])
    return batch.finish(fetcher.collate_fn)
