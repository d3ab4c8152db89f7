# SPDX-License-Identifier: MIT
"""Staged files: every way to read them, without and with copies; nothing may change."""

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile
import time

import pytest

import support
from support import HERE, PYTHON, Group, equal, run, start

support.search("tests", "storage")
import mounted  # noqa: E402

CHILD, CALLS = (os.path.join(HERE, name) for name in ("staged_child.py", "staged_calls_child.py"))

# Files that are just made are old enough in the test build with this setting.
SETTINGS = {"TSSHIM_STAGE": "shm", "TSSHIM_TEST_YOUNG_INPUTS": "1"}


def random_bytes(count, seed):
    """The same bytes in every run."""
    import random
    return random.Random(seed).randbytes(count)


def fill(root):
    """A directory of small files of all kinds."""
    for i in range(8):
        support.write(os.path.join(root, "f%d" % i), random_bytes(30000 + 4096 * i + i, i))
    os.symlink("f1", os.path.join(root, "symlink"))
    os.link(os.path.join(root, "f2"), os.path.join(root, "hardlink"))
    os.mkfifo(os.path.join(root, "fifo"))
    open(os.path.join(root, "empty"), "wb").close()
    with open(os.path.join(root, "sparse"), "wb") as file:
        file.seek(1 << 20)
        file.write(b"end")


def job(group, recipe, root, child=CHILD):
    """A process that reads the files of @root by @recipe of @child."""
    settings = {"TSSHIM_DATASET": "files=" + root}
    return start([PYTHON, child, recipe, root], group.environment(**settings))


def counts(group):
    """How many files were fetched, how many opens were given a copy."""
    return group.staged()[:2]


def reasons(group):
    """Why files were not staged: {reason: how often}."""
    return group.staged()[2]


def copies(group):
    """What the group has left of its copies."""
    return group.leftovers("f.*") + group.leftovers("stage")


@contextlib.contextmanager
def a_group(library=support.TEST_LIBRARY, **settings):
    """One whose copies stay from job to job, until its end."""
    with Group(library, **{**SETTINGS, **settings}) as group:
        group.keep()
        yield group
        group.release()
        group.gc()
        assert copies(group) == [], copies(group)


@contextlib.contextmanager
def one_group(**settings):
    """The same, and a directory of files."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as root:
        fill(root)
        with a_group(**settings) as group:
            yield group, root


def alike(recipe, served=True, prepare=None, child=CHILD, **settings):
    """@recipe plain, then twice at once and once more under us; a copy must have been read."""
    with one_group(**settings) as (group, root):
        if prepare:
            prepare(root)
        reference = run([PYTHON, child, recipe, root])
        assert reference.status == 0 and reference.output, reference.errors[-2000:]
        again = run([PYTHON, child, recipe, root])
        equal(reference, again, recipe + " is not the same each time")
        for _ in range(2):
            equal(reference, support.finish(job(group, recipe, root, child)), recipe)
        fetched, shared = counts(group)
        assert (fetched + shared > 0) == served, (recipe, fetched, shared, group.statistics())


KNOWN = {"TSSHIM_STAGE_METADATA": "600"}


@pytest.mark.parametrize("settings", [{}, KNOWN], ids=["", "known"])
@pytest.mark.parametrize("recipe", """read read_parts mapped stdio attributes_of copied shared_positions
    links unusual few_descriptors commands git locked epochs permission""".split())
def test_recipes_of_staged_child(recipe, settings):
    alike(recipe, **settings)


def prepare(root):
    """A program as well; and everything is on the disk, so that extents do not change."""
    shutil.copy("/bin/true", os.path.join(root, "program"))
    subprocess.run(["sync", "-f", root], check=True)


@pytest.mark.parametrize("recipe, settings", [
    (recipe, {}) for recipe in """ranges clones pipes systems handles names changes advice syncs watches maps
    controls ioctls directories programs extended holes reads""".split()] + [("extended", KNOWN)])
def test_recipes_of_staged_calls_child(recipe, settings):
    """
    Every call that takes a descriptor and depends on what file that is (docs/rooms/files.md has the
    table): on a copy each gives what it gives on the original, errors included.
    """
    alike(recipe, prepare=prepare, child=CALLS, **settings)


def test_files_of_torch():
    """Those of other libraries: staged_programs.py."""
    if not support.has_modules(PYTHON, "torch"):
        raise support.Skip("torch", "not installed for " + PYTHON)
    code = "import torch; torch.save({'x': torch.arange(30000)}, 'tensor.pt')"
    alike("torch_file", prepare=lambda root: subprocess.run([PYTHON, "-c", code], cwd=root, check=True))


def pictures_are_alike(command, what, preload=support.TEST_LIBRARY):
    """A program that decodes pictures, plain and with copies of them."""
    root = os.path.dirname(support.pictures("s_baseline")[0])
    reference = run(command)
    with a_group(preload, TSSHIM_DATASET="files=" + root) as group:
        for _ in range(2):
            started = [start(command, group.environment()) for _ in range(2)]
            for process in started:
                equal(reference, support.finish(process), what)
        fetched, shared = counts(group)
        assert fetched > 0 and shared > fetched, (what, fetched, shared, reasons(group))


@pytest.mark.parametrize("recipe", """os_fork subprocess_run pool:spawn posix_spawn close_everything threads
    daemon exec_from_thread exit_status""".split())
def test_recipes_of_processes_child(recipe):
    """Their files are staged now."""
    pictures_are_alike([PYTHON, os.path.join(HERE, "processes_child.py"), recipe,
                        *support.pictures("s_4"), *support.pictures("s_exif")[:4]], recipe)


def test_next_to_jemalloc():
    """An allocator that opens and reads links before anything else runs."""
    libraries = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not libraries:
        raise support.Skip("jemalloc", "libjemalloc2 is not installed")
    command = [support.victim("forker"), *support.pictures("s_4")]
    for preload in (libraries[0] + " " + support.TEST_LIBRARY,
                    support.TEST_LIBRARY + " " + libraries[0]):
        pictures_are_alike(command, preload, preload)


@pytest.mark.parametrize("recipe, where", [
    ("lock_is_kept", "shm"),  # putting a copy in place closes a descriptor, which would drop the lock
    ("database", "shm"),  # SQLite holds fcntl locks on its file, whoever opens it meanwhile
    ("read", "off"), ("read", "auto")])
def test_what_is_left_alone(recipe, where):
    alike(recipe, served=False, TSSHIM_STAGE=where)


def test_links_beside_files_that_are_none_of_ours():
    """A place that was found outside is not asked again for a second; links there may be ours."""
    body = ("import os, sys, time\nroot = sys.argv[1]\n"
            "os.chdir(os.path.join(root, 'else'))\n"
            "for turn in range(3):\n"
            "    for name in ('plain', 'link'):\n"
            "        path = os.path.join(root, 'else', name)\n"
            "        print(name, open(path, 'rb').read()[:100])\n"
            "        print(name, open(name, 'rb').read()[:100])\n"
            "    time.sleep(0.6 * turn)\n"
            "print(open(os.path.join(root, 'else', 'link'), 'rb').read()[:100])\n")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        os.mkdir(os.path.join(root, "data"))
        os.mkdir(os.path.join(root, "else"))
        fill(os.path.join(root, "data"))
        support.write(os.path.join(root, "else", "plain"), b"none of ours")
        os.symlink("../data/f0", os.path.join(root, "else", "link"))
        command = [PYTHON, "-c", body, root]
        reference = run(command)
        with a_group(TSSHIM_DATASET="files=" + os.path.join(root, "data")) as group:
            equal(reference, support.finish(start(command, group.environment())), "links")
            fetched, shared = counts(group)
            # By the relative name each time, by the absolute one when the second was over.
            assert fetched == 1 and shared >= 3, (fetched, shared, reasons(group))


def test_capacity():
    """What does not fit is read where it lies, and what is there stays."""
    with one_group(TSSHIM_STAGE_SIZE="440K") as (group, root):
        reference = run([PYTHON, CHILD, "read", root])
        for turn in range(1, 4):
            equal(reference, support.finish(job(group, "read", root)), "no room")
            fetched, shared = counts(group)
            full = reasons(group).get("stage_full", 0)
            assert 0 < fetched < 8 and fetched + shared + full == 8 * turn, (
                fetched, shared, reasons(group))
            assert full == turn * (8 - fetched), (fetched, full)
        size = sum(os.stat(path).st_blocks * 512 for path in group.leftovers("f.*"))
        assert size <= 440 << 10, size


def test_young_files_are_left_alone():
    """However long it takes to ask for them: the test build takes each file for young here."""
    with one_group(TSSHIM_TEST_YOUNG_INPUTS="0") as (group, root):
        reference = run([PYTHON, CHILD, "read", root])
        equal(reference, support.finish(job(group, "read", root)), "young")
        assert counts(group) == (0, 0) and copies(group) == [], counts(group)


# What the kernel knows of files there it goes on knowing: every request counts.
KEPT = {"attr_timeout_ms": 60000, "entry_timeout_ms": 60000}


@contextlib.contextmanager
def on_slow_storage(where="auto", **settings):
    """(storage, group): eight files there, and a group that keeps its copies."""
    with mounted.Mounted(**settings) as storage, a_group(TSSHIM_STAGE=where) as group:
        for i in range(8):
            support.write(os.path.join(storage.source, "f%d" % i), random_bytes(40000 + i, i))
        yield storage, group


def test_auto_copies_what_lies_on_slow_storage():
    """Four jobs, two epochs: each file is fetched once, and nothing in the second."""
    with on_slow_storage(latency_us=500) as (storage, group):
        reference = run([PYTHON, CHILD, "read", storage.path])
        for most in (sum(40000 + i for i in range(8)), 0):
            before = storage.counts()["bytes_read"]
            started = [job(group, "read", storage.path) for _ in range(4)]
            for process in started:
                equal(reference, support.finish(process), "slow storage")
            took = storage.counts()["bytes_read"] - before
            assert took <= most, (took, most, counts(group), reasons(group))
        assert group.staged() == (8, 7 * 8, {}), group.staged()


def test_a_lone_job_asks_slow_storage_for_nothing_more():
    """Not even the first time; but for the root, and what kind of storage it lies on."""
    asked = {}
    for where in ("off", "auto"):
        with on_slow_storage(where, **KEPT) as (storage, group):
            assert support.finish(job(group, "read", storage.path)).status == 0
            requests = storage.counts()["requests"]
            assert counts(group) == ((0, 0) if where == "off" else (8, 0)), counts(group)
            asked[where] = {kind: count for kind, count in requests.items() if kind != "statfs"}
            assert requests["statfs"] <= 1, requests
    assert sum(asked["auto"].values()) <= sum(asked["off"].values()), asked


def test_a_file_changed_while_the_kernel_keeps_its_attributes():
    """On FUSE an open asks for none; a confirmed copy is of what was there before, and so are these."""
    with on_slow_storage(readdirplus=0, **KEPT) as (storage, group):
        for _ in range(2):
            assert support.finish(job(group, "read", storage.path)).status == 0
        assert group.staged() == (8, 8, {}), group.staged()
        for name in ("f1", "f2"):
            path = os.path.join(storage.path, name)
            before = os.stat(path)
            support.overwrite(os.path.join(storage.source, name), 100, b"changed")
            assert os.stat(path).st_mtime_ns == before.st_mtime_ns, "not kept"
        got = support.finish(job(group, "read", storage.path))
        equal(run([PYTHON, CHILD, "read", storage.source]), got, "changed")
        assert group.staged() == (8, 8 + 6, {"stage_changed": 2}), group.staged()


def test_errors_of_slow_storage_are_what_the_program_sees():
    """Reads that fail, then opens that fail, then none: as without us, and nothing bad is kept."""
    with on_slow_storage(**KEPT) as (storage, group):
        for failing in ({"reads": True}, {"opens": True}, {}):
            storage.fail(**failing)
            reference = run([PYTHON, CHILD, "read", storage.path])
            equal(reference, support.finish(job(group, "read", storage.path)), failing)
            assert (reference.status == 0) == (not failing), (failing, reference.output)
            assert counts(group) == ((0, 0) if failing else (8, 0)), (failing, counts(group))
            assert len(group.leftovers("f.*")) == (0 if failing else 8), copies(group)


def test_storage_that_stalls_and_comes_back():
    """Two jobs that were caught by it finish as if they had been slow."""
    with on_slow_storage() as (storage, group):
        reference = run([PYTHON, CHILD, "read", storage.path])
        storage.latency(100, "read")
        started = [job(group, "read", storage.path) for _ in range(2)]
        storage.reset()
        support.wait_until(lambda: storage.counts()["requests"]["read"], "a read")
        storage.stall()
        storage.wait_for_waiting(1)
        time.sleep(3)  # longer than anybody waits for a copy
        storage.resume()
        for process in started:
            equal(reference, support.finish(process), "stalled")
        assert len(group.leftovers("f.*")) == 8, (copies(group), reasons(group))


def test_who_never_goes_to_storage_that_stalls_does_not_wait():
    """Reads of files elsewhere do not so much as look whether the data set is there."""
    with on_slow_storage() as (storage, group), \
            tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as other:
        fill(other)
        reference = run([PYTHON, CHILD, "read", other])
        storage.reset()
        storage.stall()
        settings = {"TSSHIM_DATASET": "files=" + storage.path}
        elsewhere = start([PYTHON, CHILD, "read", other], group.environment(**settings))
        equal(reference, support.finish(elsewhere), "elsewhere")
        assert not any(storage.counts()["requests"].values()), storage.counts()
        storage.resume()


def test_nobody_waits_long_for_who_copies_slowly():
    """A read that takes as long as it likes holds up its own job, not the other one."""
    with on_slow_storage() as (storage, group):
        reference = run([PYTHON, CHILD, "read", storage.path])
        storage.hold()
        slow = job(group, "read", storage.path)
        storage.wait_for_waiting(1)
        equal(reference, support.finish(job(group, "read", storage.path)), "the other one")
        assert slow.poll() is None, "the read was not slow"
        assert reasons(group).get("stage_busy") == 1, reasons(group)
        storage.let_go()
        equal(reference, support.finish(slow), "the slow one")


def test_other_directories_are_left_alone():
    with one_group() as (group, root):
        other = start([PYTHON, CHILD, "read", root],
                      group.environment(TSSHIM_DATASET="files=" + root + "/own"))
        assert support.finish(other).status == 0
        sibling = root + "-sibling"
        os.rename(root, sibling)
        os.mkdir(root)
        try:
            other = start([PYTHON, CHILD, "read", sibling],
                          group.environment(TSSHIM_DATASET="files=" + root))
            assert support.finish(other).status == 0
        finally:
            os.rmdir(root)
            os.rename(sibling, root)
        assert counts(group) == (0, 0), counts(group)


def test_directory_of_the_user():
    """Copies in a directory: private, and gone with the last job."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        with one_group(TSSHIM_STAGE=place) as (group, root):
            reference = run([PYTHON, CHILD, "attributes_of", root])
            for _ in range(2):
                equal(reference, support.finish(job(group, "attributes_of", root)), "directory")
            assert counts(group)[0] == 8, counts(group)
            own = os.path.join(place, os.listdir(place)[0])
            assert os.stat(own).st_mode & 0o7777 == 0o700 and len(os.listdir(own)) == 8
            assert group.leftovers("f.*") == []
        assert os.listdir(place) == [], os.listdir(place)


def test_last_one_out_removes_the_copies():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        fill(root)
        with Group(support.TEST_LIBRARY, **SETTINGS) as group:
            assert support.finish(job(group, "read", root)).status == 0
            assert counts(group)[0] == 8 and copies(group) == [], copies(group)


def test_gc_keeps_what_is_in_use():
    with one_group() as (group, root):
        assert support.finish(job(group, "read", root)).status == 0
        assert len(copies(group)) == 9
        group.gc()
        assert len(copies(group)) == 9
        group.leave_to_gc()
        group.release()
        done = group.gc()
        assert copies(group) == [] and "8 copies of files" in done.stdout, done.stdout


def test_killed_while_copying():
    """At every step of the making of a copy; then others read the same as ever."""
    points = ("stage_looked", "stage_made", "stage_locked", "stage_admitted", "stage_allocated",
              "stage_filled", "stage_finished", "stage_slot", "stage_row", "stage_noted",
              "stage_renamed")
    with one_group() as (group, root):
        reference = run([PYTHON, CHILD, "read", root])
        for number, point in enumerate(points):
            settings = {"TSSHIM_DATASET": "files=" + root, "TSSHIM_TEST_KILL": point + ":3"}
            os.utime(os.path.join(root, "f0"))  # new files each time, for something to copy
            for name in ("f1", "f2", "f3"):
                os.utime(os.path.join(root, name))
            killed = support.finish(start([PYTHON, CHILD, "read", root],
                                          group.environment(**settings)))
            assert killed.status == -9, (point, killed.status)
            equal(reference, support.finish(job(group, "read", root)), "after " + point)
        assert reasons(group) == {}, reasons(group)
        assert not [p for p in group.leftovers("f.*") if p.endswith(".part")]
