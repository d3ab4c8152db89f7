# SPDX-License-Identifier: MIT
"""
Slow storage of the tests is no slower than it is told.

That it is as slow tests/storage/slowfs_behaviour.py tests; this needs a machine that is otherwise
idle, so each is measured up to five times.
"""

import errno
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TSSHIM_TEST_BUILD", os.path.join(ROOT, "build-test"))
sys.path.insert(0, os.path.join(ROOT, "tests", "storage"))

from mounted import Mounted  # noqa: E402
from storage_common import (at_once, content, raises, read_file, seconds,  # noqa: E402
                            write_file, write_files)


def _within(most, function, *arguments):
    """The call needs at most so many seconds in one of five attempts."""
    took = []
    while len(took) < 5 and (not took or took[-1] > most):
        time.sleep(len(took))
        took.append(seconds(function, *arguments))
    assert took[-1] <= most, (took, most)


def gate_latency_is_all_that_is_added():
    """A file is read within 100 ms without a latency, and 50 ms above what its requests take."""
    with Mounted(attr_timeout_ms=0, entry_timeout_ms=0) as storage:
        write_file(storage.source + "/f", b"x" * 1000)
        _within(0.1, read_file, storage.path + "/f")
        storage.latency(60)
        storage.reset()
        read_file(storage.path + "/f")
        asked = sum(storage.counts()["requests"].values())
        _within(0.06 * asked + 0.05, read_file, storage.path + "/f")


def gate_latencies_overlap():
    """Sixteen files take at most twice as long as one, sixteen look-ups in one directory 0.8 s."""
    with Mounted(entry_timeout_ms=0, attr_timeout_ms=0) as storage:
        files = write_files(storage.source, 16, 5000)
        paths = [os.path.join(storage.path, name) for name in files]
        storage.latency(100)
        alone = seconds(read_file, paths[0])
        _within(2 * alone, at_once, read_file, paths)
        storage.latency(0)
        storage.latency(100, "lookup")
        _within(0.8, at_once, lambda i: raises(errno.ENOENT, os.stat, storage.path + "/n%d" % i),
                range(16))


def gate_short_latencies_are_exact():
    """A request needs 350 us more than its latency and the lateness of a bare sleep."""
    with Mounted(direct_io=1) as storage:
        write_file(storage.source + "/f", b"x" * 200)
        fd = os.open(storage.path + "/f", os.O_RDONLY)

        def read_200_times():
            for i in range(200):
                os.pread(fd, 1, i)

        def sleep_200_times():
            for _ in range(200):
                time.sleep(0.0005)

        plain = min(seconds(read_200_times) for _ in range(3))
        storage.set(latency_read_us=500)
        over = []
        while not over or over[-1] > 0.07:
            assert len(over) < 10, over
            bare = seconds(sleep_200_times)
            over.append(seconds(read_200_times) - plain - bare)
        os.close(fd)


def gate_bandwidth_is_what_was_told():
    """Eight readers at once, and one writer, get it within a tenth."""
    size, rate = 1 << 20, 8 << 20
    with Mounted() as storage:
        files = write_files(storage.source, 8, size)
        paths = [os.path.join(storage.path, name) for name in files]
        for limit in (rate, 2 * rate):
            storage.bandwidth(limit)
            _within(1.1 * 8 * size / limit, at_once, read_file, paths)
        _within(0.55, write_file, storage.path + "/new", content(1, 8 * size))
        storage.bandwidth(0)
        _within(0.4, at_once, read_file, paths)
