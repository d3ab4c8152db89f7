# SPDX-License-Identifier: MIT
"""An installation, and one that was moved afterwards."""

import glob
import os
import shutil

import support
from tsrun_common import BUILD, HAS_LIBELF, expect, tsrun


def install(directory):
    """Install into @directory; returns the paths of tsrun and of the prefix."""
    program = support.install(os.path.join(directory, "stage"))
    return program, os.path.dirname(os.path.dirname(program))


def preloaded(program):
    told = expect(tsrun("--", "sh", "-c", "echo $LD_PRELOAD; cat /proc/self/maps", program=program), 0)
    first, maps = told.split("\n", 1)
    assert os.path.realpath(first) in maps, "not mapped"
    return first


def test_installed_and_moved(directory):
    program, prefix = install(directory)
    found = {f for _, _, files in os.walk(prefix) for f in files}
    assert {"tsrun", "libtsshim.so", "_tsrun"} <= found, found
    for page in ("tsrun.1", "tsshim.7"):
        assert any(f.startswith(page) for f in found), found
    assert os.path.exists(os.path.join(prefix, "share/bash-completion/completions/tsrun"))
    library = preloaded(program)
    assert library.startswith(os.path.realpath(prefix) + "/"), library
    assert library.endswith("/tsshim/libtsshim.so"), library

    moved = os.path.join(directory, "elsewhere")
    os.rename(prefix, moved)
    # Found by a symbolic link in a directory of programs as well.
    program, link = os.path.join(moved, "bin/tsrun"), os.path.join(directory, "link")
    os.symlink(program, link)
    for one in (program, link):
        assert preloaded(one).startswith(os.path.realpath(moved) + "/")
    # Python programs are entered from wherever the library is.
    place = os.path.join(os.path.dirname(preloaded(program)), "python")
    assert entered(program) == os.path.join(place, "tsshim_torch/__init__.py")
    # Byte code was made when it was installed: users may not be able to write there.
    assert glob.glob(place + "/__pycache__/sitecustomize.*.pyc"), os.listdir(place)

    blank = os.path.join(directory, "with blank")
    os.rename(moved, blank)
    os.environ["XDG_STATE_HOME"] = os.path.join(directory, "state")
    library = preloaded(blank + "/bin/tsrun")
    assert library.startswith(directory + "/state/tsshim/library-"), library
    assert entered(blank + "/bin/tsrun").startswith(os.path.realpath(blank) + "/")
    # There is no place for a link.
    os.environ["XDG_STATE_HOME"] = os.path.join(directory, "no state")
    expect(tsrun("true", program=blank + "/bin/tsrun"), 125, "ld.so takes no blank, colon")
    # Nothing can tell PYTHONPATH a colon.
    os.environ["XDG_STATE_HOME"] = os.path.join(directory, "state")
    colon = os.path.join(directory, "with:colon")
    os.rename(blank, colon)
    assert preloaded(colon + "/bin/tsrun") != library
    assert entered(colon + "/bin/tsrun") is None
    # Without the start-up files no Python is entered.
    os.rename(colon, moved)
    assert entered(program) is not None
    shutil.rmtree(place)
    assert entered(program) is None


def entered(program):
    """Where our start-up file was found by a Python below @program, or None."""
    code = """if True:
        import sys
        for finder in sys.meta_path:
            if type(finder).__module__ == "tsshim_torch":
                print(finder.find_spec("tsshim_torch").origin)
        print(any("tsshim" in entry for entry in sys.path))"""
    *origin, in_path = expect(tsrun("--", support.PYTHON, "-c", code, program=program), 0).splitlines()
    assert in_path == "False", origin
    return origin[0] if origin else None


def test_missing_and_damaged_library(directory):
    program, prefix = install(directory)
    library = preloaded(program)
    if HAS_LIBELF:  # without it, only the place is checked
        support.overwrite(library, 0, b"garbage")
        expect(tsrun("true", program=program), 125, "cannot use the library '%s': " % library)
    os.unlink(library)
    result = tsrun("true", program=program)
    expect(result, 125, "it is not there")
    assert "hint: " in result.stderr
    # Neither the working directory nor the search path of ld.so is a place to look.
    os.makedirs(os.path.join(directory, "cwd/tsshim"))
    for place in ("cwd", "cwd/tsshim"):
        shutil.copy(os.path.join(BUILD, "libtsshim.so"), os.path.join(directory, place))
    cwd = os.path.join(directory, "cwd")
    expect(tsrun("true", program=program, cwd=cwd, env={"LD_LIBRARY_PATH": cwd}), 125,
           "it is not there")
    expect(tsrun("true", program=program, env={"TSSHIM_DISABLE": "1"}), 0)


def test_build_directory_place_is_for_build_directories_only(directory):
    """A tsrun two levels below a libtsshim.so does not take it unless it lies in shim/tsrun."""
    for place, status in (("shim/tsrun", 0), ("a/bin", 125)):
        os.makedirs(os.path.join(directory, place))
        program = os.path.join(directory, place, "tsrun")
        shutil.copy(os.path.join(BUILD, "shim/tsrun/tsrun"), program)
        shutil.copy(os.path.join(BUILD, "libtsshim.so"), directory)
        assert tsrun("true", program=program).returncode == status, place
