# SPDX-License-Identifier: MIT
"""
Two threads with a loader each, for sweeps.py: the second one forks its worker while the first is in
the middle of importing what workers import.  In a fork the lock of that import would be held for
ever.  Prints what both loaders gave.
"""

import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

IMPORTED = "tsshim_torch.fingerprint.datasets"
GUARD = 100  # seconds; only a worker that hangs takes longer

begun = threading.Event()
given = {}


def is_waiting(thread):
    """Whether @thread, about to fork, waits for the end of an import that another one has begun."""
    frame = sys._current_frames().get(thread.ident)
    if frame is None or frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        return False
    while frame is not None and frame.f_code.co_name != "expect_workers":
        frame = frame.f_back
    return frame is not None


class Slow:
    """A finder that finds nothing, and takes its time until the second thread has come by."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == IMPORTED and not begun.is_set():
            begun.set()
            while second.is_alive() and not is_waiting(second):
                time.sleep(0.01)


def iterate(name, wait=False):
    if wait:
        assert begun.wait(GUARD)
    data = TensorDataset(torch.arange(8.0))
    given[name] = [float(batch.sum()) for batch, in
                   DataLoader(data, batch_size=4, num_workers=1, timeout=GUARD)]


first = threading.Thread(target=iterate, args=("first",))
second = threading.Thread(target=iterate, args=("second", True))
sys.meta_path.insert(0, Slow)
first.start()
second.start()
first.join()
second.join()
print(given, begun.is_set())
