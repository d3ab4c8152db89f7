# SPDX-License-Identifier: MIT
"""
How much of slow storage jobs read while a stager copies what they read.

That they read the right bytes tests/e2e/staged_large.py tests; how often one drops the pages that
another one waits for is the scheduler's affair.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ.setdefault("TSSHIM_TEST_BUILD", os.path.join(ROOT, "build-test"))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import staged_large  # noqa: E402
import support  # noqa: E402


def gate_four_jobs_and_stagers_read_together():
    """Less than twice what there is, and not five times."""
    with staged_large.Storage(3, latency_us=2000) as storage:
        jobs = [storage.job("read") for _ in range(4)]
        for job in jobs:
            assert support.finish(job).status == 0
        storage.wait_for_copies(3)
        took = storage.counts()["bytes_read"] / staged_large.SIZE / 3
        assert took < 2, took
