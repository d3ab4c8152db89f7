# SPDX-License-Identifier: MIT
"""An ordinary program that reads large files: staged_large_child.py RECIPE DIRECTORY."""

import errno
import hashlib
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import tarfile
import time

from staged_child import LIBC, ROOT, attributes as attributes_of, digest, path, say


def names():
    return sorted(name for name in os.listdir(ROOT) if name.startswith("f"))


def read():
    """From front to end, in pieces of a megabyte."""
    for name in names():
        total = hashlib.sha256()
        with open(path(name), "rb") as file:
            while True:
                piece = file.read(1 << 20)
                if not piece:
                    break
                total.update(piece)
            say(name, total.hexdigest()[:16], file.tell())


def read_random():
    """Here and there, as a loader of shuffled records does, and beyond the end."""
    for name in names():
        fd = os.open(path(name), os.O_RDONLY)
        size = os.fstat(fd).st_size
        draw = random.Random(name)
        total = hashlib.sha256()
        for _ in range(400):
            total.update(os.pread(fd, 4096, draw.randrange(size)))
        say(name, total.hexdigest()[:16], os.pread(fd, 10, size), os.lseek(fd, 0, os.SEEK_CUR))
        os.close(fd)


def mapped():
    """As LMDB, Arrow and memory-mapped token files do."""
    for name in names():
        with open(path(name), "rb") as file:
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        draw = random.Random(name)
        total = hashlib.sha256()
        for _ in range(400):
            at = draw.randrange(len(view))
            total.update(view[at:at + 4096])
        say(name, len(view), total.hexdigest()[:16], digest(view))


def archive():
    """The members of an archive, as they come."""
    with tarfile.open(path("shard.tar")) as tar:
        for member in tar:
            if member.isfile():
                say(member.name, member.size, digest(tar.extractfile(member).read()))


def attributes():
    """What fstat says, and where the descriptor leads."""
    for name in names():
        with open(path(name), "rb") as file:
            say(name, attributes_of(os.fstat(file.fileno())))
            say(os.readlink("/proc/self/fd/%d" % file.fileno()) == path(name))


def seen_from_inside():
    """What a program could notice of a stager: children, signals, threads, descriptors."""
    signals = []
    signal.signal(signal.SIGCHLD, lambda *_: signals.append("SIGCHLD"))
    before = sorted(os.listdir("/proc/self/fd"))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    opened = [open(path(name), "rb") for name in names()]
    for file in opened:
        file.read(10)
    for _ in range(20):
        try:
            say(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError as error:
            if not signals:
                found = errno.errorcode[error.errno]
        time.sleep(0.05)
    wall = 0x40000000  # children of all kinds, which hardly any program asks for
    answer = LIBC.waitpid(-1, None, os.WNOHANG | wall)
    say(found, signals, answer, len(os.listdir("/proc/self/task")))
    for file in opened:
        file.close()
    # Above 512 a few descriptors are ours for good, which docs/exceptions.md says.
    after = [fd for fd in sorted(os.listdir("/proc/self/fd")) if int(fd) < 512]
    say(before == after, mask == signal.pthread_sigmask(signal.SIG_BLOCK, []))
    # Under us a child of the program's own is a child as ever.
    say(subprocess.run(["true"], check=False).returncode, signals)


def few_descriptors():
    """All numbers are in use but the one that the open gets."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.dup(0))
    except OSError:
        pass
    for spare in range(1, 4):
        for _ in range(spare):
            os.close(held.pop())
        fd = os.open(path(names()[0]), os.O_RDONLY)
        say(spare, digest(os.pread(fd, 100000, 5000)))
        os.close(fd)
        held += [os.dup(0) for _ in range(spare)]


def small_files_only():
    """A limit on the size of files, beyond which a write would be a signal."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    read()


def takes_orphans():
    """A program to which orphans are given must not be given a stager."""
    assert LIBC.prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    read()
    time.sleep(0.5)
    try:
        say(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        say("no children")


def opens_and_ends():
    with open(path(names()[0]), "rb") as file:
        say(digest(file.read(1000)))


def opens_and_executes():
    file = open(path(names()[0]), "rb")
    say(digest(file.read(1000)))
    os.execv(sys.executable, [sys.executable, __file__, "read", ROOT])


def opens_and_forks():
    with open(path(names()[0]), "rb") as file:
        say(digest(file.read(1000)))
        child = os.fork()
        if child == 0:
            say("child", digest(os.pread(file.fileno(), 5000, 700000)))
            os._exit(0)
        say(os.waitpid(child, 0)[1], digest(os.pread(file.fileno(), 5000, 700000)))


def keeps_open():
    """Read a little, wait to be told, read the rest."""
    fd = os.open(path(names()[0]), os.O_RDONLY)
    say(digest(os.pread(fd, 1000, 0)))
    sys.stdin.readline()
    say(os.fstat(fd).st_size, digest(os.pread(fd, 1 << 30, 0)))


def edges():
    """A file with more bytes than 32 bits count, nearly all of them zero."""
    fd = os.open(path("f"), os.O_RDONLY)
    size = os.fstat(fd).st_size
    for at in (0, (1 << 31) - 5, (1 << 32) - 5, 1 << 32, size - 100):
        say(at, digest(os.pread(fd, 1 << 20, at)))
    with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as view:
        say(len(view), digest(view[(1 << 32) - 10:(1 << 32) + 4096]), digest(view[-100:]))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
