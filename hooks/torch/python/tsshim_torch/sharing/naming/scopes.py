# SPDX-License-Identifier: MIT
"""
What the samples of a fetcher are a function of: its data set, seen through the fingerprint, and
what can be told of it that decides whether sharing them is possible and pays.
"""

import functools
import inspect
import linecache
import math
import os
import sys
import threading

import torch
from torch.utils.data._utils import worker as torch_worker

from ... import clock, guard_importlib_bootstrap as guard, native
from ..batch import collate
from ..item import codec, generators, private
from ..order import align
from . import digests, loaders, unread

# Sharing a sample costs some 20 us and its copy; below 20 times that it does not pay.
CHEAP_NS = 400_000
CHEAP_AFTER = 8  # items, the fastest of which counts: the first ones import modules

UNSHAREABLE = 8  # items in a row
UNSHAREABLE_RETRY = 256  # items after which one is tried again

# A data set may be changed by the program at any time: it is looked at again so often that
# this takes no more than 0.2 % of the CPU time.
RECHECK = 500
PREFIXES = 64  # that are remembered: one for each data set inside and epoch


@functools.lru_cache(None)
def _asks_for_batches():
    """Whether this torch does so at all."""
    fetch = torch.utils.data._utils.fetch._MapDatasetFetcher.fetch
    return "__getitems__" in inspect.unwrap(fetch).__code__.co_consts


def fetches_batches(dataset):
    """Whether torch asks @dataset for whole batches; then items are not ours to make."""
    if not _asks_for_batches():
        return False
    subset = torch.utils.data.Subset
    while type(dataset) is subset:  # whose own __getitems__ only passes on what is inside
        dataset = dataset.dataset
    return callable(getattr(dataset, "__getitems__", None))


def makes_up_attributes(dataset):
    """Whether asking @dataset for an attribute that it may not have runs code of the user's."""
    from ...fingerprint import library
    while type(dataset) is torch.utils.data.Subset:
        dataset = dataset.dataset
    return any("__getattribute__" in library.class_dict(base) or
               "__getattr__" in library.class_dict(base)
               for base in library.mro(type(dataset)) if library.is_user_class(base))


def keeps_names(dataset):
    """
    Whether an item may have opened a relative name once and for all.  Files that an item opens
    are compared at each hit, by their names as they lead from here; of code that is not known to
    keep nothing the working directory is part of the key.
    """
    from ...judge import judgement
    try:
        judgement.judge(dataset)
        return False
    except Exception:  # Refused, or a mistake of ours
        return True


def holds_data(dataset):
    """
    Whether @dataset has large arrays, so that its items are likely to open no files; a verdict is
    of use only where these have relative names.
    """
    from ...fingerprint import arrays, classes
    while type(dataset) is torch.utils.data.Subset:
        dataset = dataset.dataset
    return any(map(arrays.is_large, (classes.instance_dict(dataset) or {}).values()))


_prepared = False  # by expect_workers(); a process that is forked later has it, too


def expect_workers(loader, is_iterable=False, judges=True):
    """
    This process may be about to fork workers for @loader: what each of them would read first, of
    the libraries' code and files, it reads itself, once; what is read for a verdict only where the
    caller @judges.  Runs no code of the user's.

    What workers import is imported here by each thread: were another one in the middle of it when
    they are forked, they would wait for ever for a lock of a thread that they do not have.
    """
    global _prepared
    from ...fingerprint import datasets
    from ...judge import judgement
    datasets.expect()
    if _prepared or native.settings.share == native.SHARE_PIXELS or not _forks_workers(loader) \
            or isinstance(loader.dataset, torch.utils.data.IterableDataset) != is_iterable:
        return
    _prepared = True
    _read_lines()
    _load_formats()
    if native.settings.aligned:
        private.expect_workers()
    try:
        datasets.environment()
        if judges:
            judgement.judge(loader.dataset)
    except (datasets.Unknown, judgement.Refused):
        pass  # as the workers will find


# Whose lines each new worker reads: torch.manual_seed() notes from where it was called, for a GPU.
_CALLERS = ("__main__", "multiprocessing.context", "multiprocessing.popen_fork", "multiprocessing.process", "torch.cuda",
            "torch.cuda.random", "torch.random", "torch.utils.data._utils.worker", "torch.utils.data.dataloader")


def _read_lines():
    """Read them here, for workers to inherit."""
    import multiprocessing.popen_fork  # noqa: F401 -- as the first fork would
    for name in (*_CALLERS, guard.__name__):
        linecache.getlines(getattr(sys.modules.get(name), "__file__", None) or "")


def _load_formats():
    """Let Pillow load its formats as the first picture in each worker would, unless the program has had a say."""
    image = sys.modules.get("PIL.Image")
    if getattr(image, "_initialized", None) == 0 and not image.ID:
        image.preinit()
    try:
        # To decode nothing, and to end without it, binds Pillow to its libjpeg (hooks/jpeg/library.h): 1 ms.
        arguments = "RGB", "RGB", "RGB", 1, False
        image.core.jpeg_decoder(*arguments)
        decoder = image.core.jpeg_decoder(*arguments)
        decoder.setimage(image.core.new("RGB", (1, 1)), (0, 0, 1, 1))
        decoder.decode(b"")
    except Exception:  # there is no Pillow, or it calls this in another way: workers do it as ever
        pass


def _forks_workers(loader):
    """Whether @loader has workers that are forked from this process."""
    if loader.num_workers == 0:
        return False
    context = loader.multiprocessing_context or torch.multiprocessing
    # Not settled yet, it is the first of those that there are.
    method = context.get_start_method(allow_none=True) or context.get_all_start_methods()[0]
    return method == "fork"


def forks_quietly(loader):
    """
    Whether no code of the program's runs between now and the first batch of workers that are
    about to be forked for @loader, in them and here.
    """
    return _forks_workers(loader) and loader.worker_init_fn is None and \
        not has_threads_of_the_program(IDLE)


class Scope:
    """What the samples of a fetcher are a function of, apart from index and stream."""

    def __init__(self, fetcher):
        self.dataset = fetcher.dataset
        self.collate_fn, self.auto = fetcher.collate_fn, fetcher.auto_collation
        self.direct = collate.is_default(fetcher.collate_fn)
        self.sample = native.Sample()
        self.unwrap = align.unwrapper(self.dataset)
        self.met = loaders.of(fetcher)  # for `tsrun explain`
        self.detail = ""  # of the reason
        worker = torch_worker._worker_info
        # A loader inside an item has batches, and a data set, of its own.
        self.may_look_ahead = fetcher.auto_collation and worker is not None \
            and worker.dataset is self.dataset
        # Bags of options that leaves are hidden of, and .looks at that time.  Where nothing of the program's
        # runs between two batches they stay so: to hide 40 leaves and give them back takes 70 us.
        self.armed, self.armed_at = [], None
        self.stays_armed = self.may_look_ahead and self.direct
        self.bulk = None  # bulk.Known, of a data set that makes whole batches
        self.in_use = False
        self.reason = b"torch_dataset"
        self.identities = {}  # id -> (data set, bytes or None), of the data set or those inside
        self.parts = {}  # id -> what its identity is put together of, of the same data sets
        self.constants = {}  # id -> what fingerprint() keeps, of the same data sets
        self.judged = {}  # id -> (name, whether it keeps names), of the same data sets
        self.notes = {}  # id -> datasets.Notes, from one look to look_again(); of the same data sets
        self.prefixes = {}
        self.left = {}  # id -> [(bag of options, names of leaves that the name is made without)]
        self.noticed = unread.noticed()  # when all of it was named, or before
        self.looks = 0  # that were had at data sets here
        self.of_workers = False  # that are to be forked: threads of this process will not be theirs
        # When, and what a look costs: seconds of CPU time.  Where many jobs share a core, time
        # that passes would have each of them look more often than its samples call for.
        self.checked, self.cost = float("-inf"), 0.0
        self.item_ns = None
        self.items = 0
        self.sizes = {}  # prefix -> how many samples the chunks of an epoch have,
        self.size = None  # and in this one (chunks.size_of())
        self.hinted = 0  # such a size, as another worker has left it
        self.item_bytes = None  # of the leaves of a cheap item,
        self.has_rows = False  # which are rows of a batch
        self.has_told = False  # that these are cheap
        self.exchanges = False  # an item has put another generator in the place of a global one
        self.lone = 0  # items in a row that nobody else had asked for
        self.unshareable = 0  # and that could not be written
        self.unfit = 0  # of which the files keep them from others
        # The last item that was ours to make for others was not published: decodes are shared meanwhile.
        self.in_vain = False
        self.worked_ns = 0  # on all items together

    def look(self):
        """Fingerprint again what was fingerprinted, when it is time to."""
        start = clock.thread()
        if start - self.checked < RECHECK * self.cost:
            return
        self.notes.clear()
        self.look_again()
        self.checked = clock.thread()
        self.cost = max(self.checked - start, 1e-4)

    def look_again(self):
        """The same a moment later; large arrays and libraries are taken to be as they were."""
        for dataset, identity in list(self.identities.values()):
            if self._identify(dataset) != identity:
                self.prefixes = {}  # another one: whoever kept something knows it is old

    def _identify(self, dataset):
        with unread.as_they_were():
            identity = self._identity(dataset)
        self.identities[id(dataset)] = (dataset, identity)
        return identity

    def _identity(self, dataset):
        from ...fingerprint import datasets
        if native.settings.share == native.SHARE_PIXELS:
            self.reason = b"disabled"
            return None
        try:
            kept = self.constants.setdefault(id(dataset), [])
            parts = self._fingerprint(dataset, kept), datasets.environment()
            parts += self._directory(dataset, parts[0] + parts[1]),
            self.parts[id(dataset)] = parts
            return b"".join(parts)
        except (datasets.Unknown, OSError) as error:  # a working directory that was removed
            is_slow = getattr(error, "reason", None) == "slow"
            self.reason = b"torch_walk" if is_slow else b"torch_dataset"
            self.explain(str(error))
            return None

    def explain(self, text):
        """Why samples are not shared."""
        self.detail = text
        native.explain(text)

    def _fingerprint(self, dataset, kept):
        from ...fingerprint import datasets
        notes = self.notes[id(dataset)] = datasets.Notes(read=self._names_read())
        return self._walk(dataset, kept, notes)

    def _walk(self, dataset, kept, notes):
        from ...fingerprint import datasets
        self.looks += 1
        notes.left, notes.ignored = [], native.settings.ignored
        notes.parts = [] if self.met is not None and self.met.last is None else notes.parts
        try:
            return datasets.fingerprint(dataset, kept, self._room(), notes)
        finally:
            self.left[id(dataset)] = notes.left

    def all_are_noticed(self):
        """Whether items read bags in this thread alone, or in threads that they begin."""
        return generators.HAS_LOCK and (self.of_workers or not has_threads_of_the_program(IDLE))

    def _names_read(self):
        """Leaves of bags that count in any case; None: all do, for not every read would be noticed."""
        return unread.names() if self.all_are_noticed() else None

    def arm(self):
        """Hide the leaves that the names are made without; gives what unread.disarm() wants."""
        if not any(self.left.values()):
            return []
        if not self.all_are_noticed():
            self.look_again()
        return [armed for left in self.left.values() for armed in unread.arm(left)]

    def stay_armed(self):
        """Hide the leaves, unless they are hidden since the batch before; before a batch's items are made."""
        if not self.armed or self.armed_at != self.looks or not self.all_are_noticed():
            self.disarm()
            self.armed = self.arm()
            self.armed_at = self.looks

    def disarm(self):
        """Let the program have its options as they were."""
        armed, self.armed = self.armed, []
        unread.disarm(armed)

    def learn_reads(self):
        """Items have read some of these, which count from now on; gives their names."""
        self.noticed = unread.noticed()
        read = unread.learn()
        with native.unseen():
            self.look_again()
        return read

    def _room(self):
        """How many bytes of arrays may be read for a name."""
        return math.inf

    def _directory(self, dataset, name):
        """What of the working directory is part of the key of @dataset, which has this @name."""
        known = self.judged.get(id(dataset))
        if known is None or known[0] != name:  # judging costs more than the name
            known = self.judged[id(dataset)] = (name, keeps_names(dataset))
        return os.fsencode(os.getcwd()) if known[1] else b""

    def prefix(self, dataset, stream):
        """16 bytes that name @dataset in this epoch, or None: not to be shared."""
        known = self.prefixes.get((id(dataset), stream))
        if known is None:
            known = self.identities.get(id(dataset))
            identity = known[1] if known else self._identify(dataset)
            if identity is None:
                return None
            known = digests.digest("tsshim", codec.FORMAT, identity, stream)
            if len(self.prefixes) >= PREFIXES:
                self.prefixes = {}  # of epochs long past
            self.prefixes[id(dataset), stream] = known
        return known

    def named(self):
        """
        What the samples are named by, in the word of leader/line/line.h, 0: they have no name; and the
        parts of it.  Of a data set put together of several that is one of those inside.
        """
        for dataset, identity in self.identities.values():
            if identity is not None:
                settings = native.settings
                notes = self.notes[id(dataset)]
                word = digests.word(*notes.apart, *self.parts[id(dataset)][1:],
                                    (settings.aligned, settings.seed))
                return word, notes.parts or ()
        return 0, ()

    def tell(self, reason=None, verdict=loaders.SAMPLES):
        """For `tsrun explain`: samples are not shared for @reason, or they are; asked with each batch."""
        if self.met is None or self.met.last == (verdict if reason is None else reason):
            return
        try:
            if reason is None:
                self.met.tell(verdict, None, "", *self.named())
            else:
                self.met.tell(loaders.NOT, reason, self.detail, *self.named())
        except Exception as error:
            native.report(error)

    def obstacle(self):
        """Why samples cannot be shared, as far as those that were made tell; or None."""
        if any(identity is None for _, identity in self.identities.values()):
            return self.reason
        return self.obstacle_of_items()

    def obstacle_of_items(self):
        """The same of what has a name."""
        # Default mode takes others to be cheap, too, until some were timed.
        if Scope.is_cheap(self) and (self.size or 0) <= 1:
            self.tell_cheap()
            return b"torch_cheap"
        if self.unfit >= UNSHAREABLE:
            return b"torch_inputs"
        return b"torch_sample" if self.unshareable >= UNSHAREABLE else None

    # ---- cost ----

    def is_cheap(self):
        # What each item costs is looked at all the while, so they may turn dear at any time.
        return self.item_ns is not None and self.items >= CHEAP_AFTER and self.item_ns < CHEAP_NS

    def note_files(self, unfit):
        """An item was made of files; those that are @unfit, a text, keep it from others."""
        self.unfit = self.unfit + 1 if unfit else 0
        if self.unfit == UNSHAREABLE:
            self.explain(unfit)

    def tell_cheap(self):
        """Tell once that samples of this data set are not worth sharing."""
        if not self.has_told:
            self.has_told = True
            kind = type(self.dataset)
            self.explain("dataset (%s.%s): an item takes %.2f ms; sharing pays from %.2f ms on" % (
                kind.__module__, kind.__qualname__, self.item_ns / 1e6, CHEAP_NS / 1e6))

    def is_unshareable(self):
        """Whether samples cannot be shared as they have turned out, so their pixels may be."""
        return self.unshareable >= UNSHAREABLE and self.items % UNSHAREABLE_RETRY != 0

    def learn_many(self, count, ns):
        """So many items took @ns together, each about the same."""
        self.items += count
        self.worked_ns += ns
        before = ns // count if self.item_ns is None else self.item_ns
        self.item_ns = before + (ns // count - before) * min(count, 8) // 8

    def learn(self, ns):
        self.items += 1
        self.worked_ns += ns
        if self.item_ns is None:
            self.item_ns = ns
        elif self.items <= CHEAP_AFTER:
            self.item_ns = min(self.item_ns, ns)
        else:
            self.item_ns += (ns - self.item_ns) // 8


def is_alone(scope):
    """
    Whether nobody else can be in the middle of an item here: in a worker, or in the main thread
    of the program.  What other threads draw from the global generators is not to be shared.
    """
    return not scope.in_use and (torch_worker._worker_info is not None
                                 or threading.current_thread() is threading.main_thread())


# Threads that only look at progress bars.
IDLE = frozenset((("tqdm._monitor", "TMonitor"),))


def has_threads_of_the_program(harmless=frozenset()):
    """
    Whether there are threads besides this one that are not known to be the libraries' own, nor of
    the classes @harmless, (module, name).
    """
    known = sum(_is_known(thread, harmless) for thread in threading.enumerate())
    return len(sys._current_frames()) > known


def _is_known(thread, harmless):
    kind = type(thread)
    if thread is threading.current_thread() or (kind.__module__, kind.__qualname__) in harmless:
        return True
    # Those that send what a queue was given, or hand descriptors to the trainer.
    module = getattr(getattr(thread, "_target", None), "__module__", None)
    return type(thread) is threading.Thread and module in (
        "multiprocessing.queues", "multiprocessing.resource_sharer")


def tell_of(fetcher):
    """For `tsrun explain`, when @fetcher has made a batch under alignment."""
    scope = fetcher.__dict__.get("_tsshim_scope")
    if scope is not None and scope.met is not None and scope.identities:
        is_whole = scope.bulk is not None and scope.bulk.is_whole
        scope.tell(scope.obstacle(), loaders.BATCHES if is_whole else loaders.SAMPLES)


_kept = None  # the Scope of the last fetcher of this worker


def _renewed(fetcher, kind):
    """
    The @kind of Scope of this worker's last epoch if it is one for @fetcher as well; it begins
    with a look.  A worker that lives on gets a new fetcher for each epoch, with the same data
    set; no more code of the program's runs between two epochs than between two batches.
    """
    if type(_kept) is not kind or _kept.in_use or _kept.dataset is not fetcher.dataset \
            or _kept.collate_fn is not fetcher.collate_fn or _kept.auto != fetcher.auto_collation:
        return None
    _kept.checked = float("-inf")
    return _kept


def scope_of(fetcher, kind=Scope):
    """The @kind of Scope that belongs to @fetcher."""
    global _kept
    scope = fetcher.__dict__.get("_tsshim_scope")
    if scope is None:
        if torch_worker._worker_info is not None:
            scope = _renewed(fetcher, kind)
            if scope is None:
                if _kept is not None:
                    _kept.disarm()
                scope = kind(fetcher)
            _kept = scope
        else:
            scope = kind(fetcher)
        fetcher._tsshim_scope = scope
    return scope
