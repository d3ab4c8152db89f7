# SPDX-License-Identifier: MIT
"""Each call that takes a descriptor, on one of a file to be read: staged_calls_child.py RECIPE DIRECTORY."""

import array
import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import stat
import struct
import subprocess
import sys
import tempfile

from staged_child import LIBC, ROOT, digest, path, say

AT_EMPTY_PATH = 0x1000
LONG, NULL = ctypes.c_long, None
LONG_ONES = {"copy_file_range", "splice", "tee", "preadv2", "pwrite", "write", "fpathconf", "readahead",
             "fgetxattr", "flistxattr"}


def opened(name="f3"):
    """A descriptor in the middle of @name; of a copy, where files are staged."""
    for other in ("f0", "f1", "f2", "f0"):  # who gives most copies back gets no more
        os.close(os.open(path(other), os.O_RDONLY))
    fd = os.open(path(name), os.O_RDONLY)
    if os.environ.get("TSSHIM_STAGE"):
        mode = os.stat("/proc/self/fd/%d" % fd).st_mode
        assert mode == stat.S_IFREG | 0o400, (name, oct(mode), "is no copy")
    os.read(fd, 100)
    return fd


def call(name, *arguments):
    """What the C library's @name gives, or its error."""
    ctypes.set_errno(0)
    function = getattr(LIBC, name)
    function.restype = LONG if name in LONG_ONES else ctypes.c_int
    r = function(*(LONG(a) if isinstance(a, int) else a for a in arguments))
    return r if r >= 0 else errno.errorcode.get(ctypes.get_errno(), r)


def tried(name, function, *arguments):
    try:
        say(name, function(*arguments))
    except OSError as error:
        say(name, errno.errorcode[error.errno])


def rest(fd):
    """Where it stands, and what comes next; closes it."""
    at = os.lseek(fd, 0, os.SEEK_CUR)
    try:
        found = digest(os.read(fd, 50))
    except OSError as error:  # without the page cache only in blocks
        found = errno.errorcode[error.errno]
    os.close(fd)
    return at, found


def is_original(fd, name="f3"):
    """Whether the kernel itself says so."""
    return os.stat("/proc/self/fd/%d" % fd).st_ino == os.stat(path(name)).st_ino


def new(where=ROOT):
    handle, name = tempfile.mkstemp(dir=where)
    os.unlink(name)
    return handle


def ranges():
    """copy_file_range: on one file system, and to one where it is refused."""
    for where in (ROOT, "/dev/shm"):
        for offset in (NULL, ctypes.byref(LONG(7))):
            fd, to = opened(), new(where)
            say(where == ROOT, call("copy_file_range", fd, offset, to, NULL, 5000, 0))
            say(digest(os.pread(to, 10000, 0)), rest(fd))
            os.close(to)
    fd = opened()
    say("to itself", call("copy_file_range", fd, NULL, fd, NULL, 10, 0), rest(fd))


FICLONE, FICLONERANGE, FIDEDUPERANGE = 0x40049409, 0x4020940d, 0xc0189436


def clones():
    """FICLONE and its like; also where they are refused, each for the same reason."""
    for where in (ROOT, "/dev/shm"):
        fd, to = opened(), new(where)
        os.write(to, bytes(8192))
        tried("clone", fcntl.ioctl, to, FICLONE, fd)
        tried("range", fcntl.ioctl, to, FICLONERANGE, struct.pack("qQQQ", fd, 0, 4096, 0))
        request = array.array("B", struct.pack("QQHHI" + "qQQiI", 0, 4096, 1, 0, 0,
                                               to, 0, 0, 0, 0))
        tried("dedupe", fcntl.ioctl, fd, FIDEDUPERANGE, request)
        say(struct.unpack("qQQiI", request[24:])[3], digest(os.pread(to, 10000, 0)))
        os.close(to)
        say(rest(fd))
    # Who owns a file may let it be deduplicated by a descriptor for reading.
    fd, to = opened(), opened("f4")
    request = array.array("B", struct.pack("QQHHI" + "qQQiI", 0, 4096, 1, 0, 0, to, 0, 0, 0, 0))
    tried("both", fcntl.ioctl, fd, FIDEDUPERANGE, request)
    say(struct.unpack("qQQiI", request[24:])[3], rest(fd), rest(to))


def pipes():
    """sendfile, splice, tee: a copy has the bytes."""
    fd, to = opened(), new()
    say(os.sendfile(to, fd, None, 3000), os.sendfile(to, fd, 11, 3000), rest(fd))
    say(digest(os.pread(to, 10000, 0)))
    fd = opened()
    (out, into), (out2, into2) = os.pipe(), os.pipe()
    say(call("splice", fd, NULL, into, NULL, 2000, 0), call("tee", out, into2, 2000, 0))
    say(digest(os.read(out, 4000)), digest(os.read(out2, 4000)), rest(fd))


def systems():
    """What file system it is, and what that can do."""
    fd = opened()
    for name in ("fstatfs", "fstatfs64", "fstatvfs", "fstatvfs64"):
        buffer = ctypes.create_string_buffer(256)
        say(name, call(name, fd, buffer))
    found, wanted = os.fstatvfs(fd), os.statvfs(ROOT)
    say([getattr(found, n) == getattr(wanted, n) for n in
         ("f_bsize", "f_frsize", "f_blocks", "f_files", "f_fsid", "f_flag", "f_namemax")])
    for number in range(21):
        say("fpathconf", number, call("fpathconf", fd, number))
    say(rest(fd))


def handles():
    """name_to_handle_at of a descriptor, and open_by_handle_at on its file system."""
    def handle_of(directory, name, flags):
        buffer = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        mount = ctypes.c_int(0)
        r = call("name_to_handle_at", directory, name, buffer, ctypes.byref(mount), flags)
        return r, buffer, mount.value
    fd = opened()
    r, handle, mount = handle_of(fd, b"", AT_EMPTY_PATH)
    same = handle_of(-100, path("f3").encode(), 0)
    say(r, handle.raw == same[1].raw, mount == same[2])
    got = call("open_by_handle_at", fd, handle, os.O_RDONLY)
    say(got if isinstance(got, str) else digest(os.read(got, 1000)), rest(fd))
    say(handle_of(opened(), b"", 0)[0], handle_of(opened(), b"none", AT_EMPTY_PATH)[0])


def names():
    """What the name of a descriptor in /proc leads to."""
    for way in "/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/dev/fd/%d", "/proc/{}/fd/%d":
        name = way.replace("{}", str(os.getpid()))
        with open(path("f3"), "r+b") as file:
            file.write(bytes(100))
        fd = opened()
        say(way, os.readlink(name % fd) == os.path.realpath(path("f3")))
        with open(name % fd, "rb") as again:
            say(digest(again.read()))
        for flags in os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_DIRECT:
            other = os.open(name % fd, flags)
            say(is_original(other), os.fstat(other).st_ino == os.stat(path("f3")).st_ino)
            os.close(other)
            os.close(fd)
            fd = opened()
        with open(name % fd, "r+b") as again:
            say(is_original(again.fileno()), again.write(digest(b"").encode()))
        say(open(path("f3"), "rb").read(20), rest(fd))


def changes():
    """Calls that change a file by a descriptor; and for which it is too little."""
    ids, times = (os.getuid(), os.getgid()), struct.pack("qqqq", 1400000000, 5, 1400000000, 5)
    for name, arguments in (
            ("faccessat", (b"", os.R_OK, AT_EMPTY_PATH)),
            ("faccessat", (b"", os.W_OK, AT_EMPTY_PATH)),
            ("faccessat", (b"", os.X_OK, AT_EMPTY_PATH)),
            ("fchmod", (0o644,)), ("fchown", ids), ("futimens", (times,)), ("futimes", (times,)),
            ("fsetxattr", (b"user.tsshim", b"x", 1, 0)), ("fremovexattr", (b"user.tsshim",)),
            ("fgetxattr", (b"user.none", NULL, 0)), ("flistxattr", (NULL, 0)),
            ("fallocate", (0, 0, 10)), ("posix_fallocate", (0, 10)), ("ftruncate", (3,)),
            ("pwrite", (b"x", 1, 0)), ("write", (b"x", 1))):
        os.utime(path("f3"), (1600000000, 1600000000))
        fd = opened()
        say(name, call(name, fd, *arguments))
        st = os.stat(path("f3"))
        say(oct(st.st_mode), int(st.st_mtime) == 1400000000, st.st_size, rest(fd))


def advice():
    """Nothing comes of it but speed."""
    fd = opened()
    say([call("posix_fadvise", fd, 0, 0, kind) for kind in range(7)],
        call("readahead", fd, 0, 10000), rest(fd))


def extents(name):
    """Flags of the extents of @name: FIEMAP; what was not written yet has no place on the disk."""
    fd = os.open(path(name), os.O_RDWR)
    request = array.array("B", struct.pack("QQIIII", 0, 1 << 62, 0, 0, 16, 0) + bytes(16 * 56))
    try:
        fcntl.ioctl(fd, 0xc020660b, request)
    except OSError as error:  # not every file system tells
        return errno.errorcode[error.errno]
    finally:
        os.close(fd)
    return [struct.unpack_from("I", request, 32 + 56 * i + 40)[0] & 6
            for i in range(struct.unpack_from("I", request, 20)[0])]


def syncs():
    """What somebody else has written gets to the disk."""
    for name, more in (("fsync", ()), ("fdatasync", ()), ("syncfs", ()),
                       ("sync_file_range", (0, 0, 7))):
        code = "import sys; open(sys.argv[1], 'wb').write(b'x' * 40000)"
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run([sys.executable, "-c", code, path("written")], env=environment, check=True)
        fd = opened("written")
        say(name, call(name, fd, *more), extents("written"), rest(fd))
    os.unlink(path("written"))


def watches():
    """fanotify_mark by a descriptor: whether a change of the file is told."""
    group = call("fanotify_init", 2, 0)
    if isinstance(group, str):
        say("none", group)
        return
    fd = opened()
    say(call("fanotify_mark", group, 1, 2, fd, NULL))  # FAN_MARK_ADD, FAN_MODIFY
    with open(path("f3"), "r+b") as file:
        file.write(file.read(1))
    try:
        say("told", len(os.read(group, 1000)))
    except BlockingIOError:
        say("not told")
    say(rest(fd))


def maps():
    fd = opened()
    tried("sync", lambda: mmap.mmap(fd, 0, 0x3 | 0x80000, mmap.PROT_READ) and "mapped")
    tried("write", lambda: mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_WRITE))
    with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as view:
        say(digest(view), view.madvise(mmap.MADV_WILLNEED), view.flush())
    say(rest(fd))


def controls():
    """Every command of fcntl, and numbers that no kernel knows."""
    lock = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)
    commands = [("GETFD", 1, 0), ("SETFD", 2, 1), ("GETFL", 3, 0), ("nonblock", 4, os.O_NONBLOCK),
                ("append", 4, os.O_APPEND), ("async", 4, 0x2000), ("noatime", 4, os.O_NOATIME),
                ("direct", 4, os.O_DIRECT), ("SETOWN", 8, os.getpid()), ("SETSIG", 10, 0),
                ("GETSIG", 11, 0), ("GETLEASE", 1025, 0), ("NOTIFY", 1026, 1),
                ("SETPIPE", 1031, 4096), ("GETPIPE", 1032, 0), ("ADD_SEALS", 1033, 1),
                ("GET_SEALS", 1034, 0), ("unknown", 1099, 0)]
    for name, command, argument in commands:
        fd = opened()
        tried(name, fcntl.fcntl, fd, command, argument)
        say(fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NOATIME, rest(fd))
    with open(path("f3"), "r+b") as file:
        fcntl.fcntl(file, 1036, bytes(8))
    for name, command in (("hint", 1035), ("set hint", 1036), ("file hint", 1037)):
        fd = opened()
        tried(name, fcntl.fcntl, fd, command, struct.pack("Q", 2))
        say(rest(fd))
    for name, command in (("OFD_GETLK", 36), ("OFD_SETLK", 37)):
        fd = opened()
        tried(name, lambda: len(fcntl.fcntl(fd, command, lock)))
        say(rest(fd))
    fd = opened()
    other = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    say(other >= 100, os.lseek(other, 0, os.SEEK_CUR), rest(fd))


def ioctls():
    for name, request, room in (
            ("FS_IOC_GETFLAGS", 0x80086601, 8), ("FS_IOC_GETVERSION", 0x80087601, 8),
            ("FS_IOC_FSGETXATTR", 0x801c581f, 28), ("FIGETBSZ", 2, 4), ("FIONREAD", 0x541b, 4),
            ("FIOQSIZE", 0x5460, 8), ("TCGETS", 0x5401, 60), ("FIBMAP", 1, 4),
            ("FS_IOC_MEASURE_VERITY", 0xc0046686, 64), ("FS_IOC_GETFSUUID", 0x80111500, 17),
            ("FS_IOC_GET_ENCRYPTION_POLICY_EX", 0xc0096616, 64), ("unknown", 0x1234, 64)):
        fd = opened()
        buffer = array.array("B", bytes(room))
        tried(name, fcntl.ioctl, fd, request, buffer)
        say(bytes(buffer).hex(), rest(fd))
    fd = opened("sparse")
    request = array.array("B", struct.pack("QQIIII", 0, 1 << 62, 0, 0, 16, 0) + bytes(16 * 56))
    tried("FIEMAP", fcntl.ioctl, fd, 0xc020660b, request)
    say(digest(request), rest(fd))


def directories():
    """It is none."""
    fd = opened()
    tried("fchdir", os.fchdir, fd)
    tried("openat", lambda: os.open("f0", os.O_RDONLY, dir_fd=fd))
    tried("fstatat", lambda: os.stat("f0", dir_fd=fd))
    tried("list", os.listdir, fd)
    tried("wait", lambda: select.epoll().register(fd))
    tried("socket", socket.socket, socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
    say(call("isatty", fd), call("isfdtype", fd, stat.S_IFREG), call("tcgetpgrp", fd),
        call("unlinkat", fd, b"x", 0), call("mkdirat", fd, b"x", 0o700), rest(fd))


def programs():
    """fexecve and execveat: by a number, by an empty path, and by a name."""
    for name in "fexecve", "execveat", "/proc/self/fd/%d":
        fd = opened("program")
        child = os.fork()
        if child == 0:
            argv = (ctypes.c_char_p * 2)(b"program", None)
            if name == "fexecve":
                call(name, fd, argv, argv)
            elif name == "execveat":
                call(name, fd, b"", argv, argv, AT_EMPTY_PATH)
            else:
                call("execveat", -100, (name % fd).encode(), argv, argv, 0)
            os._exit(99)
        say(name, os.waitpid(child, 0)[1], rest(fd))


def extended():
    """statx, of what the index of copies does not know as well."""
    for mask in 0x1fff, 0x2fff, 0x4fff, 0x1ffff, 0x7ff:
        fd = opened()
        one, two = (ctypes.create_string_buffer(256) for _ in range(2))
        say(hex(mask), call("statx", fd, b"", AT_EMPTY_PATH, mask, one),
            call("statx", -100, path("f3").encode(), 0, mask, two))
        # All but the time of the last use; and without being asked the mount is not told.
        same = [one.raw[a:b] == two.raw[a:b] for a, b in
                ((4, 64), (80, 144), (144, 152) if mask & 0x1000 else (0, 0))]
        say(same if mask != 0x7ff else [one.raw[a:b] == two.raw[a:b] for a, b in ((16, 64),)],
            rest(fd))


def holes():
    for offset in 0, 5000, 1 << 20, (1 << 20) + 3:
        fd = opened("sparse")
        tried("data", os.lseek, fd, offset, os.SEEK_DATA)
        say(os.lseek(fd, 0, os.SEEK_CUR))
        tried("hole", os.lseek, fd, offset, os.SEEK_HOLE)
        tried("none", os.lseek, fd, offset, 17)
        say(rest(fd))


def reads():
    """preadv2 with flags; what is read is in the page cache."""
    with open(path("f3"), "r+b") as file:
        say(digest(file.read()))
    for flags in 0, os.RWF_HIPRI, os.RWF_NOWAIT, 0x80, 1 << 20:  # RWF_DONTCACHE, no such flag
        for offset in 33, -1:
            fd, buffer = opened(), ctypes.create_string_buffer(1000)
            piece = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 1000)
            say(flags, offset, call("preadv2", fd, piece, 1, offset, flags), digest(buffer),
                rest(fd))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
