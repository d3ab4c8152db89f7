# SPDX-License-Identifier: MIT
"""tsrun report: the command, and the file that is written."""

import contextlib
import os
import re
import shutil
import stat
import tempfile

import report_logs
import support
import tables
from report import counts, job, line, sample


def environment(**more):
    env = support.plain_environment(PATH="/usr/bin:/bin", TZ="UTC")
    return {**{k: v for k, v in env.items() if k not in ("XDG_STATE_HOME", "TSREPORT_TRIED")}, **more}


def report(*options, **more):
    return support.run([support.TSRUN, "report", *options], environment(**more))


def need_matplotlib():
    if support.run([support.PYTHON, "-c", "import matplotlib"], environment()).status != 0:
        raise support.Skip("matplotlib", "there is no matplotlib (scripts/deps report)")


def written(directory, text, name="log.events"):
    path = os.path.join(directory, name)
    support.write(path, text)
    return path


def page_of(*words, **more):
    """The page of these logs, or options, of which nothing is said."""
    need_matplotlib()
    done = report("-o", "-", *words, **more)
    assert done.status == 0 and done.errors == "", done.errors
    return done.output


def figures(page):
    """{id: value} of the page's numbers."""
    return dict(re.findall(r'<data id="([^"]*)" value="([^"]*)">', page))


def expect_failure(done, what, hint=None):
    """125, one line that says what, perhaps one that helps, and no more."""
    assert done.status == 125 and done.output == "", (done.status, done.output, done.errors)
    lines = done.errors.splitlines()
    assert lines[0].startswith("tsrun: ") and what in lines[0], lines
    assert len(lines) == (2 if hint else 1), lines
    if hint:
        assert lines[1].startswith("hint: ") and hint in lines[1], lines


def test_page_of_the_group_and_its_damaged_line(directory):
    need_matplotlib()
    home, page = directory, directory + "/page.html"
    os.makedirs(home + "/state/tsshim")
    log = written(home + "/state/tsshim", counts(0, 10, 30) + "{\n" + counts(9, 20, 60),
                  "some@%s.events" % os.uname().nodename)
    done = report("-o", page, "--group", "some", HOME=home)
    expect_failure(done, "cannot read", "--events")
    assert not os.path.exists(page)
    done = report("-o", page, "--group", "some", XDG_STATE_HOME=home + "/state")
    assert done.status == 0 and done.output == "", done.errors
    assert done.errors == "tsrun: %s:2: cut off, or not JSON, ignoring\n" % log, done.errors
    found = figures(support.read(page))
    assert (found["delivered"], found["taken"], found["made"]) == ("80", "60", "20")
    assert log + "</bdi>:2: cut off" in support.read(page)
    assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
    assert [name for name in os.listdir(home) if "page" in name] == ["page.html"]


def test_page_of_jobs_that_ran(directory, group):
    """What the log of the group says is what `tsrun stats` says."""
    need_matplotlib()
    env = environment(XDG_STATE_HOME=directory)
    tsrun = [support.TSRUN, "--group", group.name, "--keep", "1h", "--events", "--"]
    for _ in range(2):
        done = support.run([*tsrun, support.victim("decode"), *support.pictures("s_baseline")], env)
        assert done.status == 0, done.errors
    log = "%s/tsshim/%s@%s.events" % (directory, group.name, os.uname().nodename)
    support.wait_until(lambda: support.read(log).count('"ended":1') == 2, "the last lines")
    counted = group.statistics()["jobs"]
    found = figures(page_of("--group", group.name, XDG_STATE_HOME=directory))
    assert (int(found["made"]), int(found["taken"]), int(found["jobs"])) == (
        *(sum(job["pixels"][what] for job in counted) for what in ("produced", "shared")), 2)
    assert int(found["taken"]) > 0
    group.gc()


def test_reasons_are_those_of_the_program(directory):
    text, fix = tables.reasons()["alone"]
    page = page_of(written(directory, line(0, job(sample=sample(10), passed={"alone": 3, "verify": 9, "of_a_newer": 2}))))
    plain = re.sub(r"<[^>]*>", "", page)
    assert text in plain and fix in plain
    assert 'data-reason="alone"' in page and "counted by a newer version" in plain
    assert figures(page)["reason-verify"] == "9"


def test_nothing_recorded(directory):
    for text in ("", line(0)):
        assert 'id="nothing"' in page_of(written(directory, text))


def test_logs_of_other_versions_are_named_and_are_a_failure(directory):
    need_matplotlib()
    older = '{"tsshim_events":1,"t":1.0,"version":"0.0.9","group":"g","node":"n"}\n' \
        '{"t":2.0,"e":"end","job":"7.1"}\n'
    for number, text in ((1, older), (3, counts(0, 10, tsshim_events=3))):
        log = written(directory, text)
        done = report("-o", directory + "/page.html", log)
        assert done.status == 125 and done.errors == (
            "tsrun: %s:1: format %d of the log, and only 2 is known here; what follows is left "
            "out, ignoring\ntsrun: nothing that this version of tsrun can read\n"
            "hint: a log is read by the version of tsrun that wrote it\n" % (log, number)), done.errors
        assert os.listdir(directory) == ["log.events"]


def test_the_file_before_is_read_as_well(directory):
    written(directory, counts(0, 10, 30) + line(1, job(ended=report_logs.BEGIN + 1)), "log.events.1")
    found = figures(page_of(written(directory, counts(60, 5, name="8.1"))))
    assert (found["made"], found["taken"], found["jobs"]) == ("15", "30", "2")


def test_the_file_is_replaced_whole_or_not_at_all(directory):
    need_matplotlib()
    log = written(directory, counts(0, 10))
    real, link = directory + "/real.html", directory + "/link.html"
    written(directory, "old", "real.html")
    os.symlink("real.html", link)
    inode = os.stat(real).st_ino
    done = report("-o", link, log)
    assert done.status == 0 and os.path.islink(link), done.errors
    assert os.stat(real).st_ino != inode and "delivered" in support.read(real)
    assert sorted(os.listdir(directory)) == ["link.html", "log.events", "real.html"]
    expect_failure(report("-o", directory + "/no/page.html", log), "cannot write to")
    expect_failure(report("-o", "/dev/full", log), "cannot write to '/dev/full'")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_wrong_words():
    expect_failure(report(), "needs the name of the page", "-o FILE.html")
    expect_failure(report("-o", ""), "needs the name of the page", "-o FILE.html")
    expect_failure(report("--outptu", "x"), "unknown option '--outptu'", "--output")
    expect_failure(report("-o", "x.html", "--json"), "unknown option '--json'", "does not belong")


def test_logs_that_cannot_be_read(directory):
    need_matplotlib()
    expect_failure(report("-o", "-", directory + "/none"), "cannot read", "--events")
    expect_failure(report("-o", "-", directory), "Is a directory")


def test_without_matplotlib(directory):
    """One line that says what is missing where, and one that mends it; of a broken one as well."""
    log = written(directory, counts(0, 10))
    written(directory, "import sys\nclass Blind:\n    @staticmethod\n"
            "    def find_spec(name, *_):\n        if name == 'matplotlib':\n"
            "            raise ModuleNotFoundError(name)\nsys.meta_path.insert(0, Blind)\n",
            "sitecustomize.py")
    expect_failure(report("-o", "-", log, PYTHONPATH=directory),
                   "needs matplotlib, which %s does not have" % support.PYTHON, "apt install python3-matplotlib")
    os.makedirs(directory + "/broken/matplotlib")
    written(directory + "/broken/matplotlib", "raise RuntimeError('two\\nlines')", "__init__.py")
    expect_failure(report("-o", "-", log, PYTHONPATH=directory + "/broken"),
                   "matplotlib of %s cannot be used: two lines" % support.PYTHON, "matplotlib")
    expect_failure(report("-o", "-", log, PATH=directory), "no python3 in PATH", "python3-matplotlib")


@contextlib.contextmanager
def parrot():
    """A tsrun with a python3 beside it, as pip has put them, that says what it is started with."""
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(directory + "/shim/tsrun")
        os.makedirs(directory + "/report")
        for name in ("shim/tsrun/tsrun", "libtsshim.so"):
            shutil.copy(os.path.join(support.BUILD, name), os.path.join(directory, name))
        support.write(directory + "/shim/tsrun/python3", "#!/bin/sh\necho \"$TSSHIM_DISABLE\" \"$@\"\n", 0o755)
        yield directory, directory + "/shim/tsrun/tsrun"


def test_the_environments_own_python_comes_first():
    """Whatever PATH says; and no job's library goes in."""
    with parrot() as (directory, tsrun):
        done = support.run([tsrun, "report", "-o", "p", "a", "b"],
                           environment(LD_PRELOAD=support.LIBRARY))
        words_given = done.output.split()
        assert words_given[:4] == ["1", "-B", directory + "/report", "--table"], done.output
        assert words_given[5:] == ["--output", "p", "--", "a", "b"], done.output


def test_options_stand_where_they_like():
    with parrot() as (_, tsrun):
        for words_given, logs_read in (
                (["-o", "p", "a"], ["a"]), (["a", "-o", "p"], ["a"]), (["a", "-op"], ["a"]),
                (["--output=p", "--", "-b"], ["-b"]), (["-o", "p", "a", "--", "-b"], ["a", "-b"]),
                (["-", "--output", "p"], ["-"]),
                (["-o", "p", "--group", "g"], ["/s/tsshim/g@%s.events" % os.uname().nodename])):
            done = support.run([tsrun, "report", *words_given], environment(XDG_STATE_HOME="/s"))
            assert done.status == 0, (words_given, done.errors)
            assert done.output.split()[5:] == ["--output", "p", "--", *logs_read], words_given
        env = environment()
        del env["HOME"]
        expect_failure(support.run([tsrun, "report", "-o", "p"], env), "HOME is no absolute path", "LOG")


@support.whole
def test_a_large_log(directory):
    """16 MiB of 16 jobs; the page has as much of it as can be seen."""
    need_matplotlib()
    text = report_logs.sweep(16, 9000).run(9000).text()[:16 << 20]
    done = report("-o", directory + "/page.html", written(directory, text))
    assert done.status == 0 and len(done.errors.splitlines()) <= 1, done.errors
    assert os.path.getsize(directory + "/page.html") < 2 << 20
