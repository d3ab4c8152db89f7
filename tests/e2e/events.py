# SPDX-License-Identifier: MIT
"""
The event log (--events): what it says is what `tsrun stats` says, whoever of the recorders is
killed, and no job notices it.
"""

import contextlib
import json
import os
import signal
import stat
import subprocess

import support
from events_common import JOB, Log, check, last, once, parse, same_as_statistics, tell
from support import PYTHON, TSRUN, plain_environment, run, wait_until

# ---- what it says ---------------------------------------------------------------------------


def test_it_says_what_the_statistics_say(log):
    jobs = [log.job(), log.job(TSSHIM_ALIGN="7", TSSHIM_DATASET="images")]
    for job in jobs:
        tell(job, "decode", "decode")
    log.wait_for(*jobs)
    for job in reversed(jobs):
        tell(job, "decode")
    lines, damaged = log.finish()
    assert damaged == [], damaged
    statistics = log.group.statistics()
    same_as_statistics(lines, statistics)
    told = last(lines)
    assert {(told[job.pid]["mode"], told[job.pid]["align"], told[job.pid]["dataset"])
            for job in jobs} == {("default", None, "default"), ("aligned", 7, "images")}, told
    assert {told[job.pid]["program"] for job in jobs} == {"%s %s" % (PYTHON, JOB)}
    assert {line["group"] for line in lines} == {log.group.name}
    assert max(line["ring"]["capacity"] for line in lines if "ring" in line) > 0
    mode = os.stat(log.path).st_mode
    assert stat.S_IMODE(mode) == 0o600, oct(mode)


def test_a_job_that_is_done_at_once_is_told_whole(log):
    """Its recorder begins when the job has ended already, or nearly so."""
    for _ in range(5):
        log.job(command=once())
        log.check()


def test_a_job_that_is_killed_has_its_end(log):
    job, = log.logged()
    job.kill()
    job.communicate()
    log.jobs = []
    log.check()


def test_forks_and_programs_that_follow_belong_to_their_job(log):
    job = log.job()
    tell(job, "decode", "fork", "exec", "decode", "fork")
    assert len(log.recorders()) == 1, log.recorders()
    lines = log.check()
    assert set(last(lines)) == {job.pid}


def test_without_it_nobody_writes(log):
    job = log.job(TSSHIM_EVENTS="off")
    tell(job, "decode")
    assert log.recorders() == {}
    assert log.states() == {job.pid: "none"}
    log.finish()
    assert log.text() == ""


def test_its_place_is_below_the_home(log):
    env = log.group.environment(HOME=log.directory, TSSHIM_EVENTS="on")
    env.pop("XDG_STATE_HOME", None)
    done = run(once(), env)
    assert done.status == 0 and done.errors == "", done.errors
    log.wait_for_the_end()
    directory = os.path.join(log.directory, ".local", "state", "tsshim")
    name = "%s@%s.events" % (log.group.name, os.uname().nodename)
    assert os.listdir(directory) == [name]
    assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
    same_as_statistics(parse(support.read(os.path.join(directory, name)))[0], log.group.statistics())


def test_tsrun_top_prints_the_same(log):
    """Lines of the group's jobs, with a last one of a job that ends while it looks."""
    jobs = [log.job(TSSHIM_EVENTS="off"), log.job(TSSHIM_ALIGN="7", TSSHIM_EVENTS="off")]
    for job in jobs:
        tell(job, "decode")
    words = [TSRUN, "top", "--json", "-d", "0.1", "--group", log.group.name]
    with subprocess.Popen(words, env=plain_environment(), stdout=subprocess.PIPE,
                          text=True) as top:
        line = json.loads(top.stdout.readline())
        check(line)
        assert {job["pid"]: job["mode"] for job in line["jobs"]} == {
            jobs[0].pid: "default", jobs[1].pid: "aligned"}, line
        assert line["every"] == 0.1 and all(job["ended"] is None for job in line["jobs"])
        jobs[0].communicate(timeout=support.TIMEOUT)
        log.jobs.remove(jobs[0])
        while not any(job["ended"] for job in line["jobs"]):
            line = json.loads(top.stdout.readline())
        told = {job["pid"]: job for job in line["jobs"]}
        assert told[jobs[0].pid]["ended"] and not told[jobs[1].pid]["ended"], line
        counted = {job["pid"]: job for job in log.group.statistics()["jobs"]}
        assert told[jobs[0].pid]["pixels"] == counted[jobs[0].pid]["pixels"]
        assert [job["pid"] for job in json.loads(top.stdout.readline())["jobs"]] == [jobs[1].pid]
        top.kill()
    log.finish()


# ---- who writes -----------------------------------------------------------------------------


def writer(log):
    """Process id of the recorder that writes, when there is one."""
    writing = [pid for pid, state in log.states().items() if state == "writes"]
    found = [pid for pid, words in log.recorders().items()
             if int(words[2]) & 0xffffff in writing]
    return found[0] if found else None


def test_a_killed_writer_is_followed_by_another(log):
    jobs = log.logged(3)
    wait_until(lambda: len(log.recorders()) == 3, "three recorders")
    first = wait_until(lambda: writer(log), "a writer")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: first not in log.recorders(), "it is dead")
    before = log.text()
    wait_until(lambda: (writer(log) or first) != first, "another writer")
    log.wait_for(lines=before.count("\n"))
    for job in jobs:
        tell(job, "decode")
    lines, damaged = log.finish()
    assert damaged == [] and log.text().startswith(before)
    same_as_statistics(lines, log.group.statistics())


def test_a_stopped_writer_keeps_the_others_from_nothing(log):
    """They do not wait for it: jobs end, and so do their recorders."""
    jobs = log.logged(2)
    first = wait_until(lambda: writer(log), "a writer")
    os.kill(first, signal.SIGSTOP)
    try:
        for job in jobs:
            assert job.communicate(timeout=support.TIMEOUT)[1] == "" and job.returncode == 0
        wait_until(lambda: set(log.recorders()) == {first}, "all but the stopped one end")
    finally:
        os.kill(first, signal.SIGCONT)
    log.jobs = []
    log.check()


def test_a_job_whose_recorder_is_gone_gets_another_with_its_next_worker(log):
    job, = log.logged()
    (first,) = log.recorders()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not log.recorders(), "it is dead")
    tell(job, "fork")
    wait_until(lambda: set(log.recorders()) - {first}, "another one")
    log.wait_for(lines=log.text().count("\n"))
    log.check()


def test_a_log_that_is_removed_begins_anew(log):
    job, = log.logged()
    os.unlink(log.path)
    tell(job, "decode")
    log.wait_for(job)
    log.check()


def test_a_log_of_an_older_format_is_put_aside(log):
    older = '{"tsshim_events":1,"t":1.0,"version":"0","group":"%s","node":"n"}\n' % log.group.name
    log.begin(0)
    support.write(log.path, older)
    tell(log.job(), "decode")
    log.check()
    assert support.read(log.path + ".1") == older


def test_damaged_lines_are_left_and_named(log):
    log.begin(0, 'rubbish\n{"t":3.0,"jo')
    tell(log.job(), "decode")
    lines, damaged = log.finish()
    assert damaged == [2, 3], damaged
    same_as_statistics(lines, log.group.statistics())


# ---- what a job notices ----------------------------------------------------------------------


def test_a_job_notices_nothing():
    found = []
    for events in ("off", None):
        with Log() as log:
            job = log.job(**{"TSSHIM_EVENTS": events} if events else {})
            (answer,) = tell(job, "decode", "facts")[1:]
            if not events:
                log.wait_for(job)
            (again,) = tell(job, "facts")
            assert answer == again
            log.finish()
            found.append(answer.replace(log.group.name, "GROUP"))
    assert found[0] == found[1], found


def test_a_subreaper_gets_no_child(log):
    job = log.job()
    tell(job, "subreaper", "decode")
    assert log.recorders() == {}
    assert tell(job, "children") == ["['none', 'none', 'none']"]
    statistics = log.group.statistics()["jobs"]
    assert [row["events"]["state"] for row in statistics] == ["not-started"], statistics
    assert "event log not begun: no process can be started unseen here" in log.group.report()
    log.finish()


def test_a_full_disk_ends_the_log_and_not_the_job(log):
    directory = log.path + ".d"
    os.mkdir(directory)
    done = run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", directory])
    if done.status != 0:
        raise support.Skip("mount", done.errors)
    try:
        log.path = os.path.join(directory, "log")
        # The page that the log ends in is its own, so most of it has to be used.
        log.begin(2600)
        first, = log.logged()
        with open(os.path.join(directory, "filler"), "wb") as file:
            with contextlib.suppress(OSError):
                file.write(b"x" * 65536)
            with contextlib.suppress(OSError):
                file.flush()
        wait_until(lambda: tell(first, "decode") and log.states()[first.pid] == "ended",
                   "the log ends")
        text = log.text()
        assert parse(text)[1] == [], text
        rows = log.group.statistics()["jobs"]
        assert rows[0]["events"] == {"state": "ended", "error": "No space left on device"}, rows
        assert "event log ended: No space left on device" in log.group.report()
        assert log.recorders() == {}
        log.finish()
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


# ---- bad values -----------------------------------------------------------------------------


def refused(log, option, group=None):
    """What tsrun says of it; the command is not run."""
    mark = os.path.join(log.directory, "mark")
    done = run([TSRUN, "--group", group or log.group.name, option, "--", "touch", mark],
               plain_environment(), cwd=log.directory)
    assert done.status == 125 and not os.path.exists(mark), (option, done.status, done.errors)
    return done.errors


def test_what_is_no_log_is_refused_before_the_job_starts(log):
    other = os.path.join(log.directory, "other")
    option = "--events=" + log.path

    for make, message, remove in ((lambda path: os.symlink(other, path), "it is a symbolic link", os.unlink),
                                  (os.mkfifo, "it is no regular file", os.unlink),
                                  (os.mkdir, "it is no regular file", os.rmdir)):
        make(log.path)
        assert message in refused(log, option)
        remove(log.path)
    assert not os.path.exists(other)
    support.write(log.path, "import torch\n")
    assert "it is there already and no event log" in refused(log, option)
    assert support.read(log.path) == "import torch\n"
    os.unlink(log.path)
    tell(log.job(), "decode")
    log.finish()
    assert "it is the event log of another group" in refused(log, option, "another")


def test_values_that_are_none_are_refused(log):
    assert "write ./On for one of that name" in refused(log, "--events=On")
    assert "has an empty value" in refused(log, "--events=")
    assert "did you mean '--events'" in refused(log, "--event")
    env = plain_environment(TSSHIM_EVENTS="yes")
    done = run([TSRUN, "--", "true"], env)
    assert done.status == 125 and "it must be on, off or an absolute path" in done.errors, done.errors


def test_a_file_is_named_as_seen_from_where_tsrun_is(log):
    done = run([TSRUN, "--group", log.group.name, "--events=./log", "--", *once()],
               plain_environment(TSSHIM_RING="64M"), cwd=log.directory)
    assert done.status == 0 and done.errors == "", done.errors
    same_as_statistics(log.wait_for_the_end()[0], log.group.statistics())


def test_where_no_file_can_be_made_the_job_runs(log):
    path = os.path.join(log.directory, "none", "log")
    done = run([TSRUN, "--group", log.group.name, "--events=" + path, "--", *once()],
               plain_environment(TSSHIM_RING="64M"))
    assert done.status == 0, done.errors
    assert done.errors == "tsrun: no event log: '%s': No such file or directory\n" % path
    log.wait_for_the_end()
    (row,) = log.group.statistics()["jobs"]
    assert row["events"] == {"state": "ended", "error": "No such file or directory"}, row
