# SPDX-License-Identifier: MIT
"""
Handlers of codecs that libraries add, in default mode: known ones are harmless as long as they
are the library's.  Mako's is one, which programs load that keep tables by SQLAlchemy.
"""

import codecs
import contextlib
import os
import sys
import tempfile

import support

sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
import torch  # noqa: E402,F401
from tsshim_torch.judge import Refused, surroundings  # noqa: E402

NAME = "htmlentityreplace"
TEXT = ('def htmlentityreplace_errors(ex):\n    return "&#%d;" % ord(ex.object[ex.start]), ex.end\n'
        'def another(ex):\n    return "", ex.end\n')


def mine(error):
    """Of the program's own."""
    return "", error.end


@contextlib.contextmanager
def library():
    """mako.filters as installed."""
    with tempfile.TemporaryDirectory() as directory:
        place = os.path.join(directory, "site-packages")
        os.makedirs(os.path.join(place, "mako"))
        support.write(os.path.join(place, "mako", "__init__.py"), "")
        support.write(os.path.join(place, "mako", "filters.py"), TEXT)
        sys.path.insert(0, place)
        try:
            import mako.filters
            yield mako.filters
        finally:
            sys.path.remove(place)
            for name in ("mako", "mako.filters"):
                del sys.modules[name]
            surroundings._ERRORS[0].pop(NAME, None)


def is_refused():
    """Whether nothing is shared because of a handler."""
    try:
        surroundings._check_codecs()
    except Refused as refused:
        assert str(refused) == "a handler of codecs", refused
        return True
    return False


def test_that_of_a_known_library_is_harmless():
    assert not is_refused()
    with library() as filters:
        codecs.register_error(NAME, filters.htmlentityreplace_errors)
        assert "\xff".encode("ascii", NAME) == b"&#255;"
        assert not is_refused()
    assert not is_refused()


def test_any_other_is_not():
    """One of the program's, by that name or another, or with its code; another of the library's."""
    with library() as filters:
        original = filters.htmlentityreplace_errors
        for handler in (mine, filters.another, codecs.ignore_errors, lambda error: ("", error.end)):
            codecs.register_error(NAME, handler)
            assert is_refused(), handler
        codecs.register_error(NAME, original)
        assert not is_refused()
        filters.htmlentityreplace_errors = mine
        assert is_refused()  # it is not the one that the library has now
        codecs.register_error(NAME, mine)
        assert is_refused()
        filters.htmlentityreplace_errors = original
        codecs.register_error(NAME, original)
        original.__code__ = mine.__code__
        assert is_refused()
    with library() as filters:
        try:
            codecs.register_error("another", filters.htmlentityreplace_errors)
            assert is_refused()
        finally:
            del surroundings._ERRORS[0]["another"]
    assert not is_refused()
