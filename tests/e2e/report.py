# SPDX-License-Identifier: MIT
"""tsrun report: what is read of event logs, and what comes of it."""

import io
import json
import os
import sys

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


if __name__ == "__main__":
    support.main(support.functions(globals()))
