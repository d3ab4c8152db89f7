# SPDX-License-Identifier: MIT
"""tsrun stats: the same figures in all its forms; and -o: what becomes of the file."""

import os
import re
import resource
import stat

import tables
import support
from tsrun_common import Member, expect, own_group, stats, tsrun  # noqa: F401 -- the fixture "group"

# Prometheus's text format: a metric, labels of which any character but these may stand alone.
LINE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} ([0-9.]+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
KINDS = ("pixels", "sample", "bytes", "device")
ODD = 'two "quoted" words \\ and\nlines'


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text)


def parse(text):
    """{(metric, labels): value}; each metric was explained and given a type before."""
    found, known = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge") and (kind == "counter") == name.endswith("_total")
            known.add(name)
        elif not line.startswith("# HELP "):
            name, labels, value = LINE.fullmatch(line).groups()
            assert name in known, line
            labels = {key: unescaped(value) for key, value in LABEL.findall(labels)}
            key = name.removeprefix("tsshim_"), tuple(sorted(labels.items()))
            assert key not in found, line
            found[key] = float(value)
    return found


def prometheus(group):
    return expect(tsrun("stats", "--prometheus", "--group", group), 0)


def expected(group):
    """The same numbers by way of JSON."""
    told, found = stats(group), {}

    def add(name, value, **labels):
        found[name, tuple(sorted({"group": group, **labels}.items()))] = float(value)

    for dataset in told["datasets"]:
        for kind in KINDS:
            tally = dataset[kind]
            for name, value in (("made_total", tally["produced"]), ("taken_total", tally["shared"]),
                                ("taken_bytes_total", tally["shared_bytes"]),
                                ("saved_cpu_seconds_total", tally["saved_seconds"])):
                add(name, value, dataset=dataset["name"], kind=kind)
    for reason, count in told["passed"].items():
        add("passed_total", count, reason=reason)
    add("jobs", sum(job["alive"] for job in told["jobs"]))
    for name in ("capacity", "used"):
        add(f"ring_{name}_bytes", told["ring"][name])
    for name in ("verified", "mismatched"):
        add(f"{name}_total", told[name])
    return found


def test_it_has_the_numbers_of_json(group):
    found = parse(prometheus(group))
    assert found and not any(found.values())
    member = Member(group, ODD)
    found = parse(prometheus(group))
    assert found == expected(group)
    assert found["jobs", (("group", group),)] == 1
    assert ("made_total", (("dataset", ODD), ("group", group), ("kind", "sample"))) in found
    member.end()
    assert parse(prometheus(group))["jobs", (("group", group),)] == 0


def test_a_file_is_replaced(group, directory):
    path = os.path.join(directory, "tsshim.prom")
    expect(tsrun("stats", "--prometheus", "-o", path), 0)
    with open(path) as old:
        first = os.fstat(old.fileno())
        expect(tsrun("stats", "--json", "--output", path, "--group", group), 0)
        assert old.read().startswith("# HELP "), "a reader has the text that it has begun with"
    assert support.read(path).startswith("{")
    assert os.stat(path).st_ino != first.st_ino and os.listdir(directory) == ["tsshim.prom"]


def test_its_mode_and_its_owner(directory):
    """A new one's as a shell makes it; an old one keeps them."""
    path = os.path.join(directory, "file")

    def rights():
        found = os.stat(path)
        return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
    expect(tsrun("stats", "-o", path, umask=0o027), 0)
    assert rights()[2] == 0o640
    for mode in (0o600, 0o640, 0o4777):
        os.chmod(path, mode)
        expect(tsrun("stats", "-o", path), 0)
        assert rights()[2] == mode & 0o777
    if os.getuid() == 0:
        os.chown(path, 12345, 54321)
        os.chmod(path, 0o640)
        expect(tsrun("stats", "-o", path), 0)
        assert rights() == (12345, 54321, 0o640)


def test_a_limit_for_files_is_an_error(directory):
    """And no signal, which would leave half of a new file behind."""
    path = os.path.join(directory, "file")
    for old in (None, "old"):
        if old:
            support.write(path, old)
        result = tsrun("stats", "--prometheus", "-o", path, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (0, 0)))
        expect(result, 125, "tsrun: cannot write to '%s': File too large" % path)
        assert os.listdir(directory) == (["file"] if old else [])
    assert support.read(path) == "old"


def test_a_link_stays_one(directory):
    link, path = os.path.join(directory, "link"), os.path.join(directory, "path")
    support.write(path, "old")
    os.symlink("path", link)
    expect(tsrun("stats", "-o", link), 0)
    assert os.path.islink(link) and support.read(path) != "old"
    os.unlink(path)
    expect(tsrun("stats", "-o", link), 0)
    assert os.path.islink(link) and os.stat(path).st_size > 0


def test_a_pipe_and_a_device_are_written_to():
    for name in ("/dev/stdout", "/proc/self/fd/1"):
        result = tsrun("stats", "--prometheus", "-o", name)
        expect(result, 0)
        assert parse(result.stdout)
    expect(tsrun("stats", "-o", "/dev/null"), 0)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_what_cannot_be_written_is_named(directory):
    for path in (os.path.join(directory, "none", "file"), directory, "/dev/full"):
        result = tsrun("stats", "-o", path)
        assert result.returncode == 125 and path in result.stderr, (path, result)
    assert os.listdir(directory) == []


# ---- -v


def verbose(group):
    return expect(tsrun("stats", "-v", "--group", group), 0)


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
            title, part = line.split("  ")[0], None
    return found


def helps(group):
    """{metric: what it means}, as Prometheus is told."""
    return dict(re.findall(r"^# HELP tsshim_(\S+) (.*)$", prometheus(group), re.M))


def test_every_figure_is_explained(group):
    member = Member(group)
    text = verbose(group)
    found, data, meanings = rows(text), stats(group), helps(group)
    job = "Job %d" % member.pid
    assert "\nDataset photos  (leader pid %d, 1 process attached)\n" % member.pid in text, text
    assert "\n%s  (running)\n" % job in text, text
    for title, told in (("Dataset photos", data["datasets"][0]), (job, data["jobs"][0])):
        for kind in KINDS:
            tally = found["%s/%s" % (title, kind)]
            assert {meaning for _, meaning in tally.values()} == {
                meanings[name] for name in ("made_total", "taken_total", "taken_bytes_total",
                                            "saved_cpu_seconds_total")}
            assert set(tally) == set(told[kind])
            for name, value in told[kind].items():
                shown = tally[name][0].replace(" ", "")
                if (kind, name) == ("bytes", "saved_seconds"):
                    assert shown == "-", "what such an open saves is not known"
                else:
                    assert float(shown) == value, (kind, name, shown)
    passed = found["Not shared"]
    assert {name: int(value) for name, (value, _) in passed.items()} == data["passed"]
    whole = found["Group"]
    assert {name: int(value.replace(" ", "")) for name, (value, _) in whole.items()} == {
        **data["ring"], "verified": data["verified"], "mismatched": data["mismatched"], **data["made_apart"]}
    for name in ("verified", "mismatched"):
        assert whole[name][1] == meanings[name + "_total"]
    member.end()
    text = verbose(group)
    assert rows(text)["Group"]["capacity"][0] == "-"
    assert "\n%s  (ended)\n" % job in text and job + "/sample" in rows(text)


def test_every_reason_has_its_words(group):
    lines = re.split("Not shared +0\n", verbose(group))[1].splitlines()
    expected = []
    for name, (meaning, helps) in tables.reasons().items():
        expected.append([name, "-", meaning])
        expected += [["fix: " + helps]] if helps else []
    assert [re.split(r" {2,}", line.strip()) for line in lines] == expected


def test_what_a_batch_job_took(group):
    """Added up over its programs, also those that are gone, in all groups."""
    job, server = "%d0" % os.getpid(), "%d1.server" % os.getpid()
    Member(group, prefix=["env", "SLURM_JOB_ID=" + job]).end()
    Member(group, "other", prefix=["env", "SLURM_JOB_ID=" + job]).work()
    Member(group, prefix=["env", "PBS_JOBID=" + server])
    Member(group, prefix=["env", "-u", "SLURM_JOB_ID"])

    def took(name):
        return expect(tsrun("stats", "--batch-job", name, "--json"), 0)

    def told(programs, made, taken, seconds):
        return ('{"programs":%d,"images":{"made":%d,"taken":%d,"given":0},"samples":{"made":0,"taken":0,"given":0},'
                '"files":{"made":0,"taken":0},"copies":{"made":0,"taken":0},"saved_seconds":%s00000000}\n' % (
                    programs, made, taken, seconds))

    assert took(job) == told(2, 9, 27, "4.5")
    assert took(server) == told(1, 3, 9, "1.5")
    assert took("") == took(job + "0") == told(0, 0, 0, "0.0")
    assert expect(tsrun("stats", "--batch-job", job), 0).startswith(
        "tsshim: 27 of 36 images taken from other jobs, 4.50 s of CPU saved")
    assert expect(tsrun("stats", "--batch-job", "x"), 0) == "tsshim: batch job x has counted nothing on this node\n"


def test_options_that_make_no_sense():
    for words, says in ((["--json", "--prometheus"], "tsrun: "), (["-o", ""], "tsrun: "), (["-o"], "tsrun: "),
                        (["-v", "--json"], "--verbose and --json exclude"),
                        (["-v", "--prometheus"], "--verbose and --prometheus exclude"),
                        (["--batch-job", "7", "-v"], "--batch-job goes with --json only"),
                        (["--batch-job", "7", "--prometheus"], "--batch-job goes with --json only"),
                        (["--batch-job", "7", "-o", "file"], "--batch-job goes with --json only"),
                        (["--reset"], "unknown option '--reset'"), (["--verbos"], "did you mean '--verbose'?"),
                        (["--json=1"], "option '--json' takes no value"), (["-vv"], "unknown option '-vv'")):
        result = tsrun("stats", *words)
        assert result.returncode == 125 and says in result.stderr and not result.stdout, (words, result)
