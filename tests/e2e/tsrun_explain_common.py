# SPDX-License-Identifier: MIT
"""What the tests of `tsrun explain` have in common: to run it, and the reasons that it gives."""

import os
import re
import subprocess

import support
from support import TSRUN, plain_environment


def explain(*words, env=None, **more):
    return subprocess.run([TSRUN, "explain", *words], env=env or plain_environment(), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=support.TIMEOUT, **more)


def reasons():
    """{id: (text, what helps)}"""
    with open(os.path.join(support.HERE, "../../shim/reasons.h"), encoding="utf-8") as file:
        body = re.search(r"#define TS_REASONS\(X\)(.*?)\n\n", file.read(), re.S).group(1)
    found = [re.findall(r'"((?:[^"\\]|\\.)*)"', row) for row in re.split(r"\bX\(", body)[1:]]
    return {row[0]: (row[1], row[2] if len(row) > 2 else None) for row in found}
