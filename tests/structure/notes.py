#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each message that a user can see has a scene in which it is shown, and a look-alike in which it is
not.  TAP.

scenes.tsv names both, by the test: FILE:NAME of tests/e2e, whose runner looks whether the one shows it and the
other does not; SUITE/FILE:NAME of another folder of tests; or - and why there is none.  The reasons and the
line at the end of a job have a table of their own (tests/unit/shim/test_line_scenes.c).
"""
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import scenes  # noqa: E402
import tap  # noqa: E402
import told  # noqa: E402

# Of so many messages no test can be made; the fewer, the better.
WITHOUT = 15


@functools.lru_cache(maxsize=None)
def text_of(path):
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def is_there(test, message):
    """Whether there is a test of that name; no runner looks into one of C, which has to know the @message."""
    file, _, name = test.partition(":")
    found = [text_of(path) for folder in ("e2e", "programs", "") for path in (ROOT / "tests" / folder).glob(file + ".*")]
    return any(re.search(rf"^(?:def test_|class |Test\(\w+, ){re.escape(name)}\b", text, re.MULTILINE) and
               (not file.startswith("unit/") or message in text) for text in found)


def wrong_rows(said, rows):
    """What is said and has no row, and rows whose tests are not there or that nobody says."""
    keys = [tuple(row[:2]) for row in rows]
    for file, message in sorted(said - set(keys)):
        yield f"{file} says {message!r}, which has no row"
    for file, message in sorted(set(keys) - said):
        yield f"{file} does not say {message!r}"
    for row in rows:
        if len(row) != 4 or not all(row) or keys.count(tuple(row[:2])) > 1:
            yield f"{row}: a message, its scene and its look-alike, once"
            continue
        for test in row[2:]:
            if not test.startswith("- ") and not is_there(test, row[1]):
                yield f"{row[1]!r}: there is no {test}"


def main():
    said, rows = told.messages(), scenes.rows()
    news = ("news.c", "a new message")
    checks = (
        ("an unknown message is noticed", [] if any("a new message" in line for line in wrong_rows(
            {*said, news}, rows)) else ["it is not"]),
        (f"{len(rows)} messages have two scenes each", list(wrong_rows(said, rows))),
        (f"but for {WITHOUT}", [str(row) for row in rows if row[2].startswith("-")][WITHOUT:]),
    )
    return tap.report(checks)


if __name__ == "__main__":
    sys.exit(main())
