# SPDX-License-Identifier: MIT
"""Staging on storage as sites have it: GlusterFS, sshfs and s3fs, each with a server of our own."""

import contextlib
import os
import subprocess
import threading

import pytest
from storage_common import content

import servers
import support
from support import PYTHON, Group, equal, finish, run, start, wait_until

CHILD = os.path.join(support.HERE, "staged_large_child.py")
MIB = 1 << 20
SMALL = 40  # files
MOST = 300000  # bytes of one of them at most
LARGE = 20 * MIB + 777  # bytes: what a stager copies, in three chunks
JOBS = 4
OLD = 3600  # seconds: how long ago files were written, as far as they say
KEPT = 600  # seconds for which kernels keep what they know of files, in tests of that

kinds = pytest.mark.parametrize("kind", sorted(servers.KINDS))
few = pytest.mark.parametrize("kind", [support.left_unless(kind == "glusterfs", kind) for kind in sorted(servers.KINDS)])

# What makes a client's kernel half keep attributes and names for KEPT seconds.
KEEPS = {"glusterfs": ["--attribute-timeout=%d" % KEPT, "--entry-timeout=%d" % KEPT, "--use-readdirp=no"],
         "sshfs": ["-oattr_timeout=%d,entry_timeout=%d" % (KEPT, KEPT)],
         "s3fs": ["-oattr_timeout=%d,entry_timeout=%d" % (KEPT, KEPT)]}

# GlusterFS's client itself keeps attributes for a second, whatever the kernel asks.
ASKS = {"performance.stat-prefetch": "off"}


@contextlib.contextmanager
def storage_of(kind, files, settings=None, group=None):
    """(storage with these @files, a group that keeps its copies of them)."""
    with servers.make(kind, settings) as storage, Group(
            support.TEST_LIBRARY, TSSHIM_STAGE="auto", TSSHIM_DATASET="files=" + storage.path,
            TSSHIM_TEST_YOUNG_INPUTS="1", **(group or {})) as copies:
        for name, data in files.items():
            storage.put(name, data, OLD)
        wait_until(lambda: sorted(os.listdir(storage.path)) == sorted(files), lambda: os.listdir(storage.path))
        copies.keep()
        try:
            yield storage, copies
        finally:
            copies.release()
            wait_until(lambda: not servers.running("tsshim-stager", copies.name), "the end of stagers")


def small(count=SMALL):
    return {"f%03d" % i: content(i, MOST - 2000 * i) for i in range(count)}


def copies_of(group):
    return [path for path in group.leftovers("f.*") if not path.endswith(".part")]


def reader(storage, group, recipe="read"):
    return start([PYTHON, CHILD, recipe, storage.path], group.environment())


def wanted(storage):
    """What a plain program reads in a local directory of the same files."""
    outcome = run([PYTHON, CHILD, "read", storage.origin])
    assert outcome.status == 0 and outcome.output, outcome.errors
    return outcome


def all_read(storage, group, what):
    """Jobs that begin at once read what is there."""
    reference = wanted(storage)
    for job in [reader(storage, group) for _ in range(JOBS)]:
        equal(reference, finish(job), what)


def read_by_jobs(kind, files):
    """(bytes that the server gave to jobs, bytes of the files, what the server gave to later jobs, reasons)."""
    with storage_of(kind, files) as (storage, group):
        storage.bytes_read()
        all_read(storage, group, "four jobs")
        wait_until(lambda: len(copies_of(group)) == len(files), lambda: (group.leftovers("f.*"), group.staged()))
        first = storage.bytes_read()
        all_read(storage, group, "four later jobs")
        again, (made, shared, reasons) = storage.bytes_read(), group.staged()
        assert made == len(files), (made, shared, reasons)
        return first, sum(map(len, files.values())), again, reasons


@kinds
def test_four_jobs_get_each_byte_from_the_server_once(kind):
    """But for those of a job that has waited in vain, as may be on a busy machine."""
    first, total, again, reasons = read_by_jobs(kind, small())
    print("%s: bytes read by %d jobs / bytes of the files: %.4f" % (kind, JOBS, first / total))
    assert set(reasons) <= {"stage_busy"}, reasons
    most = 1.02 * total + reasons.get("stage_busy", 0) * MOST
    assert total <= first <= most, (first, total, reasons)
    assert again == 0, again


@kinds
@pytest.mark.parametrize("replace", [True, False], ids=["replaced", "rewritten"])
def test_a_changed_file_never_gives_old_bytes(kind, replace):
    """Of the same size, while the kernel still has the attributes of before, of a copy that was confirmed."""
    with storage_of(kind, small(3), ASKS if kind == "glusterfs" else None) as (storage, group):
        # There a kept name of a file that is gone is an error for everybody.
        is_new = kind == "glusterfs" and replace
        storage.remount(*KEEPS[kind], *(["--entry-timeout=0"] if is_new else []))
        for _ in range(2):
            equal(wanted(storage), finish(reader(storage, group)), "before")
        assert group.staged() == (3, 3, {}), group.staged()
        before = os.stat(storage.path + "/f001")
        storage.put("f001", content(77, before.st_size), replace=replace)
        after = os.stat(storage.path + "/f001")
        assert is_new or (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino), "not kept"
        job = finish(reader(storage, group))
        equal(wanted(storage), job, "after")
        equal(run([PYTHON, CHILD, "read", storage.path]), job, "after, as plain")


@kinds
def test_a_file_changes_each_time_it_is_read(kind):
    """Whatever a client keeps by default, when a plain program sees a change, so does a job."""
    with storage_of(kind, small(2)) as (storage, group):
        for turn in range(4):
            # Whole seconds apart: that is all that some of them tell.
            storage.put("f000", content(turn, 100000), 1000 - 10 * turn, replace=turn % 2 == 0)
            reference = wanted(storage)
            wait_until(lambda: run([PYTHON, CHILD, "read", storage.path]) == reference, "a plain program sees it")
            equal(reference, finish(reader(storage, group)), turn)


@few
def test_a_server_that_stutters(kind):
    """It stops and goes on all the time, in mid-read and in mid-copy: jobs read as if it were slow."""
    with storage_of(kind, {**small(8), "flarge": content(99, LARGE)}) as (storage, group):
        reference = wanted(storage)
        jobs = [reader(storage, group) for _ in range(2)]
        ended = threading.Event()

        def stutter():
            while not ended.wait(0.05):
                with storage.stopped():
                    ended.wait(0.05)

        thread = threading.Thread(target=stutter)
        thread.start()
        try:
            outcomes = [finish(job) for job in jobs]
        finally:
            ended.set()
            thread.join()
        for outcome in outcomes:
            equal(reference, outcome, "stutters")


@few
def test_a_server_that_stops_for_long(kind):
    with storage_of(kind, small()) as (storage, group):
        reference = wanted(storage)
        jobs = [reader(storage, group) for _ in range(2)]
        wait_until(lambda: copies_of(group), "a copy")
        with storage.stopped():
            ended = threading.Event()
            ended.wait(3)  # longer than anybody waits for a copy
        for job in jobs:
            equal(reference, finish(job), "stopped")


@kinds
def test_a_server_killed_while_files_are_copied(kind):
    """Jobs see errors, and never a wrong byte; nothing of it is kept."""
    with storage_of(kind, {**small(), "flarge": content(99, LARGE)}) as (storage, group):
        reference = wanted(storage)
        jobs = [reader(storage, group) for _ in range(JOBS)]
        wait_until(lambda: group.leftovers("f.*"), "a copy")
        storage.kill()
        lines = set(reference.output.splitlines())
        for job in jobs:
            outcome = finish(job)
            assert set(outcome.output.splitlines()) <= lines, outcome.output
            # A job that comes late finds an empty directory: sshfs unmounts what it has lost.
            assert outcome.status != 0 or outcome.output in ("", reference.output), outcome.output
        storage.revive()
        storage.remount()
        all_read(storage, group, "after the kill")


@few
def test_a_mount_that_comes_again(kind):
    """A job keeps its copy, and jobs after that read what is there then."""
    with storage_of(kind, small(3)) as (storage, group):
        plain = subprocess.run([PYTHON, CHILD, "keeps_open", storage.path], input=b"\n", stdout=subprocess.PIPE,
                               check=True, timeout=60)
        equal(wanted(storage), finish(reader(storage, group)), "before")
        job = subprocess.Popen([PYTHON, CHILD, "keeps_open", storage.path], env=group.environment(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        first = job.stdout.readline()
        storage.unmount()
        storage.put("f001", content(5, MOST), 1000)
        storage.mount()
        second, _ = job.communicate(b"\n", timeout=60)
        assert first + second == plain.stdout, (first, second, plain.stdout)
        all_read(storage, group, "after")


@few
def test_no_room_for_more(kind):
    with storage_of(kind, small(12), group={"TSSHIM_STAGE_SIZE": "2M"}) as (storage, group):
        all_read(storage, group, "full")
        made, shared, reasons = group.staged()
        assert 0 < made < 12 and shared and reasons.get("stage_full"), (made, shared, reasons)


LOCKS_LATE = """if True:
    import fcntl, sys
    file = open(sys.argv[1], "rb")
    print(len(file.read(1000)), flush=True)
    sys.stdin.readline()
    fcntl.flock(file, fcntl.LOCK_SH)
    print(len(file.read()), flush=True)
"""


def test_a_copy_goes_back_to_an_original_that_was_numbered_anew():
    """sshfs numbers what the kernel has forgotten anew, as while jobs have copies open it may."""
    with storage_of("sshfs", small(1)) as (storage, group):
        place, there = (os.path.join(top, "f000") for top in (storage.path, storage.origin))
        before, data = os.stat(place), support.read(there, "rb")
        equal(wanted(storage), finish(reader(storage, group)), "a copy")
        job = subprocess.Popen([PYTHON, "-c", LOCKS_LATE, place], env=group.environment(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert job.stdout.readline() == b"1000\n"
        os.unlink(place)
        support.write(there, data)
        os.utime(there, ns=(before.st_mtime_ns,) * 2)
        wait_until(lambda: os.path.exists(place), "the file")
        assert os.stat(place).st_ino != before.st_ino, "the same number"
        output, errors = job.communicate(b"\n", timeout=60)
        assert output == b"%d\n" % (len(data) - 1000), (output, errors)
        assert group.staged()[2] == {"stage_original": 1}, group.staged()


# What docs/rooms/files.md has in its table: of the time of the last write and that of the last change, whether
# it has a fraction of a second; None: there is none.  Then whether inodes have their numbers after a remount.
TELLS = {"glusterfs": (True, True, True), "sshfs": (False, None, False), "s3fs": (True, False, False)}


@kinds
def test_what_is_told_of_times_and_inodes(kind):
    with storage_of(kind, small(3)) as (storage, _):
        names = sorted(os.listdir(storage.path))
        before = [os.stat(os.path.join(storage.path, name)) for name in names]
        storage.remount()
        after = [os.stat(os.path.join(storage.path, name)) for name in reversed(names)][::-1]
        has_change = any(stat.st_mtime_ns != stat.st_ctime_ns for stat in before)
        told = (any(stat.st_mtime_ns % 10**9 for stat in before),
                any(stat.st_ctime_ns % 10**9 for stat in before) if has_change else None,
                [stat.st_ino for stat in before] == [stat.st_ino for stat in after])
        assert told == TELLS[kind], (told, before, after)
        assert [stat.st_mtime_ns for stat in before] == [stat.st_mtime_ns for stat in after], (before, after)


@support.whole
def test_a_hundred_thousand_files():
    """Two jobs read them, and two later ones from the copies."""
    count, size = 100000, 1000
    with storage_of("sshfs", {}) as (storage, group):
        for i in range(count):
            support.write(storage.origin + "/f%06d" % i, b"%0*d" % (size, i))
        storage.remount()  # the client knows a directory without files
        reference = wanted(storage)
        for most in (count * size, 0):
            storage.bytes_read()
            for job in [reader(storage, group) for _ in range(2)]:
                equal(reference, finish(job, 3600), most)
            made, shared, reasons = group.staged()
            took = storage.bytes_read()
            assert took <= 1.02 * most + reasons.get("stage_busy", 0) * size, (took, made, shared, reasons)
        assert made == count and set(reasons) <= {"stage_busy"}, (made, shared, reasons)
