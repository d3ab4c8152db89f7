#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Print "passed failed skipped" from a JUnit file that `meson test` wrote."""
import sys
import xml.etree.ElementTree


def count(path):
    passed = failed = skipped = 0
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


print(*count(sys.argv[1]))
