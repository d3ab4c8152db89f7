# SPDX-License-Identifier: MIT
"""What the tests of shared listings (--stage-metadata) have in common."""

import glob
import os

import support
from far_away import FarAway
from support import equal

CLASSES, FILES = 4, 150


def fill(root):
    """Classes with pictures, as ImageFolder wants them, and things of other types."""
    for i in range(CLASSES):
        place = os.path.join(root, "class%d" % i)
        os.mkdir(place)
        for k in range(FILES):
            with open(os.path.join(place, "picture-%d-%03d.jpg" % (i, k)), "wb"):
                pass
    os.mkdir(os.path.join(root, "class0", "below"))
    os.symlink("class1", os.path.join(root, "link"))
    os.symlink("nowhere", os.path.join(root, "class0", "dangling"))
    os.mkfifo(os.path.join(root, "class0", "pipe"))
    with open(os.path.join(root, "class0", "n" * 255), "wb"):
        pass


# What the jobs do: lines of Python with `root`, `path(name)`, `say(...)` and the C library.
PROLOGUE = """
import ctypes, hashlib, os, sys, threading, time
root = sys.argv[1]
def path(*names): return os.path.join(root, *names)
def say(*what): print(*what, flush=True)

class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_long), ("bytes", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]
    def fields(self): return self.ino, self.off, self.bytes, self.type, self.name

c = ctypes.CDLL(None, use_errno=True)
for symbol in ("opendir", "fdopendir"): getattr(c, symbol).restype = ctypes.c_void_p
for symbol in ("readdir", "readdir64"):
    getattr(c, symbol).restype = ctypes.POINTER(Entry)
    getattr(c, symbol).argtypes = [ctypes.c_void_p]
for symbol in ("closedir", "rewinddir", "dirfd"): getattr(c, symbol).argtypes = [ctypes.c_void_p]
c.telldir.argtypes, c.telldir.restype = [ctypes.c_void_p], ctypes.c_long
c.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
c.readdir_r.argtypes = c.readdir64_r.argtypes = [ctypes.c_void_p] * 3

def opendir(name):
    stream = c.opendir(os.fsencode(name))
    assert stream, os.strerror(ctypes.get_errno())
    return stream
def rest(stream, read=c.readdir64):
    found = []
    ctypes.set_errno(77)
    while True:
        entry = read(stream)
        if not entry: break
        found.append(entry.contents.fields())
    assert ctypes.get_errno() == 77
    return found
def whole(name, read=c.readdir64):
    stream = opendir(name)
    found = rest(stream, read)
    c.closedir(stream)
    return found
def show(name):
    found = whole(name)
    say(os.path.basename(name), len(found), hashlib.sha256(repr(found).encode()).hexdigest()[:16])
def names(name):
    try: say(sorted(os.listdir(path(name))))
    except OSError as error: say(error.strerror)
"""

# Entries with all their fields and in their order; and as Python's programs read them.
READ = """
for name in (".", "class0", "class1", "class2", "class3", "class0/below"): show(path(name))
"""
WALK = """
for place, below, files in os.walk(root): say(os.path.relpath(place, root), below, files)
import glob
say(glob.glob(path("*", "picture-1-00*")))
for entry in os.scandir(path("class0")):
    say(entry.name, entry.inode(), entry.is_dir(follow_symlinks=False), entry.is_symlink(),
        entry.is_file(follow_symlinks=False))
"""


FAR = FarAway(fill, PROLOGUE)
job, outcome, storage_and_group = FAR.job, FAR.outcome, FAR.storage_and_group


def lists(storage):
    """How often the storage was asked for entries."""
    return storage.counts()["requests"]["readdir"]


def files_of(group):
    """Listings, and copies if there are any, whole and begun."""
    return sorted(glob.glob("/dev/shm/" + support.shared_name(group.name, "f.*")))


def served(storage, body, group, **settings):
    """What a job says that must not ask for entries."""
    storage.reset()
    done = outcome(body, storage.path, group, **settings)
    assert done.status == 0, done.errors[-3000:]
    assert lists(storage) == 0, storage.counts()["requests"]
    return done


def alike(body, before=None, is_served=False):
    """What @body says without us, which it says in two jobs as well, behind one that does what is
    said @before; the second one asks for no entries if it @is_served."""
    with storage_and_group() as (storage, group):
        reference = outcome(body, storage.path)
        assert reference.status == 0, reference.errors
        if before:
            outcome(before, storage.path, group)
        equal(reference, outcome(body, storage.path, group), "the first")
        second = served(storage, body, group) if is_served else outcome(body, storage.path, group)
        equal(reference, second, "the second")
    return reference
