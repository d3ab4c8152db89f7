# SPDX-License-Identifier: MIT
"""Every way to make processes and threads, next to other preloads: nothing may change."""

import glob
import os
import subprocess

import pytest

import support
from support import HERE, LONG, PYTHON, Group, equal, run, start, victim


def alike(command, what, jobs=2, library=support.LIBRARY, ordered=True, rounds=2, **settings):
    """Plain once, then @rounds times @jobs at the same time under us; all must say the same."""
    reference = run(command)
    assert reference.status >= 0, (what, reference.errors[-1500:])
    with Group(library, **settings) as group:
        for _ in range(rounds):
            started = [start(command, group.environment()) for _ in range(jobs)]
            for job in started:
                outcome = support.finish(job)
                if not ordered:
                    outcome.output = "\n".join(sorted(outcome.output.splitlines()))
                    reference.output = "\n".join(sorted(reference.output.splitlines()))
                equal(reference, outcome, what)
        group.assert_clean()


def some_pictures(count=8):
    """Pictures that can be shared and are soon decoded."""
    return support.pictures("s_4") + support.pictures("s_exif")[:count]


def test_the_comparison_notices_a_difference():
    """Another output, another status and a line on stderr must each be noticed."""
    good = run(["sh", "-c", "echo 1; exit 3"])
    for wrong in ("echo 2; exit 3", "echo 1; exit 4", "echo 1; echo x >&2; exit 3"):
        with pytest.raises(AssertionError):
            equal(good, run(["sh", "-c", wrong]), "self-check")


@pytest.mark.parametrize("words", ["forker", "threads 8"])
def test_victims(words):
    """Fork, vfork and spawn; and threads."""
    name, *more = words.split()
    alike([victim(name), *more, *some_pictures()], name)


@pytest.mark.parametrize("recipe", """os_fork subprocess_run pool:fork pool:spawn pool:forkserver posix_spawn
    close_everything threads daemon exec_from_thread exception exit_status killed""".split())
def test_recipes_of_processes_child(recipe):
    alike([PYTHON, os.path.join(HERE, "processes_child.py"), recipe, *some_pictures()], recipe)


def test_data_loader():
    """Eight workers over several epochs; every batch of every epoch is the same."""
    if not support.has_modules(PYTHON, "torch", "PIL", "numpy"):
        raise support.Skip("torch", "not installed for " + PYTHON)
    epochs = "100" if LONG else "2"
    alike([PYTHON, os.path.join(HERE, "processes_child.py"), "data_loader:" + epochs,
           *some_pictures()], "data loader", rounds=1)  # each epoch is one more


def first_of(*patterns):
    """The first file that matches, or None."""
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            return path
    return None


@pytest.mark.parametrize("what, files, more", [
    ("jemalloc", ["libjemalloc.so.2"], {}),
    ("asan", ["libasan.so.8", "libasan.so.6"], {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})])
def test_preload(what, files, more):
    """Ours in front of and behind another preload."""
    library = first_of(*("/usr/lib/*/" + file for file in files))
    if not library:
        raise support.Skip(what, "it is not installed")
    command = [victim("forker"), *some_pictures()]
    reference = run(command, support.plain_environment(LD_PRELOAD=library, **more))
    assert reference.status == 0, reference.errors[-1500:]
    for preload in (library + " " + support.LIBRARY, support.LIBRARY + " " + library):
        with Group(preload, **more) as group:
            for _ in range(3):
                equal(reference, run(command, group.environment()), what + ": " + preload)


def test_static_children():
    busybox = first_of("/bin/busybox", "/usr/bin/busybox")
    if not busybox:
        raise support.Skip("busybox", "busybox-static is not installed")
    alike([busybox, "sh", "-c", "echo static; exec %s seq 3" % busybox], "busybox")


def test_static_victim(directory):
    """A victim with libjpeg inside cannot be reached, and is unharmed."""
    sources = [os.path.join(HERE, "..", "victims", name + ".c")
               for name in ("decode", "sources", "victim")]
    program = os.path.join(directory, "static")
    made = subprocess.run(["cc", "-D_GNU_SOURCE", "-static", "-o", program, *sources,
                           "-ljpeg"], stderr=subprocess.PIPE)
    if made.returncode != 0:
        raise support.Skip("static", "cannot link statically to libjpeg")
    alike([program, *some_pictures()], "static")


def test_summary_of_what_a_script_starts():
    """The jobs are the shell's children; each says what it shared."""
    script = '"$@" >/dev/null; "$@" >/dev/null; true'
    for ring in ("256M", "1"):  # the second is too small: what is counted finds no ledger
        with Group() as group:
            outcome = run([support.TSRUN, "--summary", "--group", group.name, "--ring", ring, "--",
                           "sh", "-c", script, "sh", victim("decode"), *some_pictures()])
        assert outcome.status == 0, outcome.errors
        assert outcome.errors.count("tsshim: what victim-decode (") == 2, (ring, outcome.errors)


def test_other_children():
    """Shells, pipes, compilers' kind of children: output and status as they were."""
    alike(["sh", "-c", "seq 100 | sort -r | head -3; (exit 7); echo $?; sh -c 'kill -9 $$';"
           " echo $?; find / -maxdepth 1 | wc -l; cc --version | head -1; exit 5"], "shell")
