# SPDX-License-Identifier: MIT
"""`tsrun config`, and the files of settings: what counts, from where, and what is not believed."""

import json
import os
import random
import re
import shutil
import subprocess

import paths
import tables
import support
from tsrun_common import BUILD, Skip, TSRUN, clean_environment, expect, tsrun

OPTIONS = [(o.variable, o.option, o.standard, o.brief) for o in tables.options()]


def write(directory, text, name="tsshim.conf"):
    """The user's file below @directory, which becomes XDG_CONFIG_HOME."""
    place = os.path.join(directory, "tsshim")
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, name)
    support.write(path, text, 0o644)
    return path


def rows(*words, status=0, prefix=(), **env):
    """{name: row} of `tsrun config --json` behind a @prefix, with no setting of this test's own."""
    own = clean_environment(HOME="/nowhere")
    del own["TSSHIM_QUIET"]
    own.pop("XDG_CONFIG_HOME", None)
    done = subprocess.run([*prefix, TSRUN, "config", "--json", *words], env={**own, **env}, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == status, (done.returncode, done.stderr)
    found = {row["name"]: row for row in json.loads(done.stdout)}
    found["stderr"] = done.stderr
    return found


def value(row):
    return row["value"], row["from"]


def job(directory, *words, **env):
    """The environment of a job under the file in @directory, and what tsrun says."""
    done = tsrun(*words, "--", "env", env={"XDG_CONFIG_HOME": directory, **env})
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line), done.stderr


def ignored(directory, says, text=None):
    """The job runs without a setting of the file, which is @text or there; @says is what is wrong."""
    path = os.path.join(directory, "tsshim", "tsshim.conf")
    if text is not None:
        write(directory, text)
    env, errors = job(directory)
    assert "TSSHIM_RING" not in env and "TSSHIM_GROUP" not in env, env
    assert errors == says.replace("PATH", path), errors


def test_every_setting_is_shown_with_its_default(directory):
    found = rows()
    assert found.pop("stderr") == ""
    assert [row["variable"] for row in found.values()] == [row[0] for row in OPTIONS]
    for row, (variable, option, standard, text) in zip(found.values(), OPTIONS):
        name = variable[len("TSSHIM_"):].lower().replace("_", "-")
        assert row == {"name": name, "value": standard, "from": "default", "file": None, "line": None,
                       "valid": True, "default": standard, "option": option or None,
                       "variable": variable, "help": text}, row
        assert option in ("", "--" + name)


def test_the_nearer_origin_wins(directory):
    path = write(directory, "# ours\n\nring = 1G\ngroup=file\nquiet = 1\nkeep = 2h # for trials\n")
    found = rows("--ring", "3G", "--align", "--summary", XDG_CONFIG_HOME=directory, TSSHIM_GROUP="env",
                 TSSHIM_SHARE="pixels")
    assert value(found["ring"]) == ("3G", "command line")
    assert value(found["align"]) == ("0", "command line")
    assert value(found["summary"]) == ("1", "command line")
    assert value(found["group"]) == ("env", "environment")
    assert value(found["share"]) == ("pixels", "environment")
    assert value(found["verify"]) == ("0.1", "default")
    assert value(found["keep"]) == ("2h", "file") and found["keep"]["line"] == 6
    assert value(found["quiet"]) == ("1", "file") and found["quiet"]["file"] == path
    env, errors = job(directory, "--ring", "3G", TSSHIM_GROUP="env")
    assert (env["TSSHIM_RING"], env["TSSHIM_GROUP"], env["TSSHIM_KEEP"]) == ("3G", "env", "2h")
    assert errors == ""


def test_the_table_for_people(directory):
    path = write(directory, "stage-size = 4G\n")
    done = tsrun("config", "--group", "g", env={"XDG_CONFIG_HOME": directory, "TSSHIM_RING": "64M"})
    expect(done, 0)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["SETTING", "VALUE", "FROM"] and len(lines) == 1 + len(OPTIONS)
    for line in (["group", "g", "command", "line"], ["ring", "64M", "environment"],
                 ["stage-size", "4G", path + ":1"], ["verify", "0.1", "default"]):
        assert line in lines, (line, lines)
    # What a ring without a size has here.
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    done = tsrun("config", "--ring", "auto", env={"XDG_CONFIG_HOME": directory})
    line, = (line for line in done.stdout.splitlines() if line.startswith("ring "))
    size, of = re.fullmatch(r"ring +auto +command line, ([0-9.]+) GiB \(auto, for ([0-9.]+) GiB of memory\)", line).groups()
    assert float(of) <= memory / 2**30 and float(size) == max(2, int(float(of) * 10 / 16) / 10), line


def test_the_user_wins_over_the_system(directory):
    """In a mount namespace, where /etc/tsshim is one of ours."""
    home = os.path.join(directory, "home")
    write(os.path.join(home, ".config"), "group = user\n")
    write(directory, "group = system\nring = 1G\n")
    unshare = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*unshare, "true"]).returncode != 0:
        raise Skip("no user namespaces here")
    found = rows(HOME=home, prefix=[*unshare, "sh", "-ec", "mount -t tmpfs none /etc; mkdir /etc/tsshim; cp %s/tsshim/"
                                    "tsshim.conf /etc/tsshim; exec \"$@\"" % directory, "sh"])
    assert value(found["group"]) == ("user", "file")
    assert found["group"]["file"] == home + "/.config/tsshim/tsshim.conf"
    assert value(found["ring"]) == ("1G", "file")
    assert (found["ring"]["file"], found["ring"]["line"]) == ("/etc/tsshim/tsshim.conf", 2)


def test_where_the_user_has_it(directory):
    write(os.path.join(directory, ".config"), "ring = 1G\n")
    assert value(rows(HOME=directory)["ring"]) == ("1G", "file")
    # Relative ones are none, says the specification.
    assert value(rows(HOME=directory, XDG_CONFIG_HOME="x")["ring"]) == ("1G", "file")
    assert value(rows(HOME=directory, XDG_CONFIG_HOME="")["ring"]) == ("1G", "file")
    assert value(rows(HOME=directory, XDG_CONFIG_HOME="/nowhere")["ring"]) == ("auto", "default")
    for home in ("", "relative", "/nowhere", "/dev/null", "/" + "x" * 5000):
        found = rows(HOME=home)
        assert (value(found["ring"]), found["stderr"]) == (("auto", "default"), ""), home


def test_forms_of_a_file(directory):
    for text in ("ring=1G", "  ring  =  1G  \n", "ring = 1G\r\n# x\r\n", "\ufeffring = 1G\n",
                 "ring = 2G\nring = 1G\n", "#ring = 3G\nring = 1G # ring = 4G\n", "\n\n\t" + "ring\t=\t1G\n\n"):
        write(directory, text)
        env, errors = job(directory)
        assert (env["TSSHIM_RING"], errors) == ("1G", ""), (text, errors)
    # A '#' within a word is part of it, and so is a '='.
    write(directory, "dataset = pets=/data/#1=x\nalign =\n")
    found = rows(XDG_CONFIG_HOME=directory)
    assert found["dataset"]["value"] == "pets=/data/#1=x" and value(found["align"]) == ("", "file")
    for text in ("", "\n", "# nothing\n"):
        write(directory, text)
        assert rows(XDG_CONFIG_HOME=directory)["stderr"] == ""


def test_every_setting_may_stand_in_a_file(directory):
    write(directory, "".join("%s = %s\n" % (row[0][7:].lower().replace("_", "-"), row[2])
                             for row in OPTIONS))
    found = rows(XDG_CONFIG_HOME=directory)
    assert found.pop("stderr") == ""
    assert [row["line"] for row in found.values()] == list(range(1, len(OPTIONS) + 1))


def test_an_unknown_name_costs_its_line(directory):
    path = write(directory, "rign = 1G\nring = 2G\nfrobnicate = 1\n")
    env, errors = job(directory)
    assert env["TSSHIM_RING"] == "2G"
    assert errors == ("tsrun: %s:1: unknown setting 'rign', ignoring the line\nhint: did you mean "
                      "'ring'?\ntsrun: %s:3: unknown setting 'frobnicate', ignoring the line\nhint: "
                      "`tsrun config` lists the settings\n" % (path, path))


def test_a_damaged_file_is_ignored(directory):
    for text, says in (
            ("group = a\nring = 1X\n", "2: 'ring' has a bad value '1X'; the file is ignored\n"
             "hint: it must be auto, or a size such as 512M or 4G\n"),
            ("group = a\nring\n", "2: no setting: 'ring'; the file is ignored\n"
             "hint: write name = value; # begins a comment\n"),
            ("= 1G\nring = 1G\n", "1: no setting: '= 1G'; the file is ignored\n"
             "hint: write name = value; # begins a comment\n"),
            ("ring = 1G\nsummary = pid:1\n", "2: 'summary' has a bad value 'pid:1'; the file is ignored\n"
             "hint: it must be 0 or 1\n"),
            ("ring = 1G\nquiet =\n", "2: 'quiet' has a bad value ''; the file is ignored\n"
             "hint: it must be 0 or 1\n"),
            ("ring = 1G\ndataset = a=here\n", "2: 'dataset' has a bad value 'a=here'; the file is "
             "ignored\nhint: it must be NAME, or NAME=DIR with an absolute DIR\n"),
            ("ring = 1G\n\ngroup = a\0b\n", "3: a NUL byte: this is no text; the file is ignored\n")):
        ignored(directory, "tsrun: PATH:" + says, text)
    ignored(directory, "tsrun: PATH: it is larger than 64 KiB; the file is ignored\n",
            "ring = 1G\n" + "#" * 65536)
    # Whatever it is: the job runs, and the first line with a fault is named.
    for seed in range(200):
        noise = random.Random(seed).randbytes(300)
        path = write(directory, b"ring = 1G\n" + noise)
        env, errors = job(directory)
        assert "TSSHIM_RING" in env or errors.startswith("tsrun: " + path + ":"), (seed, errors)


def test_a_file_that_is_none(directory):
    path = write(directory, "ring = 1G\n")
    for make, says in (
            (os.mkdir, "tsrun: PATH: it is no regular file; the file is ignored\n"),
            # Nobody writes into it: to wait for that would be for ever.
            (os.mkfifo, "tsrun: PATH: it is no regular file; the file is ignored\n"),
            (lambda path: os.symlink("/dev/zero", path),
             "tsrun: PATH: it is no regular file; the file is ignored\n"),
            (lambda path: os.symlink(path, path),
             "tsrun: PATH: Too many levels of symbolic links; the file is ignored\n"),
            (lambda path: os.symlink("/nowhere", path), "")):
        os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        make(path)
        ignored(directory, says)


def test_a_file_that_others_may_have_written(directory):
    path = write(directory, "ring = 1G\n")
    os.chmod(path, 0o646)
    ignored(directory, "tsrun: PATH: everybody may write it; the file is ignored\n")
    os.chmod(path, 0o664)  # where each user has a group of that name
    assert job(directory)[0]["TSSHIM_RING"] == "1G"
    if os.getuid() != 0:
        raise Skip("only root can give files away")
    os.chown(path, 12345, 12345)
    ignored(directory, "tsrun: PATH: it belongs to somebody else; the file is ignored\n")
    os.chmod(path, 0o600)
    os.chown(path, 0, 0)
    others = directory + "-others"
    os.mkdir(others)
    program = paths.for_others(BUILD, others)
    os.chmod(os.path.dirname(path), 0o755)
    # Of a directory that hides it nothing is known.
    for mode, says in ((0o755, "tsrun: %s: Permission denied; the file is ignored\n" % path), (0o700, "")):
        os.chmod(directory, mode)
        done = tsrun("--", "true", program=program, env={"XDG_CONFIG_HOME": directory}, user=12345, group=12345,
                     extra_groups=[])
        assert (done.returncode, done.stderr) == (0, says), done.stderr
    shutil.rmtree(others)


def test_bad_values_are_shown(directory):
    found = rows(status=125, TSSHIM_RING="lots")
    assert value(found["ring"]) == ("lots", "environment") and not found["ring"]["valid"]
    assert found["stderr"] == ("tsrun: TSSHIM_RING has a bad value 'lots'\nhint: it must be auto, or a size such "
                               "as 512M or 4G\n")
    assert "option '--ring' has a bad value" in rows("--ring", "x", status=125)["stderr"]
    done = tsrun("config", env={"TSSHIM_RING": "lots"})
    assert done.returncode == 125 and "environment, bad\n" in done.stdout, done.stdout
    found = rows(TSSHIM_RNG="1")
    assert "did you mean TSSHIM_RING?" in found["stderr"]
    # Sub-commands and doctor have the file's settings as well.
    write(directory, "group = conftest\n")
    done = tsrun("stats", env={"XDG_CONFIG_HOME": directory})
    assert "conftest" in done.stdout, done.stdout
    done = tsrun("doctor", "--json", env={"XDG_CONFIG_HOME": directory})
    assert "the group is conftest" in done.stdout, done.stdout
    # What an outer tsrun tells is nobody's setting.
    assert value(rows(prefix=[TSRUN, "--"])["summary"]) == ("0", "default")


def test_the_library_alone_reads_no_file(directory):
    """A process opens nothing for it: what plain LD_PRELOAD has is the environment."""
    for binary in (support.LIBRARY, support.TEST_LIBRARY):
        assert b"tsshim.conf" not in support.read(binary, "rb"), binary


def test_pages_name_the_files():
    for page in ("tsrun.1", "tsshim.7"):
        text = support.read(os.path.join(BUILD, "scripts", page))
        assert "/etc/tsshim/tsshim.conf" in text and "XDG_CONFIG_HOME" in text, page
