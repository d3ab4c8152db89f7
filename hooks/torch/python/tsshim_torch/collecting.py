# SPDX-License-Identifier: MIT
"""
Garbage collection, put off while a data set is looked at.

With torch imported, going through all objects takes 0.15 s, and a look makes so many for a moment
that this would be done twice.
"""

import contextlib
import gc
import os

_is_put_off = False


@contextlib.contextmanager
def put_off():
    """No collection meanwhile.  Where the program, or another look, wants none it stays so."""
    global _is_put_off
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        _is_put_off = True
        yield
    finally:
        _is_put_off = False
        gc.enable()


def _go_on():
    """In a child: the thread that was looking is not here."""
    global _is_put_off
    if _is_put_off:
        _is_put_off = False
        gc.enable()


os.register_at_fork(after_in_child=_go_on)
