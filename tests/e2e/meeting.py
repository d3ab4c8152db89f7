# SPDX-License-Identifier: MIT
"""
Jobs of a test that begin their work at the same time, however long each took to load torch.

What they share is over in a second; on a busy machine they are loaded further apart than that.
"""

import contextlib
import os
import tempfile
import time

VARIABLE = "TSSHIM_TEST_MEET"
PATIENCE = 60  # seconds; whoever is not there then is not waited for


@contextlib.contextmanager
def of(count):
    """The variable to start @count jobs with, as a dictionary."""
    with tempfile.TemporaryDirectory() as place:
        yield {VARIABLE: "%d:%s" % (count, place)}


def arrive():
    """
    In a job: wait for the others, if there are any.

    The variable is taken away, so that the job's environment is what it is when it runs alone.
    """
    count, _, place = os.environ.pop(VARIABLE, "").partition(":")
    if not place:
        return
    os.mkdir(os.path.join(place, str(os.getpid())))
    end = time.monotonic() + PATIENCE
    while len(os.listdir(place)) < int(count) and time.monotonic() < end:
        time.sleep(0.01)
