# SPDX-License-Identifier: MIT
"""Locks that a data set holds: named while nobody has them, where what items draw is seeded."""

import queue
import threading

import support

support.search("hooks", "torch", "python")
from tsshim_torch.fingerprint.datasets import Notes, Unknown, fingerprint  # noqa: E402


class Holder:
    """Holds whatever it is given."""

    def __init__(self, *values):
        self.values = list(values)


class Talking(type(threading.RLock())):
    """A lock that does more."""

    def acquire(self, *arguments):
        print("mine")
        return super().acquire(*arguments)


def name(*values, seeds=True):
    """What names a data set with these, or the reason why nothing does."""
    try:
        return fingerprint(Holder(*values), notes=Notes(seeds))
    except Unknown as unknown:
        return unknown.reason


def in_another_thread(function):
    """What @function gives there."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_free_ones_are_all_the_same():
    for kind in (threading.Lock, threading.RLock):
        used = kind()
        with used:
            pass
        assert isinstance(name(kind()), bytes) and name(kind()) == name(used)
        both = kind()
        assert name(both, both) != name(kind(), kind())
    assert name(threading.Lock()) != name(threading.RLock()) != name(None)


def test_one_that_is_held_is_not_known():
    """By whomever; and it is known again as soon as it is free."""
    for kind in (threading.Lock, threading.RLock):
        lock = kind()
        free = name(lock)
        with lock:
            assert name(lock) == "lock" and in_another_thread(lambda: name(lock)) == "lock"
        assert name(lock) == free
        in_another_thread(lock.acquire)  # and it ends with it
        assert name(lock) == "lock"


def test_what_holds_more_than_a_lock_is_not_known():
    for value in (Talking(), threading.Condition(), threading.Event(), threading.Semaphore(),
                  threading.local(), queue.Queue(), queue.SimpleQueue(), threading.Barrier(1)):
        assert name(value) == "lock", value


def test_without_seeds_none_is_known():
    for value in (threading.Lock(), threading.RLock()):
        assert name(value, seeds=False) == "lock", value
