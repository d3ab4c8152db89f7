# SPDX-License-Identifier: MIT
"""
Batches of iterable data sets under alignment, in the process that makes them: what torch's
fetcher is asked for comes from the Stream of its iteration.
"""

from torch.utils.data._utils import worker as torch_worker

from .. import native
from . import aligned, collate, proven, scopes, source, streams


def expect_workers(loader):
    """This process may be about to fork workers for @loader."""
    proven.expect()
    scopes.expect_workers(loader, True)


_last = None  # Stream of this process


def _begin(fetcher, turn):
    global _last
    if streams.Stream.is_busy:  # a loader inside of an item
        return streams.Stream(fetcher, turn, is_nested=True)
    if _last is not None and _last.info is torch_worker._worker_info is not None:
        _last.settle()
        _last = streams.Stream(fetcher, turn, _last)
    else:
        _last = streams.Stream(fetcher, turn)
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
        except source.Raised as raised:
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
            if type(value) is source.Raised:
                raise value.args[0]
            if value is source.END:
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
        raise source.Raised(StopIteration())
    many = fetcher.auto_collation
    count = len(turn.indices) if many else 1
    batch = collate.Batch(count, many and stream.scope.direct, native.copy)
    batch.moves = True
    was_busy, streams.Stream.is_busy = streams.Stream.is_busy, True
    try:
        try:
            found, error = _fill(stream, batch, count)
            if stream.has_ended:
                stream.end()
        finally:
            streams.Stream.is_busy = was_busy
            stream.leave()
        stream.scope.tell(stream.alone or stream.scope.obstacle_of_items())
        if error is not None:
            raise source.Raised(error)
        return _finished(fetcher, batch, found)
    except source.Raised:
        raise
    except Exception:
        _give_up(fetcher, stream, batch, sum(part is not None for part in batch.parts))
        raise


def _finished(fetcher, batch, found):
    """What torch would make of the @found items in @batch."""
    many, count = fetcher.auto_collation, len(batch.parts)
    fetcher.ended = found < count
    if found == 0 or many and fetcher.drop_last and found < count:
        raise source.Raised(StopIteration())
    if not many:
        return collate.asked(fetcher.collate_fn, batch.samples()[0])
    if found < count:
        return collate.asked(fetcher.collate_fn, batch.samples()[:found])
    return batch.finish(fetcher.collate_fn)
