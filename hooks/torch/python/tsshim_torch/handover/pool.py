# SPDX-License-Identifier: MIT
"""Hand-over of batches from DataLoader workers to the trainer in recycled shared memory.

Plain torch makes, faults in and unlinks one shared-memory file per tensor per batch.  Under
install() a worker collates into buffers that it has used before (outbox.py), or what it sends is
copied there.  The trainer gives them back when its last tensor on them has died (inbox.py); what
both have in common is in buffers.py.  Whatever is not certain goes torch's own way.
"""

import contextlib
import ctypes
import os
import sys
import threading

from .. import guard_importlib_bootstrap as guard
from . import buffers, inbox, outbox, pinned

# Longest that a fork waits for another thread of ours, which never takes a thousandth of it.
FORK_SECONDS = 10

# A worker keeps at most twice so much at the end of its heap: a picture in one of Pillow's blocks,
# which have no more than 16 MiB, and what is cut out of it.
HEAP_BLOCK = 16 << 20

# Tells a spawned child that its parent can receive from a pool.  Not a setting: it is
# in the environment of children only, and start-up takes it out of theirs.
_ANNOUNCEMENT = "_TSSHIM_POOL"

_outbox = None     # in a DataLoader worker
_inbox = None      # in a process that has received something, and in its forked children
_installed = set()  # processes of our line of forks that can receive
_parent_says = 0   # process that announced to be able to
_naming = False    # in such a worker: what is in pinned memory may be sent once to a GPU
_count = None      # tells the references of a storage
_torch_reduce = None
_overwriters = ()  # code of functions that write every byte of what they allocate
_lock = threading.RLock()
_held = []         # locks that are held while this process forks


# ---- in a worker ----------------------------------------------------------------------------


def _enter_worker(queue):
    """This process is a worker that answers through @queue."""
    global _outbox, _inbox, _naming
    import multiprocessing
    parent = multiprocessing.parent_process()
    if parent is None or (parent.pid not in _installed and parent.pid != _parent_says):
        return
    if not _complete():
        return
    inherited, _inbox = _inbox, None
    if inherited is not None and inherited.pid != parent.pid:
        inherited.abandon()
        inherited = None
    _outbox = outbox.Outbox(queue, _count, inherited)
    _tell_before_sending(queue, _outbox)
    _naming = pinned.wanted()
    _keep_heap()


def _keep_heap():
    """
    Free one block that was never touched.  glibc gives the end of its heap back when it is longer
    than twice the largest block that was mapped singly and freed (mallopt(3), M_MMAP_THRESHOLD,
    "dynamic"): an item of several blocks of about one size would have each next one fault them in
    again.  A setting of the user's or the program's, as MALLOC_TRIM_THRESHOLD_, stays in force.
    """
    process = ctypes.PyDLL(None)  # the malloc of this process, whoever brought it
    process.malloc.restype = ctypes.c_void_p
    process.malloc.argtypes = [ctypes.c_size_t]
    process.free.restype = None
    process.free.argtypes = [ctypes.c_void_p]
    process.free(process.malloc(HEAP_BLOCK))


def _tell_before_sending(queue, box):
    """The feeding thread of @queue, which the first message starts, sends by this method."""
    def send_bytes(*_args, **_kwargs):
        box.sending()
        return (yield)[0]

    guard.wrap(queue, "_send_bytes", send_bytes)


def new_storage(nbytes, zeroed=False):
    """
    A torch.UntypedStorage of @nbytes in shared memory, from the pool, or None: outside a
    worker, no room, another sharing strategy.  Its contents are undefined unless
    @zeroed.  It belongs to the caller as any storage does.  For any thread; never raises.
    """
    if _outbox is None or nbytes <= 0:
        return None
    try:
        storage, fresh = _outbox.take(nbytes)
        if storage is not None and zeroed and not fresh:
            storage.fill_(0)
        return storage
    except Exception:
        return None


def names():
    """Whether somebody may ask by what name() the contents of a storage are known."""
    return _naming


def name(tensor, known_by):
    """To the GPU the storage of @tensor, which is sent as it is, is known by 16 bytes."""
    if _outbox is not None and tensor.numel() * tensor.element_size() >= pinned.MIN_BYTES:
        _outbox.name(buffers.untyped(tensor), known_by)


def _is_overwritten(frame):
    """Was it called for a function that writes all of the storage?  Torch's are all zero."""
    for _ in range(2):
        if frame is None:
            return False
        if frame.f_code in _overwriters:
            return True
        frame = frame.f_back
    return False


def _wrap_new_shared(torch):
    """UntypedStorage._new_shared(), by which torch's collation gets its memory."""
    def _new_shared(cls, size, *args, **kwargs):
        if (_outbox is not None and cls is torch.UntypedStorage and not args
                and str(kwargs.get("device", "cpu")) == "cpu"):
            caller = sys._getframe(1)
            while caller is not None and caller.f_code.co_filename == guard.__file__:
                caller = caller.f_back
            storage = new_storage(size, zeroed=not _is_overwritten(caller))
            if storage is not None:
                return storage
        return (yield)[0]

    torch.UntypedStorage._new_shared = classmethod(
        guard.wrapped(torch.UntypedStorage._new_shared.__func__, _new_shared))


def _wrap_worker_loop(worker):
    """
    The main function of workers, to learn which queue leads to the trainer.  Spawned workers get
    it by its name, and so the one that is there.
    """
    def _worker_loop(*args, **_kwargs):
        _enter_worker(args[3])
        yield

    if guard.takes(worker._worker_loop, "dataset_kind", None, "index_queue", "data_queue"):
        guard.wrap(worker, "_worker_loop", _worker_loop)


# ---- across -----------------------------------------------------------------------------------


def _reduce(storage):
    """Instead of torch's reduce_storage(): how @storage goes to another process."""
    is_first = False
    try:
        if _outbox is not None:
            parcel = _outbox.parcel(storage)
            if parcel is not None:
                return (_rebuild, parcel)
            is_first = _outbox.is_at_first()
        elif _inbox is not None:
            _inbox.sent_on(storage)
    except Exception as error:  # torch sends it
        guard.failed(error)
    try:
        reduced = _torch_reduce(storage)
    except (OSError, RuntimeError):
        # /dev/shm is full.  The feeding thread would drop the message, for which the trainer then waits for ever.
        if _outbox is None or not _outbox.is_feeding() or storage.device.type != "cpu":
            raise
        reduced = _rebuild_from_bytes, (ctypes.string_at(storage.data_ptr(), storage.nbytes()),)
    return (_rebuild_as_torch, reduced) if is_first else reduced


def _rebuild_from_bytes(data):
    """A storage that lies in no shared memory."""
    import torch
    storage = torch.UntypedStorage(len(data))
    ctypes.memmove(storage.data_ptr(), data, len(data))
    return storage


def _rebuild_as_torch(rebuild, arguments):
    """The first storage of a message, where it did not come through the pool: that has no room."""
    if _inbox is not None and _inbox.pid == os.getpid():
        _inbox.give_back()
    return rebuild(*arguments)


def _rebuild(receiver, name, index, sent, nbytes, known, origin, door, is_first):
    """
    The storage that a worker sent.  ConnectionRefusedError, as of torch, when that one is gone and
    the storage with it.
    """
    if receiver == os.getpid():
        try:
            return _receiving().receive(name, index, sent, nbytes, known, origin, door, is_first)
        except ConnectionRefusedError:
            raise
        except Exception:
            door = (None, None)  # used up
    return _rebuild_apart(nbytes, origin, door)


def _rebuild_apart(nbytes, origin, door):
    """
    For whom it was not meant, or who cannot tell when he is done: a mapping of his own.  As
    nobody reports that as done with, the buffer is never used again.
    """
    import torch
    if door[0] is not None:
        os.close(door[0].detach())
    fd = door[1].detach() if door[1] is not None else inbox.open_at(origin)
    try:
        return torch.UntypedStorage._new_shared_fd_cpu(fd, nbytes)
    finally:
        os.close(fd)


def _receiving():
    """The Inbox of this process; an error if it cannot have one."""
    global _inbox
    with _lock:
        if _inbox is None or _inbox.pid != os.getpid():
            if _inbox is not None:  # the parent's, by a fork
                for _, pool in _inbox.abandon():
                    pool.control.close()
                _inbox = None
            if not _complete():
                raise NotImplementedError
            _inbox = inbox.Inbox(_count)
        return _inbox


def _twin(tensor):
    """For the pinning thread: @tensor in pinned memory of ours, or None."""
    if _inbox is None or _inbox.pid != os.getpid():
        return None
    return _inbox.twin(tensor)


# ---- in every process -------------------------------------------------------------------------


def _before_fork():
    """
    Retire what is in use: the child may go on using it, and would not tell.  The locks are held
    until the fork is done, or another thread could receive something in between.
    """
    for lock in [_lock] + [box.lock for box in (_outbox, _inbox) if box is not None]:
        if lock.acquire(timeout=FORK_SECONDS):
            _held.append(lock)
    with contextlib.suppress(Exception):
        for box in (_outbox, _inbox):
            if box is not None:
                box.before_fork()


def _after_fork_in_parent():
    while _held:
        _held.pop().release()


def _after_fork_in_child():
    global _lock, _outbox, _naming
    del _held[:]
    _lock = threading.RLock()
    _outbox, _naming = None, False
    if _inbox is not None:
        _inbox.lock = threading.RLock()
    _installed.add(os.getpid())


def install():
    """
    Let this process have workers that send, and be one.  May be called while torch is still
    being imported; changes one function, the rest follows when there is a worker.  A second call
    does nothing.  Never raises.
    """
    global _parent_says
    if _installed:
        return
    with contextlib.suppress(Exception):
        from torch.utils.data._utils import pin_memory, worker
        _parent_says = int(os.environ.pop(_ANNOUNCEMENT, "0"))
        os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent,
                            after_in_child=_after_fork_in_child)
        _wrap_worker_loop(worker)
        if pinned.wanted():
            pinned.wrap(pin_memory, _twin)
        _installed.add(os.getpid())
        # Not os.environ: this process need not see it.
        os.putenv(_ANNOUNCEMENT, str(os.getpid()))


def _complete():
    """The rest of install(), before anything is sent or received.  Is all as we know it?"""
    global _count, _torch_reduce, _overwriters
    if _torch_reduce is not None:
        return _count is not None
    from multiprocessing.reduction import ForkingPickler
    import torch
    if not hasattr(torch, "UntypedStorage") or not hasattr(os, "memfd_create"):  # before 1.13
        return False
    import torch.multiprocessing.reductions as reductions
    from torch.utils.data._utils import collate
    kind = torch.UntypedStorage
    previous = getattr(ForkingPickler, "_extra_reducers", {}).get(kind)
    _torch_reduce = previous or reductions.reduce_storage
    collation = getattr(collate, "collate_tensor_fn", None)
    _overwriters = (collation.__code__,) if collation is not None else ()
    _wrap_new_shared(torch)
    ForkingPickler.register(kind, _reduce)
    _count = buffers.use_counter()
    return _count is not None
