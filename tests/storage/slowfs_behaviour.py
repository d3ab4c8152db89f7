#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""slowfs is as slow and as faulty as it is told, and counts exactly what reached it."""

import concurrent.futures
import errno
import mmap
import os
import signal
import subprocess
import threading
import time

from storage_common import at_once, content, raises, read_file, takes, write_file, write_files

from mounted import Mounted


def paths(storage, names):
    return [os.path.join(storage.path, name) for name in names]


def uncached(path, size, offset=0):
    """One pread, to be used with direct_io: exactly one request."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def test_latency_is_added_to_every_request(storage):
    write_file(storage.source + "/f", b"x" * 1000)
    # Anew each time: getattr of the directory, lookup, open, read, flush.
    storage.set(attr_timeout_ms=0, entry_timeout_ms=0)
    storage.latency(60)
    storage.reset()
    read_file(storage.path + "/f")
    asked = sum(storage.counts()["requests"].values())
    assert asked >= 4, storage.counts()
    takes(0.06 * asked, read_file, storage.path + "/f")


def test_latency_of_one_kind():
    with Mounted(entry_timeout_ms=0, attr_timeout_ms=0) as storage:
        write_file(storage.source + "/f", b"x")
        acts = {"lookup": lambda: raises(errno.ENOENT, os.stat, storage.path + "/none"),
                "read": lambda: read_file(storage.path + "/f")}
        for kind, act in acts.items():
            storage.reset()
            act()
            asked = storage.counts()["requests"][kind]
            assert asked > 0, kind
            storage.latency(60, kind)
            takes(0.06 * asked, act)
            # It comes before the common one.
            storage.set(latency_us=1000, **{"latency_%s_us" % kind: 60000})
            takes(0.06 * asked, act)
            storage.latency(0)


# Far longer than a test may take: who waits for it is seen to wait, until slowfs ends.
LONG_MS = 600 * 1000


def wait_together(storage, kind, function, arguments):
    """All these calls wait at the same time, each in a request of this kind."""
    arguments = list(arguments)
    storage.latency(LONG_MS, kind)
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
        calls = [pool.submit(function, argument) for argument in arguments]
        try:
            storage.wait_for_waiting(len(arguments))
        finally:
            storage.close()
    assert {call.exception().errno for call in calls} == {errno.EIO}, calls


def test_latencies_overlap():
    for kind, function, names in (("lookup", read_file, "f%04d"), ("read", read_file, "f%04d"),
                                  ("lookup", os.stat, "none%d")):
        with Mounted(entry_timeout_ms=0, attr_timeout_ms=0) as storage:
            write_files(storage.source, 16, 5000)
            wait_together(storage, kind, function, paths(storage, [names % i for i in range(16)]))


def test_bandwidth_is_shared_by_all():
    size, rate = 1 << 20, 16 << 20
    with Mounted() as storage:
        files = write_files(storage.source, 8, size)
        for limit in (rate, 2 * rate):
            storage.bandwidth(limit)
            takes(0.9 * 8 * size / limit, at_once, read_file, paths(storage, files))
        takes(0.9 * 8 * size / (2 * rate), write_file, storage.path + "/new", content(1, 8 * size))


def test_counts_are_exact_with_concurrent_requests():
    with Mounted(direct_io=1) as storage:
        write_files(storage.source, 9, 100 * 1000)
        storage.reset()

        def work(number):
            for i in range(50):
                uncached(storage.path + "/f%04d" % number, 1000, i * 1000)
                assert len(uncached(storage.path + "/f0008", 5000, 99000)) == 1000

        at_once(work, range(8))
        counts = storage.counts()
        assert (counts["opens"], counts["reads"]) == (800, 800), counts
        assert counts["requests"]["open"] == counts["requests"]["read"] == 800
        assert counts["bytes_read"] == 800 * 1000
        files = {"f%04d" % i: {"opens": 50, "reads": 50, "bytes_read": 50000,
                               "bytes_written": 0} for i in range(8)}
        files["f0008"] = {"opens": 400, "reads": 400, "bytes_read": 400000, "bytes_written": 0}
        assert counts["files"] == files, counts["files"]
        storage.reset()
        counts = storage.counts()
        assert counts["files"] == {} and sum(counts["requests"].values()) == 0
        assert (counts["opens"], counts["reads"], counts["bytes_read"]) == (0, 0, 0)


def test_each_byte_is_counted_once_through_the_page_cache():
    sizes = (0, 1, 4095, 4096, 4097, 131072, 1000000, 5 * 1000 * 1000)
    with Mounted() as storage:
        for size in sizes:
            write_file(storage.source + "/s%d" % size, content(size, size))
        for way in (read_file, lambda path: subprocess.run(["cp", path, "/dev/null"],
                                                           check=True)):
            storage.reset()
            at_once(way, [storage.path + "/s%d" % size for size in sizes])
            counts = storage.counts()
            assert counts["bytes_read"] == sum(sizes), counts
            for size in sizes:
                assert counts["files"]["s%d" % size]["bytes_read"] == size, (size, counts)


def test_names_in_counts():
    name = b"\xff \"\\\n"
    with Mounted() as storage:
        os.makedirs(storage.source + "/a/b")
        write_file(os.fsencode(storage.source) + b"/a/b/" + name, b"12345")
        read_file(os.fsencode(storage.path) + b"/a/b/" + name)
        assert storage.counts()["files"][os.fsdecode(b"a/b/" + name)]["bytes_read"] == 5
        os.rename(storage.path + "/a", storage.path + "/c")
        storage.reset()
        read_file(os.fsencode(storage.path) + b"/c/b/" + name)
        assert list(storage.counts()["files"]) == [os.fsdecode(b"c/b/" + name)]
        write_file(storage.path + "/w", b"x" * 1234)
        assert storage.counts()["files"]["w"]["bytes_written"] == 1234
        assert storage.counts()["bytes_written"] == 1234


def test_the_page_cache_is_kept_or_not():
    with Mounted(keep_cache=1) as storage:
        write_file(storage.source + "/f", content(1, 300000))
        for kept, read in ((1, 300000), (1, 0), (0, 300000), (0, 300000), (1, 0)):
            storage.set(keep_cache=kept)
            storage.reset()
            read_file(storage.path + "/f")
            assert storage.counts()["bytes_read"] == read, (kept, storage.counts())
        storage.set(direct_io=1)
        storage.reset()
        for _ in range(2):
            assert uncached(storage.path + "/f", 1000) == content(1, 300000)[:1000]
        assert storage.counts()["bytes_read"] == 2000


def test_reads_fail(storage):
    path = storage.path + "/f"
    write_file(storage.source + "/f", content(1, 1 << 20))
    storage.fail(reads=True)
    raises(errno.EIO, read_file, path)
    with open(path, "rb") as file, mmap.mmap(
            file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGBUS, signal.SIG_DFL)
            os._exit(memory[0] & 0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGBUS
    storage.fail()
    assert read_file(path) == content(1, 1 << 20)


def test_reads_beyond_an_offset_fail():
    with Mounted(direct_io=1) as storage:
        write_file(storage.source + "/f", content(1, 1 << 20))
        storage.fail(beyond=524288)
        assert len(uncached(storage.path + "/f", 4096, 524288 - 4096)) == 4096
        raises(errno.EIO, uncached, storage.path + "/f", 4096, 524288 - 4095)
        assert uncached(storage.path + "/f", 4096, 1 << 20) == b""


def test_opens_fail(storage):
    write_file(storage.source + "/f", b"x")
    storage.fail(opens=True)
    raises(errno.EIO, read_file, storage.path + "/f")
    raises(errno.EIO, write_file, storage.path + "/new", b"")
    assert os.listdir(storage.path) == ["f"] and os.stat(storage.path + "/f").st_size == 1
    counts = storage.counts()
    assert counts["opens"] == 0 and counts["requests"]["open"] == 1, counts
    storage.fail()
    assert read_file(storage.path + "/f") == b"x"


def test_stalled_requests_go_on(storage):
    files = write_files(storage.source, 8, 1000)
    storage.stall()
    results = {}
    readers = [threading.Thread(target=lambda n=name: results.update(
        {n: read_file(os.path.join(storage.path, n))}), daemon=True) for name in files]
    for reader in readers:
        reader.start()
    storage.wait_for_waiting(8)
    assert results == {} and storage.counts()["opens"] == 0
    storage.resume()
    for reader in readers:
        reader.join(60)
    assert results == files
    assert storage.counts()["waiting"] == 0


def test_what_is_stalled_has_not_reached_the_source():
    # Directly, because a write through the page cache asks for capabilities first.
    with Mounted(direct_io=1, entry_timeout_ms=60000, attr_timeout_ms=60000) as storage:
        path, real = storage.path + "/f", storage.source + "/f"
        fd = os.open(path, os.O_CREAT | os.O_RDWR)
        for kind, act, before, after in (
                ("write", lambda: os.write(fd, b"late"), b"", b"late"),
                ("remove", lambda: os.unlink(path), b"late", None)):
            os.stat(path)
            storage.reset()
            storage.stall()
            worker = threading.Thread(target=act, daemon=True)
            worker.start()
            storage.wait_for_waiting(1)
            assert storage.counts()["requests"][kind] == 1, (kind, storage.counts())
            assert read_file(real) == before, kind
            storage.resume()
            worker.join(60)
            assert (read_file(real) if os.path.exists(real) else None) == after, kind
        os.close(fd)


def test_files_look_older_than_they_are():
    with Mounted(age_s=3600) as storage:
        write_file(storage.source + "/f", b"x")
        behind = os.stat(storage.source + "/f")
        for found in (os.stat(storage.path + "/f"), list(os.scandir(storage.path))[0].stat()):
            assert found.st_mtime_ns == behind.st_mtime_ns - 3600 * 10**9
            assert found.st_ctime_ns == behind.st_ctime_ns - 3600 * 10**9
        fd = os.open(storage.path + "/f", os.O_RDONLY)
        time.sleep(1.1)  # attributes are asked for again
        assert os.fstat(fd).st_ctime_ns == behind.st_ctime_ns - 3600 * 10**9
        os.close(fd)


def test_settings_that_are_refused(storage):
    before = storage.settings()
    for words in ("nonsense=1", "latency_us", "latency_us=", "latency_us=1x", "stall=2",
                  "latency_us=-1", "threads=4", "readdirplus=0",
                  "latency_us=7 nonsense=1", "latency_us=99999999999999999999"):
        try:
            storage.ask("set " + words)
        except ValueError:
            continue
        raise AssertionError(words)
    assert storage.settings() == before
    storage.set(latency_us=7, bandwidth=1 << 30)
    after = {**before, "latency_us": 7, "bandwidth": 1 << 30}
    assert storage.settings() == after
