# SPDX-License-Identifier: MIT
"""The hook for PyTorch comes into unmodified Python programs, and nobody notices."""

import glob
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import support
from support import BUILD, HERE, LIBRARY, PYTHON, Skip, equal, plain_environment, run

CHILD = os.path.join(HERE, "activation_child.py")
RECENT = (3, 8)  # Py_BytesMain, which start.c looks for

# A torch that any interpreter can import, with modules in the order of the real one.
FAKE_TORCH = {
    "torch/__init__.py": "import torch.utils.data\n",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "from torch.utils.data.dataloader import DataLoader\n"
                                    "from torch.utils.data import distributed\n",
    "torch/utils/data/distributed.py": "",
    "torch/utils/data/dataloader.py": "import os\n"
                                      "if 'FAKE_TORCH_FAILS' in os.environ:\n"
                                      "    raise ImportError('no luck', name='libfake')\n"
                                      "class DataLoader: pass\n",
}


def write(directory, files):
    """Make @files, {path: text}, below @directory; returns it."""
    for path, text in files.items():
        path = os.path.join(directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        support.write(path, text)
    return directory


scratch = tempfile.TemporaryDirectory(prefix="tsshim-activation-")
FAKE = write(os.path.join(scratch.name, "fake"), FAKE_TORCH)


def version_of(python):
    """(major, minor) of an interpreter, or None when it does not run."""
    done = run([python, "-c", "import sys; print('%d %d' % sys.version_info[:2])"])
    return tuple(map(int, done.output.split())) if done.status == 0 else None


def find_interpreters():
    """{path: version} of the interpreters of this machine, each once."""
    homes = [os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"),
             os.environ.get("CONDA_PREFIX", "/nowhere")]
    found = {PYTHON: version_of(PYTHON)}
    places = [p for p in os.environ["PATH"].split(":") if "shims" not in p]
    for pattern in ([os.path.join(p, "python[23].*") for p in places] +
                    [homes[0] + "/versions/*/bin/python[23].*", homes[1] + "/bin/python3.*"]):
        for path in sorted(glob.glob(pattern)):
            if (re.fullmatch(r"python[23]\.\d+", os.path.basename(path)) and
                    os.path.realpath(path) not in map(os.path.realpath, found)):
                found[path] = version_of(path)
    return {path: version for path, version in found.items() if version}


INTERPRETERS = find_interpreters()
# Debian's, which is one program, and the newest of the others, which may have a libpython.
SOME = sorted({PYTHON, max(INTERPRETERS, key=INTERPRETERS.get)})


def environment(preload=None, path=None, **more):
    """Plain, with @preload, and @path as PYTHONPATH (None: unset)."""
    env = plain_environment(**more)
    env.pop("PYTHONPATH", None)
    if path is not None:
        env["PYTHONPATH"] = path
    if preload:
        env.update(LD_PRELOAD=preload, TSSHIM_GROUP="activation-%d" % os.getpid())
    return env


def marks(outcome, name):
    """The values of the lines "~@name VALUE"."""
    return re.findall(r"^~%s (\w+)$" % name, outcome.output, re.M)


def alike(command, what=None, preload=LIBRARY, path=None, cwd=None, **more):
    """@command without and with @preload must look the same; returns the outcome with."""
    what = what or command
    plain = run(command, environment(path=path, **more), cwd=cwd)
    with_us = run(command, environment(preload, path, **more), cwd=cwd)
    equal(plain, with_us, what)
    assert "True" not in marks(plain, "active") + marks(plain, "patched"), what
    return with_us


def active(outcome, so="True"):
    """@outcome says that its interpreter was active."""
    assert marks(outcome, "active") == [so], outcome.output[-3000:]


def inactive(outcome):
    active(outcome, "False")


def fed(command, text, *environments):
    """What @command prints that is given the @text, in each of these @environments."""
    return [subprocess.run(command, input=text, text=True, env=env, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT).stdout for env in environments]


def patched(outcome, count=1):
    assert marks(outcome, "patched") == ["True"] * count, outcome.output[-3000:]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_looks_the_same_in(python):
    """What an interpreter sees, and that ours is loaded with torch."""
    version = INTERPRETERS[python]
    for path in (None, "", FAKE, ":", "relative:" + FAKE + "::/not/there:"):
        outcome = alike([python, CHILD, "facts"], (python, path), path=path)
        (active if version >= RECENT else inactive)(outcome)
    if version >= (3, 6):
        outcome = alike([python, CHILD, "loader"], path=FAKE)
        assert marks(outcome, "patched") == [str(version >= RECENT)], outcome.output


OPTIONS = ("-I", "-E", "-S", "-s", "-Es", "-sE", "-IS", "-bIB", "-O", "-OO", "-u -B", "-q -E",
           "-W error::UserWarning", "-Wignore", "-WI", "-W -I", "-X dev", "-Xdev -E", "-X -S",
           "-XIES", "-x", "-B --", "--check-hash-based-pycs never",
           "--check-hash-based-pycs never -I", "-bW ignore -E", "-d", "-b -S -u")


def test_options_are_understood():
    """Active exactly where Python itself says that it honours PYTHONPATH and imports site."""
    seen = set()
    for python in SOME:
        for options in OPTIONS + (("-P", "-PI") if INTERPRETERS[python] >= (3, 11) else ()):
            outcome = alike([python, *options.split(), CHILD, "facts"])
            assert marks(outcome, "active") == marks(outcome, "wanted") != [], (python, options)
            seen.update(marks(outcome, "active"))
    assert seen == {"True", "False"}


def test_words_behind_the_program_are_not_options():
    active(alike([PYTHON, CHILD, "facts", "-I", "-S"]))
    active(alike([PYTHON, "-m", "activation_child", "facts", "-I"], cwd=HERE))
    code = "import activation_child; activation_child.facts()"
    active(alike([PYTHON, "-c", code, "-E"], path=HERE))
    active(alike([PYTHON, "-c" + code, "-E"], path=HERE))
    active(alike([PYTHON, "-sc", code], path=HERE))


def test_program_on_standard_input():
    for command in ([PYTHON], [PYTHON, "-"], [PYTHON, "-", "facts", "-I"]):
        plain, with_us = (support.Outcome(0, output, "") for output in fed(
            command, support.read(CHILD), environment(), environment(LIBRARY)))
        equal(plain, with_us, command)
        active(with_us)


def test_settings_of_python():
    for more in ({"PYTHONSAFEPATH": "1"}, {"PYTHONNOUSERSITE": "1"}, {"PYTHONHOME": "/usr"},
                 {"PYTHONSTARTUP": CHILD}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONUTF8": "1"},
                 {"LC_ALL": "C"}, {"PYTHONDEVMODE": "1"}, {"PYTHONINSPECT": ""}):
        active(alike([PYTHON, CHILD, "facts"], more, **more))


def test_nothing_in_the_environment():
    for python, version in INTERPRETERS.items():
        command = ["env", "-i", python, CHILD, "facts"]
        plain = run(command)
        with_us = run(command[:2] + ["LD_PRELOAD=" + LIBRARY] + command[2:])
        equal(plain, with_us, command)
        (active if version >= RECENT else inactive)(with_us)


def test_interactive():
    """A startup file and a prompt."""
    startup = os.path.join(scratch.name, "startup.py")
    support.write(startup, "print('started')\n")
    script = "import os, sys; print(sys.path, os.environ.get('PYTHONPATH'))\n"
    texts = fed([PYTHON, "-i", "-q"], script, *(
        environment(preload, PYTHONSTARTUP=startup) for preload in ("", LIBRARY)))
    assert texts[0] == texts[1] and "started" in texts[0], texts


def test_switched_off():
    inactive(alike([PYTHON, CHILD, "facts"], TSSHIM_DISABLE="1"))


def test_the_users_own_files():
    """sitecustomize and usercustomize run as without us, whatever they do."""
    bodies = {
        "fine": "import sys; print('own', __name__, __file__, sys.path)\n",
        "fails": "raise ValueError('own')\n",
        "lacks": "import tsshim_is_not_there\n",
        "lacks_itself": "raise ImportError('odd', name='sitecustomize')\n",
        "changes": "import os, sys\nos.environ['PYTHONPATH'] = '/own'\nsys.path.append('/own')\n",
        "goes": "import sys\ndel sys.modules[__name__]\n",
        "no_syntax": "(\n",
    }
    for kind, body in bodies.items():
        directory = write(os.path.join(scratch.name, "own", kind), {"sitecustomize.py": body})
        for recipe in ("facts", "again"):
            outcome = alike([PYTHON, CHILD, recipe], (kind, recipe), path=directory + ":" + FAKE)
            active(outcome)
    for python in (p for p, version in INTERPRETERS.items() if version >= RECENT):
        for kind in ("fine", "fails", "lacks"):
            path = os.path.join(scratch.name, "own", kind)
            outcome = alike([python, CHILD, "facts"], path=path)
            assert kind != "fine" or "own sitecustomize " + path in outcome.output


def test_a_users_file_that_ends_the_interpreter():
    """All the same but for the frames of ours in the traceback."""
    path = write(os.path.join(scratch.name, "own", "stops"),
                 {"sitecustomize.py": "raise SystemExit(7)\n"})
    plain, with_us = (run([PYTHON, CHILD, "facts"], environment(preload, path))
                      for preload in (None, LIBRARY))
    assert (plain.status, plain.output) == (with_us.status, with_us.output)
    ends = [outcome.errors.splitlines()[-3:] for outcome in (plain, with_us)]
    assert ends[0] == ends[1] and "SystemExit: 7" in ends[0], ends


def test_user_site():
    base = os.path.join(scratch.name, "base")
    site = run([PYTHON, "-m", "site", "--user-site"], environment(PYTHONUSERBASE=base))
    write(site.output.strip(), {"usercustomize.py": "print('own', __file__)\n"})
    outcome = alike([PYTHON, CHILD, "again"], PYTHONUSERBASE=base)
    active(outcome)
    assert "own " + site.output.strip() in outcome.output


def test_torch_that_imports_early():
    """The user's sitecustomize brings torch: then we are late, but not too late."""
    path = write(os.path.join(scratch.name, "own", "imports"),
                 {"sitecustomize.py": "import torch.utils.data\n"})
    patched(alike([PYTHON, CHILD, "loader"], path=path + ":" + FAKE))


@pytest.mark.parametrize("recipe", ["loader", "look_first", "reload", "broken", "foreign_finder", "in_thread"])
def test_torch(recipe):
    """Ways to import torch's data loader; the comparison is what inspect and pkgutil say."""
    for python, version in INTERPRETERS.items():
        if version >= RECENT:
            outcome = alike([python, CHILD, recipe], (python, recipe), path=FAKE)
            patched(outcome, 2 if recipe == "reload" else 1)
            stays = recipe in ("in_thread", "foreign_finder")
            assert stays or "False" not in marks(outcome, "left"), (python, recipe)


def test_real_torch():
    if not support.has_modules(PYTHON, "torch"):
        raise Skip("torch", "not installed for " + PYTHON)
    patched(alike([PYTHON, CHILD, "loader"]))


@pytest.mark.parametrize("recipe", ["multiprocess:spawn", "multiprocess:forkserver", "multiprocess:fork",
                                    "execute", "execute_changed"])
def test_processes(recipe):
    """Interpreters started by interpreters, in all ways."""
    for python in SOME:
        active(alike([python, CHILD, recipe], (python, recipe), path=FAKE))


def test_children():
    """Also with -I, without an environment (and so without us), and below a shell."""
    outcome = alike([PYTHON, CHILD, "children"])
    assert marks(outcome, "active") == ["True", "False", "True", "False", "True", "True"], (
        outcome.output)


def test_virtual_environments():
    for number, python in enumerate(SOME):
        for options in ([], ["--system-site-packages", "--copies"]):
            place = os.path.join(scratch.name, "venv", "%d-%d" % (number, len(options)))
            made = run([python, "-m", "venv", "--without-pip", *options, place])
            if made.status != 0:
                raise Skip("venv", "cannot be made by " + python)
            active(alike([place + "/bin/python", CHILD, "facts"], path=FAKE))
            patched(alike([place + "/bin/python", CHILD, "loader"], path=FAKE))


def test_ways_to_name_the_library():
    away = os.path.join(scratch.name, "away")
    os.makedirs(away)
    os.symlink(LIBRARY, away + "/linked.so")
    name = os.path.basename(LIBRARY)
    for preload, more in ((name, {"LD_LIBRARY_PATH": BUILD}), ("./" + name, {"cwd": BUILD}),
                          (name, {"LD_LIBRARY_PATH": ".", "cwd": BUILD}),
                          (away + "/linked.so", {}), (BUILD + "/python/../" + name, {})):
        active(alike([PYTHON, CHILD, "facts"], (preload, more), preload, **more))


def test_library_in_odd_places():
    """Alone it does nothing; below a directory that is no UTF-8 it works."""
    alone = os.path.join(scratch.name, "alone")
    os.makedirs(alone)
    shutil.copy(LIBRARY, alone + "/libtsshim.so")
    inactive(alike([PYTHON, CHILD, "facts"], preload=alone + "/libtsshim.so"))
    odd = os.path.join(scratch.name, "\udcff%s\u00e4")
    shutil.copytree(alone, odd)
    shutil.copytree(BUILD + "/python", odd + "/python")
    for locale in ("C", "C.UTF-8", "POSIX"):
        outcome = alike([PYTHON, CHILD, "loader"], preload=odd + "/libtsshim.so", path=FAKE,
                        LC_ALL=locale)
        patched(outcome)


def test_errors_of_ours_stay_ours():
    """A package of ours that cannot be imported leaves the program as it is."""
    place = os.path.join(scratch.name, "damaged")
    shutil.copytree(BUILD + "/python", place + "/python")
    shutil.copy(LIBRARY, place)
    library = os.path.join(place, os.path.basename(LIBRARY))
    for victim in ("patch.py", "start.py", "__init__.py"):
        write(place + "/python/tsshim_torch", {victim: "raise RuntimeError('damaged')\n"})
        outcome = alike([PYTHON, CHILD, "loader"], preload=library, path=FAKE)
        assert marks(outcome, "patched") == ["False"], outcome.output
        told = run([PYTHON, CHILD, "loader"], environment(library, FAKE, TSSHIM_DEBUG="debug"))
        assert "tsshim: torch: RuntimeError: damaged\n" in told.errors, told.errors


def test_a_program_with_an_embedded_interpreter():
    """It has libpython, but reads no PYTHONPATH of ours, and its children see none."""
    compiler = shutil.which("cc")
    libraries = glob.glob("/usr/lib/*/libpython3.*.so.*")
    if not compiler or not libraries:
        raise Skip("embed", "needs a compiler and libpython")
    source = write(scratch.name, {"embed.c": """
        void Py_Initialize(void); int PyRun_SimpleString(const char *);
        int main(void) { Py_Initialize(); return PyRun_SimpleString(
            "import os; print(os.environ.get('PYTHONPATH')); os.system('env | grep PYTHON')"); }
    """}) + "/embed.c"
    program = os.path.join(scratch.name, "embed")
    subprocess.check_call([compiler, source, "-o", program, libraries[0]])
    for path in (None, "", "/somewhere"):
        alike([program], path=path)


def test_isolated_interpreters_are_counted():
    """Once per process, where torch was there; the summary shows it."""
    if not support.has_modules(PYTHON, "torch"):
        raise Skip("torch", "not installed for " + PYTHON)
    for options, code, counted in (("-I", "import torch", True), ("-I", "pass", False),
                                   ("-s", "import torch", False), ("-SE", "pass", False)):
        done = run([PYTHON, options, "-c", code], environment(LIBRARY, TSSHIM_SUMMARY="1"))
        assert ("ignores PYTHONPATH" in done.errors) == counted, (options, code, done.errors)
