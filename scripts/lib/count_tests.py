#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Print "passed failed skipped left" from a JUnit file that `meson test` wrote."""
import re
import sys
import xml.etree.ElementTree

# What programs under test may print and XML does not know; Meson copies it as it is.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
# What tests/conftest.py prints of the tests of a file, which is one for Meson.
FILE = re.compile(r"^# tests: (\d+) passed, (\d+) failed, (\d+) skipped, (\d+) left to --whole$", re.MULTILINE)


def count(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        tree = xml.etree.ElementTree.fromstring(CONTROLS.sub("?", file.read()))
    rows = []
    for case in tree.iter("testcase"):
        kinds = {child.tag for child in case}
        told = [tuple(map(int, row)) for out in case.iter("system-out") for row in FILE.findall(out.text or "")]
        has_failed = bool(kinds & {"failure", "error"})
        rows += told
        if not told or has_failed and not any(row[1] for row in told):
            rows.append((not has_failed and "skipped" not in kinds, has_failed, "skipped" in kinds, 0))
    return map(sum, zip((0, 0, 0, 0), *rows))


print(*count(sys.argv[1]))
