# SPDX-License-Identifier: MIT
"""tsrun report: what is read of event logs, what comes of it, and the file that is written."""

import contextlib
import io
import json
import os
import re
import shutil
import stat
import sys
import tempfile

import report_logs
import support
from report_logs import BEGIN

PAGE = os.path.join(os.path.dirname(os.path.dirname(support.HERE)), "shim", "tsrun", "page")
sys.path.insert(0, PAGE)

from tsshim_report import facts, log as logs, series, words  # noqa: E402

HEAD = {"tsshim_events": 1, "version": "0.1.0", "group": "g", "node": "n"}
TABLE = [{"id": "alone", "text": "a", "fix": "run more"}, {"id": "verify", "text": "v", "fix": None},
         {"id": "jpeg_small", "text": "s", "fix": ""}, {"id": "timeout", "text": "t", "fix": "look"},
         {"id": "torch_isolated", "text": "i", "fix": "no -I"}]


def line(at, **row):
    return json.dumps({"t": BEGIN + at, **row}) + "\n"


def head(at=0, **more):
    return line(at, **{**HEAD, **more})


def counts(at, made, taken=0, job="7.1", **more):
    return line(at, e="counts", job=job, sample={"produced": made, "shared": taken,
                                                 "saved_seconds": taken / 100}, **more)


def read(*texts):
    log = logs.Log()
    for number, text in enumerate(texts):
        raw = text if isinstance(text, bytes) else text.encode()
        logs.read(log, "log%d" % number, io.BytesIO(raw))
    logs.finish(log)
    return log


def only(log):
    job, = log.all_jobs()
    return job


def rates(log, column=0):
    axis, job = series.Axis(log), only(log)
    return axis, series.rates(job, axis, series.counted(job, lambda row: row[1]["sample"][column]))


def notes(log):
    return [(number, what) for _, number, what in log.notes]


# ---- what is read ----------------------------------------------------------------------------


def test_sums_are_those_of_the_jobs():
    made_up = report_logs.sweep(5, 300).run(300)
    log = read(made_up.text())
    jobs = log.all_jobs()
    assert log.notes == [] and len(jobs) == 5
    assert facts.sums(jobs, "sample") == tuple(
        sum(getattr(job, name) for job in made_up.jobs) for name in ("made", "taken"))
    by_name = {job.name: job for job in made_up.jobs}
    for job in jobs:
        mine = by_name[job.identity]
        assert (job.pid, job.began, job.program, job.mode, job.align, job.dataset) == (
            mine.pid, mine.begin, mine.program, "aligned", 0, "photos")
        assert (facts.saved(job), facts.cpu(job)) == (mine.saved(), mine.cpu())
        assert job.passed.get("timeout", 0) == mine.late
        assert (job.ended is None) == mine.killed


def test_a_damaged_line_is_named_and_the_others_count():
    bad = [b"{\"t\":", b"[]", b"7", b"not json", b"\xff\xfe", b"[" * 3000, b"{\"a\":" * 700,
           b"{\"t\":NaN,\"e\":\"end\",\"job\":\"7.1\"}", b"{" + b" " * 5000 + b"}",
           b"{\"t\":1e400,\"e\":\"end\",\"job\":\"7.1\"}", b"\0\0\0"]
    wrong = [{"e": "counts"}, {"e": "counts", "job": 7}, {"e": "counts", "job": "7.1", "sample": 3},
             {"e": "counts", "job": "7.1", "sample": {"produced": -1}},
             {"e": "counts", "job": "7.1", "sample": {"produced": True}},
             {"e": "counts", "job": "7.1", "sample": {"produced": 1 << 64}},
             {"e": "counts", "job": "7.1", "sample": {"produced": 1.5}},
             {"e": "counts", "job": "7.1", "sample": {"saved_seconds": "1"}},
             {"e": "reasons", "job": "7.1", "alone": "many"}, {"e": "order", "job": "7.1"},
             {"e": "ring", "capacity": None, "used": 1}, {"e": "job", "job": "x" * 65},
             {"e": "job", "job": "7.1", "program": ["a"]}, {"e": "job", "job": "7.1", "mode": "x"}]
    bad += [json.dumps({"t": BEGIN + 1, **row}).encode() for row in wrong]
    for damaged in bad:
        log = read(head().encode() + counts(0, 10).encode() + damaged + b"\n" + counts(2, 30).encode())
        assert [number for number, _ in notes(log)] == [3], (damaged[:60], log.notes)
        assert facts.sums(log.all_jobs(), "sample") == (30, 0), damaged[:60]
        assert only(log).times()[1] == BEGIN + 2


def test_a_line_without_end_is_named():
    log = read(head() + counts(0, 10) + counts(1, 20)[:40])
    assert [number for number, _ in notes(log)] == [3] and facts.sums(log.all_jobs(), "sample")[0] == 10


def test_a_line_of_any_length_is_one_line():
    log = read(head() + "x" * (3 << 20) + "\n" + counts(0, 10) + "y\n")
    assert [number for number, _ in notes(log)] == [2, 4]


def test_what_is_not_known_yet_is_passed_over():
    log = read(head() + line(1, e="weather", job="7.1") + counts(1, 5, colour="blue"))
    assert log.notes == [] and facts.sums(log.all_jobs(), "sample") == (5, 0)


def test_another_format_is_left_out_until_the_next_head():
    log = read(head() + counts(0, 10) + head(1, tsshim_events=2) + counts(2, 90) + head(3) +
               counts(4, 20))
    assert [number for number, _ in notes(log)] == [3] and log.foreign == 1
    assert facts.sums(log.all_jobs(), "sample") == (20, 0)


def test_counters_do_not_go_back():
    log = read(head() + counts(0, 100) + counts(1, 40) + counts(2, 120))
    assert [row[1]["sample"][0] for row in only(log).counts] == [100, 100, 120]


def test_names_are_only_names():
    log = read(head(group="a\u202eb\n", node="\ud800") +
               line(1, e="job", job="7.1", program="x" * 500, dataset="\0\x1b[2J") + counts(1, 1))
    source, = log.sources.values()
    assert source.name() == "a\ufffdb\ufffd@\ufffd"
    assert len(only(log).program) == logs.TEXT_MAX + 1 and only(log).dataset == "\ufffd\ufffd[2J"
    source.name().encode()


def test_there_is_an_end_to_all():
    """Of reasons and jobs, and of the time."""
    many = {"reason%d" % n: 1 for n in range(logs.REASONS_MAX)}
    log = read(head() + line(0, e="reasons", job="7.1", **{k: 1 for k in list(many)[:100]}) + "".join(
        line(1, e="reasons", job="7.1", **{"%s%d" % (k, n): 1 for k in list(many)[:100]})
        for n in range(4)))
    assert len(only(log).passed) <= logs.REASONS_MAX and len(log.notes) == 3
    log = read(head() + "".join(line(0, e="reasons", job="%d.1" % n) for n in range(logs.JOBS_MAX + 2)))
    assert len(log.jobs) == logs.JOBS_MAX and len(log.notes) == 2
    log = read(head() + counts(0, 1) + json.dumps({"t": 9e11, "e": "end", "job": "7.1"}))
    assert log.notes == [] and series.Axis(log).count <= series.PARTS + 1


def test_logs_of_two_nodes_and_one_given_twice():
    one = head() + counts(0, 10) + counts(5, 30)
    other = head(node="m") + counts(1, 100)
    log = read(one, other, one)
    assert sorted(source.name() for source in log.sources.values()) == ["g@m", "g@n"]
    assert facts.sums(log.all_jobs(), "sample") == (130, 0)


# ---- over time -------------------------------------------------------------------------------


def test_rates_add_up():
    made_up = report_logs.sweep(3, 200).run(200)
    log = read(made_up.text())
    axis = series.Axis(log)
    assert axis.count <= series.PARTS
    for job in log.all_jobs():
        known = series.counted(job, lambda row: sum(row[1]["sample"][:2]))
        curve = series.growth(job, axis, known)
        assert sum(curve.at(b) - (curve.at(a) or 0) for a, b in zip(axis.edges(), axis.edges()[1:])
                   if curve.at(b) is not None) == known[-1][1]
        whole = [rate for rate in series.rates(job, axis, known) if rate is not None]
        assert whole and min(whole) >= 0 and max(whole) < 200


def test_a_hole_is_no_line():
    """The recorder was gone for 90 s: nothing is drawn there, and no peak behind it."""
    text = head() + "".join(counts(at, 10 * at) for at in range(60)) + head(150) + "".join(
        counts(at, 10 * at) for at in range(150, 200))
    log = read(text)
    axis, found = rates(log)
    assert axis.gaps[only(log).source] == [(BEGIN + 59, BEGIN + 150)]
    for center, rate in zip(axis.centers(), found):
        inside = BEGIN + 59 < center < BEGIN + 150
        assert rate is None if inside else rate is None or abs(rate - 10) < 0.01, (center, rate)
    assert sum(rate is None for rate in found) < 100 / axis.width
    total = series.totals(only(log), axis, series.counted(only(log), lambda row: row[1]["sample"][0]))
    assert total[-1] == 1990 and None in total


def test_a_new_head_is_no_hole():
    text = head() + "".join(counts(at, 10 * at) for at in range(30)) + head(30) + "".join(
        counts(at, 10 * at) for at in range(30, 60))
    axis, found = rates(read(text))
    assert not any(axis.gaps.values())
    assert all(rate is not None and abs(rate - 10) < 0.01 for rate in found[1:-1]), found


def test_thinned_lines_are_no_hole():
    """What is old is there every 40 s only; what is new every second."""
    text = head() + "".join(counts(at, 10 * at) for at in range(0, 800, 40)) + head(800) + "".join(
        counts(at, 10 * at) for at in range(800, 900))
    axis, found = rates(read(text))
    assert not any(axis.gaps.values()), axis.gaps
    assert all(rate is not None and abs(rate - 10) < 0.01 for rate in found[1:-1]), found


def test_who_stands_still_has_no_slope():
    """Lines are written when something changes: nothing from 20 to 60, while others go on."""
    other = "".join(counts(at, at, job="8.1") for at in range(80))
    log = read(head() + other, head() + "".join(
        counts(at, 10 * min(at, 20) if at < 60 else 200 + 10 * (at - 59))
        for at in [*range(21), *range(60, 80)]))
    axis = series.Axis(log)
    job = log.all_jobs()[0]
    found = series.rates(job, axis, series.counted(job, lambda row: row[1]["sample"][0]))
    still = [rate for center, rate in zip(axis.centers(), found)
             if BEGIN + 22 < center < BEGIN + 57]
    assert still and all(rate == 0 for rate in still), still
    assert not any(axis.gaps.values())


def test_who_sleeps_is_no_hole_and_a_stopped_writer_is():
    """Without a new head: what was done meanwhile tells the one from the other."""
    begin = head() + "".join(counts(at, 10 * at) for at in range(40))
    for jump, gaps in ((10, 0), (1010, 1)):
        log = read(begin + "".join(counts(140 + at, 390 + jump + 10 * at) for at in range(40)))
        axis, found = rates(log)
        assert len(axis.gaps[only(log).source]) == gaps, jump
        inside = [rate for center, rate in zip(axis.centers(), found)
                  if BEGIN + 42 < center < BEGIN + 136]
        assert inside and all(rate is None if gaps else rate == 0 for rate in inside), inside
        assert max(rate for rate in found if rate is not None) < 11


def test_before_and_after_a_job_nothing_is_known():
    log = read(head() + line(40, e="job", job="7.1", began=BEGIN + 40) + "".join(
        counts(at, 10 * (at - 40)) for at in range(41, 60)) + line(60, e="end", job="7.1") +
               line(100, e="ring", capacity=100, used=50))
    axis, found = rates(log)
    for center, rate in zip(axis.centers(), found):
        assert (rate is None) == (not BEGIN + 40 < center < BEGIN + 60), (center, rate)


def test_a_clock_that_is_put_back_goes_on():
    text = head() + "".join(counts(at, 10 * at) for at in range(20)) + "".join(
        counts(at - 3600, 10 * at) for at in range(20, 40))
    log = read(text)
    assert [number for number, _ in notes(log)] == [22]
    times = only(log).times()
    assert times[0] == BEGIN and 37 <= times[1] - BEGIN <= 40, times
    axis, found = rates(log)
    assert all(rate is None or -0.01 <= rate <= 20.01 for rate in found), found


def test_nothing_known_of_little():
    """One line; none at all; two at one time."""
    for text in ("", head(), head() + counts(0, 5), head() + counts(0, 5) + counts(0, 6)):
        log = read(text)
        axis = series.Axis(log)
        assert axis.count == 1 and axis.width > 0
        assert log.notes == []


def test_waits_in_vain_stand_where_they_were():
    log = read(head() + line(0, e="job", job="7.1", began=BEGIN) + "".join(
        line(at, e="reasons", job="7.1", alone=at, timeout=3 * (at >= 50)) for at in range(100)))
    axis = series.Axis(log)
    found = series.late(only(log), axis)
    assert [at for at, rate in enumerate(found) if rate] == [int(50 / axis.width)], found
    assert sum(found) * axis.width / 60 == 3


def test_position_and_ring():
    log = read(head() + "".join(
        line(at, e="order", job="7.1", order="strict", epoch=at / 100, behind=0.5) +
        line(at, e="ring", capacity=1000, used=10 * at) for at in range(101)))
    axis, job = series.Axis(log), only(log)
    for center, epoch, behind in zip(axis.centers(), series.places(job, axis, 1),
                                     series.places(job, axis, 2)):
        assert abs(epoch - (center - BEGIN) / 100) < 1e-6 and behind == 0.5
    full = series.fill(job.source, axis)
    assert full[0] <= 0.02 and full[-1] == 1.0 and full == sorted(full)


# ---- in the end ------------------------------------------------------------------------------


def reasons_of(**counted):
    return facts.reasons([only(read(head() + line(0, e="reasons", job="7.1", **counted)))], TABLE)


def test_the_main_reason_is_that_of_the_last_line():
    """As leader/group/line.c chooses."""
    for counted, expected in (
            ({"alone": 5, "jpeg_small": 40}, "alone"),  # one in ten is worth a word
            ({"alone": 3, "jpeg_small": 40}, "jpeg_small"),
            ({"verify": 90, "timeout": 2}, "timeout"), ({"verify": 90}, None), ({}, None),
            ({"torch_isolated": 1, "alone": 900}, "torch_isolated"),
            ({"of_a_newer": 9}, "of_a_newer")):
        reason = facts.main_reason(reasons_of(**counted))
        assert (reason.identity if reason else None) == expected, counted


def test_pictures_inside_of_samples_are_no_kind_of_their_own():
    text = head() + line(0, e="counts", job="7.1", sample={"produced": 5, "shared": 5},
                         pixels={"produced": 5})
    assert facts.shown_kinds(read(text).all_jobs()) == ["sample"]
    text += line(1, e="counts", job="8.1", pixels={"produced": 50, "shared": 9})
    jobs = read(text).all_jobs()
    assert facts.shown_kinds(jobs) == ["sample", "pixels"] and facts.main_kind(jobs) == "pixels"


def test_copies_of_files_save_no_cpu_time():
    job = only(read(head() + line(0, e="counts", job="7.1", cpu_seconds=30, sample={
        "produced": 1, "shared": 1, "saved_seconds": 10}, bytes={"shared": 3, "saved_seconds": 99})))
    assert facts.saved(job) == 10 and facts.saved_share([job]) == (10, 40)
    assert facts.saved_share([only(read(head() + counts(0, 1)))]) == (None, None)


def test_what_is_not_known_is_never_0():
    job = only(read(head() + line(0, e="reasons", job="7.1", alone=1)))
    assert facts.saved(job) is None and facts.cpu(job) is None
    for shown in (words.number(None), words.cpu(None), words.percent(0, 0), words.duration(None)):
        assert shown == words.UNKNOWN


def test_words():
    assert words.number(1234567) == "1,234,567" and words.brief(1234567) == "1.23M"
    assert words.brief(999.9) == "1k" and words.brief(0.5) == "0.5" and words.brief(0) == "0"
    assert words.percent(1, 3) == "33.3 %" and words.percent(3, 3) == "100 %"
    assert words.percent(2**64 - 2, 2**64 - 1) == "> 99.9 %" and words.percent(0, 5) == "0 %"
    assert words.percent(99999, 100000) == "> 99.9 %" and words.percent(1, 10**6) == "< 0.1 %"
    assert words.cpu(5) == "5.00 s" and words.cpu(119) == "119 s" and words.cpu(7200) == "2.0 h"
    assert words.duration(3600 * 50) == "2 d 2 h" and words.moment(1e300) == words.UNKNOWN


# ---- the command -----------------------------------------------------------------------------


def environment(**more):
    env = support.plain_environment(PATH="/usr/bin:/bin", TZ="UTC", **more)
    return {k: v for k, v in env.items() if k not in ("XDG_STATE_HOME", "TSREPORT_TRIED")}


def report(*options, **more):
    return support.run([support.TSRUN, "report", *options], environment(**more))


def need_matplotlib():
    if support.run([support.PYTHON, "-c", "import matplotlib"], environment()).status != 0:
        raise support.Skip("matplotlib", "there is no matplotlib (scripts/deps report)")


def written(directory, text, name="log.events"):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def contents(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


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


def test_page_of_the_group_and_its_damaged_line():
    need_matplotlib()
    with tempfile.TemporaryDirectory() as home:
        os.makedirs(home + "/state/tsshim")
        log = written(home + "/state/tsshim", head() + counts(0, 10, 30) + "{\n" + counts(9, 20, 60),
                      "some@%s.events" % os.uname().nodename)
        page = home + "/page.html"
        done = report("-o", page, "--group", "some", XDG_STATE_HOME="", HOME=home)
        expect_failure(done, "cannot read", "--events")
        assert not os.path.exists(page)
        env = dict(environment(), XDG_STATE_HOME=home + "/state")
        done = support.run([support.TSRUN, "report", "-o", page, "--group", "some"], env)
        assert done.status == 0 and done.output == "", done.errors
        assert done.errors == "tsrun: %s:3: cut off, or not JSON, ignoring\n" % log, done.errors
        found = figures(contents(page))
        assert (found["delivered"], found["taken"], found["made"]) == ("80", "60", "20")
        assert log + "</bdi>:3: cut off" in contents(page)
        assert stat.S_IMODE(os.stat(page).st_mode) == 0o600
        assert [name for name in os.listdir(home) if "page" in name] == ["page.html"]


def test_reasons_are_those_of_the_program():
    need_matplotlib()
    source = contents(os.path.join(PAGE, "..", "..", "reasons.h"))
    _, text, fix = re.search(r'X\(ALONE, "(alone)", "([^"]*)",[\s\\]*"([^"]*)"\)', source).groups()
    with tempfile.TemporaryDirectory() as directory:
        log = written(directory, head() + counts(0, 10) + line(0, e="reasons", job="7.1", alone=3,
                                                               verify=9, of_a_newer=2))
        done = report("-o", "-", log)
        assert done.status == 0 and done.errors == "", done.errors
        plain = re.sub(r"<[^>]*>", "", done.output)
        assert text in plain and fix in plain
        assert 'data-reason="alone"' in done.output and "counted by a newer version" in plain
        assert figures(done.output)["reason-verify"] == "9"


def test_nothing_recorded():
    need_matplotlib()
    with tempfile.TemporaryDirectory() as directory:
        for text in ("", head()):
            done = report("-o", "-", written(directory, text))
            assert done.status == 0 and done.errors == "", done.errors
            assert 'id="nothing"' in done.output


def test_another_format_alone_is_a_failure():
    need_matplotlib()
    with tempfile.TemporaryDirectory() as directory:
        log = written(directory, head(tsshim_events=2) + counts(0, 10))
        done = report("-o", directory + "/page.html", log)
        assert done.status == 125 and done.errors.splitlines()[0].startswith(
            "tsrun: %s:1: format 2 of the log" % log), done.errors
        assert os.listdir(directory) == ["log.events"]


def test_the_file_is_replaced_whole_or_not_at_all():
    need_matplotlib()
    with tempfile.TemporaryDirectory() as directory:
        log = written(directory, head() + counts(0, 10))
        real, link = directory + "/real.html", directory + "/link.html"
        written(directory, "old", "real.html")
        os.symlink("real.html", link)
        inode = os.stat(real).st_ino
        done = report("-o", link, log)
        assert done.status == 0 and os.path.islink(link), done.errors
        assert os.stat(real).st_ino != inode and "delivered" in contents(real)
        assert sorted(os.listdir(directory)) == ["link.html", "log.events", "real.html"]
        expect_failure(report("-o", directory + "/no/page.html", log), "cannot write to")
        expect_failure(report("-o", "/dev/full", log), "cannot write to '/dev/full'")
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_wrong_words():
    expect_failure(report(), "needs the name of the page", "-o FILE.html")
    expect_failure(report("-o", ""), "needs the name of the page", "-o FILE.html")
    expect_failure(report("--outptu", "x"), "unknown option '--outptu'", "--output")
    expect_failure(report("-o", "x.html", "--json"), "unknown option '--json'", "does not belong")


def test_logs_that_cannot_be_read():
    need_matplotlib()
    with tempfile.TemporaryDirectory() as directory:
        expect_failure(report("-o", "-", directory + "/none"), "cannot read", "--events")
        expect_failure(report("-o", "-", directory), "Is a directory")


def test_without_matplotlib():
    """One line that says what is missing where, and one that mends it; of a broken one as well."""
    with tempfile.TemporaryDirectory() as directory:
        log = written(directory, head() + counts(0, 10))
        written(directory, "import sys\nclass Blind:\n    @staticmethod\n"
                "    def find_spec(name, *_):\n        if name == 'matplotlib':\n"
                "            raise ModuleNotFoundError(name)\nsys.meta_path.insert(0, Blind)\n",
                "sitecustomize.py")
        expect_failure(report("-o", "-", log, PYTHONPATH=directory),
                       "needs matplotlib, which %s does not have" % support.PYTHON,
                       "apt install python3-matplotlib")
    with tempfile.TemporaryDirectory() as directory:
        log = written(directory, head() + counts(0, 10))
        os.mkdir(directory + "/matplotlib")
        written(directory + "/matplotlib", "raise RuntimeError('two\\nlines')", "__init__.py")
        expect_failure(report("-o", "-", log, PYTHONPATH=directory),
                       "matplotlib of %s cannot be used: two lines" % support.PYTHON, "matplotlib")
        env = dict(environment(), PATH=directory)
        done = support.run([support.TSRUN, "report", "-o", "-", log], env)
        expect_failure(done, "no python3 in PATH", "python3-matplotlib")


@contextlib.contextmanager
def parrot():
    """A tsrun with a python3 beside it, as pip has put them, that says what it is started with."""
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(directory + "/shim/tsrun")
        os.makedirs(directory + "/report")
        for name in ("shim/tsrun/tsrun", "libtsshim.so"):
            shutil.copy(os.path.join(support.BUILD, name), os.path.join(directory, name))
        python = written(directory, "#!/bin/sh\necho \"$TSSHIM_DISABLE\" \"$@\"\n",
                         "shim/tsrun/python3")
        os.chmod(python, 0o755)
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
            done = support.run([tsrun, "report", *words_given],
                               dict(environment(), XDG_STATE_HOME="/s"))
            assert done.status == 0, (words_given, done.errors)
            assert done.output.split()[5:] == ["--output", "p", "--", *logs_read], words_given
        env = environment()
        del env["HOME"]
        expect_failure(support.run([tsrun, "report", "-o", "p"], env), "HOME is not set", "LOG")


@support.whole
def test_a_large_log():
    """16 MiB of 16 jobs; the page has as much of it as can be seen."""
    need_matplotlib()
    text = report_logs.sweep(16, 9000).run(9000).text()[:16 << 20]
    with tempfile.TemporaryDirectory() as directory:
        done = report("-o", directory + "/page.html", written(directory, text))
        assert done.status == 0 and len(done.errors.splitlines()) <= 1, done.errors
        assert os.path.getsize(directory + "/page.html") < 2 << 20


if __name__ == "__main__":
    support.main(support.functions(globals()))
