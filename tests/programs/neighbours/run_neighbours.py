#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Real programs, plain and under the library: the same output, messages, exit status and files.

The rows are those of table.py.  Each is a script of scripts/, for `sh -e`, in an empty directory of
one name; what it prints, how it ends and which files it leaves is compared with what it does plain,
and that with a second plain run, so that a row that is not the same twice is found at once.  What
may differ its script leaves out.  Nothing of ours may be left in /dev/shm.

    python3 -m pytest run_neighbours.py -k NAME   a row, as a test
    run_neighbours.py --show NAME...        what they do plain
    run_neighbours.py --table FILE          write the list of programs into FILE (docs/programs.md)
"""
import glob
import hashlib
import os
import shutil
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import support  # noqa: E402
from support import Group, plain_environment  # noqa: E402

import table  # noqa: E402

BEGIN = "<!-- neighbours: made by tests/programs/neighbours/run_neighbours.py -->\n"
END = "<!-- end of neighbours -->\n"
HEADINGS = {"shells": "Shells, their tools, and what looks into processes", "languages": "Languages",
            "preloads": "Other preloads, allocators, sanitizers", "pictures": "Programs for pictures",
            "servers": "Data bases and servers", "sandboxes": "Sandboxes, terminals, MPI",
            "builds": "Compilers, builds, installers"}


class Place:
    """A directory that every user may read, with the library as it would be installed."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="tsshim-neighbours-")
        os.chmod(self.path, 0o755)
        self.library = os.path.join(self.path, "lib", "libtsshim.so")
        self.work = os.path.join(self.path, "work")
        self.pictures = os.path.join(self.path, "pictures")
        os.mkdir(os.path.dirname(self.library))
        shutil.copy(support.LIBRARY, self.library)
        shutil.copy(os.path.join(support.BUILD, "tsshim-stager"), os.path.dirname(self.library))
        shutil.copytree(os.path.join(support.BUILD, "python"),
                        os.path.join(os.path.dirname(self.library), "python"))
        self.scripts = os.path.join(self.path, "scripts")
        shutil.copytree(os.path.join(HERE, "scripts"), self.scripts)
        os.mkdir(self.pictures)
        for path in support.pictures("s_"):
            shutil.copy2(path, self.pictures)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


def is_there(need):
    if "/" in need:
        return bool(glob.glob(need))
    return shutil.which(need, path=environment_path()) is not None


def environment_path():
    """Debian's own programs: what a user has put in front of them is no subject here."""
    return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def files_of(directory):
    """What lies in @directory, as lines that can be compared."""
    found = []
    for where, names, files in os.walk(directory):
        for name in sorted(names + files):
            path = os.path.join(where, name)
            status, what = os.lstat(path), ""
            if os.path.islink(path):
                what = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    what = hashlib.sha256(file.read()).hexdigest()[:16]
            found.append("file %s %o %d %s" % (os.path.relpath(path, directory), status.st_mode,
                                               status.st_uid, what))
    return "\n".join(found)


def start(place, row, environment, number=0, front=()):
    """Start the program of @row in its empty directory."""
    work = os.path.join(place.work, str(number), "w")
    shutil.rmtree(os.path.dirname(work), ignore_errors=True)
    os.makedirs(work)
    environment.update(PATH=environment_path(), PICTURES=place.pictures, SCRIPTS=place.scripts,
                       LC_ALL="C.UTF-8", HOME="/proc/nonexistent")
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONUNBUFFERED"):
        environment.pop(name, None)
    script = os.path.join(place.scripts, row.name + ".sh")
    return work, support.start([*front, "sh", "-e", script], environment, cwd=work)


def end(work, process):
    outcome = support.finish(process)
    outcome.output = outcome.output.replace(work, "WORK") + files_of(work)
    outcome.errors = outcome.errors.replace(work, "WORK")
    return outcome


def run_plain(place, row):
    outcome = end(*start(place, row, plain_environment()))
    for word in row.may if outcome.status != row.status else ():
        if word in outcome.errors:
            raise support.Skip(row.name, outcome.errors.strip().splitlines()[-1])
    assert outcome.status == row.status, show(outcome)
    return outcome


def compare(place, row, reference, group, front):
    """Run the program, @row.jobs at once, and compare."""
    environment = group.environment()
    if front:
        del environment["LD_PRELOAD"]
    jobs = [start(place, row, dict(environment), number, front) for number in range(row.jobs)]
    for work, process in jobs:
        outcome = end(work, process)
        support.equal(reference, outcome, row.name + (", through tsrun" if front else ""))


@pytest.fixture(scope="module")
def place():
    one = Place()
    yield one
    one.remove()


@pytest.mark.parametrize("row", [support.left_unless(row.core, row) for row in table.ROWS], ids=lambda row: row.name)
def test_row(place, row):
    for need in row.needs:
        if not is_there(need):
            raise support.Skip(row.name, need + " is not there (scripts/deps neighbours)")
    reference = run_plain(place, row)
    support.equal(reference, run_plain(place, row), row.name + ", plain twice")
    with Group(place.library) as group:
        compare(place, row, reference, group, ())
        if row.tsrun:
            compare(place, row, reference, group,
                    (support.TSRUN, "--group", group.name, "--"))
        group.assert_clean()


# ---- the list for people ---------------------------------------------------------------------

def written():
    """The list of programs as docs/programs.md has it."""
    lines = ["| what | programs |", "|---|---|"]
    for kind, heading in HEADINGS.items():
        names = [row.programs for row in table.ROWS if row.kind == kind]
        lines.append("| %s | %s |" % (heading, "; ".join(names)))
    return "\n" + "\n".join(lines) + "\n\n"


def between_marks(path):
    """The text of @path: before the list, the list, behind it."""
    with open(path, encoding="utf-8") as file:
        head, begin, rest = file.read().partition(BEGIN)
    old, end_mark, tail = rest.partition(END)
    assert begin and end_mark, "%s has no place for the list" % path
    return head, old, tail


def write(path):
    head, _, tail = between_marks(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + written() + END + tail)


def test_documented():
    """docs/programs.md has this very table."""
    assert between_marks(os.path.join(ROOT, "docs", "programs.md"))[1] == written(), \
        "run run_neighbours.py --table docs/programs.md"
    assert {row.kind for row in table.ROWS} == set(HEADINGS)


def test_scripts():
    """Each row has its script, and each script that is not sourced by others its row."""
    found = {name[:-3] for name in os.listdir(os.path.join(HERE, "scripts"))
             if name.endswith(".sh")}
    assert found - {row.name for row in table.ROWS} == {"allocator", "sources", "with"}, found
    assert not {row.name for row in table.ROWS} - found


def test_installed_by_deps():
    """`scripts/deps neighbours` installs what the rows name."""
    with open(os.path.join(ROOT, "scripts", "deps"), encoding="utf-8") as file:
        known = set(file.read().replace("'", " ").replace("|", " ").split())
    missing = {package for row in table.ROWS for package in row.packages} - known
    assert not missing, "not in scripts/deps: %s" % sorted(missing)


def test_the_comparison_notices(place):
    """A different file, a line, a status and a child that is left must each be noticed."""
    def run(script):
        with open(os.path.join(place.scripts, "try.sh"), "w", encoding="ascii") as file:
            file.write(script)
        return end(*start(place, table.program("shells", "try", "sh"), plain_environment()))

    good = run("echo a >f; exit 3")
    assert (good.status, good.errors) == (3, ""), vars(good)
    for wrong in ("echo b >f; exit 3", "echo a >f; exit 4", "echo a >f; echo x; exit 3",
                  "echo a >f; echo x >&2; exit 3", "echo a >f; chmod 600 f; exit 3",
                  "echo a >f; >g; exit 3"):
        assert good != run(wrong), "not noticed: " + wrong


@support.whole
def test_sandbox_without_the_library(place):
    """Where the library is not to be seen a program runs without it; ld.so says so, and no more."""
    if not is_there("bwrap"):
        raise support.Skip("bubblewrap", "bwrap is not there (scripts/deps neighbours)")
    command = ["bwrap", "--ro-bind", "/", "/", "--tmpfs", place.path, "sh", "-c",
               "seq 3; exit 4"]
    reference = support.run(command, cwd="/")
    if reference.status != 4:
        raise support.Skip("bubblewrap", reference.errors.strip())
    with Group(place.library) as group:
        outcome = support.run(command, group.environment(), cwd="/")
    said = [line for line in outcome.errors.splitlines() if "cannot be preloaded" not in line]
    assert (outcome.status, outcome.output, said) == (4, "1\n2\n3\n", []), vars(outcome)
    assert outcome.errors, "the library was there"


def show(outcome):
    return "%s%s\nstatus %d\n" % (outcome.errors, outcome.output, outcome.status)


def main():
    if sys.argv[1:2] == ["--table"]:
        write(sys.argv[2])
        return
    place = Place()
    try:
        for row in table.ROWS:
            if row.name in sys.argv[2:]:
                print(row.name, show(end(*start(place, row, plain_environment()))), sep="\n")
    finally:
        place.remove()


if __name__ == "__main__":
    main()
