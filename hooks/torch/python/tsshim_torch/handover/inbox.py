# SPDX-License-Identifier: MIT
"""The hand-over pool in the process that iterates the loader: delivering, giving back."""

import errno
import os
import threading

from . import buffers, pinned
from .buffers import ALONE, CLOSED, DONE, GREETED, KNOWN, RETIRED

# A pool without an owner from which nothing came while so much came from others is dropped.
IDLE_DELIVERIES = 256
# How often to look for such pools, and for buffers that their owner has retired.
TIDY_DELIVERIES = 32


class Pool:
    """A pool as its receiver sees it."""

    def __init__(self, control):
        self.control = control
        self.buffers = {}  # {index: Buffer}
        self.last = 0      # delivery


class Inbox:
    """All pools from which this process receives.  For any thread."""

    def __init__(self, count):
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self._count = count
        self._pools = {}  # {name: Pool}
        self._live = {}   # {_cdata: (Pool, Buffer)}: delivered and not yet given back
        self._deliveries = 0
        self._leaving = []  # buffers whose twins are no longer needed

    # ---- delivering -----------------------------------------------------------------------

    def receive(self, name, index, sent, nbytes, known, origin, door, is_first):
        """
        The storage that was sent, with contents that are @known by 16 bytes, or None.  Errors are
        those that torch has when the sender of a descriptor is gone: ConnectionRefusedError.
        """
        with self.lock:
            if is_first:  # of a message: a look at all buffers costs as much as to receive ten
                self.give_back()
            pool = self._pool(name, door[0])
            buffer = self._buffer(pool, index, nbytes, origin, door[1])
            if sent <= buffer.sent and not (buffer.cdata in self._live and buffer.busy()):
                raise ConnectionRefusedError(errno.ECONNREFUSED, "received before")
            buffer.name = known if sent > buffer.sent else None
            buffer.sent = max(sent, buffer.sent)
            storage = buffer.storage
            self._live[buffer.cdata] = (pool, buffer)
            self._deliveries += 1
            pool.last = self._deliveries
            if self._deliveries % TIDY_DELIVERIES == 0:
                self._tidy()
            return storage

    def _pool(self, name, door):
        fd = door.detach() if door is not None else -1
        pool = self._pools.get(name)
        if pool is None:
            if fd < 0:
                raise ConnectionRefusedError(errno.ECONNREFUSED, "unknown pool")
            pool = Pool(buffers.Control(fd))
            # Workers take over what dead ones left; who did not will not do so any more.
            self._drop(list(self._pools))
            self._pools[name] = pool
            pool.control.set(GREETED, 1)
        elif fd >= 0:
            os.close(fd)
        return pool

    def _buffer(self, pool, index, nbytes, origin, door):
        buffer = pool.buffers.get(index)
        if buffer is None:
            fd = door.detach() if door is not None else open_at(origin)
            try:
                buffer = buffers.Buffer(index, fd, nbytes, self._count)
            finally:
                os.close(fd)
        else:
            if door is not None:
                os.close(door.detach())
            if buffer.nbytes != nbytes:
                self._leave(buffer)
                buffer = buffer.remap(nbytes)
        pool.buffers[index] = buffer
        pool.control.put(index, KNOWN, 1)
        return buffer

    # ---- giving back ----------------------------------------------------------------------

    def give_back(self):
        """Tell the owners of those that nobody uses any more."""
        with self.lock:
            for cdata, (pool, buffer) in list(self._live.items()):
                if buffer.busy():
                    continue
                said = pinned.returned(buffer)
                if said is None:
                    self._retire(pool, buffer)
                elif said:
                    del self._live[cdata]
                    pool.control.put(buffer.index, DONE, buffer.sent)
            self._leaving = [buffer for buffer in self._leaving if not pinned.left(buffer)]

    def twin(self, tensor):
        """
        @tensor in pinned memory, if its buffer is in such, and nobody else, here or in the worker,
        has anything of it; else None.
        """
        with self.lock:
            cdata = buffers.untyped(tensor)._cdata
            pool, buffer = self._live.get(cdata, (None, None))
            if (buffer is None or buffer.lent or not buffer.only_for_a_tensor()
                    or pool.control.of(buffer.index, ALONE) != buffer.sent):
                return None
            return pinned.lend(buffer, tensor)

    def _leave(self, buffer):
        if buffer.twin:
            self._leaving.append(buffer)

    def _retire(self, pool, buffer):
        pool.control.put(buffer.index, RETIRED, 1)
        self._live.pop(buffer.cdata, None)
        if pool.buffers.pop(buffer.index, None) is not None:
            self._leave(buffer)

    def sent_on(self, storage):
        """@storage goes to another process, which will not tell us when it is done with it."""
        with self.lock:
            found = self._live.get(storage._cdata)
            if found is not None:
                self._retire(*found)

    def before_fork(self):
        """Retire what is in use.  The caller holds the lock."""
        self.give_back()
        for pool, buffer in list(self._live.values()):
            self._retire(pool, buffer)

    # ---- tidying --------------------------------------------------------------------------

    def _tidy(self):
        for pool in self._pools.values():
            for buffer in list(pool.buffers.values()):
                if pool.control.of(buffer.index, RETIRED):
                    self._retire(pool, buffer)
        self._drop([name for name, pool in self._pools.items()
                    if self._deliveries - pool.last > IDLE_DELIVERIES])

    def _drop(self, names):
        """Forget those of the pools that have no owner any more."""
        for name in names:
            control = self._pools[name].control
            if control.own():
                # A worker that is just starting finds this word when it has the lock.
                control.set(CLOSED, 1)
                control.close()
                for buffer in self._pools.pop(name).buffers.values():
                    self._leave(buffer)

    def abandon(self):
        """In a forked child, which has no use for it: hand out (name, Pool) for adoption."""
        pools, self._pools, self._live = self._pools, {}, {}
        return pools.items()


def open_at(origin):
    """
    A descriptor of a buffer by way of its sender; for whom it was not meant, or who has
    dropped it.
    """
    pid, fd, inode = origin
    try:
        fd = buffers.open_page(pid, fd)
    except OSError:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "sender is gone") from None
    if os.fstat(fd).st_ino != inode:
        os.close(fd)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "sender has closed it")
    return fd
