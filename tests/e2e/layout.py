# SPDX-License-Identifier: MIT
"""What Python mirrors of C by hand is laid out, numbered and named as C has it."""

import ast
import ctypes
import glob
import os
import subprocess

import support

support.in_the_library()  # native.py looks for it when it is imported

SOURCES = support.search("hooks", "torch", "python")
from tsshim_torch import native  # noqa: E402

PROGRAM = os.path.join(support.BUILD, "tests", "unit", "torch", "layout")
MIRRORS = {"ts_sample_view": native._View, "ts_sample_leaf": native.Leaf,
           "ts_sample_batch": native.BatchView, "ts_generator": native.Generator,
           "ts_sample_lone": native.Lone}
NUMBERS = {"TAKEN": native.HIT, "CLAIMED": native.CLAIM, "BUSY": native.BUSY,
           "PASSED": native.PASS, "ODD": native.ODD, "UNSEEN": native.UNSEEN, "NOW": native.NOW,
           "WAIT": native.WAIT, "MOMENT": native.MOMENT, "STAY": native.STAY,
           "NEST": native.NEST, "WATCH": native.WATCH, "AGAIN": native.AGAIN, "AHEAD": native.AHEAD,
           "MADE": native.MADE,
           "RAISED": native.RAISED, "NOTHING": native.NOTHING}
KINDS = {"OTHER": native.OTHER, "NUMPY": native.NUMPY, "PYTHON": native.PYTHON,
         "PCG": native.PCG, "PHILOX": native.PHILOX, "SFC": native.SFC}
VERDICTS = ("LOADER_SAMPLES", "LOADER_BATCHES", "LOADER_NOT")


def said(kind):
    """What C says of these: [words behind @kind]"""
    lines = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split()[1:] for line in lines.splitlines() if line.split()[0] == kind]


def names_in(tree):
    """What is written as bytes in @tree, a piece of Python."""
    return [node.value.decode("latin-1") for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, bytes)]


def assigned(tree, name):
    """The value that @tree, a module, gives @name."""
    value, = (node.value for node in tree.body if isinstance(node, ast.Assign)
              and [ast.unparse(target) for target in node.targets] == [name])
    return value


def test_every_struct_is_as_large():
    assert {name: ctypes.sizeof(mirror) for name, mirror in MIRRORS.items()} == {
        name: int(size) for name, size in said("struct")}


def test_every_field_is_where_c_has_it():
    ours = {"%s.%s" % (name, field): (getattr(mirror, field).offset, getattr(mirror, field).size)
            for name, mirror in MIRRORS.items() for field, _ in mirror._fields_}
    assert ours == {name: (int(offset), int(size)) for name, offset, size in said("field")}


def test_every_number_is_the_same():
    ours = {"TS_SAMPLE_" + name: number for name, number in NUMBERS.items()}
    ours.update({"TS_GENERATOR_" + name: number for name, number in KINDS.items()})
    ours.update({"TS_" + name: getattr(native, name) for name in dir(native)
                 if name.startswith("LOADER_") and name not in VERDICTS})
    ours.update({"TS_LOADER_VERDICT_" + name[7:]: getattr(native, name) for name in VERDICTS})
    assert ours == {name: int(number) for name, number in said("number")}


def test_every_reason_that_python_gives_is_one():
    """C counts nothing for a name that it does not know, and says nothing."""
    known = {name for name, in said("reason")}
    found = {}
    for path in glob.glob(os.path.join(SOURCES, "tsshim_torch", "**", "*.py"), recursive=True):
        found[os.path.relpath(path, SOURCES)] = ast.parse(support.read(path), path)
    for file, name in (("sharing/naming/loaders.py", "_SAID"), ("sharing/naming/hints.py", "REASONS")):
        ours = names_in(assigned(found["tsshim_torch/" + file], name))
        assert len(ours) == len(set(ours)) > 1 and set(ours) <= known, (file, set(ours) - known)
    given = {name for tree in found.values() for name in names_in(tree) if name.startswith("torch_")}
    assert "torch_dataset" in given and given <= known, given - known
