# SPDX-License-Identifier: MIT
"""Data sets that are not made yet, judged by their classes; for `tsrun explain`."""

from ..fingerprint import arrays, frames, library
from . import judgement
from .library import check


def judge_class(kind):
    """
    (Judgement, names) for items of data sets of class @kind of the user's, as far as the class
    tells: what their attributes hold is not looked at, and @names are those that code asks for and
    the class does not have.  Raises Refused.  Runs no code of the user's.
    """
    arrays.register()
    frames.register()
    judge = judgement.Judge()
    check(judge.modules)
    judge.user_objects += 1
    judge.user_class(kind, judgement.ROWS)
    found = judge.judgement()
    names = {name for owner, name, _ in judge.own_names if library.inherits(kind, owner)
             and not any(name in library.class_dict(base) for base in library.mro(kind))}
    return found, sorted(names)
