# SPDX-License-Identifier: MIT
"""tsrun gc beside jobs that leave: what they had to leave to it, and what it only looks at."""

import fcntl
import os
import subprocess
import time

import support
from tsrun_common import TSRUN, Member, clean_environment, expect, new_group, tsrun
from tsrun_groups import exists, path


class Stuck:
    """A `tsrun gc` of @group that waits in the middle, where it has looked at ledger and ring: what it
    has to say of a directory in the journal's place nobody reads."""

    def __init__(self, group, *options):
        os.mkdir(path(group, "journal"))
        self.group = group
        self.end, other = os.pipe()
        os.set_blocking(other, False)
        for size in (4096, 1):
            try:
                while True:
                    os.write(other, b"x" * size)
            except BlockingIOError:
                pass
        os.set_blocking(other, True)
        self.process = subprocess.Popen([TSRUN, "gc", *options, "--group", group], stderr=other,
                                        stdout=subprocess.DEVNULL, env=clean_environment())
        os.close(other)
        while not self.writes():
            assert self.process.poll() is None
            time.sleep(0.01)

    def writes(self):
        """proc(5): the number of the system call that it is in, and its first argument."""
        words = support.read("/proc/%d/syscall" % self.process.pid).split()
        return words[0] != "running" and int(words[1], 16) == 2

    def finish(self):
        with os.fdopen(self.end, "rb") as file:
            said = file.read().strip(b"x").decode()
        assert "cannot open '%s'" % path(self.group, "journal") in said, said
        assert self.process.wait(timeout=60) == 125
        os.rmdir(path(self.group, "journal"))


def test_what_a_job_had_to_leave_to_gc(directory):
    """gc has seen that the job lives, and holds the lock until after it has given up and is gone."""
    group = new_group()
    member = Member(group)
    gc = Stuck(group)
    member.end()
    assert exists(group, "ring"), "gc holds the lock"
    gc.finish()
    assert not exists(group, "ring") and not exists(group, "ledger")


def test_who_only_looks_holds_no_lock(directory):
    group = new_group()
    member = Member(group)
    gc = Stuck(group, "-n")
    member.end()
    assert not exists(group, "ring"), "the last one out could remove it"
    gc.finish()
    assert exists(group, "ledger")
    with open(path(group, "ledger"), "r+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)
        dry = tsrun("gc", "-n", "--group", group)
        expect(dry, 0)
        assert "would keep %s: a process holds its lock" % path(group, "ledger") in dry.stdout, dry
    expect(tsrun("gc", "--group", group), 0)
    assert not exists(group, "ledger")
