# SPDX-License-Identifier: MIT
"""An ordinary program that reads files: staged_child.py RECIPE DIRECTORY.  Other children of that kind import it."""

import array
import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = sys.argv[2]
LIBC = ctypes.CDLL(None, use_errno=True)


def path(name):
    return os.path.join(ROOT, name)


def names():
    return sorted(n for n in os.listdir(ROOT) if n[0] == "f" and n[1:].isdigit())


def say(*what):
    print(*what, flush=True)


def digest(data):
    return hashlib.sha256(bytes(data)).hexdigest()[:16]


def attributes(st):
    """All that fstat says; the time of the last use is not kept up to date by a copy."""
    return [(k, getattr(st, k)) for k in sorted(dir(st))
            if k.startswith("st_") and not k.startswith("st_atime")]


def read():
    for name in names():
        with open(path(name), "rb") as file:
            say(name, digest(file.read()), file.tell(), file.read(1))


def read_parts():
    for name in names():
        fd = os.open(path(name), os.O_RDONLY | os.O_CLOEXEC)
        pieces = [bytearray(10), bytearray(1000)]
        say(name, os.preadv(fd, pieces, 7), digest(pieces[0] + pieces[1]))
        say(digest(os.pread(fd, 5000, 33)), os.lseek(fd, 0, os.SEEK_CUR))
        say(os.readv(fd, pieces), digest(pieces[0] + pieces[1]), os.lseek(fd, 0, os.SEEK_CUR))
        say(os.lseek(fd, -10, os.SEEK_END), digest(os.read(fd, 100)))
        say(fcntl.fcntl(fd, fcntl.F_GETFD), fcntl.fcntl(fd, fcntl.F_GETFL))
        os.close(fd)


def mapped():
    for name in names():
        fd = os.open(path(name), os.O_RDONLY)
        for kind, rights in ((mmap.MAP_SHARED, mmap.PROT_READ),
                             (mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)):
            with mmap.mmap(fd, 0, kind, rights) as view:
                say(name, len(view), digest(view))
                if rights & mmap.PROT_WRITE:
                    view[0:3] = b"own"
                    say(digest(view))
        try:
            mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        except OSError as error:
            say(errno.errorcode[error.errno])
        os.close(fd)


def stdio():
    """fopen and its modes; what Python does not offer, by ctypes."""
    LIBC.fopen.restype = LIBC.freopen.restype = ctypes.c_void_p
    buffer = ctypes.create_string_buffer(1 << 20)
    for name in names()[:3]:
        for mode in (b"r", b"rb", b"re", b"rm", b"rc", b"rx", b"r,ccs=UTF-8"):
            stream = LIBC.fopen(path(name).encode(), mode)
            if not stream:
                say(name, mode, "fails", ctypes.get_errno())
                continue
            stream = ctypes.c_void_p(stream)
            got = LIBC.fread(buffer, 1, len(buffer), stream) if b"ccs" not in mode else -1
            fd = LIBC.fileno(stream)
            say(name, mode, got, digest(buffer.raw[:max(got, 0)]),
                fcntl.fcntl(fd, fcntl.F_GETFD), os.fstat(fd).st_ino)
            if mode == b"rb":
                stream = ctypes.c_void_p(
                    LIBC.freopen(path(names()[4]).encode(), b"r", stream))
                got = LIBC.fread(buffer, 1, len(buffer), stream)
                say("again", got, digest(buffer.raw[:got]))
            LIBC.fclose(stream)
    own = path("own")
    with open(own, "wb") as file:
        file.write(b"hello" * 100)
    stream = ctypes.c_void_p(LIBC.fopen(own.encode(), b"r"))
    stream = ctypes.c_void_p(LIBC.freopen(None, b"r+", stream))
    say(LIBC.fputs(b"J", stream) >= 0, LIBC.fclose(stream))
    with open(own, "r+b") as file:
        say(file.read(5))
    os.unlink(own)


def attributes_of():
    for name in names():
        with open(path(name), "rb") as file:
            fd = file.fileno()
            say(name, attributes(os.fstat(fd)))
            say(attributes(os.stat(fd)) == attributes(os.stat(path(name))))
            say(os.readlink("/proc/self/fd/%d" % fd) == os.path.realpath(path(name)))
            say(os.readlink("/proc/%d/fd/%d" % (os.getpid(), fd)) == os.path.realpath(path(name)))
            say(os.fstatvfs(fd).f_fsid == os.statvfs(ROOT).f_fsid, os.path.sameopenfile(fd, fd))
            say(os.path.samestat(os.fstat(fd), os.stat(path(name))))
            copy = os.dup(fd)
            say(attributes(os.fstat(copy)) == attributes(os.fstat(fd)))
            os.close(copy)


def copied():
    with tempfile.TemporaryDirectory() as there:
        for name in names():
            shutil.copyfile(path(name), os.path.join(there, name))
            shutil.copy2(path(name), os.path.join(there, "2"))
            with open(os.path.join(there, name), "rb") as file:
                say(name, digest(file.read()), os.stat(os.path.join(there, "2")).st_mtime_ns)
            source = os.open(path(name), os.O_RDONLY)
            target = os.open(os.path.join(there, "3"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            say(os.sendfile(target, source, 100, 1000), os.lseek(source, 0, os.SEEK_CUR))
            say(digest(os.pread(target, 5000, 0)))
            os.close(source)
            os.close(target)


def shared_positions():
    """One position for dup, fork, exec and whoever gets the descriptor through a socket."""
    for name in names()[:4]:
        fd = os.open(path(name), os.O_RDONLY)
        other = os.dup(fd)
        say(digest(os.read(fd, 10)), digest(os.read(other, 10)), os.lseek(fd, 0, os.SEEK_CUR))
        pid = os.fork()
        if pid == 0:
            say("child", digest(os.read(fd, 100)), attributes(os.fstat(fd)))
            os._exit(0)
        os.waitpid(pid, 0)
        say(os.lseek(other, 0, os.SEEK_CUR))
        done = subprocess.run([sys.executable, "-c", "import os; print(len(os.read(0, 50)),"
                               " os.fstat(0).st_ino, os.fstat(0).st_mode)"],
                              stdin=fd, stdout=subprocess.PIPE)
        say(done.stdout, os.lseek(fd, 0, os.SEEK_CUR))
        ours, theirs = socket.socketpair()
        socket.send_fds(ours, [b"x"], [fd])
        third = socket.recv_fds(theirs, 1, 1)[1][0]
        say(digest(os.read(third, 20)), os.lseek(fd, 0, os.SEEK_CUR), os.fstat(third).st_ino)
        for number in (fd, other, third):
            os.close(number)


def seen_by_others(name):
    """Whether locks of the file @name are held, as a program without any preload sees it."""
    code = ("import fcntl, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR)\n"
            "for lock in fcntl.flock, fcntl.lockf:\n"
            "    try: lock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')\n"
            "    except OSError: print('held')\n")
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    return subprocess.run([sys.executable, "-c", code, name], env=env,
                          stdout=subprocess.PIPE).stdout.split()


def leased(fd):
    """Whoever wants to write is told to wait while the lease is held."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    try:
        os.close(os.open(os.readlink("/proc/self/fd/%d" % fd), os.O_WRONLY | os.O_NONBLOCK))
        say("nobody is told")
    except OSError as error:
        say("told", errno.errorcode[error.errno])
    say(fcntl.fcntl(fd, fcntl.F_GETLEASE))


def locked():
    """What only the original can do, each in the middle of reading; the position stays."""
    deeds = {
        "flock": lambda fd: fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
        "flock_ex": lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
        "fchmod": lambda fd: os.fchmod(fd, 0o640),
        "fchown": lambda fd: os.fchown(fd, os.getuid(), os.getgid()),
        "utime": lambda fd: os.utime(fd, (1600000000, 1600000000)),
        "getxattr": lambda fd: os.getxattr(fd, "user.tsshim"),
        "listxattr": lambda fd: say(os.listxattr(fd)),
        "lease": leased,
        "flags": lambda fd: fcntl.ioctl(fd, 0x80086601, array.array("l", [0])),
        "fsync": os.fsync,
        "truncate": lambda fd: os.ftruncate(fd, 3),
        "direct": lambda fd: fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT) and None,
        # Last: from here on there are no copies of what lies beside it.
        "lockf": lambda fd: fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
    }
    for name, (deed, function) in zip(names() * 3, deeds.items()):
        for other in names()[:3]:  # who gives most copies back gets no more
            os.close(os.open(path(other), os.O_RDONLY))
        fd = os.open(path(name), os.O_RDONLY)
        os.read(fd, 100)
        try:
            say(deed, function(fd))
        except OSError as error:
            say(deed, errno.errorcode[error.errno])
        try:
            say(os.lseek(fd, 0, os.SEEK_CUR), digest(os.read(fd, 1000)))
        except OSError as error:  # past the cache only in blocks, on most file systems
            say(deed, errno.errorcode[error.errno])
        if "lock" in deed:
            say(seen_by_others(path(name)))
        st = os.stat(path(name))
        say(os.fstat(fd).st_ino == st.st_ino, oct(st.st_mode), os.fstat(fd).st_mode == st.st_mode)
        os.close(fd)


def lock_is_kept():
    """A lock on one descriptor, while others of the file come and go without being closed."""
    name = names()[0]
    holder = os.open(path(name), os.O_RDWR)
    fcntl.lockf(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    reader = os.open(path(name), os.O_RDONLY)
    say(digest(os.read(reader, 100)), seen_by_others(path(name)))
    os.close(holder)
    os.close(reader)


def links():
    os.chdir(ROOT)
    for name in ("symlink", "hardlink", "./f0", "../" + os.path.basename(ROOT) + "/f0"):
        with open(name, "rb") as file:
            say(name, digest(file.read()), attributes(os.fstat(file.fileno())))
    try:
        os.open("symlink", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        say(errno.errorcode[error.errno])
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("f1", os.O_RDONLY, dir_fd=directory)
    say(digest(os.read(fd, 1 << 20)), os.listdir(directory) != [])
    os.close(fd)


def unusual():
    """Opens that are no plain reading, sizes that are no plain file."""
    temporary = os.open(ROOT, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(temporary, b"hello")
    say(os.pread(temporary, 10, 0), os.fstat(temporary).st_size)
    how = (ctypes.c_uint64 * 3)(os.O_RDONLY, 0, 0)
    fd = LIBC.syscall(437, -100, path("f0").encode(), how, 24)
    say(fd >= 0, digest(os.read(fd, 1 << 20)))
    for name in ("empty", "sparse"):
        with open(path(name), "rb") as file:
            say(name, digest(file.read()), attributes(os.fstat(file.fileno())))
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_PATH, os.O_RDONLY | os.O_APPEND,
                  os.O_RDONLY | os.O_NONBLOCK, os.O_RDONLY | os.O_NOATIME):
        fd = os.open(path("f2"), flags)
        say(flags, attributes(os.fstat(fd)), fcntl.fcntl(fd, fcntl.F_GETFL))
        os.close(fd)
    try:
        os.open(path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        os.open(path("none"), os.O_RDONLY)
    except OSError as error:
        say(errno.errorcode[error.errno])


def few_descriptors():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
    held = []
    try:
        while True:
            fd = os.open(path("f%d" % (len(held) % 8)), os.O_RDONLY)
            held.append(fd)
            if len(held) <= 40:  # a few are ours, where 512 and more are not to be had
                say(digest(os.read(fd, 1 << 20)))
    except OSError as error:
        say(errno.errorcode[error.errno])


def torch_file():
    import torch
    say(digest(torch.load(path("tensor.pt"))["x"].numpy().tobytes()))
    say(digest(torch.from_file(path("f5"), size=1000, dtype=torch.uint8).numpy().tobytes()))


def commands():
    """Programs of others, in C, with their own ways of reading."""
    for command in (["cat", "f1"], ["md5sum", *names()], ["tar", "cf", "-", "f2"],
                    ["cmp", "f3", "f3"], ["wc", "-c", *names()], ["tail", "-c", "10", "f4"],
                    ["cp", "-a", "f5", "/dev/stdout"], ["sh", "-c", "cat <f3 | tail -c 9 - f4"],
                    ["sh", "-c", "while read -r line; do :; done <f6; echo $?"],
                    ["od", "-An", "-N16", "f5"], ["stat", "-c", "%s %Y %i", "f6"]):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
        say(command[0], done.returncode, digest(done.stdout))
    with open(path("f7"), "rb") as file:
        say(subprocess.run(["stat", "-L", "-c", "%s %Y %i %a", "-"], stdin=file,
                           stdout=subprocess.PIPE).stdout)


def database():
    """SQLite locks and writes; whoever reads must see what was written last."""
    import sqlite3
    name = path("data.db")
    for turn in range(4):
        with sqlite3.connect(name) as writer:
            writer.execute("create table if not exists t (a, b)")
            writer.executemany("insert into t values (?, ?)", [(turn, "x" * 100)] * 50)
        reader = sqlite3.connect("file:%s?mode=ro" % name, uri=True)
        say(turn, reader.execute("select count(*), sum(a) from t").fetchall())
        with open(name, "rb") as file:
            say(file.read(16), os.fstat(file.fileno()).st_size == os.stat(name).st_size)
        reader.close()
        writer.close()
    os.unlink(name)


def git():
    """A repository inside the directory: git maps, renames, reads back and compares."""
    where = path("repository")
    same = {**os.environ, "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z", "HOME": where,
            "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
    options = ["-c", "user.name=n", "-c", "user.email=e@x"]
    os.makedirs(where)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"],
                    ["status", "--short"], ["gc", "-q"], ["fsck"], ["log", "--stat"],
                    ["archive", "HEAD"]):
        if command == ["add", "."]:
            shutil.copy(path("f0"), where)
            shutil.copy(path("f1"), where)
        done = subprocess.run(["git", *options, *command], cwd=where, env=same,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        say(command, done.returncode, digest(done.stdout), digest(done.stderr))
    shutil.rmtree(where)


def epochs():
    """Files that are replaced, cut, rewritten and appended to between the epochs."""
    own = path("own")
    os.makedirs(own, exist_ok=True)
    target = os.path.join(own, "file")
    for step in range(6):
        data = bytes([65 + step]) * (5000 + 100 * (step % 2))
        if step in (0, 3):
            with open(target + ".new", "wb") as file:
                file.write(data)
            os.rename(target + ".new", target)
        elif step == 5:
            with open(target, "ab") as file:
                file.write(data)
        else:
            with open(target, "r+b") as file:
                file.write(data)
                file.truncate()
        for _ in range(3):
            with open(target, "rb") as file:
                say(step, digest(file.read()), os.fstat(file.fileno()).st_size)
    os.unlink(target)


def permission():
    """Staged, then forbidden: the next open fails although a copy lies there."""
    own = path("own2")
    with open(own, "wb") as file:
        file.write(b"x" * 3000)
    os.chmod(own, 0o644)
    for mode in (0o644, 0o000, 0o644):
        os.chmod(own, mode)
        pid = os.fork()
        if pid == 0:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            try:
                with open(own, "rb") as file:
                    say(mode, digest(file.read()))
            except OSError as error:
                say(mode, errno.errorcode[error.errno])
            os._exit(0)
        os.waitpid(pid, 0)
        if os.getuid() == 0 or mode:
            with open(own, "rb") as file:
                say("again", digest(file.read()))
    os.unlink(own)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
