# SPDX-License-Identifier: MIT
"""tsrun report: what is read of event logs, and what comes of it."""

import io
import json

import report_logs
import support
from report_logs import BEGIN

support.search("shim", "tsrun", "page")

from tsshim_report import facts, log as logs, series, words  # noqa: E402

TABLE = [{"id": "alone", "text": "a", "fix": "run more"}, {"id": "verify", "text": "v", "fix": None},
         {"id": "jpeg_small", "text": "s", "fix": ""}, {"id": "timeout", "text": "t", "fix": "look"},
         {"id": "torch_isolated", "text": "i", "fix": "no -I"}]


def line(at, *jobs, **more):
    return json.dumps({"tsshim_events": 2, "t": BEGIN + at, "every": 1.0, "version": "0.1.0",
                       "group": "g", "node": "n", "jobs": jobs, **more}) + "\n"


def job(name="7.1", **more):
    return {"job": name, **more}


def sample(made, taken=0):
    return {"produced": made, "shared": taken, "saved_seconds": taken / 100}


def counts(at, made, taken=0, name="7.1", **more):
    return line(at, job(name, sample=sample(made, taken)), **more)


def read(*texts):
    log = logs.Log()
    for number, text in enumerate(texts):
        raw = text if isinstance(text, bytes) else text.encode()
        logs.read(log, "log%d" % number, io.BytesIO(raw))
    logs.finish(log)
    return log


def only(log):
    found, = log.all_jobs()
    return found


def rates(log, column=0):
    axis, found = series.Axis(log), only(log)
    return axis, series.rates(found, axis,
                              series.counted(found, lambda row: row[1]["sample"][column]))


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
    for found in jobs:
        mine = by_name[found.identity]
        assert (found.pid, found.began, found.program, found.mode, found.align, found.dataset) == (
            mine.pid, mine.begin, mine.program, "aligned", 0, "photos")
        assert (facts.saved(found), facts.cpu(found)) == (mine.saved(), mine.cpu())
        assert found.passed.get("timeout", 0) == mine.late
        assert (found.ended is None) == mine.killed


def test_a_damaged_line_is_named_and_the_others_count():
    bad = [b"{\"t\":", b"[]", b"7", b"not json", b"\xff\xfe", b"[" * 3000, b"{\"a\":" * 700,
           b"{\"tsshim_events\":2,\"t\":NaN,\"every\":1,\"jobs\":[]}", b"{\"t\":3,\"e\":\"ring\"}",
           b"{" + b" " * logs.LINE_BYTES + b"}",
           b"{\"tsshim_events\":2,\"t\":1e400,\"every\":1,\"jobs\":[]}", b"\0\0\0"]
    wrong = [{}, {"job": 7}, {"job": "x" * 65}, job(sample=3), job(sample={"produced": -1}),
             job(sample={"produced": True}), job(sample={"produced": 1 << 64}),
             job(sample={"produced": 1.5}), job(sample={"saved_seconds": "1"}),
             job(passed={"alone": "many"}), job(passed=[1]), job(epoch="one"), job(mode="x"),
             job(program=["a"]), job(ended=-1), 7]
    bad += [line(1, row).encode().strip() for row in wrong]
    bad += [line(1, job(), ring={"capacity": None, "used": 1}).encode().strip(),
            line(1, jobs=None).encode().strip(), line(1, every="often").encode().strip()]
    for damaged in bad:
        log = read(counts(0, 10).encode() + damaged + b"\n" + counts(2, 30).encode())
        assert [number for number, _ in notes(log)] == [2], (damaged[:60], log.notes)
        assert facts.sums(log.all_jobs(), "sample") == (30, 0), damaged[:60]
        assert only(log).times() == (BEGIN, BEGIN + 2)


def test_a_line_without_end_is_named():
    log = read(counts(0, 10) + counts(1, 20)[:40])
    assert [number for number, _ in notes(log)] == [2] and facts.sums(log.all_jobs(), "sample")[0] == 10


def test_a_line_of_any_length_is_one_line():
    log = read(line(0) + "x" * (3 << 20) + "\n" + counts(0, 10) + "y\n")
    assert [number for number, _ in notes(log)] == [2, 4]


def test_what_is_not_known_yet_is_passed_over():
    log = read(line(0, weather="fine") + line(1, job(sample=sample(5), colour="blue")))
    assert log.notes == [] and facts.sums(log.all_jobs(), "sample") == (5, 0)


def test_another_format_is_left_out_until_the_next_of_ours():
    older = '{"tsshim_events":1,"t":1.0,"group":"g"}\n{"t":2.0,"e":"end","job":"7.1"}\n'
    log = read(counts(0, 10) + older + line(1, job(sample=sample(90)), tsshim_events=3) +
               counts(4, 20))
    assert [number for number, _ in notes(log)] == [2] and log.foreign == 1
    assert facts.sums(log.all_jobs(), "sample") == (20, 0)


def test_counters_do_not_go_back():
    log = read(counts(0, 100) + counts(1, 40) + counts(2, 120))
    assert [row[1]["sample"][0] for row in only(log).counts] == [100, 100, 120]


def test_names_are_only_names():
    log = read(line(0, job(program="x" * 500, dataset="\0\x1b[2J"), group="a\u202eb\n", node="\ud800"))
    source, = log.sources.values()
    assert source.name() == "a\ufffdb\ufffd@\ufffd"
    assert len(only(log).program) == logs.TEXT_MAX + 1 and only(log).dataset == "\ufffd\ufffd[2J"
    source.name().encode()


def test_there_is_an_end_to_all():
    """Of reasons and jobs, and of the time."""
    log = read("".join(line(at, job(passed={"reason%d" % (n + 100 * at): 1 for n in range(100)}))
                       for at in range(4)) +
               line(5, job(passed={"more%d" % n: 1 for n in range(logs.REASONS_MAX + 1)})))
    assert len(only(log).passed) == logs.REASONS_MAX and len(log.notes) == 1
    log = read(*(line(n, *(job("%d.%d" % (n, m)) for m in range(100)))
                 for n in range(logs.JOBS_MAX // 100 + 2)))
    assert len(log.jobs) == logs.JOBS_MAX and len(log.notes) == 2
    log = read(counts(0, 1) + line(9e11, job()))
    assert log.notes == [] and series.Axis(log).count <= series.PARTS + 1


def test_logs_of_two_nodes_and_one_given_twice():
    one = counts(0, 10) + counts(5, 30)
    other = counts(1, 100, node="m")
    log = read(one, other, one)
    assert sorted(source.name() for source in log.sources.values()) == ["g@m", "g@n"]
    assert facts.sums(log.all_jobs(), "sample") == (130, 0)


def test_a_job_is_what_its_last_line_says():
    """Over; over for long, as a file that begins says once more; running; not seen any more."""
    over = job("1.1", began=BEGIN, ended=BEGIN + 3.5, sample=sample(9))
    log = read(line(1, job("1.1"), job("3.1")), line(4, over, job("2.1")), line(90, over, job("2.1")))
    states = {found.identity: facts.state(found) for found in log.all_jobs()}
    assert states == {"1.1": "ended", "2.1": "running", "3.1": "not recorded"}
    assert log.all_jobs()[0].times() == (BEGIN, BEGIN + 3.5)


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
    log = read("".join(counts(at, 10 * at) for at in (*range(60), *range(150, 200))))
    axis, found = rates(log)
    assert axis.gaps[only(log).source] == [(BEGIN + 59, BEGIN + 150)]
    for center, rate in zip(axis.centers(), found):
        inside = BEGIN + 59 < center < BEGIN + 150
        assert rate is None if inside else rate is None or abs(rate - 10) < 0.01, (center, rate)
    assert sum(rate is None for rate in found) < 100 / axis.width
    total = series.totals(only(log), axis, series.counted(only(log), lambda row: row[1]["sample"][0]))
    assert total[-1] == 1990 and None in total


def test_where_no_job_was_there_is_no_hole():
    log = read("".join(counts(at, at) for at in range(30)) + "".join(
        counts(at, at, name="8.1") for at in range(500, 530)))
    assert not any(series.Axis(log).gaps.values())


def test_samples_that_are_far_apart_are_no_hole():
    """What is old is there every 40 s only, as it was to be; what is new every second."""
    log = read("".join(counts(at, 10 * at, every=40.0) for at in range(0, 801, 40)) + "".join(
        counts(at, 10 * at) for at in range(801, 900)))
    axis, found = rates(log)
    assert not any(axis.gaps.values()), axis.gaps
    assert all(rate is not None and abs(rate - 10) < 0.01 for rate in found[1:-1]), found


def test_who_stands_still_has_no_slope():
    log = read("".join(counts(at, 10 * min(at, 20) + 10 * max(0, at - 60)) for at in range(80)))
    axis, found = rates(log)
    still = [rate for center, rate in zip(axis.centers(), found)
             if BEGIN + 22 < center < BEGIN + 57]
    assert still and all(rate == 0 for rate in still), still


def test_before_and_after_a_job_nothing_is_known():
    log = read(line(0) + "".join(
        line(at, job(began=BEGIN + 40, sample=sample(10 * (at - 40)),
                     ended=BEGIN + 60 if at == 60 else None)) for at in range(41, 61)) +
               line(80) + line(100))
    axis, found = rates(log)
    for center, rate in zip(axis.centers(), found):
        assert (rate is None) == (not BEGIN + 40 < center < BEGIN + 60), (center, rate)


def test_a_clock_that_is_put_back_goes_on():
    log = read("".join(counts(at - 3600 * (at >= 20), 10 * at) for at in range(40)))
    assert [number for number, _ in notes(log)] == [21]
    times = only(log).times()
    assert times[0] == BEGIN and 37 <= times[1] - BEGIN <= 40, times
    _, found = rates(log)
    assert all(rate is None or -0.01 <= rate <= 20.01 for rate in found), found


def test_nothing_known_of_little():
    """One line; none at all; two at one time."""
    for text in ("", line(0), counts(0, 5), counts(0, 5) + counts(0, 6)):
        log = read(text)
        axis = series.Axis(log)
        assert axis.count == 1 and axis.width > 0
        assert log.notes == []


def test_waits_in_vain_stand_where_they_were():
    log = read("".join(line(at, job(began=BEGIN, passed={"alone": at, "timeout": 3 * (at >= 50)}))
                       for at in range(100)))
    axis = series.Axis(log)
    found = series.late(only(log), axis)
    assert [at for at, rate in enumerate(found) if rate] == [int(50 / axis.width)], found
    assert sum(found) * axis.width / 60 == 3


def test_position_and_ring():
    log = read("".join(line(at, job(order="strict", epoch=at / 100, behind=0.5),
                            ring={"capacity": 1000, "used": 10 * at}) for at in range(101)))
    axis, found = series.Axis(log), only(log)
    for center, epoch, behind in zip(axis.centers(), series.places(found, axis, 1),
                                     series.places(found, axis, 2)):
        assert abs(epoch - (center - BEGIN) / 100) < 1e-6 and behind == 0.5
    full = series.fill(found.source, axis)
    assert full[0] <= 0.02 and full[-1] == 1.0 and full == sorted(full)


# ---- in the end ------------------------------------------------------------------------------


def reasons_of(**counted):
    return facts.reasons([only(read(line(0, job(passed=counted))))], TABLE)


def test_the_main_reason_is_that_of_the_last_line():
    """As leader/line/line.c chooses."""
    for counted, expected in (
            ({"alone": 5, "jpeg_small": 40}, "alone"),  # one in ten is worth a word
            ({"alone": 3, "jpeg_small": 40}, "jpeg_small"),
            ({"verify": 90, "timeout": 2}, "timeout"), ({"verify": 90}, None), ({}, None),
            ({"torch_isolated": 1, "alone": 900}, "torch_isolated"),
            ({"of_a_newer": 9}, "of_a_newer")):
        reason = facts.main_reason(reasons_of(**counted))
        assert (reason.identity if reason else None) == expected, counted


def test_pictures_inside_of_samples_are_no_kind_of_their_own():
    inside = job(sample={"produced": 5, "shared": 5}, pixels={"produced": 5})
    assert facts.shown_kinds(read(line(0, inside)).all_jobs()) == ["sample"]
    jobs = read(line(0, inside, job("8.1", pixels={"produced": 50, "shared": 9}))).all_jobs()
    assert facts.shown_kinds(jobs) == ["sample", "pixels"] and facts.main_kind(jobs) == "pixels"


def test_copies_of_files_save_no_cpu_time():
    found = only(read(line(0, job(cpu_seconds=30, sample={
        "produced": 1, "shared": 1, "saved_seconds": 10}, bytes={"shared": 3, "saved_seconds": 99}))))
    assert facts.saved(found) == 10 and facts.saved_share([found]) == (10, 40)
    assert facts.saved_share([only(read(counts(0, 1)))]) == (None, None)


def test_what_is_not_known_is_never_0():
    found = only(read(line(0, job(passed={"alone": 1}))))
    assert facts.saved(found) is None and facts.cpu(found) is None
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
