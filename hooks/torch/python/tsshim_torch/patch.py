# SPDX-License-Identifier: MIT
"""
What is changed in torch.utils.data.

install() runs while torch is still being imported, so it only puts small wrappers in place;
what they need is imported when a loader is iterated.  Each is a generator that yields where torch's
own function runs, which is what the program gets as soon as anything of ours fails
(guard_importlib_bootstrap.py).
"""

import atexit
import importlib
import itertools
import os
import sys
import weakref

from . import asking, collecting, guard_importlib_bootstrap as guard, native, others


def install():
    """Called once, when torch.utils.data.dataloader was executed; the rest of torch may not."""
    dataloader = sys.modules["torch.utils.data.dataloader"]
    fetcher = dataloader._utils.fetch._MapDatasetFetcher
    asking.know(fetcher, dataloader._utils.fetch._IterableDatasetFetcher)
    if native.settings.locality:
        _share_out(dataloader._BaseDataLoaderIter, dataloader)
    if native.settings.aligned:
        _prepare_workers(dataloader.DataLoader, "batch.aligned")
        _wrap_iterators(dataloader._BaseDataLoaderIter, dataloader)
        _wrap_fetch(fetcher, _fetch_aligned, _own_words)
        _wrap_streams(dataloader._utils.fetch._IterableDatasetFetcher)
        _wrap_worker(dataloader._utils.worker)
        atexit.register(_at_end, os.getpid())
    elif native.settings.share in (native.SHARE_AUTO, native.SHARE_SAMPLES):
        _prepare_workers(dataloader.DataLoader, "batch.exact")
        _wrap_fetch(fetcher, _fetch_exact)
    elif native.settings.share == native.SHARE_PIXELS:
        _prepare_workers(dataloader.DataLoader, None)
    from .handover import pool
    pool.install()


# ---- the process that iterates the loader ----

def _prepare_workers(loader_class, name):
    """
    Import module @name of sharing, if any, and let it prepare, once in the program: not in each
    worker of each epoch, which takes 50 ms and 100.  Note the loader for `tsrun explain`.

    Not in an iterator's __init__(): torch raises warnings there that name its caller.
    """
    def _get_iterator(self, *_args, **_kwargs):
        try:
            data = sys.modules["torch.utils.data"]
            is_stream = native.settings.aligned and isinstance(self.dataset, data.IterableDataset)
            module = "stream.streams" if is_stream else name
            if module is not None:
                with collecting.put_off():
                    _with_nodes()
                    importlib.import_module(__package__ + ".sharing." + module).expect_workers(self)
        except Exception as error:
            native.failed(error)
        met = _attempt("begin", self)
        iterator, error = yield
        if met is not None and error is None:
            _attempt("note", iterator, met)
        return iterator

    guard.wrap(loader_class, "_get_iterator", _get_iterator)


def _attempt(step, *arguments):
    """A function of loaders.py, whose errors are of no concern to the program."""
    try:
        from .sharing.naming import loaders
        return getattr(loaders, step)(*arguments)
    except Exception as error:
        native.failed(error)
        return None


_said = weakref.WeakSet()  # loaders


def _say_once(loader, iterator):
    if loader not in _said:
        _said.add(loader)
        dataset, what = loader.dataset, "it is not known how its samples come (%s)" % type(iterator).__qualname__
        if _is_pipe(dataset, "MapDataPipe", "IterDataPipe"):
            dataset, what = getattr(dataset, "_datapipe", dataset), "a DataPipe has seeds of its own"
        native.say("not aligned: loader over %s: %s" % (type(dataset).__qualname__, what))
        _attempt("refuse", loader, what)


def _at_end(process):
    """Of the program, which is this @process."""
    try:
        if os.getpid() == process:
            others.say_what_came_by()
    except Exception as error:
        native.failed(error)


def _is_iterable(iterator, dataloader):
    return iterator._dataset_kind == dataloader._DatasetKind.Iterable


def _is_pipe(dataset, *names):
    """Whether @dataset is of a class of data pipes with one of these @names; torch 1.7 has none."""
    data = sys.modules["torch.utils.data"]
    return isinstance(dataset, tuple(getattr(data, name) for name in names if hasattr(data, name)))


def _can_align(iterator, loader, dataloader):
    """Whether we know how the batches of @iterator come, and its workers understand us."""
    known = (dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter)
    kinds = dataloader._utils.fetch
    fetcher = kinds._IterableDatasetFetcher if _is_iterable(iterator, dataloader) \
        else kinds._MapDatasetFetcher
    from .sharing.order import torchdata
    is_known = type(iterator) in known or not _is_iterable(iterator, dataloader) and \
        torchdata.is_one(iterator)
    # Data pipes have seeds of their own, which torch hands around.
    if not is_known or not hasattr(fetcher.fetch, "tsshim") or \
            _is_pipe(loader.dataset, "MapDataPipe", "IterDataPipe"):
        native.count_pass(b"torch_iterable")
        _say_once(loader, iterator)
        return False
    if others.is_fed_by_keras(loader.dataset):
        native.count_pass(b"torch_iterable")
        others.say_of_keras()
        _attempt("refuse", loader, "batches that Keras makes ahead or takes from an iterator")
        return False
    if loader.num_workers == 0:
        return True
    context = loader.multiprocessing_context or sys.modules["torch.multiprocessing"]
    # A worker that is started anew without us would not know what a Work is.  (To ask without
    # allow_none would settle the method for the program.)
    return context.get_start_method(allow_none=True) == "fork" or \
        "libtsshim" in os.environ.get("LD_PRELOAD", "")


# The data set whose iterator begins with its first batch, of a loader without workers that is
# about to hand it to torch's fetcher.
_to_begin_late = None


def _begins_late(dataset):
    """Whether the iterator over @dataset does, which is handed to torch's fetcher now."""
    global _to_begin_late
    late, _to_begin_late = _to_begin_late, None
    data = sys.modules["torch.utils.data"]
    worker = data._utils.worker._worker_info
    if worker is None:
        return late is dataset
    # In a worker whose loop is torch's own: others ask the iterator for its state at once.
    aligned = sys.modules.get(__package__ + ".sharing.batch.aligned")
    return aligned is not None and aligned.worker_queue is not None and \
        worker.dataset is dataset and not _is_pipe(dataset, "IterDataPipe")


def _begin(iterator, loader, dataloader):
    global _to_begin_late
    iterator._tsshim_plan = _to_begin_late = None
    try:
        others.note_iteration()
        if _can_align(iterator, loader, dataloader):
            from .sharing.order import align
            begin = kind = None
            if _is_iterable(iterator, dataloader):
                from .sharing.stream import iterables
                kind = iterables.Plan
                if loader.num_workers == 0:
                    _to_begin_late = loader.dataset
            elif native.settings.free:
                from .sharing.order import free
                begin = free.begin
            iterator._tsshim_plan = align.begin(loader, iterator, begin, kind)
    except Exception as error:  # the loader works as without us
        native.failed(error)


_is_prepared = False


def _prepare(loader, iterator):
    """Do for the workers that are forked next what each of them would do."""
    global _is_prepared
    try:
        from .sharing.naming import aligned_names  # which workers inherit
        aligned_names.prepare(loader, iterator)
        _is_prepared = True
    except Exception as error:
        native.failed(error)


def _forget():
    """Batches are being sent to the workers, so these are there."""
    global _is_prepared
    if _is_prepared:
        _is_prepared = False
        from .sharing.naming import aligned_names
        aligned_names.forget()


def _wrap_iterators(base, dataloader):
    def __init__(self, loader, *_args, **_kwargs):
        _attempt("meet", loader)  # one of a class that makes iterators in its own way, too
        from .sharing.item import generators
        with generators.used():  # it draws the seed of its workers
            _, error = yield
        if error is not None:
            return
        _begin(self, loader, dataloader)
        if self._tsshim_plan is not None:
            try:
                self._tsshim_plan.begin(self)
            except Exception as failure:  # ours, or of what was asked of the program again
                native.failed(failure)
            if loader.num_workers and not _is_iterable(self, dataloader):
                _prepare(loader, self)

    def _reset(self, loader, first_iter=False, *_args, **_kwargs):
        from .sharing.item import generators
        with generators.used():
            _, error = yield
        if error is None and not first_iter:
            _begin(self, loader, dataloader)

    def _next_index(self):
        plan = getattr(self, "_tsshim_plan", None)
        if plan is None:
            return (yield)[0]
        try:
            _forget()
            return (yield from plan.next_index(self))
        except (asking.Meant, asking.Raised):
            raise
        except Exception:
            self._tsshim_plan = None  # the rest of the iteration is torch's own
            drawn = [indices for indices, _ in getattr(plan, "drawn", ())]
            if drawn:
                self._sampler_iter = itertools.chain(drawn, self._sampler_iter)
            if getattr(plan, "free", None) is not None:  # and begins with as many batches less
                for _ in zip(range(plan.batches), self._sampler_iter):
                    pass
            raise

    def __next__(self):
        data, error = yield
        plan = getattr(self, "_tsshim_plan", None)
        if plan is not None and error is None:
            plan.deliver()
        elif plan is not None and isinstance(error, StopIteration):
            plan.end()
        return data

    for ours in (__init__, _reset, _next_index, __next__):
        guard.wrap(base, ours.__name__, ours)


# ---- whose samples they are, with --locality ----

def _begin_turn(iterator, loader, dataloader):
    iterator._tsshim_turn = None
    try:
        from .locality import iteration
        is_known = not _is_iterable(iterator, dataloader) and type(iterator) in (
            dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter)
        iterator._tsshim_turn = iteration.begin(loader, iterator, is_known)
    except Exception as error:  # the loader works as without us
        native.failed(error)


def _share_out(base, dataloader):
    def __init__(self, loader, *_args, **_kwargs):
        _, error = yield
        if error is None:
            _begin_turn(self, loader, dataloader)

    def _reset(self, loader, first_iter=False, *_args, **_kwargs):
        _, error = yield
        if error is None and not first_iter:
            _begin_turn(self, loader, dataloader)

    def _next_index(self):
        turn = getattr(self, "_tsshim_turn", None)
        return (yield)[0] if turn is None else (yield from turn.next_index())

    for ours in (__init__, _reset, _next_index):
        guard.wrap(base, ours.__name__, ours)


# ---- where the samples are made ----

def _own_words(fetcher, indices):
    """What torch's own fetch() understands: the indices of what is of our making."""
    for module, kind in ((".sharing.order.align", "Work"), (".sharing.stream.iterables", "Turn")):
        found = sys.modules.get(__package__ + module)
        if found is not None and type(indices) is getattr(found, kind):
            return fetcher, indices.indices
    return fetcher, indices


def _with_nodes():
    """Batches of aligned jobs ask other nodes, where that is wanted."""
    if native.settings.across:
        from .sharing.batch import across
        across.use()


def _fetch_aligned(self, indices):
    align = sys.modules.get(__package__ + ".sharing.order.align")
    if align is None or type(indices) is not align.Work:
        return (yield)[0]
    from .sharing.batch import aligned, fetch
    _with_nodes()
    made = aligned.run(self, indices)
    return (yield)[0] if made is fetch.NOT_OURS else made


def _fetch_exact(self, indices):
    from .sharing.batch import exact, fetch
    made = exact.run(self, indices)
    return (yield)[0] if made is fetch.NOT_OURS else made


def _wrap_streams(fetcher):
    """Let iterators begin with the first batch, which says what they draw from."""
    if not guard.takes(fetcher.__init__, "self", "dataset", "auto_collation", "collate_fn", "drop_last"):
        return  # one that we do not know: nothing of it is aligned, which is said

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        if not _begins_late(dataset) or type(self) is not fetcher:
            return (yield)[0]
        super(fetcher, self).__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter, self.ended = None, False
        return None

    def fetch(self, possibly_batched_index):
        iterables = sys.modules.get(__package__ + ".sharing.stream.iterables")
        turn = possibly_batched_index
        if iterables is not None and type(turn) is iterables.Turn:
            from .sharing.item import generators
            from .sharing.stream import streams
            with generators.used():
                stream = streams.stream_of(self, turn)
                if stream is not None:
                    return streams.run(self, turn, stream)
        return (yield)[0]

    def own_words(self, indices):
        if getattr(self, "dataset_iter", None) is None:
            self.dataset_iter = iter(self.dataset)
        return _own_words(self, indices)

    guard.wrap(fetcher, "__init__", __init__)
    guard.wrap(fetcher, "fetch", fetch, own_words)
    fetcher.fetch.tsshim = True


def _wrap_fetch(fetcher, ours, plain=None):
    guard.wrap(fetcher, "fetch", ours, plain)
    fetcher.fetch.tsshim = True


def _wrap_worker(worker):
    def _worker_loop(*args, **kwargs):
        from .sharing.batch import ahead, aligned
        queue = aligned.worker_queue = ahead.QueueAhead(args[2])
        yield (*args[:2], queue, *args[3:])

    if guard.takes(worker._worker_loop, "dataset_kind", None, "index_queue"):
        guard.wrap(worker, "_worker_loop", _worker_loop)
