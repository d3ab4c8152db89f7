# SPDX-License-Identifier: MIT
"""tsrun stats -v: every counter with its meaning; and --reset: counting anew, unnoticed by jobs."""

import fcntl
import json
import os
import random
import re
import stat
import time

import paths
import tables
from tsrun_common import BUILD, Skip, expect, main, tsrun
from tsrun_docs import table
from tsrun_groups import Member, dead_group, exists, new_group, path, stats

KINDS = ("pixels", "sample", "bytes", "device")


def reset(group, *more):
    result = tsrun("stats", "--reset", "--group", group, *more)
    expect(result, 0)
    return result.stdout


def count(member):
    """Let it count as much again: 3 made, 9 taken."""
    member.process.stdin.write("\n")
    member.process.stdin.flush()
    assert member.process.stdout.readline() == "counted\n"


def ledger(group):
    with open(path(group, "ledger"), "rb") as file:
        return file.read()


def counted(group):
    """What data set and job have in common here, and the reason."""
    data = stats(group)
    pixels = data["datasets"][0]["pixels"]
    assert data["jobs"][0]["pixels"] == pixels
    assert data["jobs"][0]["passed"] == data["passed"]
    return pixels["produced"], pixels["shared"], pixels["saved_seconds"], data["passed"]["jpeg_small"]


def finish(group):
    expect(tsrun("gc", "--group", group), 0)
    assert not any(exists(group, suffix) for suffix in ("ledger", "ring", "reset"))


# ---- --reset


def test_it_counts_anew(_):
    group = new_group()
    member = Member(group)
    assert counted(group) == (3, 9, 1.5, 5) and stats(group)["since"] is None
    before, begun = ledger(group), time.time()
    text = reset(group)
    assert "taken from the ring                  9  (75.0 %)" in text, text
    assert "Counted since" not in text
    assert ledger(group) == before, "jobs count on as they did"
    assert counted(group) == (0, 0, 0.0, 0)
    assert begun - 1 <= stats(group)["since"] <= time.time() + 1
    count(member)
    assert counted(group) == (3, 9, 1.5, 0)
    text = tsrun("stats", "--group", group).stdout
    assert re.search(r"^Counted since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(--reset\)$", text, re.M), text
    # Once more: what was shown is what is subtracted, not what lies in the ledger.
    assert json.loads(reset(group, "--json"))["datasets"][0]["pixels"]["produced"] == 3
    count(member)
    count(member)
    assert counted(group) == (6, 18, 3.0, 0)
    assert member.end() == 0 and not exists(group, "ring")
    assert counted(group) == (6, 18, 3.0, 0), "it stays as long as the counters do"
    finish(group)


def test_who_came_later_is_counted_whole(_):
    group = new_group()
    first = Member(group)
    reset(group)
    second = Member(group, "other")
    data = stats(group)
    assert {d["name"]: d["pixels"]["produced"] for d in data["datasets"]} == {"photos": 0, "other": 3}
    assert {j["pid"]: j["pixels"]["produced"] for j in data["jobs"]} == {first.pid: 0, second.pid: 3}
    assert first.end() == 0 and second.end() == 0
    finish(group)


def test_prometheus_has_all_of_it(_):
    group = new_group()
    member = Member(group)
    before = tsrun("stats", "--prometheus", "--group", group).stdout
    reset(group)
    assert tsrun("stats", "--prometheus", "--group", group).stdout == before
    assert member.end() == 0
    finish(group)


def test_counters_of_another_ledger(_):
    group = new_group()
    member = Member(group)
    count(member)
    reset(group)
    assert member.end() == 0
    os.unlink(path(group, "ledger"))
    member = Member(group)
    assert counted(group) == (3, 9, 1.5, 5) and stats(group)["since"] is None
    assert member.end() == 0
    finish(group)


def test_what_cannot_be_printed_is_not_reset(where):
    group = new_group()
    member = Member(group)
    for words in (["-o", os.path.join(where, "none", "file")], ["-o", "/dev/full"]):
        result = tsrun("stats", "--reset", "--group", group, *words)
        assert result.returncode == 125, result
    with open("/dev/full", "w") as full:
        assert tsrun("stats", "--reset", "--group", group, stdout=full).returncode == 125
    assert counted(group) == (3, 9, 1.5, 5) and not exists(group, "reset")
    reset(group, "-o", os.path.join(where, "file"))
    assert counted(group) == (0, 0, 0.0, 0)
    assert member.end() == 0
    finish(group)


def test_of_a_group_that_is_not_there(_):
    group = new_group()
    assert reset(group) == "Group %s: no job has shared anything yet.\n" % group
    assert not exists(group, "reset")


def test_a_damaged_one_is_none(_):
    group = new_group()
    member = Member(group)
    reset(group)
    with open(path(group, "reset"), "rb") as file:
        whole = file.read()
    assert stat.S_IMODE(os.stat(path(group, "reset")).st_mode) == 0o600
    for text in (b"", whole[:-1], whole + b"x", b"\0" * len(whole), whole[:50] + b"x" + whole[51:]):
        with open(path(group, "reset"), "wb") as file:
            file.write(text)
        assert counted(group) == (3, 9, 1.5, 5) and stats(group)["since"] is None
    # What lies behind its head has no check: whatever it is, nothing is read beyond it.
    for seed in range(20):
        with open(path(group, "reset"), "wb") as file:
            file.write(whole[:128] + random.Random(seed).randbytes(len(whole) - 128))
        assert stats(group)["since"] is not None
        expect(tsrun("stats", "-v", "--group", group), 0)
    for make in (os.mkdir, os.mkfifo, lambda place: os.symlink("/dev/zero", place)):
        if os.path.isdir(path(group, "reset")):
            os.rmdir(path(group, "reset"))
        else:
            os.unlink(path(group, "reset"))
        make(path(group, "reset"))
        assert stats(group)["since"] is None
    reset(group)
    assert stats(group)["since"] is not None and stat.S_ISREG(os.lstat(path(group, "reset")).st_mode)
    assert member.end() == 0
    finish(group)


def test_gc_removes_it_with_the_ledger(_):
    group = new_group()
    member = Member(group)
    reset(group)
    expect(tsrun("--group", group, "--", "true"), 0)  # which sweeps rings only
    expect(tsrun("gc", "--group", group), 0)
    assert exists(group, "reset") and exists(group, "ledger"), "a job lives"
    assert member.end() == 0
    expect(tsrun("--group", group, "--", "true"), 0)
    assert exists(group, "reset") and exists(group, "ledger")
    text = tsrun("gc", "--group", group).stdout
    assert "removed %s (" % path(group, "reset") in text, text
    assert not exists(group, "reset") and not exists(group, "ledger")
    # One whose ledger somebody has removed by hand.
    group = dead_group()
    reset(group)
    os.unlink(path(group, "ring"))
    os.unlink(path(group, "ledger"))
    finish(group)


def test_jobs_wait_for_nothing(_):
    """Neither lock nor signal: it works while somebody holds the group's lock."""
    group = new_group()
    member = Member(group)
    with open(path(group, "ledger"), "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
        reset(group)
        assert counted(group) == (0, 0, 0.0, 0)
    assert member.end() == 0
    finish(group)


def test_who_may_not_write_changes_nothing(directory):
    if os.getuid() != 0:
        raise Skip("needs root, to be nobody")
    result = tsrun("stats", "--reset", "--group", "clitest-nobody", user=12345, group=12345,
                   extra_groups=[], program=paths.for_others(BUILD, directory))
    expect(result, 0)


# ---- -v


def verbose(group, *more):
    result = tsrun("stats", "-v", "--group", group, *more)
    expect(result, 0)
    return result.stdout


def rows(text):
    """{title: {id: (value, meaning)}} of the blocks, in each of which an id is once."""
    found, title, part = {}, None, None
    for line in text.splitlines():
        if line.lstrip().startswith("fix: "):
            continue
        if line.startswith("    "):
            name, value, meaning = re.fullmatch(r" {4}(\S+) +(\S+(?: \d+)*(?:\.\d+)?)  (\S.*)", line).groups()
            block = found.setdefault(part or title, {})
            assert name not in block, line
            block[name] = value, meaning
        elif line.startswith("  "):
            part = title + "/" + line.split(":")[0].strip()
        elif line:
            title, part = line, None
    return found


def test_every_counter_is_explained(_):
    group = new_group()
    member = Member(group)
    text = verbose(group)
    found, data = rows(text), stats(group)
    for title, told in (("Dataset photos", data["datasets"][0]),
                        ("Job %d  (running)" % member.pid, data["jobs"][0])):
        for kind in KINDS:
            tally = found["%s/%s" % (title, kind)]
            meanings = {row[0]: row[2] for row in table(["shim", "tsrun", "counters.h"], "TS_COUNTERS")}
            assert {name: meaning for name, (_, meaning) in tally.items()} == meanings
            for name, value in told[kind].items():
                shown = tally[name][0].replace(" ", "")
                if (kind, name) == ("bytes", "saved_seconds"):
                    assert shown == "-", "what such an open saves is not known"
                else:
                    assert float(shown) == value, (kind, name, shown)
    passed = found["Not shared, by reason"]
    assert {name: int(value) for name, (value, _) in passed.items()} == data["passed"]
    whole = found["Group"]
    assert int(whole["capacity"][0].replace(" ", "")) == data["ring"]["capacity"]
    for name in ("verified", "mismatched"):
        assert int(whole[name][0]) == data[name]
    for name, value in data["made_apart"].items():
        assert int(whole[name][0]) == value
    assert found["Job %d  (running)" % member.pid]["epoch"][0] == "-", "it is not aligned"
    assert member.end() == 0
    ended = rows(verbose(group))
    assert ended["Group"]["capacity"][0] == ended["Dataset photos"]["members"][0] == "-"
    assert "Job %d  (ended)/sample" % member.pid in ended
    reset(group)
    assert rows(verbose(group))["Dataset photos/pixels"]["produced"][0] == "0"
    finish(group)


def test_every_reason_has_its_words(_):
    lines = verbose(new_group()).split("Not shared, by reason\n")[1].splitlines()
    expected = []
    for name, (meaning, helps) in tables.reasons().items():
        expected.append([name, "-", meaning])
        expected += [["fix: " + helps]] if helps else []
    assert [re.split(r" {2,}", line.strip()) for line in lines] == expected


def test_options_that_make_no_sense(_):
    for words, says in ((["-v", "--json"], "--verbose and --json exclude"),
                        (["-v", "--prometheus"], "--verbose and --prometheus exclude"),
                        (["--reset", "--prometheus"], "--reset and --prometheus exclude"),
                        (["--rest"], "did you mean '--reset'?"), (["--verbos"], "did you mean '--verbose'?"),
                        (["--reset=1"], "option '--reset' takes no value"), (["-vv"], "unknown option '-vv'")):
        result = tsrun("stats", *words)
        assert result.returncode == 125 and says in result.stderr and not result.stdout, (words, result)


if __name__ == "__main__":
    main(dict(globals()))
