# SPDX-License-Identifier: MIT
"""
The line on stderr when what tsrun has started ends: one for all jobs below it, on tsrun's own
stderr, and never at the cost of the program's output, status or time.
"""

import contextlib
import fcntl
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import tempfile

import support
from support import Group, TSRUN, finish, plain_environment, run, start, victim

TELLS = "; `tsrun stats --group %s` tells more\n"
ALONE = ("tsshim: nothing shared: no other job was asking for this data when it was made; fix: run jobs with "
         "this data at the same time, all with --align and one --group")


def pictures():
    return support.pictures("s_4")


def decode(*options):
    return [victim("decode"), *options, *pictures()]


def shell(*commands):
    """Shell words that run all @commands, none of them in the place of the shell."""
    return "; ".join([*map(shlex.join, commands), "true"])


def environment(group, **more):
    # What is computed again for a check counts as made.
    env = plain_environment(TSSHIM_GROUP=group.name, TSSHIM_RING="64M", TSSHIM_VERIFY="0")
    del env["TSSHIM_QUIET"]
    return {**env, **more}


def line(group, *command, options=(), **more):
    """What tsrun's stderr gets of @command, which has to end well."""
    done = run([TSRUN, *options, "--", *command], environment(group, **more))
    assert done.status == 0, done.errors
    return done.errors


def expect_taken(group, errors, lines=1, times=1):
    """So many lines, each of all pictures so many times, but for the time that was saved, which may be too short to be
    told."""
    count = times * len(pictures())
    told = r"tsshim: %d of %d images taken from other jobs(, \d+\.\d\d s of CPU saved)?%s" % (
        count, count, re.escape(TELLS % group.name))
    assert re.fullmatch("(?:%s){%d}" % (told, lines), errors), errors


@contextlib.contextmanager
def warm_group():
    """A group in whose ring all pictures are."""
    with Group() as group:
        group.keep()
        for _ in range(2):  # asked for, then made for others
            line(group, *decode())
        assert group.pixels("produced") > 0
        yield group


def test_a_lone_job_is_told_what_helps(group):
    assert line(group, *decode()) == ALONE + TELLS % group.name
    plain = run(decode())
    done = run([TSRUN, "--", *decode()], environment(group))
    assert support.facts(done.output) == support.facts(plain.output) and plain.errors == ""


def test_what_was_taken():
    with warm_group() as group:
        expect_taken(group, line(group, *decode()))
        saved = group.statistics()["datasets"][0]["pixels"]["saved_seconds"]
        errors = line(group, *decode("--repeat", "200"))
        number = 200 * len(pictures())
        told = re.search(r"tsshim: ([\d,]+) of ([\d,]+) images.*, (\d+\.\d\d|\d+) s of CPU saved", errors)
        assert told and {told.group(1), told.group(2)} == {format(number, ",")}, errors
        # As much as the ledger has grown by.
        more = group.statistics()["datasets"][0]["pixels"]["saved_seconds"] - saved
        digits = len(told.group(3).partition(".")[2])
        assert float(told.group(3)) <= more < float(told.group(3)) + 10 ** -digits, (errors, more)


def test_programs_that_share_nothing_say_nothing(group):
    for command in (["ls", "/"], ["true"], ["bash", "-c", "true; true"], ["sh", "-c", "true; true"],
                    [support.PYTHON, "-c", "import json, subprocess"]):
        assert line(group, *command) == "", command
    assert group.leftovers("ledger") == []


def test_switched_off(group):
    assert line(group, *decode(), TSSHIM_QUIET="1") == ""
    assert line(group, *decode(), TSSHIM_DISABLE="1") == ""
    assert line(group, *decode(), options=["--share", "off"]) == (
        "tsshim: nothing shared: sharing is switched off (TSSHIM_DISABLE, --share off or a ring of "
        "size 0); fix: unset TSSHIM_SHARE, and give --ring a size" + TELLS % group.name)
    # Not asked for: a job that tsrun did not start; in its place: a summary.
    assert run(decode(), environment(group, LD_PRELOAD=support.LIBRARY)).errors == ""
    assert "nothing shared" not in line(group, *decode(), options=["--summary"])
    assert line(group, *decode(), TSSHIM_QUIET="0") == ALONE + TELLS % group.name


def test_one_line_for_all_jobs_of_a_script():
    with warm_group() as group:
        expect_taken(group, line(group, "bash", "-c", shell(decode(), decode())), times=2)
        # A shell that runs nothing when it ends: its jobs speak for themselves.
        expect_taken(group, line(group, "dash", "-c", shell(decode(), ["ls", "/"], decode())), 2)
        # The jobs of another tsrun are not added; and what is exec'd is still the one.
        for words in (decode(), ["env", "A=1", *decode()], ["bash", "-c", "exec " + shlex.join(decode())],
                      ["sh", "-c", "exec " + shlex.join(decode())], [TSRUN, "--", *decode()]):
            expect_taken(group, line(group, *words))


def test_programs_that_close_their_stderr_before_they_end():
    """timeout(1) and xargs(1) cannot print: their jobs do."""
    with warm_group() as group, tempfile.NamedTemporaryFile("w") as trials:
        expect_taken(group, line(group, "timeout", "100", *decode()))
        trials.write("1\n1\n")
        trials.flush()
        expect_taken(group, line(group, "xargs", "-a", trials.name, "-n1", *decode(), "--repeat"), 2)


def test_a_loop_says_once_why_nothing_is_shared(group):
    one = [victim("decode"), pictures()[0]]
    others = [[victim("decode"), path] for path in pictures()[1:3]]
    assert line(group, "dash", "-c", shell(one, *others)) == ALONE + TELLS % group.name


def test_a_script_is_told_why_the_memory_cannot_be_had(group):
    """Its jobs have no part in the ring; what they count lies in the ledger for the shell, and stats."""
    line(group, *decode())
    ring = os.path.join("/dev/shm", support.shared_name(group.name, "ring"))
    os.mkdir(ring)
    try:
        told = ("tsshim: nothing shared: shared memory of that name belongs to somebody else; fix: "
                "have what lies there removed, or use another --group" + TELLS % group.name)
        count = len(pictures())
        for command in (decode(), ["bash", "-c", shell(decode(), decode())]):
            errors = line(group, *command)
            assert errors == told, errors
        done = run([TSRUN, "stats", "--json", "--group", group.name], environment(group))
        data = json.loads(done.output)
        assert data["passed"]["store_foreign"] == 3 * count, data["passed"]
        assert not any(job["alive"] for job in data["jobs"])
        # Whose sharing is switched off has nothing to say of it.
        assert "nothing shared: sharing is switched off" in line(group, *decode(), options=["--share", "off"])
    finally:
        os.rmdir(ring)


def test_a_tsrun_within_speaks_for_its_jobs():
    with warm_group() as group:
        inner = [TSRUN, "--", *decode()]
        expect_taken(group, line(group, "bash", "-c", shell(inner)))
        expect_taken(group, line(group, "bash", "-c", shell(inner, decode(), inner)), 3)
        quiet = "export TSSHIM_QUIET=1; "
        assert line(group, "bash", "-c", quiet + shell(inner)) == ""


def test_only_the_stderr_that_tsrun_has_seen():
    with warm_group() as group, tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "errors")
        for script in ("exec %s 2>%s", "%s 2>%s; exec 2>&-", "exec 2>&-; %s 2>%s; true",
                       "exec %s 2>%s 1>&2"):
            assert line(group, "bash", "-c", script % (shlex.join(decode()), path)) == "", script
            assert "tsshim" not in support.read(path), script
        # A file that was named before tsrun: behind what the program has written.
        with open(path, "w") as file:
            done = subprocess.run([TSRUN, "--", "bash", "-c", "echo mine >&2; "
                                   + shell(decode()) + "; echo last >&2"], stderr=file,
                                  stdout=subprocess.DEVNULL, env=environment(group), timeout=60)
        assert done.returncode == 0
        mine, last, text = support.read(path).split("\n", 2)
        assert (mine, last) == ("mine", "last")
        expect_taken(group, text)


def with_stderr(group, descriptor, **more):
    """Exit status of a job whose stderr is @descriptor."""
    process = subprocess.Popen([TSRUN, "--", *decode()], stderr=descriptor,
                               stdout=subprocess.DEVNULL, env=environment(group), **more)
    return process.wait(timeout=support.TIMEOUT)


def test_a_printer_of_elsewhere_prints_nothing_here(group):
    """The environment may come along from another node, as to a batch job; then this process speaks."""
    code = "import sys, torch; from PIL import Image; [Image.open(name).load() for name in sys.argv[1:]]"
    command = [support.PYTHON, "-c", code, *pictures()]
    gone = subprocess.Popen(["true"])
    gone.wait()
    elsewhere = os.stat("/dev/null")

    def errors(process, state, stderr=subprocess.PIPE, word="line"):
        more = {"TSSHIM_SUMMARY": "%s:%d:%d:%d" % (word, process, state.st_dev, state.st_ino)} if process else {}
        done = subprocess.run(command, env=environment(group, LD_PRELOAD=support.LIBRARY, **more), timeout=300,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    one = re.compile("tsshim: .*%s" % re.escape(TELLS % group.name))
    assert one.fullmatch(errors(None, None))
    for word in ("line", "plain"):
        assert one.fullmatch(errors(gone.pid, elsewhere, word=word)), word
    # It lives, or it is of this standard error.
    mine = support.process_id(os.getpid())
    assert errors(mine, elsewhere) == ""
    with tempfile.TemporaryFile("w+") as file:
        errors(gone.pid, os.fstat(file.fileno()), file)
        file.seek(0)
        assert file.read() == ""
    # Such a word is nobody's setting.
    for word in ("line", "plain"):
        told = run([TSRUN, "config"], environment(group, TSSHIM_SUMMARY="%s:%d:1:1" % (word, mine)))
        assert (told.status, told.errors) == (0, "") and not re.search("summary.*environment", told.output), told.output


def test_a_stderr_that_takes_nothing(group):
    with open("/dev/full", "w") as full:
        assert with_stderr(group, full) == 0
    assert with_stderr(group, None, preexec_fn=lambda: os.close(2)) == 0
    # Nobody reads.
    ends = os.pipe()
    os.close(ends[0])
    assert with_stderr(group, ends[1]) == 0
    os.close(ends[1])
    # Full, and nobody reads: to wait would be for ever.
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(ends[1], b"x" * 4096)
    os.set_blocking(ends[1], True)
    assert with_stderr(group, ends[1]) == 0
    held = fcntl.fcntl(ends[1], fcntl.F_GETPIPE_SZ)
    assert set(os.read(ends[0], 2 * held)) == {ord("x")}
    for end in ends:
        os.close(end)
    # A file that may not grow: no signal of the kernel's.
    with tempfile.TemporaryFile() as file:
        assert with_stderr(group, file, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (0, 0))) == 0


def test_ends_that_say_nothing(group):
    """By a signal, or without a word to libraries; the status is the program's."""
    code = ("import os, signal, sys; from PIL import Image; Image.open(%r).load(); sys.stdout.flush(); "
            % pictures()[0])
    for end, status, says in (("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""), ("os._exit(3)", 3, ""),
                              ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT, None),
                              ("sys.exit(4)", 4, ALONE + TELLS % group.name)):
        done = run([TSRUN, "--", support.PYTHON, "-c", code + end], environment(group))
        assert done.status == status, done.errors
        assert done.errors == says if says is not None else "tsshim" not in done.errors, done.errors  # Python's own


def test_who_outlives_tsrun_says_nothing():
    with warm_group() as group, tempfile.TemporaryDirectory() as place:
        gate = os.path.join(place, "gate")
        os.mkfifo(gate)
        script = "(read x <%s; %s) & true" % (gate, shell(decode()))
        process = start([TSRUN, "--", "bash", "-c", script], environment(group))
        process.wait(timeout=support.TIMEOUT)
        support.write(gate, "go\n")
        done = finish(process)  # which waits for all that have its streams
        assert (done.status, done.errors) == (0, ""), done.errors
        assert len(support.blocks(done.output)) == len(pictures()), done.output
