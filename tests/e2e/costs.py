# SPDX-License-Identifier: MIT
"""
Items of a test's job cost what the job says, on any machine and however busy it is.

Called in the job; without the library it does nothing.  The Python half reads its clock before
and after each item: here each of these readings lets the time go on by a fixed amount.  Where it
reads the clock around a stretch of items they are timed one by one instead.
"""

import sys

ITEM_NS = 2_000_000  # worth sharing, five times over


def install(item_ns=ITEM_NS, items=sys.maxsize):
    """Each of the first @items of a process costs @item_ns, all others nothing, looks neither."""
    if "tsshim_torch" not in sys.modules:
        return
    from tsshim_torch import clock
    from tsshim_torch.sharing.naming import scopes
    now, readings = 0, 0

    def thread_ns():
        nonlocal now, readings
        before = now
        now += item_ns if readings < 2 * items else 0
        readings += 1
        return before

    def learn_many(scope, count, _):
        for _ in range(count):
            start = thread_ns()
            scope.learn(thread_ns() - start)

    clock.thread_ns, clock.thread = thread_ns, lambda: now / 1e9
    scopes.Scope.learn_many = learn_many
