# SPDX-License-Identifier: MIT
"""What the tests of the built tsrun have in common: running it, and processes of a group."""

import functools
import itertools
import json
import os
import shlex
import signal
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


numbers = itertools.count(1)


def new_group():
    """The name of a group for one test alone."""
    return "clitest-%d-%d" % (os.getpid(), next(numbers))


def stats(group):
    result = tsrun("stats", "--json", "--group", group)
    expect(result, 0)
    return json.loads(result.stdout)


def gc(group, *more):
    """What `tsrun gc` says of @group."""
    result = tsrun("gc", "--group", group, *more)
    expect(result, 0)
    return result.stdout


class Member:
    """A process that has joined @group, started with @prefix; it does more when it is told to."""

    def __init__(self, group, dataset="photos", *more, prefix=()):
        self.process = subprocess.Popen([*prefix, MEMBER, group, dataset, *more],
                                        env=clean_environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.expect("ready")

    def expect(self, word):
        line = self.process.stdout.readline()
        assert line == word + "\n", line

    def work(self):
        """3 more decodes, and 9 more taken from others."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.expect("counted")

    def end(self, status=0):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == status, self.process.returncode
        # The end of the output is the end of the process inside, whoever stands before it.
        assert self.process.stdout.read() == ""
        self.process.stdout.close()

    def kill(self):
        """With a prefix, what is inside goes with it, before it could see the end of its input."""
        self.process.kill()
        self.process.wait(timeout=60)
        self.end(-signal.SIGKILL)


def compile_c(directory, name, text, *flags):
    """Compile a program; Skip where the tool chain cannot."""
    source = os.path.join(directory, name + ".c")
    support.write(source, text)
    out = os.path.join(directory, name)
    made = subprocess.run([*CC, source, "-o", out, *flags], stderr=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise Skip("cannot compile with " + " ".join(flags))
    return out
