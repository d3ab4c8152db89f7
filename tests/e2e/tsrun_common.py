# SPDX-License-Identifier: MIT
"""What the tests of the built tsrun have in common: running it."""

import functools
import os
import shlex
import subprocess

import support
from support import BUILD, TSRUN  # noqa: F401

MEMBER = os.path.join(BUILD, "tests", "unit", "tsrun", "tsrun-member")
SOURCE = os.path.dirname(os.path.dirname(support.HERE))
HAS_LIBELF = os.environ.get("TSSHIM_TEST_LIBELF", "1") == "1"
CC = shlex.split(os.environ.get("TSSHIM_TEST_CC", "cc"))
Skip = functools.partial(support.Skip, "tsrun")  # says why a test cannot be done here


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
    support.write(source, text)
    out = os.path.join(directory, name)
    made = subprocess.run([*CC, source, "-o", out, *flags], stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise Skip("cannot compile with " + " ".join(flags))
    return out
