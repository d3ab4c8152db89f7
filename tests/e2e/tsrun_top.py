# SPDX-License-Identifier: MIT
"""tsrun top: blocks of text for logs, and a terminal that is given back."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from tsrun_common import (TSRUN, Member, clean_environment, expect, gc, locked, new_group, path,
                          tsrun)
from tsrun_common import own_group  # noqa: F401 -- the fixture "group"

GUARD = 60  # seconds: more means that it hangs
HOME, ERASE_LINE, ERASE_REST = "\033[H", "\033[K", "\033[J"


class Blocks:
    """`tsrun top` that writes blocks of text, which are read one by one.  When one ends is seen
    when the next one comes."""

    def __init__(self, *words):
        self.process = subprocess.Popen([TSRUN, "top", *words], env=clean_environment(),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        text=True)
        self.ahead = self.process.stdout.readline()

    def next(self):
        """Lines of the next block, which begins with a line of its own."""
        assert self.ahead.startswith("tsrun top  "), self.ahead
        lines = [self.ahead.rstrip("\n")]
        while True:
            self.ahead = self.process.stdout.readline()
            if not self.ahead or self.ahead.startswith("tsrun top  "):
                return lines
            lines.append(self.ahead.rstrip("\n"))

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def cells(lines, start):
    """The words of the line whose first word is @start."""
    line, = [line.split() for line in lines if line.split()[:1] == [start]]
    return line


def test_blocks_of_text(group):
    """One at once, without rates; as many as were asked for; nothing that moves a cursor."""
    member = Member(group)
    one = tsrun("top", "-n", "1", "--group", group)
    three = tsrun("top", "--batch", "--count=3", "-d0.1", "--group=" + group)
    for result in (one, three):
        expect(result, 0)
        assert "\033" not in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= 79, result.stdout
    assert one.stdout.count("tsrun top  ") == 1 and three.stdout.count("tsrun top  ") == 3
    assert three.stdout.count("\n\ntsrun top  ") == 2 and three.stdout.count("every 0.1 s") == 3
    lines = one.stdout.splitlines()
    assert cells(lines, "photos") == ["photos", "pixels", "-", "-", "-", "-", "-", "1"], lines
    row = cells(lines, str(member.pid))
    assert row == [str(member.pid), "tsrun-me", "1", "-", "-", "pixels", "-", "-", "-", "-", "-"]
    at = lines.index("Group " + group)
    assert lines[at + 1].startswith("  1 job; ring 0 bytes of "), lines
    assert lines[at + 1].endswith(", 0 %; late -/s; saved - CPU"), lines
    # Without a change all is known, and none.
    row = cells(three.stdout.split("\n\ntsrun top")[2].splitlines(), str(member.pid))
    assert row[6:] == ["0.0", "0.0", "0.0", "0.0", "0.00"], row


def test_rates_are_of_what_was_done_between(group):
    member = Member(group)
    top = Blocks("-b", "-d", "0.1", "--group", group)
    try:
        assert cells(top.next(), "photos")[2:4] == ["-", "-"]
        assert cells(top.next(), "photos")[2:4] == ["0.0", "0.0"]
        member.work()
        # Every block is seen: one of them has the work.
        rates = ["0.0", "0.0"]
        while rates == ["0.0", "0.0"]:
            lines = top.next()
            rates = cells(lines, "photos")[2:4]
        job = cells(lines, str(member.pid))
    finally:
        top.end()
    # The work may fall between two looks, as what is made and what is taken are two counters.
    assert max(map(float, rates)) > 0, rates
    assert "-" not in job[6:], job


def test_all_groups_without_a_name(group):
    others = other, ended = new_group(), new_group()
    Member(ended).end()
    Member(group)
    member = Member(other, "other")
    text = tsrun("top", "-b", "-n1").stdout
    named = tsrun("top", "-b", "-n1", env={"TSSHIM_GROUP": group}).stdout
    member.end()
    for name in others:
        gc(name)
    for name in (group, other):
        assert "\nGroup %s\n  1 job; " % name in text, text
    assert ended not in text, text
    assert "\nGroup %s\n" % group in named and other not in named, named


def test_nobody_there(group):
    assert "\n  0 jobs; ring -; late -/s; saved - CPU" in expect(tsrun("top", "-b", "-n", "1", "--group", group), 0)


def test_a_group_that_is_damaged(group):
    ledger = path(group, "ledger")
    os.close(os.open(ledger, os.O_CREAT, 0o600))
    with locked(ledger, 1, 0):  # no gc of another test takes it away
        assert "  cannot be read: it is damaged" in expect(tsrun("top", "-b", "-n", "1", "--group", group), 0)
        os.unlink(ledger)


def test_wrong_usage():
    for words, bad in ((["--bacth"], "unknown option '--bacth' of tsrun top\nhint: did you mean '--batch'?"),
                       (["-n", "0"], "'--count' has a bad value '0'"),
                       (["-n", "1.5"], "'--count' has a bad value '1.5'"),
                       (["-nx"], "'--count' has a bad value 'x'"),
                       (["-n"], "option '--count' needs a value"),
                       (["-d", "0"], "'--delay' has a bad value '0'"),
                       (["-d0.05"], "'--delay' has a bad value '0.05'"),
                       (["-d", "3601"], "'--delay' has a bad value '3601'"),
                       (["-d", "1s"], "'--delay' has a bad value '1s'"),
                       (["--delay=1."], "'--delay' has a bad value '1.'"),
                       (["-d", "99999999999999999999"], "'--delay' has a bad value '9999999"),
                       (["--batch=1"], "option '--batch' takes no value"),
                       (["-b1"], "unknown option '-b1' of tsrun top"),
                       (["now"], "tsrun top takes no argument 'now'")):
        expect(tsrun("top", *words), 125, bad)
    with open("/dev/full", "w") as full:
        expect(tsrun("top", "-b", stdout=full), 125, "cannot write to standard output")


# What starts tsrun as a shell with job control does: a group of its own in the foreground.  It
# tells each change of state on descriptor 3, and lets a stopped one go on for a byte from 4.
LEADER = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        os.write(3, b"ended %d\\n" % os.waitstatus_to_exitcode(status))
        break
    os.write(3, b"stopped %d\\n" % os.WSTOPSIG(status))
    os.read(4, 1)
    os.kill(child, signal.SIGCONT)
"""


class Terminal:
    """`tsrun top` in a terminal of @rows and @columns."""

    def __init__(self, *words, rows=24, columns=80, stdin=None):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        told, tell = os.pipe()
        wait, self.go = os.pipe()

        def prepare():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (tell, wait)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.leader = subprocess.Popen(
            [sys.executable, "-c", LEADER, TSRUN, "top", *words], env=clean_environment(),
            stdin=slave, stdout=slave, stderr=slave, pass_fds=(3, 4), preexec_fn=prepare)
        for fd in (tell, wait):
            os.close(fd)
        self.states = os.fdopen(told)
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text, start=0):
        """Read until @text has come behind @start; where it ends."""
        end = time.monotonic() + GUARD
        while text not in self.seen[start:]:
            assert time.monotonic() < end, (text, self.seen[-2000:])
            if select.select([self.master], [], [], 1)[0]:
                self.seen += os.read(self.master, 65536).decode()
        return self.seen.index(text, start) + len(text)

    def picture(self):
        """The next whole picture."""
        start = self.read_until(HOME, len(self.seen))
        end = self.read_until(ERASE_REST, start)
        return self.seen[start:end - len(ERASE_REST)]

    def press(self, keys):
        os.write(self.master, keys)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def becomes(self, state):
        """It tells this state, and the terminal is as it was."""
        assert self.states.readline() == state + "\n"
        assert termios.tcgetattr(self.slave) == self.before

    def end(self, state="ended 0"):
        """As becomes(), if it is to; and the leader ends well."""
        if state:
            self.becomes(state)
        assert self.leader.wait(timeout=GUARD) == 0
        for fd in (self.master, self.slave, self.go):
            os.close(fd)
        self.states.close()


def test_terminal_and_q(group):
    member = Member(group)
    top = Terminal("-d", "0.1", "--group", group)
    top.read_until(ERASE_REST)
    assert top.is_raw()
    for _ in range(2):
        lines = top.picture().split("\r\n")
        assert all(line.endswith(ERASE_LINE) for line in lines[:-1]) and lines[-1] == ""
    assert re.search(r"^ +%d " % member.pid, "\n".join(lines), re.M), lines
    top.press(b"q")
    top.end()


def test_as_many_pictures_as_asked_for():
    top = Terminal("-n", "2", "-d", "0.1")
    top.becomes("ended 0")
    top.press(b"end\n")  # comes back from the terminal, behind all of the pictures
    top.read_until("end")
    assert top.seen.count("tsrun top  ") == 2, top.seen
    top.end(None)


def test_other_keys_show_the_next_one_now():
    top = Terminal("-d", "3600")
    top.read_until("tsrun top  ")
    top.press(b" ")
    top.picture()
    top.press(b"Q")
    top.end()


def test_control_c_gives_the_terminal_back():
    for key, number in ((b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)):
        top = Terminal("-d", "3600")
        top.read_until("tsrun top  ")
        assert top.is_raw()
        top.press(key)
        top.end("ended %d" % -number)


def test_stopped_and_continued():
    """While it is stopped the terminal is as it was; then the picture comes again."""
    top = Terminal("-d", "3600")
    top.read_until("tsrun top  ")
    top.read_until(ERASE_REST, top.read_until("tsrun top  "))
    top.press(b"\x1a")
    top.becomes("stopped %d" % signal.SIGTSTP)
    seen = len(top.seen)
    os.write(top.go, b".")
    top.read_until("tsrun top  ", seen)
    assert top.is_raw()
    top.press(b"q")
    top.end()


def test_a_small_terminal_is_not_overrun(group):
    for _ in range(6):
        Member(group)
    top = Terminal("-d", "3600", "--group", group, rows=5, columns=40)
    top.read_until("tsrun top  ")
    end = top.read_until(ERASE_REST, top.read_until("tsrun top  "))
    lines = top.seen[:end].split(HOME)[-1].split("\r\n")
    assert len(lines) == 5, lines  # the last of which has no text
    assert max(len(line.replace(ERASE_LINE, "")) for line in lines[:-1]) == 39, lines
    top.resize(30, 60)  # which the terminal tells
    lines = top.picture().split("\r\n")
    assert len(lines) == 14, lines
    top.press(b"q")
    top.end()
