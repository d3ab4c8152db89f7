# SPDX-License-Identifier: MIT
"""An installation, and one that was moved afterwards."""

import glob
import os
import shutil
import subprocess

from tsrun_common import BUILD, HAS_LIBELF, Skip, clean_environment, expect, tsrun


def install(directory):
    """Install into @directory; returns the paths of tsrun and of the prefix."""
    destination = os.path.join(directory, "stage")
    meson = shutil.which("meson")
    assert meson, "meson has built this, so it is there"
    done = subprocess.run([meson, "install", "-C", BUILD, "--no-rebuild", "--destdir", destination],
                          env=clean_environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    programs = [os.path.join(d, "tsrun") for d, _, files in os.walk(destination)
                if "tsrun" in files and os.path.basename(d) == "bin"]
    assert len(programs) == 1, programs
    return programs[0], os.path.dirname(os.path.dirname(programs[0]))


def preloaded(program):
    result = tsrun("--", "sh", "-c", "echo $LD_PRELOAD; cat /proc/self/maps", program=program)
    expect(result, 0)
    first, maps = result.stdout.split("\n", 1)
    assert os.path.realpath(first) in maps, "not mapped"
    return first


def test_installed_and_moved(directory):
    program, prefix = install(directory)
    library = preloaded(program)
    assert library.startswith(os.path.realpath(prefix) + "/"), library
    assert library.endswith("/tsshim/libtsshim.so"), library

    moved = os.path.join(directory, "elsewhere")
    os.rename(prefix, moved)
    program = os.path.join(moved, "bin/tsrun")
    assert preloaded(program).startswith(os.path.realpath(moved) + "/")

    # Found by a symbolic link in a directory of programs.
    link = os.path.join(directory, "link")
    os.symlink(program, link)
    assert preloaded(link).startswith(os.path.realpath(moved) + "/")

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


def entered(program):
    """Where our start-up file was found by a Python below @program, or None."""
    code = """if True:
        import sys
        for finder in sys.meta_path:
            if type(finder).__module__ == "tsshim_torch":
                print(finder.find_spec("tsshim_torch").origin)
        print(any("tsshim" in entry for entry in sys.path))"""
    result = tsrun("--", "/usr/bin/python3", "-c", code, program=program)
    expect(result, 0)
    *origin, in_path = result.stdout.splitlines()
    assert in_path == "False", result.stdout
    return origin[0] if origin else None


def test_start_up_files_move_along(directory):
    """Python programs are entered from wherever the library is; without the files, not at all."""
    if not os.path.exists("/usr/bin/python3"):
        raise Skip("needs /usr/bin/python3")
    program, prefix = install(directory)
    moved = os.path.join(directory, "elsewhere")
    os.rename(prefix, moved)
    program = os.path.join(moved, "bin/tsrun")
    place = os.path.join(os.path.dirname(preloaded(program)), "python")
    assert entered(program) == os.path.join(place, "tsshim_torch/__init__.py")
    # Byte code was made when it was installed: users may not be able to write there.
    assert glob.glob(place + "/__pycache__/sitecustomize.*.pyc"), os.listdir(place)
    shutil.rmtree(place)
    assert entered(program) is None


def test_files_of_the_installation(directory):
    program, prefix = install(directory)
    found = {f for _, _, files in os.walk(prefix) for f in files}
    assert {"tsrun", "libtsshim.so", "_tsrun"} <= found, found
    assert any(f.startswith("tsrun.1") for f in found) and any(
        f.startswith("tsshim.7") for f in found), found
    assert os.path.exists(os.path.join(prefix, "share/bash-completion/completions/tsrun"))


def test_missing_and_damaged_library(directory):
    program, prefix = install(directory)
    library = preloaded(program)
    if HAS_LIBELF:  # without it, only the place is checked
        with open(library, "r+b") as f:
            f.write(b"garbage")
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
        result = tsrun("true", program=program)
        assert result.returncode == status, (place, result.stderr)
