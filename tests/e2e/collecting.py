# SPDX-License-Identifier: MIT
"""Garbage collection is put off while a data set is looked at, and goes on as the program had it."""
import gc
import os
import sys
import threading

import support

sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
from tsshim_torch import collecting  # noqa: E402


def test_it_goes_on_afterwards():
    try:
        with collecting.put_off():
            assert not gc.isenabled()
            with collecting.put_off():
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise KeyError
    except KeyError:
        pass
    assert gc.isenabled()


def test_a_program_that_wants_none_gets_none():
    gc.disable()
    try:
        with collecting.put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_child_of_another_thread_collects():
    """The thread that was looking is not in it."""
    statuses = []

    def fork():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        statuses.append(os.waitpid(child, 0)[1])

    with collecting.put_off():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        assert not gc.isenabled()
    assert statuses == [0] and gc.isenabled()
