# SPDX-License-Identifier: MIT
"""
The counters of the stand-in for libcuda.so.1 (a driver in software, not a GPU); counters.h
says what they are.

    with counters.Driver(delay_us=500) as driver:
        run(trainer, env={**plain, **driver.environment})
        assert driver["h2d_copies"] == 8
"""

import os
import struct
import tempfile

ENTRY = struct.Struct("56sQ")


def read(path):
    """{name: count} of a file that FAKECUDA_COUNTERS named; empty while no process used it."""
    with open(path, "rb") as file:
        data = file.read()
    entries = ENTRY.iter_unpack(data[:len(data) // ENTRY.size * ENTRY.size])
    return {name.rstrip(b"\0").decode(): value for name, value in entries if name[0]}


class Driver:
    """The environment of processes that use one machine of the stand-in, and its counters."""

    def __init__(self, directory=None, **settings):
        """@directory: of the libcuda.so.1; settings as in fake_settings.h, in small letters."""
        build = os.environ["TSSHIM_TEST_BUILD"]
        self.directory = directory or os.path.join(build, "tests", "fakecuda")
        fd, self.path = tempfile.mkstemp(prefix="fakecuda.")
        os.close(fd)
        self.environment = {"LD_LIBRARY_PATH": self.directory, "FAKECUDA_COUNTERS": self.path}
        for name, value in settings.items():
            self.environment["FAKECUDA_" + name.upper()] = str(value)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.unlink(self.path)

    def counts(self):
        """All that are not zero."""
        return {name: value for name, value in read(self.path).items() if value}

    def __getitem__(self, name):
        return read(self.path)[name]

    def reset(self):
        """Begin anew; no process may be using it."""
        os.truncate(self.path, 0)
