#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Print "passed failed skipped left" from a JUnit file that `meson test` wrote."""
import re
import sys
import xml.etree.ElementTree

# What programs under test may print and XML does not know; Meson copies it as it is.
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
# What tests/e2e/support.py prints of what it leaves to --whole.
LEFT = re.compile(r"^# left to --whole, (\d+):", re.MULTILINE)


def count(path):
    passed = failed = skipped = left = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        tree = xml.etree.ElementTree.fromstring(CONTROLS.sub("?", file.read()))
    for output in tree.iter("system-out"):
        left += sum(map(int, LEFT.findall(output.text or "")))
    for case in tree.iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped, left


print(*count(sys.argv[1]))
