#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Which steps of scripts/test belong to changed files, by the table changes.tsv beside this."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STATIC = "style structure headers format shellcheck pyflakes codespell prose changes".split()
ALL = "all"


def table():
    """{beginning of a path, or '*' and its end: [steps]}"""
    rows = {}
    with open(os.path.join(HERE, "changes.tsv"), encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                pattern, steps = line.rstrip("\n").split("\t")
                rows[pattern] = steps.split()
    return rows


def row_of(path, rows):
    """The pattern that decides about @path; None: there is none."""
    fits = [pattern for pattern in rows if path.startswith(pattern)]
    if fits:
        return max(fits, key=len)
    return next((p for p in rows if p[0] == "*" and path.endswith(p[1:])), None)


def git(*words):
    done = subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        sys.exit(2)
    return [name for name in done.stdout.split("\0") if name]


def tree():
    return git("ls-files", "-z", "--cached", "--others", "--exclude-standard")


def steps_for(base):
    """Steps for what differs from @base, with files that git does not know yet."""
    rows = table()
    changed = git("diff", "-z", "--name-only", "--no-renames", base, "--")
    changed += git("ls-files", "-z", "--others", "--exclude-standard")
    wanted = {step for path in changed for step in rows.get(row_of(path, rows), [ALL])}
    return wanted | set(STATIC) if changed else wanted


def check(steps):
    """Complaints about rows that no file needs, files without a row, and unknown steps."""
    rows = table()
    used = {path: row_of(path, rows) for path in tree()}
    for path, pattern in sorted(used.items()):
        if pattern is None:
            yield "no row of changes.tsv is for " + path
    for pattern in sorted(set(rows) - set(used.values())):
        yield "no file needs the row of changes.tsv for " + pattern
    for pattern, names in rows.items():
        for name in set(names) - {"static", ALL, *steps}:
            yield "the row of changes.tsv for %s names no step: %s" % (pattern, name)
    for name in set(STATIC) - set(steps):
        yield "changes.py names no step: " + name


def main(words):
    if words[:1] == ["--check"]:
        found = list(check(" ".join(words[1:]).split()))
        print(*found, sep="\n")
        return 1 if found else 0
    print(*sorted(steps_for(words[0])))
    return 0


sys.exit(main(sys.argv[1:]))
