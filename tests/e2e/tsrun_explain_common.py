# SPDX-License-Identifier: MIT
"""What the tests of `tsrun explain` have in common: to run it, and the reasons that it gives."""

import subprocess

import support
import tables
from support import TSRUN, plain_environment


def explain(*words, env=None, **more):
    return subprocess.run([TSRUN, "explain", *words], env=env or plain_environment(), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=support.TIMEOUT, **more)


reasons = tables.reasons
