# SPDX-License-Identifier: MIT
"""What the tests of the built tsrun have in common: running it, and TAP output."""

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import traceback

import paths
import scenes

BUILD = paths.sayable(os.environ["TSRUN_BUILD"])


def built(path):
    """What the build made, by the name of it that can be told."""
    return os.path.join(BUILD, os.path.relpath(path, os.environ["TSRUN_BUILD"]))


TSRUN = built(os.environ["TSRUN"])
MEMBER = built(os.environ["TSRUN_MEMBER"])
SOURCE = os.environ["TSRUN_SOURCE"]
HAS_LIBELF = os.environ["TSRUN_LIBELF"] == "1"
CC = shlex.split(os.environ["TSRUN_CC"])


class Skip(Exception):
    """Raised by a test that cannot be done here; says why."""


def clean_environment(**more):
    """The environment without what would reach into the test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TSSHIM_", "LD_"))}
    # In a sanitized build the library brings ASan into commands that were built without it.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    env["TSSHIM_QUIET"] = "1"
    env.update(more)
    return env


def tsrun(*args, program=TSRUN, env=None, **more):
    """Run tsrun to its end; text output in .stdout and .stderr."""
    return subprocess.run([program, *args], env=clean_environment(**(env or {})),
                          stdin=subprocess.DEVNULL, stdout=more.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, text=True, timeout=60, **more)


def expect(result, status, stderr=""):
    """Exit status as it is, and messages that contain (or for "" are) @stderr."""
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    if stderr:
        assert stderr in result.stderr, result.stderr
    else:
        assert result.stderr == "", result.stderr


def compile_c(directory, name, text, *flags):
    """Compile a program; Skip where the tool chain cannot."""
    source = os.path.join(directory, name + ".c")
    with open(source, "w") as f:
        f.write(text)
    out = os.path.join(directory, name)
    made = subprocess.run([*CC, source, "-o", out, *flags], stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise Skip("cannot compile with " + " ".join(flags))
    return out


def main(namespace):
    """Run every function called test_*; print TAP; exit status 1 when one failed."""
    tests = [(n, f) for n, f in namespace.items() if n.startswith("test_")]
    failed = 0
    print("1..%d" % len(tests))
    for number, (name, function) in enumerate(tests, 1):
        line = "ok %d - %s" % (number, name[5:])
        with tempfile.TemporaryDirectory(prefix="tsrun-test-") as directory:
            try:
                # Without libelf several messages are others.
                with scenes.of(name[5:]) if HAS_LIBELF else contextlib.nullcontext():
                    function(directory)
            except Skip as skip:
                line += " # SKIP %s" % skip
            except Exception:
                failed += 1
                line = "not " + line
                for text in traceback.format_exc().splitlines():
                    print("# " + text)
        print(line, flush=True)
    sys.exit(1 if failed else 0)
