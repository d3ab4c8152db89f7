# SPDX-License-Identifier: MIT
"""The interpreter whose libraries programs of the corpus load data with.  For tests."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import support  # noqa: E402 -- of the tests beside

PYTHON = os.environ.get("TSSHIM_TEST_CORPUS_PYTHON", "")


def enter(main):
    """The status of main() in that interpreter, in which the program goes on."""
    if not os.path.exists(PYTHON):
        print("1..0 # SKIP corpus: not installed (scripts/deps corpus)")
        return support.MUST
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    return main()
