# SPDX-License-Identifier: MIT
"""What both ends of the hand-over pool know: its buffers and the page of shared words.

A pool belongs to one DataLoader worker (its owner) and is read by the process that iterates
the loader (the receiver).  It is some memfds, the buffers, and one more, the control page.

The life of a buffer:

    owner takes it -> collates into it -> sends it (SENT + 1) -> receiver delivers it
      -> the last tensor on it dies in the receiver (DONE = SENT), and in the owner -> free

Each process keeps *one* torch storage per buffer and hands that same storage out again and
again, because it is the mapping that is dear: a new one of 38 MB costs 9,408 page faults, 12 ms
or more, against 3 ms for the copy.  Whether anybody still uses a storage is told by torch's own
reference count.  What is in doubt is RETIRED: nobody writes to it again, and it vanishes
with the last process that has it.

Order between the processes: the words have one writer each and are stored whole.  Between the
last use of a buffer on one side and the first on the other lie system calls, the lock of the
interpreter and a pipe or a second look at the reference count, all of which order memory.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import mmap
import os
import sys

SLOTS = 4096  # buffers that a pool can have in its life; then it is given up for a new one
_HEAD_WORDS = 8
_SLOT_WORDS = 5
_BYTES = 8 * (_HEAD_WORDS + _SLOT_WORDS * SLOTS)

# Words of the page.                                             Who writes them
CLOSED = 0   # the receiver has dropped it, nobody may adopt it  receiver, holding the lock
GREETED = 1  # the receiver has the page                         receiver
COUNT = 2    # slots given out                                   owner
# Words of a slot.
SENT = 0     # how often the buffer was sent                     owner
DONE = 1     # which of these the receiver is done with          receiver
RETIRED = 2  # never to be written to again                      both, never taken back
KNOWN = 3    # the receiver has the buffer                       receiver
ALONE = 4    # the last sending of which the owner kept nothing  owner


def _count_by_address(cdata):
    """Strong references of a storage: the word behind the virtual table's (torch < 2.1)."""
    return ctypes.c_size_t.from_address(cdata + 8).value


MADV_POPULATE_WRITE = 23  # Linux 5.14


class Watched:
    """
    A torch storage that is kept, and the question whether anybody else uses it.  Two counts
    answer: a tensor holds the C++ object, which is counted there; from torch 2.1 on the Python
    object is the same for all who ask for it, and who holds that one is counted by Python.
    """

    def __init__(self, storage, count):
        """@storage must not have been given to anybody yet, nor be held by the caller later."""
        self.storage = storage
        self.cdata = storage._cdata
        self._count = count
        self._alone = 0

    def _references(self):
        return sys.getrefcount(self.storage)

    def settle(self):
        """From now on references are others'."""
        self._alone = self._references()

    def only_for_a_tensor(self):
        """Is there one tensor on it, and nobody with another reference?"""
        return self._others() == _of_one_tensor(self._count)

    def _others(self):
        return self._count(self.cdata), self._references() - self._alone

    def busy(self):
        """Has anybody but us a reference?"""
        return self._count(self.cdata) != 1 or self._references() != self._alone


@functools.lru_cache(None)
def _of_one_tensor(count):
    """Watched._others() of a storage with one tensor: newer torch keeps the Python object then."""
    import torch
    watched = Watched(torch.UntypedStorage(8), count)
    watched.settle()
    held = torch.empty(0, dtype=torch.uint8, device="cpu").set_(watched.storage)
    found = watched._others()
    del held
    return found


def _tells(count):
    """Does Watched.busy() tell with @count who uses a storage, here and now?"""
    import torch

    def tensor():
        return torch.empty(0, dtype=torch.uint8, device="cpu").set_(watched.storage)

    watched = Watched(torch.UntypedStorage(8), count)
    watched.settle()
    holders = (tensor, lambda: tensor()[2:4], lambda: tensor().numpy(), lambda: watched.storage,
               lambda: untyped(tensor()))
    weak = watched.storage._weak_ref()
    try:
        for holder in holders:
            if watched.busy():
                return False
            held = holder()
            if not watched.busy():
                return False
            del held
        return not watched.busy()
    finally:
        torch.UntypedStorage._free_weak_ref(weak)


def use_counter():
    """The function that tells the strong references of a storage from its _cdata, or None."""
    import torch
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        return None  # Python's counts are not exact then
    count = getattr(torch._C, "_storage_Use_Count", _count_by_address)
    try:
        return count if _tells(count) else None
    except Exception:
        return None


def untyped(tensor):
    """The storage of @tensor; torch 1.13 has another name for it."""
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor._storage()


def tensor_on(storage, dtype, shape):
    """A contiguous tensor on @storage; a typed one around this, as torch makes it, takes as long again."""
    import torch
    return torch.empty(0, dtype=dtype, device="cpu").set_(storage, 0, shape)


def open_page(pid, fd):
    """
    A descriptor for the page that process @pid has as @fd.  That is nobody's item's, not even of one that
    has a loader of its own, where the library is there to see it.
    """
    native = sys.modules.get(__package__.rpartition(".")[0] + ".native")
    with contextlib.nullcontext() if native is None else native.unseen():
        return os.open("/proc/%s/fd/%d" % (pid, fd), os.O_RDWR | os.O_CLOEXEC)


class Control:
    """The control page.  Owns @fd, its mapping and, in the owner, the lock."""

    def __init__(self, fd):
        self.fd = fd
        if os.fstat(fd).st_size < _BYTES:
            raise OSError(errno.EINVAL, "no control page")
        self._words = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")
        self._lock = -1

    @classmethod
    def create(cls):
        fd = os.memfd_create("tsshim-pool")
        os.ftruncate(fd, _BYTES)
        return cls(fd)

    def close(self):
        """Give the descriptors back; the mapping goes with the object."""
        self.disown()
        os.close(self.fd)

    def own(self):
        """
        Become the pool's only owner, True if so.  The lock is on a description of the page that
        is this process's own: it ends with it, and not when a copy of @fd is closed.
        """
        lock = open_page("self", self.fd)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def disown(self):
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def get(self, word):
        return self._words[word]

    def set(self, word, value):
        self._words[word] = value

    def of(self, index, word):
        """A word of slot @index."""
        return self._words[_HEAD_WORDS + _SLOT_WORDS * index + word]

    def put(self, index, word, value):
        self._words[_HEAD_WORDS + _SLOT_WORDS * index + word] = value


def _pages(nbytes):
    """@nbytes in whole pages."""
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE


class Buffer(Watched):
    """One buffer as one process sees it: a real torch shared storage on the memfd."""

    def __init__(self, index, fd, nbytes, count):
        """Map @nbytes of @fd, which stays the caller's."""
        import torch
        super().__init__(torch.UntypedStorage._new_shared_fd_cpu(fd, nbytes), count)
        self.index = index
        self.nbytes = nbytes
        self.inode, self.capacity = os.fstat(fd).st_ino, os.fstat(fd).st_size
        self.used = 0  # when, in takes; for the owner
        self.sent = 0  # which sending this is; for the receiver
        self.twin = None  # pinned.Twin; False: there will be none; for the receiver
        self.lent = False  # the twin was delivered, and is not given back yet
        self.name = None   # what its contents are known by, 16 bytes, or None
        # torch made a copy of fd that would be inherited by programs the host starts.
        os.set_inheritable(self.fd(), False)
        self.settle()

    @classmethod
    def create(cls, index, nbytes, count):
        """A new memfd of whole pages."""
        fd = os.memfd_create("tsshim-buffer")
        try:
            os.ftruncate(fd, _pages(nbytes))
            return cls(index, fd, nbytes, count)
        finally:
            os.close(fd)

    def populate(self):
        """
        Map all pages in one go; of those that another process made, each would be a fault here once more.
        Kernels before 5.14 do not know this.
        """
        ctypes.CDLL(None).madvise(ctypes.c_void_p(self.storage.data_ptr()), ctypes.c_size_t(self.nbytes),
                                  MADV_POPULATE_WRITE)

    def remap(self, nbytes):
        """The same memfd as a storage of @nbytes.  Only for a buffer that is not busy."""
        fd = self.fd()
        if os.fstat(fd).st_size < nbytes:
            os.ftruncate(fd, _pages(nbytes))
        again = Buffer(self.index, fd, nbytes, self._count)
        again.sent = self.sent
        return again

    def fd(self):
        """torch's descriptor of the memfd.  OSError if the host has closed it under us."""
        fd = self.storage._share_fd_cpu_()[0]
        if os.fstat(fd).st_ino != self.inode:
            raise OSError(errno.EBADF, "not our descriptor")
        return fd
