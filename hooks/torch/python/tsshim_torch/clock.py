# SPDX-License-Identifier: MIT
"""
The one place where the Python half reads a clock, so that tests can put a virtual one in.

What is decided by time (whether items are worth sharing, when a data set is looked at again, how
long a hint is believed) is then a function of what these return.  Others call them through the
module, never by a name of their own.
"""

import time


def second():
    """Whole seconds of a clock that never goes back, the same for all processes of the machine."""
    return time.monotonic_ns() // 1_000_000_000


def thread():
    """
    Seconds of CPU time of this thread.  Where many jobs share a core, time that passes would have
    each of them decide by what the others do.
    """
    return time.thread_time()


def thread_ns():
    """The same in nanoseconds: read before and after each item."""
    return time.thread_time_ns()
