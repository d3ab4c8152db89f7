# SPDX-License-Identifier: MIT
"""`tsrun explain` of jobs that run: what they say of their loaders, and how it is read."""

import contextlib
import functools
import glob
import json
import os
import re
import signal
import subprocess

import support
from tables import reasons
from support import PYTHON, Group
from tsrun_common import expect, tsrun

JOB = os.path.join(support.HERE, "tsrun_explain_job.py")
# It says of loaders over the data sets named what a job with PyTorch would, says so, and waits.
TELLER = """
import ctypes, os, sys
sys.path.insert(0, os.path.join(os.environ["TSSHIM_TEST_BUILD"], "python"))
from tsshim_torch import native
for key, name in enumerate(sys.argv[1:], 1):
    numbers = (ctypes.c_uint64 * 5)(48, 4, 0, 0, 0)
    texts = (ctypes.c_char_p * 4)(b"__main__." + name.encode(), b"", b"", b"")
    said = native.say_loader(key, numbers, texts, native.LOADER_NOT, b"torch_dataset", b"a lock", b"", 0)
    assert said == native.LOADER_SAID, said
print("ready", flush=True)
sys.stdin.readline()
"""
explain = functools.partial(tsrun, "explain")


# ---- jobs ----

@contextlib.contextmanager
def waiting(command, env):
    """The process of @command, which has said that it is ready and waits."""
    process = subprocess.Popen(command, text=True, env=env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.communicate("\n", timeout=support.TIMEOUT)
        assert process.returncode == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            support.signal_job(process, signal.SIGKILL)
        process.wait()


def teller(*names):
    """The command of a job without PyTorch, which starts in a tenth of the time, with loaders over @names."""
    return [PYTHON, "-c", TELLER, *names]


def told_by(group, **more):
    """The environment of a teller()."""
    return group.environment(TSSHIM_TEST_BUILD=support.BUILD, **more)


@contextlib.contextmanager
def alone(*words, **settings):
    """(a group, the process of its only job); that has gone through its loaders, and leaves nothing."""
    with Group(**settings) as group:
        with waiting([support.torch_python(), JOB, *words], group.environment()) as process:
            yield group, process
        assert not group.leftovers()


SHARED = contextlib.ExitStack()


@functools.lru_cache(maxsize=None)
def ordinary():
    """One in default mode, with loaders of all kinds, for tests that only look at it."""
    return SHARED.enter_context(
        alone("pure:2", "locked:1", "stream", "collated", "anew", "strange", "many"))


def told(group, *words):
    """The jobs of `tsrun explain --json`, which says nothing else."""
    return json.loads(expect(explain("--json", "--group", group.name, *words), 0))["jobs"]


def children(pid):
    return list(map(int, support.read("/proc/%d/task/%d/children" % (pid, pid)).split()))


def line_of(text):
    with open(JOB) as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


# ---- what they say ----

def test_each_loader_has_its_verdict_by_default():
    group, process = ordinary()
    found = told(group)
    assert [one["pid"] for one in found] == [process.pid]
    pure, locked, stream, collated = found[0]["loaders"][:4]
    assert {key: pure[key] for key in ("dataset", "length", "batch_size", "workers", "iterable",
                                       "persistent_workers", "aligned", "shared", "reason")} == {
        "dataset": "__main__.Pure", "length": 48, "batch_size": 4, "workers": 2, "iterable": False,
        "persistent_workers": True, "aligned": False, "shared": "samples", "reason": None}, pure
    assert pure["place"] == "%s:%d" % (JOB, line_of("class Pure") + 1), pure
    assert pure["sampler"] == "torch.utils.data.sampler.SequentialSampler" and not pure["collate"]
    assert (locked["dataset"], locked["shared"], locked["reason"], locked["detail"]) == (
        "__main__.Locked", "no", "torch_dataset", "threading.Condition"), locked
    assert (locked["text"], locked["fix"]) == reasons()["torch_dataset"]
    assert locked["sampler"] == "torch.utils.data.sampler.RandomSampler"
    assert (stream["iterable"], stream["length"], stream["shared"], stream["reason"]) == (
        True, None, "no", "torch_iterable"), stream
    assert (stream["text"], stream["fix"]) == reasons()["torch_iterable"]
    assert collated["collate"] == "__main__.collate" and collated["reason"] == "torch_dataset"
    assert collated["detail"] == "a collate function that may change the data set", collated
    assert found[0]["samples"]["made"] > 0, found


def test_each_loader_has_its_verdict_when_aligned():
    with alone("pure:2", "locked:1", "stream", TSSHIM_ALIGN="7") as (group, process):
        found, = told(group)
        pure, locked, stream = found["loaders"]
        assert (pure["aligned"], pure["shared"], pure["reason"]) == (True, "samples", None), pure
        assert (locked["shared"], locked["reason"]) == ("no", "torch_dataset"), locked
        assert locked["detail"].startswith("dataset.lock (threading.Condition): a lock"), locked
        # To say --align is no advice to a job that does.
        assert locked["fix"] == "keep what is named out of the data set (`tsrun explain` names it)", locked
        assert (stream["reason"], stream["fix"]) == ("torch_iterable", "a loader with workers"), stream
        assert found["more_loaders"] == 0, found
        # By the job's process id or a worker's, in whichever group.
        for pid in (process.pid, children(process.pid)[0]):
            found = json.loads(expect(explain("--json", "--pid", str(pid)), 0))["jobs"]
            assert [one["pid"] for one in found] == [process.pid]


def test_words_for_people():
    group, process = ordinary()
    printed = expect(explain("--group", group.name), 0)
    text, fix = reasons()["torch_dataset"]
    for line in ("Job with pid %d in group %s: " % (process.pid, group.name),
                 "    Loader 1 over __main__.Pure (%s:" % JOB,
                 "      default mode, 48 items, batches of 4, workers: 2, persistent, torch.",
                 "      shared:  whole samples\n", "    Loader 2 over __main__.Locked (",
                 "      shared:  no samples\n      why:     torch_dataset: %s\n" % text,
                 "      namely:  threading.Condition\n      fix:     %s\n" % fix):
        assert line in printed, (line, printed)
    assert "libjpeg" in printed


def test_switched_to_pixels():
    with alone("pure", TSSHIM_SHARE="pixels") as (group, _):
        found, = told(group)[0]["loaders"]
        assert (found["shared"], found["reason"], found["detail"]) == (
            "no", "disabled", "--share pixels"), found


def test_the_seventeenth_loader_is_counted():
    group, _ = ordinary()
    found, = told(group)
    # Six others came before, so of these eighteen ten have a place.
    assert len(found["loaders"]) == 16, found
    assert [one["batch_size"] for one in found["loaders"][6:]] == list(range(1, 11)), found
    assert found["more_loaders"] == 8
    assert "    and 8 more loaders, of which nothing is kept\n" in explain("--group", group.name).stdout
    # One that is made anew for each epoch is one.
    assert [one["batch_size"] for one in found["loaders"]].count(24) == 1, found


def test_names_command_no_terminal():
    group, _ = ordinary()
    found = told(group)[0]["loaders"][5]
    assert found["dataset"].endswith("\x1b[31mred\u202e\x9b\n"), found
    assert found["dataset"].startswith("\u2026") and len(found["dataset"].encode()) <= 127
    done = explain("--group", group.name)
    line = next(line for line in done.stdout.split("\n") if "Loader 6" in line)
    assert "\u00e9\\x1b[31mred\\xe2\\x80\\xae\\xc2\\x9b\\x0a" in line, line
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stdout), done.stdout


def test_nothing_of_a_job_is_left():
    """The one that the others have looked at ends well, and alone() finds nothing."""
    ordinary()
    SHARED.close()
    ordinary.cache_clear()


# ---- how it is read ----

def test_two_jobs_of_a_group_are_told_apart():
    with Group() as group, waiting(teller("Pure"), told_by(group)) as first, \
            waiting(teller("Locked"), told_by(group)) as second:
        found = {one["pid"]: [loader["dataset"] for loader in one["loaders"]] for one in told(group)}
        assert found == {first.pid: ["__main__.Pure"], second.pid: ["__main__.Locked"]}
        assert [one["pid"] for one in told(group, "--pid", str(second.pid))] == [second.pid]


def test_killed_while_it_says_something():
    for point in ("loader_claimed", "loader_written", "loader_detail"):
        with Group(support.TEST_LIBRARY) as group:
            done = subprocess.run(teller("Locked"), env=told_by(group, TSSHIM_TEST_KILL=point),
                                  timeout=support.TIMEOUT, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL)
            assert done.returncode == -signal.SIGKILL, (point, done)
            assert told(group) == []
            with waiting(teller("Locked", "Pure"), told_by(group)) as process:
                found, = told(group)
                assert found["pid"] == process.pid
                assert [one["dataset"] for one in found["loaders"]] == [
                    "__main__.Locked", "__main__.Pure"], (point, found)
            group.assert_clean(after_kill=True)


def test_a_table_that_is_none_is_said():
    with Group() as group, waiting(teller("Pure"), told_by(group)):
        path, = glob.glob("/dev/shm/" + support.shared_name(group.name, "loaders"))
        whole = support.read(path, "rb")
        mark = "cannot read what the jobs of group '%s' say of their loaders: " % group.name

        def says(what):
            done = explain("--json", "--group", group.name)
            assert done.returncode == 0 and mark + what in done.stderr, (what, done.stderr)
            found, = json.loads(done.stdout)["jobs"]
            assert found["loaders"] == [] and found["samples"], found

        os.chmod(path, 0o640)
        says("it is damaged")
        os.chmod(path, 0o600)
        if os.getuid() == 0:
            os.chown(path, 12345, 12345)
            says("it belongs to somebody else")
            os.chown(path, 0, 0)
        os.rename(path, path + ".real")
        try:
            for content, what in ((whole[:4096], "it is damaged"), (b"", "it is damaged"),
                                  (b"\xff" + whole[1:], "it is damaged"),
                                  (whole[:8] + b"\xff" + whole[9:], "it was made by another version"),
                                  (whole[:64] + b"\xff" + whole[65:], "it is damaged"),
                                  (bytes(len(whole)), "it is damaged")):
                support.write(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), content)
                says(what)
            os.unlink(path)
            os.symlink("/etc/passwd", path)
            says("it belongs to somebody else or is no regular file")
            os.unlink(path)
            os.mkfifo(path, 0o600)
            says("it belongs to somebody else or is no regular file")
            os.unlink(path)
            done = explain("--group", group.name)
            assert done.returncode == 0 and "no job of the group has said anything" in done.stdout
        finally:
            os.rename(path + ".real", path)
        assert len(told(group)[0]["loaders"]) == 1
    assert not group.leftovers()


def test_gc_takes_it_along(group):
    with waiting(teller("Pure"), told_by(group)) as process:
        path, = glob.glob("/dev/shm/" + support.shared_name(group.name, "loaders"))
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert "would remove" not in group.gc().stdout and os.path.exists(path)
        group.leave_to_gc()
        support.signal_job(process, signal.SIGKILL)
        process.wait()
        assert os.path.exists(path)
        done = group.gc()
        assert "removed " + path in done.stdout and not os.path.exists(path), done.stdout
        process.returncode = 0  # as the context expects of it
        process.communicate = lambda *_, **__: None


def test_who_is_no_job():
    expect(explain("--pid", str(os.getpid())), 125, "it was started without the library")
    expect(explain("--pid", "4194304"), 125, "tsrun: there is no process 4194304\n")
    for word in ("x", "-1", "0", "1x", "99999999999999999999"):
        expect(explain("--pid=" + word), 125, "has a bad value '%s'" % word)
    with Group() as group:
        assert expect(explain("--group", group.name), 0).startswith("No job runs that shares")
        assert told(group) == []
    assert explain("--json").returncode == 0
    for words in (["--", "true"], ["true"], ["--"], ["--pid", "1", "--", "true"]):
        assert expect(explain(*words), 125, "tsrun: explain looks at running jobs: check a command with `tsrun doctor "
                      "-- COMMAND`, or run it and type `tsrun explain`\n") == ""
