# SPDX-License-Identifier: MIT
"""Large staged files: read while a stager copies them in the background, and from the copy."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time

import pytest

import support
from support import HERE, PYTHON, Group, equal, run, start, wait_until

support.search("tests", "storage")
import mounted  # noqa: E402

CHILD = os.path.join(HERE, "staged_large_child.py")
SETTINGS = {"TSSHIM_STAGE": "auto", "TSSHIM_TEST_YOUNG_INPUTS": "1"}
MIB = 1 << 20

# No multiple of a page or a chunk; three chunks.
SIZE = 20 * MIB + 777

STAGERS = 4  # that work in a group at once (leader/files/stager.h)
MIDDLE = 10  # reads, whatever the kernel makes of a file of that size: somewhere in it
PAUSE = 5  # seconds in which nobody starts another stager, after one has failed


def content(seed, size=SIZE):
    return random.Random(seed).randbytes(size)


def write(storage, name, data):
    support.write(os.path.join(storage.source, name), data)


class Storage(mounted.Mounted):
    """Slow storage with large files, and a group that keeps its copies."""

    def __init__(self, files=1, where="auto", keep=True, group=None, **settings):
        super().__init__(**settings)
        self.files, self.keep = files, keep
        self.group = Group(support.TEST_LIBRARY,
                           **{**SETTINGS, "TSSHIM_STAGE": where, **(group or {})})

    def __enter__(self):
        super().__enter__()
        self.root = self.path  # what jobs read
        for i in range(self.files):
            write(self, "f%d" % i, content(i))
        if self.keep:
            self.group.keep()
        return self

    def __exit__(self, *_):
        # Nothing is to wait for storage that is slow or stalls.
        with contextlib.suppress(OSError):
            self.set(stall=0, bandwidth=0, latency_us=0, latency_read_us=-1, let_go=1)
        self.group.release()
        self.wait_for_end()
        self.group.__exit__()
        super().__exit__()

    def job(self, recipe, **settings):
        settings = {"TSSHIM_DATASET": "files=" + self.root, **settings}
        return start([PYTHON, CHILD, recipe, self.root], self.group.environment(**settings))

    def plain(self, recipe):
        return run([PYTHON, CHILD, recipe, self.root])

    def stagers(self):
        """Those of the group that were started by a program, not what they start themselves."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = support.read("/proc/%s/cmdline" % pid, "rb").split(b"\0")
                if words[0] == b"tsshim-stager" and words[1] == self.group.name.encode():
                    with open("/proc/%s/stat" % pid) as stat:
                        found[int(pid)] = int(stat.read().rsplit(")", 1)[1].split()[1])
        return [pid for pid, parent in found.items() if parent not in found]

    def parts(self):
        return [path for path in self.group.leftovers("f.*") if path.endswith(".part")]

    def copies(self):
        return [path for path in self.group.leftovers("f.*") if not path.endswith(".part")]

    def wait_for_copies(self, count):
        wait_until(lambda: len(self.copies()) == count and not self.stagers(),
                   lambda: (self.copies(), self.parts(), self.stagers(), self.reasons()))

    def wait_for_end(self):
        """Until no stager works any more."""
        wait_until(lambda: not self.stagers(), "the end of stagers")

    def reasons(self):
        return self.group.staged()[2]

    def counts_of(self):
        return self.group.staged()[:2]


def alike(recipe, files=1, fill=None, **settings):
    """@recipe plain; while a stager works; and twice from the copies, without the storage."""
    with Storage(files, latency_us=300, **settings) as storage:
        if fill:
            fill(storage)
            files = 1
        reference = storage.plain(recipe)
        assert reference.status == 0 and reference.output, reference.errors[-2000:]
        equal(reference, support.finish(storage.job(recipe)), recipe + " meanwhile")
        storage.wait_for_copies(files)
        storage.reset()
        for _ in range(2):
            equal(reference, support.finish(storage.job(recipe)), recipe + " from the copy")
        assert storage.counts()["bytes_read"] == 0, storage.counts()
        produced, shared = storage.counts_of()
        assert produced == files and shared >= 2 * files, (produced, shared, storage.reasons())
        assert set(storage.reasons()) <= {"stage_large"}, storage.reasons()


def make_archive(storage):
    os.unlink(os.path.join(storage.source, "f0"))
    with tempfile.TemporaryDirectory() as place, \
            tarfile.open(os.path.join(storage.source, "shard.tar"), "w") as tar:
        for i in range(60):
            name = os.path.join(place, "%d.bin" % i)
            support.write(name, content(i, 300000 + 777 * i))
            tar.add(name, "%d.bin" % i)


@pytest.mark.parametrize("recipe", """read read_random mapped attributes opens_and_executes
    opens_and_forks""".split())
def test_recipes_of_staged_large_child(recipe):
    alike(recipe)


def test_archive():
    alike("archive", fill=make_archive)


def test_nothing_of_a_stager_is_seen():
    """No child, signal, thread or descriptor, while two of them work."""
    with Storage(2) as storage:
        reference = storage.plain("seen_from_inside")
        storage.set(bandwidth=MIB)
        job = storage.job("seen_from_inside")
        wait_until(lambda: len(storage.stagers()) == 2, "no stagers")
        equal(reference, support.finish(job), "seen from inside")


def test_four_jobs_start_one_stager_for_each_file():
    """How much they read of the storage meanwhile: bench/gates/gate_staged.py."""
    with Storage(3, latency_us=2000) as storage:
        reference = storage.plain("read")
        jobs = [storage.job("read") for _ in range(4)]
        for job in jobs:
            equal(reference, support.finish(job), "read by four")
        storage.wait_for_copies(3)
        assert storage.counts_of()[0] == 3, storage.counts_of()


def test_only_so_many_work_at_once():
    with Storage(7) as storage:
        reference = storage.plain("read")
        storage.set(bandwidth=MIB)
        assert support.finish(storage.job("attributes")).status == 0
        # One that came too late may still be on its way out.
        wait_until(lambda: len(storage.stagers()) == STAGERS, storage.stagers)
        assert not storage.copies(), storage.copies()
        storage.let_go()
        storage.wait_for_end()
        assert len(storage.copies()) == STAGERS, storage.copies()
        equal(reference, support.finish(storage.job("read")), "the rest")
        storage.wait_for_copies(7)


def changed(storage, change):
    """@change(file) while a stager is at it: no copy comes about."""
    storage.hold(MIDDLE)
    job = subprocess.Popen(
        [PYTHON, CHILD, "keeps_open", storage.path], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=storage.group.environment(TSSHIM_DATASET="files=" + storage.path))
    storage.wait_for_waiting(1)
    assert storage.stagers() and not storage.copies(), storage.copies()
    change(os.path.join(storage.source, "f0"))
    storage.let_go()
    storage.wait_for_end()
    _, errors = job.communicate("\n", timeout=60)
    assert job.returncode == 0, errors
    assert not storage.copies() + storage.parts(), (storage.copies(), storage.parts())


def rewrite(name):
    support.overwrite(name, 100, b"other")


def grow(name):
    with open(name, "ab") as file:
        file.write(b"one more line\n" * 1000)


def test_files_that_change_meanwhile():
    """No copy of a file that grew, shrank, was written, replaced or made unreadable."""
    changes = {
        "grown": grow, "written": rewrite, "cut": lambda name: os.truncate(name, 17 * MIB),
        "hidden": lambda name: os.chmod(name, 0),
        "replaced": lambda name: os.replace(shutil.copy(name, name + "-new"), name),
        "removed": os.unlink,
    }
    for what, change in changes.items():
        with Storage(attr_timeout_ms=0, entry_timeout_ms=0) as storage:
            changed(storage, change)
            if what in ("grown", "replaced"):
                reference = storage.plain("read")
                equal(reference, support.finish(storage.job("read")), what)
                storage.wait_for_copies(1)
                equal(reference, support.finish(storage.job("read")), what + ", a new copy")


def test_changes_that_only_the_storage_knows_of():
    """The kernel keeps attributes for a minute; the last look is at the storage itself."""
    for change in (rewrite, grow):
        with Storage(attr_timeout_ms=60000, entry_timeout_ms=60000) as storage:
            changed(storage, change)


def test_storage_that_fails_in_the_middle():
    """The program sees what it would see; nothing is left, and nobody tries again at once."""
    with Storage(attr_timeout_ms=60000) as storage:
        storage.fail(beyond=9 * MIB)
        reference = storage.plain("read")
        assert reference.status != 0 and "Errno 5" in reference.errors, reference.errors
        begin = time.monotonic()
        for _ in range(2):
            equal(reference, support.finish(storage.job("read")), "failing")
            storage.wait_for_end()
            assert not storage.group.leftovers("f.*"), storage.group.leftovers("f.*")
        storage.fail()
        reference = storage.plain("read")
        equal(reference, support.finish(storage.job("read")), "in the pause")
        left = storage.stagers() + storage.group.leftovers("f.*")
        # On a busy machine the pause may be over: tests/unit/leader/test_stager.c.
        assert time.monotonic() - begin > PAUSE or not left, left
        time.sleep(PAUSE)
        equal(reference, support.finish(storage.job("read")), "after the pause")
        storage.wait_for_copies(1)


def test_storage_that_stalls():
    """The stager waits as long as it takes, and a program that needs nothing does not."""
    with Storage() as storage:
        reference = storage.plain("read")
        storage.hold(MIDDLE)
        first = storage.job("read")
        wait_until(storage.stagers, "no stager")
        storage.stall()
        storage.let_go()
        storage.wait_for_waiting(1)
        time.sleep(1)  # longer than anybody waits for a copy
        storage.resume()
        equal(reference, support.finish(first), "stalled")
        storage.wait_for_copies(1)


def test_killed_stager_is_followed_by_another():
    """Whoever opens the file next goes on where it was. All steps: stress/stager_kills.c."""
    marked = {"stager_chunk:2": 8 * MIB, "stager_marked:2": 2 * 8 * MIB,
              "stager_filled": SIZE, "stage_noted": SIZE, "stage_renamed": SIZE}
    for point in ("stager_joined", *marked):
        with Storage() as storage:
            reference = storage.plain("opens_and_ends")
            killed = storage.job("opens_and_ends", TSSHIM_TEST_KILL=point)
            equal(reference, support.finish(killed), "killed at " + point)
            storage.wait_for_end()
            assert len(storage.copies()) == (point == "stage_renamed"), point
            storage.reset()
            equal(reference, support.finish(storage.job("opens_and_ends")), "after " + point)
            storage.wait_for_copies(1)
            most = SIZE - marked.get(point, 0)
            # The programs themselves read a thousand bytes, which are a few pages.
            assert storage.counts()["bytes_read"] <= most + 4 * MIB, (
                point, storage.counts()["bytes_read"], most)
            equal(storage.plain("read"), support.finish(storage.job("read")), point)


def test_opener_killed_while_it_hands_over():
    with Storage(attr_timeout_ms=0) as storage:
        reference = storage.plain("read")
        for point in ("stager_admitted", "stager_sized", "stager_started"):
            killed = support.finish(storage.job("read", TSSHIM_TEST_KILL=point))
            assert killed.status == -signal.SIGKILL, (point, killed.status)
            equal(reference, support.finish(storage.job("read")), "after " + point)
            storage.wait_for_copies(1)
            for path in storage.copies():
                os.unlink(path)


def test_stager_that_cannot_be_executed_in_time():
    """As on a file system that does not answer: the program waits once, for half a second."""
    with Storage(2) as storage:
        reference = storage.plain("read")
        begin = time.monotonic()
        job = storage.job("read", TSSHIM_TEST_HELPER_HANGS="1")
        equal(reference, support.finish(job, 60), "meanwhile")
        ended = time.monotonic()
        assert ended - begin > 0.5, "it has not waited"
        # It was told that it failed, so for five seconds nobody starts another one.
        equal(reference, support.finish(storage.job("read")), "soon after")
        left = storage.stagers() + storage.copies()
        assert time.monotonic() - begin > PAUSE or not left, left
        time.sleep(PAUSE)
        # What it had was left to others.
        equal(reference, support.finish(storage.job("read")), "later")
        storage.wait_for_copies(2)


def is_stopped(pid):
    return support.read("/proc/%d/stat" % pid).rpartition(")")[2].split()[0] == "T"


def test_stopped_stager_is_in_nobodys_way():
    with Storage() as storage:
        storage.hold(MIDDLE)
        job = storage.job("opens_and_ends")
        wait_until(storage.stagers, "no stager")
        stager, = storage.stagers()
        storage.wait_for_waiting(1)
        os.kill(stager, signal.SIGSTOP)
        assert support.finish(job).status == 0
        storage.let_go()
        wait_until(lambda: is_stopped(stager), "it goes on")
        reference = storage.plain("read")
        equal(reference, support.finish(storage.job("read")), "while it is stopped")
        assert storage.stagers() == [stager] and not storage.copies()
        os.kill(stager, signal.SIGCONT)
        storage.wait_for_copies(1)
        equal(reference, support.finish(storage.job("read")), "from the copy")


def test_the_last_job_takes_its_stager_along():
    """Nothing is left soon after the end of a lone job, and nobody waited for the copy."""
    with Storage(bandwidth=2 * MIB, keep=False) as storage:
        job = storage.job("opens_and_ends")
        assert support.finish(job).status == 0
        storage.wait_for_end()
        assert storage.group.leftovers("f.*") + storage.group.leftovers() + \
            storage.group.leftovers("stage") == []


def test_limits_of_the_program():
    """Few descriptors, small files, and programs that are given orphans."""
    with Storage() as storage:
        for recipe in ("few_descriptors", "small_files_only", "takes_orphans"):
            reference = storage.plain(recipe)
            equal(reference, support.finish(storage.job(recipe)), recipe)
            storage.wait_for_end()
            if recipe != "few_descriptors":
                assert not storage.copies(), recipe
            for path in storage.copies():
                os.unlink(path)


def test_capacity():
    """The first file fits, the second one is read where it lies, again and again."""
    with Storage(2, group={"TSSHIM_STAGE_SIZE": "30M"}) as storage:
        reference = storage.plain("read")
        for _ in range(3):
            equal(reference, support.finish(storage.job("read")), "no room")
            storage.wait_for_copies(1)
        assert storage.reasons()["stage_full"] == 3, storage.reasons()
        assert not storage.parts(), storage.parts()


def test_room_of_a_killed_stager():
    """Nobody opens its file again: the next file that lacks room is given what it had."""
    for point in ("stager_sized", "stager_joined", "stager_chunk:2", "stager_filled",
                  "stage_noted"):
        with Storage(group={"TSSHIM_STAGE_SIZE": "30M"}) as storage:
            status = support.finish(storage.job("opens_and_ends", TSSHIM_TEST_KILL=point)).status
            # Of these steps the program itself takes only the first.
            assert status == (-signal.SIGKILL if point == "stager_sized" else 0), (point, status)
            storage.wait_for_end()
            dead, = storage.parts()
            os.unlink(os.path.join(storage.source, "f0"))
            write(storage, "f1", content(1))
            reference = storage.plain("read")
            equal(reference, support.finish(storage.job("read")), point)
            storage.wait_for_copies(1)
            assert not os.path.exists(dead), point
            equal(reference, support.finish(storage.job("read")), point)
            assert "stage_full" not in storage.reasons(), (point, storage.reasons())


def test_memory_that_runs_out_in_the_middle():
    """Others fill the file system while a stager works: it removes what it had."""
    if os.geteuid() != 0:
        raise support.Skip("tmpfs", "only root mounts one")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160M,mode=700", "none", place],
                       check=True)
        try:
            with Storage(where=place) as storage:
                storage.hold(MIDDLE)
                job = storage.job("read")
                wait_until(storage.stagers, "no stager")
                storage.wait_for_waiting(1)
                with open(os.path.join(place, "others"), "wb", 0) as file, \
                        contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(64 << 10))
                storage.let_go()
                storage.wait_for_end()
                equal(storage.plain("read"), support.finish(job), "without room")
                own, = (d for d in os.listdir(place) if d != "others")
                assert os.listdir(os.path.join(place, own)) == [], os.listdir(place)
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def four_gigabytes():
    """Nearly all of them a hole: offsets beyond 32 bits. A quick test is in test_stager.c."""
    size = (1 << 32) + 3 * MIB + 5
    if shutil.disk_usage("/dev/shm").free < 5 * size:
        raise support.Skip("room", "/dev/shm has no %d GB free" % (5 * size >> 30))
    with Storage(0, where="shm") as storage:
        storage.root = storage.source  # for the sake of time
        with open(os.path.join(storage.source, "f"), "wb") as file:
            for at in (0, (1 << 31) - 100, (1 << 32) - 100, size - MIB):
                file.seek(at)
                file.write(content(at, MIB))
        reference = storage.plain("edges")
        equal(reference, support.finish(storage.job("edges")), "meanwhile")
        wait_until(lambda: len(storage.copies()) == 1, storage.reasons, 60)
        equal(reference, support.finish(storage.job("edges")), "from the copy")
        assert storage.counts_of() == (1, 1), (storage.counts_of(), storage.reasons())
        compared = subprocess.run(["cmp", os.path.join(storage.source, "f"),
                                   storage.copies()[0]], check=False)
        assert compared.returncode == 0


if support.LONG:
    test_four_gigabytes = four_gigabytes
