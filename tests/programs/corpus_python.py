# SPDX-License-Identifier: MIT
"""The interpreter whose libraries programs of the corpus load data with.  For tests."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import support  # noqa: E402 -- of the tests beside

PYTHON = os.environ.get("TSSHIM_TEST_CORPUS_PYTHON", "")


def enter():
    """The tests of the file that calls this, when it is imported, run in that interpreter."""
    if not os.path.exists(PYTHON):
        raise support.Skip("corpus", "not installed (scripts/deps corpus)")
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        raise support.Elsewhere(PYTHON)
