# SPDX-License-Identifier: MIT
"""
What jobs are told at their end, by how they met: each scene stands beside one that looks like it.
Which words belong to which counts is decided in tests/unit/shim/test_line_scenes.c.
"""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import threading

import pytest
import support
from support import Group

JOB = os.path.join(support.HERE, "messages_job.py")
COUNT = 8
MANY = 16  # more than aligned jobs make before they share pictures of samples that nobody asks for
APART = (r"the data sets \(Photos\) of jobs (\d+) and (\d+), side by side for \d+(\.\d+)? s, have other "
         r"names: they differ in %s; fix: ")
NOTHING = "tsshim: nothing shared: met no batch of a PyTorch loader, and no JPEG picture decoded by a "


def make_pictures(path, count):
    from PIL import Image
    for number in range(count):
        random.seed(number)
        image = Image.frombytes("RGB", (32, 32), bytes(random.randrange(256) for _ in range(3072)))
        image.resize((640, 640)).save("%s/%d.jpg" % (path, number), quality=90)


def pictures(count):
    """Where so many are, of which each is old enough."""
    data = support.Data("messages-data-%d" % count, lambda path: make_pictures(path, count))
    data.make()
    data.settle()
    return data.path


def environment(group, **more):
    found = group.environment(TSSHIM_VERIFY="0")
    del found["TSSHIM_QUIET"]
    return {**found, **more}


class Job:
    """One that has made its epochs, and is there until end()."""

    def __init__(self, group, *words, path=None, **more):
        self.process = subprocess.Popen(
            [support.PYTHON, JOB, path or pictures(COUNT), *words], env=environment(group, **more), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line == "done\n", (line, self.process.stderr.read())

    def lines(self):
        """What it is told."""
        _, errors = self.process.communicate("", timeout=support.TIMEOUT)
        assert self.process.returncode == 0, errors
        return [line for line in errors.splitlines() if not line.startswith("tsshim: aligned data")]

    def end(self):
        line, = self.lines()
        return line


def aligned(**more):
    return Group(**{"TSSHIM_ALIGN": "7", **more})


@contextlib.contextmanager
def two(first=(), second=(), path=None, **more):
    """(a group, an aligned job, one that began when that had made its epochs), which are both there."""
    with aligned(**more) as group:
        jobs = []
        try:
            for words in (first, second):
                jobs.append(Job(group, *words, path=path))
            yield (group, *jobs)
        finally:
            for job in jobs:
                job.process.kill()
                job.process.communicate()


def explained(group):
    done = support.run([support.TSRUN, "explain", "--json", "--group", group.name])
    assert done.status == 0, done.errors
    return {job["pid"]: job for job in json.loads(done.output)["jobs"]}


@support.whole
def test_data_that_looks_the_same_and_is_named_apart():
    with two(["held=1"], ["held=2"], pictures(MANY)) as (group, one, other):
        pids = one.process.pid, other.process.pid
        found = explained(group)
        for mine, its in (pids, pids[::-1]):
            assert found[mine]["apart"] == {"pid": its, "dataset": "Photos", "differ": ["data"],
                                            "what": "options"}, found
        names = {found[pid]["loaders"][0]["named"] for pid in pids}
        assert len(names) == 2 and None not in names, names
        # The one that is left knows when the other ran, too.
        for job, order in ((one, pids), (other, pids[::-1])):
            line = job.end()
            told = re.search(APART % "options", line)
            assert told and tuple(map(int, told.groups()[:2])) == order, line
            assert "; fix: the same code" in line and "no other job" not in line, line
        assert group.pixels("shared") > 0  # as without --align
    with two(["held=1"], ["held=1"], pictures(MANY)) as (group, one, other):
        found = explained(group)
        assert all(job["apart"] is None for job in found.values()), found
        assert len({job["loaders"][0]["named"] for job in found.values()}) == 1, found
        assert "other names" not in other.end()


@pytest.mark.parametrize("word, values, kind, differ", [
    ("read", ("1.0", "2.0"), "Photos", "options.lr (%s, %s; used by __getitem__)"),
    # Of data sets which are iterated over, and deep in an object.
    ("walked", ("a", "b"), "Walked", "options.run ('%s', '%s'; used by __iter__)"),
    ("many", ("1.0", "2.0"), "Photos", "options.inner.inner.rate (%s, %s)")])
def test_the_option_that_keeps_jobs_apart_is_named(word, values, kind, differ):
    with two(*([word + "=" + value] for value in values)) as (_, *jobs):
        for job, order in zip(jobs, (values, values[::-1])):
            line = job.end()
            assert re.search(APART.replace("Photos", kind) % re.escape(differ % order), line), line
            assert word == "many" or "the same options in both, or --ignore" in line, line


def test_an_option_that_is_ignored_is_not():
    with two(["read=1"], ["read=2"], TSSHIM_IGNORE="lr") as (group, _, other):
        assert all(job["apart"] is None for job in explained(group).values())
        assert "other names" not in other.end()


def test_the_file_that_keeps_samples_from_others_is_named():
    told = "/proc/self/status, which is no plain file"
    opens = ["opens=/proc/self/status"]
    with two(opens, opens, pictures(MANY)) as (group, _, other):
        loader, = explained(group)[other.process.pid]["loaders"]
        assert loader["reason"] == "torch_inputs" and loader["detail"].startswith(told), loader
        line = other.end()
        assert "opened in an unusual way while the sample was made (" + told in line, line


def test_items_that_cost_nothing_are_the_reason():
    with aligned() as group:
        line = Job(group, "cheap=1", path=pictures(MANY)).end()
        assert "a sample costs less than sharing it (dataset (__main__.Photos): an item takes 0." in line, line
        assert "no other job" not in line and "fix: " not in line, line
        line = Job(group, path=pictures(MANY)).end()
        assert "no other job was asking" in line and "costs less" not in line, line


def test_memory_of_batches_is_no_file_of_an_item():
    with aligned() as group:
        line = Job(group, "collates=1").end()
        assert "no other job was asking" in line and "unusual" not in line, line


@support.whole
def test_another_seed_of_align_is_named():
    with two() as (group, _, _):
        line = Job(group, TSSHIM_ALIGN="8").end()
        assert "differ in --align or its seed" in line and "; fix: one --align" in line, line


@contextlib.contextmanager
def written(path):
    """The pictures are written again and again, a hundred times while they would count as young."""
    stop = threading.Event()

    def write():
        while not stop.wait(.02):
            for name in os.listdir(path):
                os.utime(os.path.join(path, name))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_files_that_are_written_are_the_reason(directory):
    path = shutil.copytree(pictures(MANY), directory + "/written")
    with written(path), two(path=path) as (group, one, other):
        stats = group.report()
        assert "--order free" not in stats, stats
        line = other.end()
        assert "none of %d samples shared: an input file was changed" % (2 * MANY) in line, line
        assert "; fix: " in line and re.search(r"; \d+ of \d+ images taken from", line), line
        assert "made here first" not in line and "no other job" not in line, line
        one.end()


@support.whole
def test_samples_too_large_are_the_reason():
    size = ["size=9000000"]
    with two(size, size, pictures(MANY), TSSHIM_RING="64M") as (group, _, other):
        line = other.end()
        assert "the result is larger than half of the ring" in line and "; fix: a larger --ring" in line, line
        assert "made here first" not in line, line
        assert group.pixels("shared") > 0


@support.whole
def test_who_was_first_is_told_that_others_took():
    with two() as (group, one, other):
        line = Job(group).end()
        assert "%d of %d samples taken from" % (2 * COUNT, 2 * COUNT) in line, line
        # The second one made what the third took.
        given = [job.end() for job in (one, other)]
        assert any("made here first, and taken by others" in line or "samples taken from" in line
                   for line in given), given


def test_refused_samples_come_before_images():
    with two(["lock=1"], ["lock=1"]) as (_, _, other):
        line = other.end()
        assert line.startswith("tsshim: none of %d samples shared: the dataset contains something "
                               "whose equality cannot be proven (dataset.options" % (2 * COUNT)), line
        assert "; fix: keep what is named out of the data set" in line, line
        assert "--share samples" not in line and "--align" not in line, line
        assert re.search(r"; \d+ of \d+ images taken from", line), line


def test_a_job_that_met_nothing_is_told_so_once():
    """Without tsrun; the clock of the test library says that each job was long."""
    with Group(support.TEST_LIBRARY, TSSHIM_TEST_LONG_JOB="1") as group:
        line = Job(group, "idle=1").end()
        assert line.startswith(NOTHING), line
        assert Job(group, "idle=1", TSSHIM_QUIET="1").lines() == []
        # What it runs is silent: other programs, and a trainer below a trainer.
        code = ("import subprocess, sys, torch; "
                "[subprocess.run(words, check=True, stdout=subprocess.DEVNULL) for words in "
                "(['ls', '/'], ['sh', '-c', 'true; true'], [sys.executable, '-c', 'import torch'])]")
        done = support.run([support.PYTHON, "-c", code], environment(group))
        assert done.status == 0 and done.errors.count("tsshim: ") == 1, done.errors
        # No trainer at all.
        for command in (["ls", "/"], ["sh", "-c", "ls /; true"], [support.PYTHON, "-c", "pass"]):
            done = support.run(command, environment(group))
            assert (done.status, done.errors) == (0, ""), (command, done.errors)
    # A short one, as programs are that ask what torch can do here.
    with Group() as group:
        assert Job(group, "idle=1").lines() == []
