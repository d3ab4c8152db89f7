# SPDX-License-Identifier: MIT
"""
The handlers of exceptions that a compiler makes where its author wrote none.

All of them raise again what they were given: for `with`, whose managers here never swallow
anything; to clean up; from Python 3.12 on to put the variables back that a list, set or dict
comprehension has in common with the function that it is a part of, and to make another error of
a StopIteration that leaves a generator.  Of those of an author's own nothing is known.
"""

import dis
import re

from .values import Refused

_OWN = re.compile(
    r"PUSH_EXC_INFO WITH_EXCEPT_START (TO_BOOL )?POP_JUMP_(FORWARD_)?IF_TRUE RERAISE |"
    r"COPY POP_EXCEPT RERAISE |"
    r"SWAP POP_TOP (SWAP )?((STORE_FAST|STORE_FAST_STORE_FAST) )+RERAISE |"
    r"CALL_INTRINSIC_1=INTRINSIC_STOPITERATION_ERROR RERAISE ")
_NOISE = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "NOT_TAKEN"))
_LONGEST = 300  # instructions of one of them; a comprehension has no more variables


def check(code, steps):
    """Raise Refused where @code, which consists of @steps, has a handler of another kind."""
    targets = {entry.target for entry in dis.Bytecode(code).exception_entries}
    if not targets:
        return
    real = [step for step in steps if step.opname not in _NOISE]
    for target in targets:
        first = next((place for place, step in enumerate(real) if step.offset >= target), 0)
        text = "".join(map(_named, real[first:first + _LONGEST]))
        if not _OWN.match(text):
            raise Refused("%s handles exceptions" % code.co_name)


def _named(step):
    if step.opname.startswith("CALL_INTRINSIC"):
        return "%s=%s " % (step.opname, step.argrepr)
    return step.opname + " "
