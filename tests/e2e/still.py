# SPDX-License-Identifier: MIT
"""A library module that was looked at: each change is seen, however often it was as before."""

import sys
import types

import support

support.in_the_library()  # native.py looks for it when it is imported

import pytest  # noqa: E402

support.search("hooks", "torch", "python")
from tsshim_torch import native  # noqa: E402, F401
from tsshim_torch.fingerprint import library, still  # noqa: E402

SOURCE = """
def function(one=1, *, two=2):
    return one

class Class:
    attribute = 1
    def method(self):
        return 1

def set_number(value):
    global number
    number = value

number = 1
"""

CHANGES = {
    "a name": lambda module: setattr(module, "number", 2),
    "a name, by its own code": lambda module: module.set_number(2),
    "a new name": lambda module: setattr(module, "other", 2),
    "a name less": lambda module: delattr(module, "number"),
    "a function": lambda module: setattr(module, "function", lambda: None),
    "code": lambda module: setattr(module.function, "__code__", (lambda: 2).__code__),
    "defaults": lambda module: setattr(module.function, "__defaults__", (2,)),
    "named defaults": lambda module: setattr(module.function, "__kwdefaults__", {"two": 3}),
    "an attribute of a class": lambda module: setattr(module.Class, "attribute", 2),
    "a method": lambda module: setattr(module.Class, "method", lambda self: 2),
    "a method's code": lambda module: setattr(module.Class.method, "__code__", (lambda self: 2).__code__),
    "a method's defaults": lambda module: setattr(module.Class.method, "__defaults__", (2,))}


def looked_at():
    module = types.ModuleType("torchvision.made_up")
    exec(SOURCE, module.__dict__)
    return module, library.Look(module)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen(change):
    module, look = looked_at()
    for _ in range(3):
        assert look.is_same()
    assert look.still.holds() == (len(still.PLACES) > 0)
    CHANGES[change](module)
    for _ in range(3):
        assert not look.is_same()


def test_a_change_that_was_taken_back():
    module, look = looked_at()
    assert look.is_same() and look.is_same()
    before = module.number
    module.number = 2
    assert not look.is_same()
    module.number = before
    assert look.is_same() and look.is_same()


def test_interpreters_that_number_changes():
    numbers = sys.version_info < (3, 14) and getattr(sys, "_is_gil_enabled", lambda: True)()
    assert len(still.PLACES) == 3 or not numbers
