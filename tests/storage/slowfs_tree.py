#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""slowfs passes everything through: what programs see is what the source has."""

import errno
import hashlib
import os
import signal
import stat
import subprocess
import time

from storage_common import content, raises, read_file, write_file, write_files
from support import Skip

from mounted import Mounted

LARGE = (9 << 20) + 123  # several requests, no multiple of anything
HOLE = 4 << 20


def make_tree(top):
    """One of everything."""
    os.makedirs(top + "/deep/er/still")
    os.mkdir(top + "/empty_directory")
    write_file(top + "/empty", b"")
    write_file(top + "/one", b"1")
    write_file(top + "/large", content(1, LARGE))
    write_file(top + "/deep/er/still/page", content(2, 4096))
    write_file(os.fsencode(top) + b"/name \xff\"\\\n", b"bytes, not text")
    with open(top + "/holes", "wb") as file:
        file.write(content(3, 5000))
        file.seek(HOLE)
        file.write(b"behind the hole")
        file.truncate(2 * HOLE)
    os.link(top + "/large", top + "/deep/hard")
    os.symlink("large", top + "/soft")
    os.symlink("nowhere/at/all", top + "/dangling")
    os.symlink("x" * 3000, top + "/long_link")
    os.mkfifo(top + "/fifo")
    os.chmod(top + "/one", 0o4751)
    os.chmod(top + "/deep", 0o1700)
    for number, name in enumerate(("one", "empty", "soft", "deep/er")):
        os.utime(os.path.join(top, name), ns=(10**18 + number, 10**18 + 7 * number + 1),
                 follow_symlinks=False)


def facts(top):
    """{relative path: what two equal trees agree on}"""
    found = {}
    top = os.fsencode(top)
    for directory, directories, files in os.walk(top):
        for name in directories + files:
            path = os.path.join(directory, name)
            status = os.lstat(path)
            data = None
            if stat.S_ISLNK(status.st_mode):
                data = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                data = hashlib.sha256(read_file(path)).hexdigest()
            links = 0 if stat.S_ISDIR(status.st_mode) else status.st_nlink
            size = 0 if stat.S_ISDIR(status.st_mode) else status.st_size
            found[os.path.relpath(path, top)] = (
                stat.filemode(status.st_mode), status.st_uid, status.st_gid, size,
                status.st_mtime_ns, links, data)
    return found


def copy(source, target):
    subprocess.run(["cp", "-a", source, target], check=True, timeout=60)


def same(one, other):
    one, other = facts(one), facts(other)
    assert len(one) > 10
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    for name in one:
        assert one[name] == other[name], (name, one[name], other[name])


def test_a_tree_written_read_and_copied_out():
    with Mounted() as origin, Mounted() as storage:
        tree = origin.source + "/tree"
        os.mkdir(tree)
        make_tree(tree)
        copy(tree, storage.path + "/in")
        same(tree, storage.source + "/in")
        same(tree, storage.path + "/in")
        copy(storage.path + "/in", origin.source + "/out")
        same(tree, origin.source + "/out")
        for holes in (storage.source + "/in/holes", origin.source + "/out/holes"):
            assert os.stat(holes).st_blocks * 512 < HOLE, "the hole was filled"
        subprocess.run(["rm", "-r", storage.path + "/in"], check=True)
        assert os.listdir(storage.source) == []


def test_attributes_are_the_sources_own(storage):
    make_tree(storage.source + "/t")
    for name in ("/t", "/t/one", "/t/large", "/t/deep/hard", "/t/holes", "/t/soft"):
        seen, real = os.lstat(storage.path + name), os.lstat(storage.source + name)
        for field in ("st_ino", "st_mode", "st_nlink", "st_uid", "st_gid", "st_size",
                      "st_blocks", "st_mtime_ns", "st_ctime_ns"):
            assert getattr(seen, field) == getattr(real, field), (name, field)
    seen, real = os.statvfs(storage.path), os.statvfs(storage.source)
    assert (seen.f_blocks, seen.f_bsize, seen.f_files, seen.f_namemax) == (
        real.f_blocks, real.f_bsize, real.f_files, real.f_namemax)
    for entry in os.scandir(storage.path + "/t"):
        assert entry.inode() == os.lstat(storage.source + "/t/" + entry.name).st_ino


def test_attributes_are_set(storage):
    path, real = storage.path + "/f", storage.source + "/f"
    write_file(path, b"0123456789")
    os.chmod(path, 0o640)
    os.chown(path, 12, 34)
    os.utime(path, ns=(1, 10**18 + 5))
    status = os.stat(real)
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o640, 12, 34)
    assert (status.st_atime_ns, status.st_mtime_ns) == (1, 10**18 + 5)
    os.utime(path)
    assert abs(os.stat(real).st_mtime - time.time()) < 60
    os.truncate(path, 4)
    assert read_file(real) == read_file(path) == b"0123"
    os.truncate(path, 6)
    assert read_file(real) == read_file(path) == b"0123\0\0"


def test_names_are_made_and_removed(storage):
    os.chdir(storage.path)
    try:
        write_file("a", b"a")
        write_file("b", b"b")
        raises(errno.EEXIST, os.open, "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.rename("a", "b")
        assert read_file("b") == b"a" and os.listdir(".") == ["b"]
        os.link("b", "c")
        assert os.stat("c").st_nlink == 2
        raises(errno.EEXIST, os.symlink, "x", "c")
        os.mkdir("d", 0o750)
        assert stat.S_IMODE(os.stat(storage.source + "/d").st_mode) == 0o750
        os.rename("c", "d/e")
        raises(errno.ENOTEMPTY, os.rmdir, "d")
        raises(errno.ENOENT, os.stat, "c")
        raises(errno.ENOTDIR, os.stat, "b/x")
        raises(errno.ENAMETOOLONG, os.stat, "n" * 256)
        os.unlink("d/e")
        os.rmdir("d")
        assert os.listdir(storage.source) == ["b"]
    finally:
        os.chdir("/")


def test_files_are_written_in_every_way(storage):
    path, real = storage.path + "/log", storage.source + "/log"
    one, other = (os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY) for _ in "12")
    for i in range(20):
        os.write((one, other)[i % 2], b"%d\n" % i)
    assert read_file(real) == b"".join(b"%d\n" % i for i in range(20))
    os.fsync(one)
    os.fdatasync(other)
    os.close(one)
    os.close(other)
    write_file(path, b"short")
    assert read_file(real) == b"short"
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"end", 100000)
    os.posix_fallocate(fd, 0, 200000)
    assert os.stat(real).st_size == 200000
    assert os.pread(fd, 10, 199995) == b"\0" * 5 and os.pread(fd, 10, 200000) == b""
    os.close(fd)


def test_permissions_are_those_of_the_caller():
    if os.geteuid() != 0:
        raise Skip("root", "cannot become somebody else")
    with Mounted() as storage:
        os.chmod(storage.base, 0o755)
        os.chmod(storage.source, 0o777)
        write_file(storage.source + "/secret", b"x")
        os.chmod(storage.source + "/secret", 0o600)
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(60)
                os.setgroups([])
                os.setgid(4321)
                os.setuid(1234)
                raises(errno.EACCES, read_file, storage.path + "/secret")
                write_file(storage.path + "/mine", b"")
                os.mkdir(storage.path + "/my")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        for name in ("/mine", "/my"):
            status = os.stat(storage.source + name)
            assert (status.st_uid, status.st_gid) == (1234, 4321), (name, status)


def test_a_large_directory_with_and_without_attributes():
    lookups = []
    for plus in (0, 1, 2):
        with Mounted(readdirplus=plus, attr_timeout_ms=60000, entry_timeout_ms=60000) as storage:
            names = set(write_files(storage.source, 400, 1))
            # All names first: the kernel does not see in time that attributes will be wanted.
            entries = list(os.scandir(storage.path))
            sizes = {entry.name: entry.stat().st_size for entry in entries}
            assert sizes == dict.fromkeys(names, 1)
            requests = storage.counts()["requests"]
            assert requests["readdir"] > 1
            lookups.append(requests["lookup"])
            fd = os.open(storage.path, os.O_RDONLY)
            # From the beginning again each time.
            assert set(os.listdir(fd)) == set(os.listdir(fd)) == names
            os.close(fd)
            subprocess.run(["find", storage.path, "-name", "f*", "-delete"], check=True)
            assert os.listdir(storage.source) == []
    assert lookups[0] == 400 > lookups[1] > lookups[2] == 0, lookups


def test_changes_in_the_source_show_after_the_time_out():
    with Mounted(attr_timeout_ms=0, entry_timeout_ms=60000) as storage:
        path, real = storage.path + "/f", storage.source + "/f"
        write_file(real, b"one")
        for data in (b"one", b"other", b"longest"):
            write_file(real, data)
            assert os.stat(path).st_size == len(data) and read_file(path) == data
        storage.set(attr_timeout_ms=60000)
        assert os.stat(path).st_size == 7 and os.listdir(storage.path) == ["f"]
        # The library's own time-outs are a second each.
        time.sleep(1.1)
        write_file(real, b"longer again")
        os.rename(real, real + "2")
        storage.reset()
        assert os.stat(path).st_size == 7
        assert sum(storage.counts()["requests"].values()) == 0
        storage.set(entry_timeout_ms=0)
        assert os.stat(path + "2").st_size == 12
        os.rename(real + "2", real + "3")
        raises(errno.ENOENT, os.stat, path + "2")
