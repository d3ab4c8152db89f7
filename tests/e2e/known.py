# SPDX-License-Identifier: MIT
"""Known paths (--stage-metadata): what the storage is not asked again, and what is seen at once."""

import json
import os
import random
import tempfile
import time

import pytest

import support
from far_away import FarAway
from support import equal, start

FILES = 6


def fill(root):
    """Small files, some of them in a directory, and a link."""
    os.mkdir(os.path.join(root, "d"))
    for i in range(FILES):
        support.write(os.path.join(root, "d" if i % 2 else "", "f%d" % i), random.Random(i).randbytes(30000 + i))
    os.symlink("f0", os.path.join(root, "link"))


def names():
    return [("d/f%d" if i % 2 else "f%d") % i for i in range(FILES)]


# What the jobs do: lines of Python with `names`, `root`, `path(name)` and `say(...)`.
PROLOGUE = """
import hashlib, json, os, sys, time
root, names = sys.argv[1], json.loads(sys.argv[2])
def path(name): return os.path.join(root, name)
def say(*what): print(*what, flush=True)
def show(name):
    with open(path(name), "rb") as file: data = file.read()
    say(name, len(data), hashlib.sha256(data).hexdigest()[:16])
def facts(name, look=os.stat):
    try: s = look(path(name))
    except OSError as error: say(name, error.strerror); return
    say(name, s.st_mode, s.st_size, s.st_ino, s.st_dev, s.st_nlink, s.st_mtime_ns, s.st_ctime_ns)
"""

READ = "for name in names: show(name)"
LOOK = "for name in names + ['link']: facts(name); facts(name, os.lstat)"


FAR = FarAway(fill, PROLOGUE, json.dumps(names()))
job, outcome, storage_and_group = FAR.job, FAR.outcome, FAR.storage_and_group


def asked(storage, *kinds):
    """How often the storage was asked, but for what happens once per process."""
    return sum(count for kind, count in storage.counts()["requests"].items() if kind in kinds)


def bytes_of(group, counter):
    return sum(row.get("kinds", row)["bytes"][counter]
               for row in group.statistics().get("datasets", []))


def alike(storage, group, body, root=None, turns=1):
    """@body says in the @group, so many @turns, what it says plain, which is returned; what the storage
    counts is of the last one."""
    reference = outcome(body, root or storage.path)
    for turn in range(turns):
        storage.reset()
        equal(reference, outcome(body, root or storage.path, group), turn)
    return reference


def test_a_second_job_does_not_ask_for_what_is_known():
    """Files are opened and read without a request; the directory itself is looked at once."""
    with storage_and_group() as (storage, group):
        alike(storage, group, READ)
        assert bytes_of(group, "produced") == FILES
        alike(storage, group, READ)
        assert asked(storage, "open", "read", "flush") == 0, storage.counts()["requests"]
        # The interpreter itself looks at nothing there; we look at the directory.
        assert asked(storage, "lookup", "getattr") <= 4, storage.counts()["requests"]
        assert bytes_of(group, "shared") == FILES


def test_attributes_are_known():
    """stat and lstat of one job are answers for the next, with every field."""
    with storage_and_group() as (storage, group):
        alike(storage, group, LOOK)
        first = asked(storage, "lookup", "getattr")
        alike(storage, group, LOOK)
        second = asked(storage, "lookup", "getattr")
        assert first >= 2 * FILES and second <= 4, (first, second)


def test_attributes_of_files_that_were_opened_are_known():
    """And of files that were looked at first, the copy is found all the same."""
    with storage_and_group() as (storage, group):
        alike(storage, group, LOOK + "\n" + READ + "\n" + LOOK, turns=3)
        assert asked(storage, "open", "read") == 0, storage.counts()["requests"]


def test_what_is_known_is_known_for_so_many_seconds():
    """A change by others is seen then, and not before."""
    for seconds in (600, 2):
        with storage_and_group(seconds=seconds) as (storage, group):
            before = alike(storage, group, READ + "\n" + LOOK)
            support.write(os.path.join(storage.source, "f0"), b"changed")
            after = outcome(READ + "\n" + LOOK, storage.path)
            assert after.output != before.output
            if seconds == 600:
                old = outcome(READ + "\n" + LOOK, storage.path, group)
                equal(before, old, "within ten minutes")
                continue
            time.sleep(2 * seconds)
            new = outcome(READ + "\n" + LOOK, storage.path, group)
            equal(after, new, "after two seconds")


def test_off_by_default():
    with storage_and_group(seconds=0) as (storage, group):
        for _ in range(2):
            outcome(READ + "\n" + LOOK, storage.path, group)
        storage.reset()
        outcome(READ, storage.path, group)
        assert asked(storage, "open") == FILES, storage.counts()["requests"]


def passed(group):
    """{reason: count} of what kept paths from being known."""
    return {reason: count for reason, count in group.statistics().get("passed", {}).items()
            if reason == "stage_written" and count}


# Ways to open a file below the directory for writing: the user has promised that no job does.  What comes of
# it has to be seen by the next look all the same, of this process and of others.
CHANGES = {
    "write": "open(path('f0'), 'wb').write(b'new')",
    "append": "open(path('f0'), 'ab').write(b'new')",
    "update": "f = open(path('f0'), 'r+b'); f.seek(5); f.write(b'new'); f.close()",
    "update_open": "f = os.open(path('f0'), os.O_RDWR); show('f0'); facts('f0');"
                   "os.pwrite(f, b'new', 7)",
    "create": "os.close(os.open(path('new'), os.O_RDONLY | os.O_CREAT)); os.replace(path('new'), path('f0'))",
    "stream": "import ctypes; c = ctypes.CDLL(None); c.fopen.restype = ctypes.c_void_p;"
              "c.fclose(ctypes.c_void_p(c.fopen(path('f0').encode(), b'w')))",
    "through_link": "open(path('link'), 'ab').write(b'new')",
    "other_name": "os.chdir(root); open('d/../f0', 'ab').write(b'new')",
    "by_descriptor": "d = os.open(root, os.O_RDONLY); os.close(os.open('f0', os.O_WRONLY | os.O_TRUNC, dir_fd=d))",
    "and_then": "open(path('f0'), 'ab').close(); os.unlink(path('d/f1')); os.truncate(path('f0'), 50);"
                "os.rename(path('f0'), path('d/f1')); os.chmod(path('d/f3'), 0o600)",
    "child": "import subprocess; subprocess.run(['cp', path('d/f1'), path('f0')], check=True)",
}
AFTER = """
for name in ['f0', 'd/f1', 'd/f3', 'link']:
    facts(name); facts(name, os.lstat)
    try: show(name)
    except OSError as error: say(name, error.strerror)
"""


# Inode numbers and times of what is made during the job are not the same in two jobs.
STEADY = """
def facts(name, look=os.stat):
    try: s = look(path(name))
    except OSError as error: say(name, error.strerror); return
    say(name, s.st_mode, s.st_size, s.st_nlink, s.st_mtime_ns if s.st_mtime_ns < 10**10 else 0)
"""


@pytest.mark.parametrize("what", CHANGES)
def test_own_change(what):
    bodies = STEADY + READ + "\n" + LOOK + "\n" + CHANGES[what] + AFTER, STEADY + AFTER
    with storage_and_group() as (storage, _):
        reference = [outcome(body, storage.path) for body in bodies]
    with storage_and_group() as (storage, group):
        outcome(READ + "\n" + LOOK, storage.path, group)
        # Another process of the group sees it at once, too.
        found = [outcome(body, storage.path, group) for body in bodies]
        assert passed(group) == {"stage_written": 1}, group.statistics()
    for plain, known, who in zip(reference, found, ("itself", "another")):
        assert plain.status == 0, plain.errors
        equal(plain, known, who)


def test_a_job_that_writes_asks_for_everything():
    """So do its processes that were forked before; the jobs after it are told what is known, as ever."""
    body = """
ready, go = os.pipe(), os.pipe()
if os.fork() == 0:
    %s
    os.write(ready[1], b"x"); os.read(go[0], 1)
    %s
    os._exit(0)
os.read(ready[0], 1)
open(path("d/f5"), "ab").close()
os.write(go[1], b"x")
assert os.wait()[1] == 0
%s
""" % (READ, READ, READ)
    with storage_and_group() as (storage, group):
        reference = outcome(body, storage.path)
        outcome(READ, storage.path, group)
        storage.reset()
        equal(reference, outcome(body, storage.path, group), "the job")
        # The first time the child is told, then it asks, as the parent does; and one open is for writing.
        assert asked(storage, "open") == 2 * FILES + 1, storage.counts()["requests"]
        assert passed(group) == {"stage_written": 1}, group.statistics()
        outcome(READ, storage.path, group)
        storage.reset()
        outcome(READ, storage.path, group)
        assert asked(storage, "open", "read") == 0, storage.counts()["requests"]


def test_bad_pointers():
    """A path that the kernel cannot read is for the kernel to refuse."""
    body = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
b = ctypes.create_string_buffer(4096)
say([(call(p, *more), ctypes.get_errno()) for p in map(ctypes.c_void_p, (1, 4095, 2**64 - 1, None))
     for call, *more in ((c.open, 0), (c.open64, 0), (c.open, 2), (c.stat, b), (c.lstat, b), (c.access, 0),
                         (c.fopen, b"r"), (c.fopen, b"r+"))])
"""
    with storage_and_group() as (storage, group):
        outcome(READ, storage.path, group)
        alike(storage, group, body)


def test_paths_of_all_spellings():
    """By the name the user gave, which is a link, by the real one, and by relative ones."""
    with storage_and_group() as (storage, group), tempfile.TemporaryDirectory() as place:
        given = os.path.join(place, "data")
        os.symlink(storage.path, given)
        body = ("os.chdir(root)\n" + READ + "\nroot = os.path.realpath(root)\n" + READ +
                "\nroot = '.'\n" + READ + "\nos.chdir('d')\nroot = '..'\n" + READ +
                "\nd = os.open('..', os.O_RDONLY)\n"
                "for name in names: say(len(os.fdopen(os.open(name, os.O_RDONLY, dir_fd=d),"
                "'rb').read()))")
        alike(storage, group, body, given, turns=2)
        assert asked(storage, "read") == 0
        # os.open('..') is the one that no file is behind, and no directory is ever known.
        assert asked(storage, "open") == 0, storage.counts()["requests"]


def test_descriptors_are_as_the_storage_would_have_given_them():
    """Flags, inheritance, modes of streams; flags that ask for more than reading."""
    body = """
import fcntl, ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
libc.fileno.argtypes = [ctypes.c_void_p]
libc.fclose.argtypes = [ctypes.c_void_p]
for flags in (0, os.O_CLOEXEC, os.O_NONBLOCK, os.O_NOCTTY, os.O_NOFOLLOW, os.O_NOATIME,
              os.O_DIRECTORY, os.O_PATH, os.O_APPEND, os.O_SYNC):
    for name in ("f0", "link", "none", "d"):
        try: fd = os.open(path(name), flags)
        except OSError as error: say(flags, name, error.strerror); continue
        say(flags, name, fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD))
        os.close(fd)
for mode in ("r", "rb", "re", "rm", "rx", "r,ccs=UTF-8"):
    for name in ("f0", "none"):
        stream = libc.fopen(path(name).encode(), mode.encode())
        say(mode, name, bool(stream), ctypes.get_errno() if not stream else 0)
        if stream:
            fd = libc.fileno(stream)
            say(fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD))
            libc.fclose(stream)
"""
    with storage_and_group() as (storage, group):
        alike(storage, group, body, turns=3)


def test_writing_elsewhere_on_the_storage_forgets_nothing():
    """A checkpoint beside the data set."""
    with storage_and_group() as (storage, group):
        data = os.path.join(storage.path, "d")
        body = ("names = [os.path.basename(name) for name in names if '/' in name]\n" + READ +
                "\nopen(os.path.dirname(root) + '/checkpoint', 'wb').write(b'x')\n")
        outcome(body, data, group)
        storage.reset()
        assert outcome(body, data, group).status == 0
        assert asked(storage, "read") == 0 and asked(storage, "open") <= 1, storage.counts()
        assert passed(group) == {}, group.statistics()


def test_other_rights_are_other_names():
    """What root could open is not known to a process that may not; nor behind another root, where
    it counts after a second."""
    if os.geteuid() != 0:
        raise support.Skip("root", "only root can have fewer rights than its jobs")
    with storage_and_group() as (storage, group):
        os.chmod(os.path.join(storage.source, "f0"), 0)
        outcome(READ, storage.path, group)
        fewer = ("import ctypes; c = ctypes.CDLL(None)\n"
                 "class H(ctypes.Structure): _fields_ = [('v', ctypes.c_uint),"
                 " ('p', ctypes.c_int)]\n"
                 "c.capset(ctypes.byref(H(0x20080522, 0)), (ctypes.c_uint * 6)())\n"
                 "try: show('f0')\nexcept OSError as error: say(error.strerror)\n")
        assert "Permission denied" in alike(storage, group, fewer).output
        other = READ + "\nos.chroot(path('d'))\ntime.sleep(1.1)\ntry: show('f0')\n" \
            "except OSError as error: say(error.strerror)\n"
        alike(storage, group, other)


def test_young_files_are_not_known():
    """A file that has just changed may change again before its times show it."""
    with storage_and_group(age_s=-3600) as (storage, group):
        outcome(READ + "\n" + LOOK, storage.path, group)
        storage.reset()
        outcome(READ + "\n" + LOOK, storage.path, group)
        requests = storage.counts()["requests"]
        assert requests["open"] == FILES and asked(storage, "lookup", "getattr") > 2 * FILES


def test_a_file_is_opened_for_writing_while_the_directory_is_looked_for():
    """Nobody knows whether it is below the directory, so this process asks for everything.

    Opening it, by a link, takes five requests and our look at it a sixth, which ends after 3.6
    seconds.  The directory is looked for, which takes one, from 3.3 to 3.9 seconds.
    """
    for writes in False, True:
        with storage_and_group(latency_us=600000) as (storage, group), tempfile.TemporaryDirectory() as place:
            link = os.path.join(place, "link")
            os.symlink(storage.path, link)
            command = [support.victim("meanwhile"), storage.path, "3300"]
            command += [os.path.join(link, "f4")] if writes else []
            environment = group.environment(TSSHIM_DATASET="files=" + storage.path)
            done = support.finish(start(command, environment))
            assert done.output.split()[:4] == ["f0", "30000", "f2", "30002"], done.output
            looked = asked(storage, "lookup")
            assert looked == (1 + 1 + 4 if writes else 1 + 1), storage.counts()["requests"]
            assert passed(group) == ({"stage_written": 1} if writes else {}), group.statistics()


def test_killed_at_every_step():
    """Whoever dies while it notes a path, the next job reads the same and asks the storage."""
    with storage_and_group() as (storage, group):
        for point in ("name_taken", "name_hashed"):
            killed = outcome(READ + "\n" + LOOK, storage.path, group,
                             TSSHIM_TEST_KILL=point + ":2")
            assert killed.status == -9, (point, killed.status, killed.errors[-2000:])
            for name in names():
                os.utime(os.path.join(storage.source, name))
        alike(storage, group, READ, turns=2)


def test_a_link_to_a_file_outside():
    """What is written by the name that was looked at is seen at once, wherever it leads."""
    body = """
facts("out")
with open(path("out"), "ab") as file: file.write(b"x" * 10)
facts("out")
"""
    with storage_and_group() as (storage, group):
        os.symlink("../f0", os.path.join(storage.source, "d", "out"))
        before, after = outcome(body, os.path.join(storage.path, "d"), group).output.splitlines()
        assert int(after.split()[2]) == int(before.split()[2]) + 10, (before, after)


def test_four_jobs_at_once():
    """In orders of their own; each file is fetched once, and opened hardly more often."""
    with storage_and_group(latency_us=1000) as (storage, group):
        reference = sorted(outcome(READ, storage.path).output.splitlines())
        storage.reset()
        for _ in range(2):
            started = [job("import random; random.Random(%d).shuffle(names)\n" % seed + READ,
                           storage.path, group) for seed in range(4)]
            for process in started:
                assert sorted(support.finish(process).output.splitlines()) == reference
        assert bytes_of(group, "produced") == FILES, group.statistics()
        assert asked(storage, "open") <= 4 * FILES, storage.counts()["requests"]
