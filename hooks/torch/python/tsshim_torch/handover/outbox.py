# SPDX-License-Identifier: MIT
"""The hand-over pool in a DataLoader worker: taking buffers, sending them."""

import collections
import ctypes
import multiprocessing
import multiprocessing.reduction
import os
import resource
import threading
import time

from . import buffers
from .buffers import ALONE, CLOSED, COUNT, DONE, GREETED, KNOWN, RETIRED, SENT

# Memory a worker may keep in buffers.  Torch has as much in flight: (prefetch_factor + 3)
# batches, so more than this is for batches of 100 MB only, which then go torch's way in part.
MAX_BYTES = 512 << 20
# Buffers that are smaller than this and those that are not are counted apart: batches of many
# labels must not keep the images, for which the pool is there, out of it.  Sizes that change with
# each batch have few, and batches of many tensors more.
SMALL_BYTES = 64 << 10
FEW_BUFFERS = 16
MAX_BUFFERS = 64
# A buffer that was not used for so many takes is of a size that is not asked for any more.
STALE_TAKES = 32
# So many storages in a row the worker must have let go of before those in their place are copied,
# each before the message after the next was made.
LET_GO = 2
# So often the memory of retired buffers is looked for where a free one is found at once.
FORGET_TAKES = 16


class _Place:
    """
    One place of messages, as the third tensor: does the worker let go of what it sends there?
    Torch makes such a tensor the trainer's and the worker's: what one of them writes, the other
    reads.  A copy is as good only if the worker has nothing of it any more, which is often known
    only later: a generator has its item until the next is asked for.
    """

    def __init__(self):
        self._watched = None  # a weak reference to a storage that was sent
        self._message = 0     # in which
        self._gone = 0        # of those watched, None: the worker keeps some

    def lets_go(self, storage, message):
        """Whether it did so far; @storage is sent now."""
        from torch.multiprocessing.reductions import StorageWeakRef
        watched = self._watched
        if self._gone is None:
            return False
        if watched is not None and watched.expired():
            self._gone += 1
            watched = None
        elif watched is not None and (watched.cdata == storage._cdata or message - self._message > 1):
            self._gone = None
            return False
        if watched is None:
            self._watched, self._message = StorageWeakRef(storage), message
        return self._gone >= LET_GO


class Outbox:
    """
    The owner's side of a pool.  take() may be called by any thread, parcel() is called by the
    thread that feeds the loader's queue.
    """

    def __init__(self, queue, count, inherited):
        self._queue = queue
        self._count = count
        self._inherited = inherited  # the parent's Inbox as it was at the fork, or None
        self.lock = threading.RLock()
        self._control = None
        self._name = None
        self._buffers = {}  # {_cdata: Buffer}
        self._takes = [0, 0]  # of large ones, of small ones
        self._pid = os.getpid()
        self._receiver = multiprocessing.parent_process().pid
        self._most = MAX_BUFFERS
        self._parcelled = []  # of the message that is being made
        self._message = 0     # its number,
        self._place = 0       # and that of its next storage
        self._places = collections.defaultdict(_Place)
        self._copies = {}     # {_cdata: (storage, its copy)} of the message

    # ---- opening --------------------------------------------------------------------------

    def _open(self):
        """Have a pool: one that a dead worker left, so that its pages need not be made anew."""
        if self._control is not None and self._control.get(COUNT) < buffers.SLOTS:
            return
        inherited, self._inherited = self._inherited, None
        if inherited is not None:
            for name, pool in inherited.abandon():
                if self._control is None and self._adopt(name, pool):
                    continue
                pool.control.close()
        if self._control is None or self._control.get(COUNT) >= buffers.SLOTS:
            control = buffers.Control.create()
            if not control.own():
                raise OSError("cannot lock")
            self._control, self._buffers = control, {}
            self._name = (self._pid, time.monotonic_ns())
        import torch.utils.data
        info = torch.utils.data.get_worker_info()
        # The receiver has one descriptor open per buffer, and torch wants some as well.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = max(4, min(MAX_BUFFERS, files // (16 * (info.num_workers if info else 1))))

    def _adopt(self, name, pool):
        """Continue @pool if nobody owns it."""
        control = pool.control
        if not control.own():
            return False
        if control.get(CLOSED) or control.get(COUNT) >= buffers.SLOTS:
            control.disown()
            return False
        for buffer in pool.buffers.values():
            if control.of(buffer.index, RETIRED):
                continue
            if control.of(buffer.index, SENT) != control.of(buffer.index, DONE):
                # On its way when its owner died: it may never arrive, or arrive later.
                control.put(buffer.index, RETIRED, 1)
            else:
                self._buffers[buffer.cdata] = buffer
        self._control, self._name = control, name
        return True

    # ---- taking ---------------------------------------------------------------------------

    def take(self, nbytes):
        """
        A storage of @nbytes of which the contents are undefined, or None: no room, another sharing
        strategy.  The second result says whether it is new, and so all zero.
        """
        import torch.multiprocessing
        import torch.utils.data
        with self.lock:
            if (os.getpid() != self._pid or torch.utils.data.get_worker_info() is None
                    or torch.multiprocessing.get_sharing_strategy() != "file_descriptor"):
                return None, False
            self._open()
            small = nbytes < SMALL_BYTES
            self._takes[small] += 1
            buffer, fresh = self._choose(nbytes, small)
            if buffer is None:
                return None, False
            if buffer.used == 0 and not small:
                buffer.populate()
            buffer.used = self._takes[small]
            buffer.name = None
            self._buffers.pop(buffer.cdata, None)
            self._buffers[buffer.cdata] = buffer  # last, so that the first are likely to be free
            return buffer.storage, fresh

    def _is_free(self, buffer):
        """Whether nobody has it."""
        control, index = self._control, buffer.index
        return (not control.of(index, RETIRED)
                and control.of(index, SENT) == control.of(index, DONE) and not buffer.busy())

    def _forget_retired(self):
        for cdata, buffer in list(self._buffers.items()):
            if self._control.of(buffer.index, RETIRED):
                del self._buffers[cdata]

    def _choose(self, nbytes, small):
        """(buffer, whether it is new); a free one of this size, an old one, a new one."""
        if self._takes[small] % FORGET_TAKES == 0:
            self._forget_retired()
        for buffer in self._buffers.values():
            if buffer.nbytes == nbytes and self._is_free(buffer):
                return buffer, False
        self._forget_retired()
        free = [buffer for buffer in self._buffers.values()
                if (buffer.nbytes < SMALL_BYTES) == small and self._is_free(buffer)]
        free.sort(key=lambda buffer: buffer.used)
        stale = [b for b in free if self._takes[small] - b.used > STALE_TAKES]
        # A free one that has to grow takes more memory, one that does not comes first.
        stale.sort(key=lambda buffer: buffer.capacity < nbytes)
        if stale and self._room(nbytes - stale[0].capacity):
            return self._remap(stale[0], nbytes), False
        alike = sum((buffer.nbytes < SMALL_BYTES) == small for buffer in self._buffers.values())
        if alike < min(self._most, FEW_BUFFERS if free else MAX_BUFFERS) and self._room(nbytes):
            index = self._control.get(COUNT)
            buffer = buffers.Buffer.create(index, nbytes, self._count)
            self._control.set(COUNT, index + 1)
            return buffer, True
        for buffer in free:
            if self._room(nbytes - buffer.capacity):
                return self._remap(buffer, nbytes), False
        return None, False

    def _room(self, more):
        return sum(b.capacity for b in self._buffers.values()) + max(more, 0) <= MAX_BYTES

    def _remap(self, buffer, nbytes):
        again = buffer.remap(nbytes)
        del self._buffers[buffer.cdata]
        return again

    # ---- sending --------------------------------------------------------------------------

    def name(self, storage, name):
        """From here on until it is sent, what @storage holds is known by the 16 bytes of @name."""
        with self.lock:
            buffer = self._buffers.get(storage._cdata)
            if buffer is not None:
                buffer.name = name

    def _copied(self, storage, place):
        """
        A storage of the pool with what @storage holds, which is sent at @place, or None.  What is in
        one message twice is copied once.
        """
        if storage._cdata in self._copies:
            return self._copies[storage._cdata][1]
        if storage.device.type != "cpu" or storage.nbytes() == 0 or storage.is_shared() or \
                not self._places[place].lets_go(storage, self._message):
            return None
        copy, _ = self.take(storage.nbytes())
        if copy is not None:
            ctypes.memmove(copy.data_ptr(), storage.data_ptr(), storage.nbytes())
            self._copies[storage._cdata] = storage, copy
        return copy

    def is_at_first(self):
        """Was the first storage of a message asked for last, and can the receiver give something back?"""
        return self.is_feeding() and self._place == 1 and len(self._buffers) > 0

    def is_feeding(self):
        """Whether this is the thread that sends messages to the trainer."""
        return threading.current_thread() is getattr(self._queue, "_thread", None)

    def parcel(self, storage):
        """What the receiver's Inbox.receive() needs to get @storage, or None: torch's way."""
        if os.getpid() != self._pid:
            return None
        buffer = self._buffers.get(storage._cdata)
        if not self.is_feeding():
            if buffer is not None:  # to somebody who will not tell us when he is done with it
                self._control.put(buffer.index, RETIRED, 1)
            return None
        place, self._place = self._place, self._place + 1
        if buffer is None:
            storage = self._copied(storage, place)
        with self.lock:
            buffer = self._buffers.get(storage._cdata) if storage is not None else None
            if buffer is None or self._control.of(buffer.index, RETIRED):
                return None
            control, index = self._control, buffer.index
            fd = buffer.fd()
            dup = multiprocessing.reduction.DupFd
            door = (None if control.get(GREETED) else dup(control.fd),
                    None if control.of(index, KNOWN) else dup(fd))
            sent = control.of(index, SENT) + 1
            control.put(index, SENT, sent)
            self._parcelled.append(buffer)
            return (self._receiver, self._name, index, sent, buffer.nbytes, buffer.name,
                    (self._pid, fd, buffer.inode), door, place == 0)

    def sending(self):
        """
        A message is complete and not yet sent; by the thread that feeds the queue.  What this
        worker still has of it, it might write to: such a buffer is not lent to the GPU.
        """
        with self.lock:
            parcelled, self._parcelled = self._parcelled, []
            self._message, self._place, self._copies = self._message + 1, 0, {}
            for buffer in parcelled:
                if not buffer.busy():
                    self._control.put(buffer.index, ALONE, self._control.of(buffer.index, SENT))

    def before_fork(self):
        """Retire what is in use.  The caller holds the lock."""
        for buffer in self._buffers.values():
            if buffer.busy():
                self._control.put(buffer.index, RETIRED, 1)
