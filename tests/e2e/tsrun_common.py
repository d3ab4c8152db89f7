# SPDX-License-Identifier: MIT
"""What the tests of the built tsrun have in common: running it, in other namespaces as well, and processes of a group."""

import contextlib
import fcntl
import functools
import glob
import itertools
import json
import os
import shlex
import signal
import struct
import subprocess
import time

import pytest
import support
from support import BUILD, TSRUN, own_scope  # noqa: F401

MEMBER = os.path.join(BUILD, "tests", "unit", "tsrun", "tsrun-member")
SOURCE = os.path.dirname(os.path.dirname(support.HERE))
HAS_LIBELF = os.environ.get("TSSHIM_TEST_LIBELF", "1") == "1"
CC = shlex.split(os.environ.get("TSSHIM_TEST_CC", "cc"))
Skip = functools.partial(support.Skip, "tsrun")  # says why a test cannot be done here
PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


def needs_libelf():
    if not HAS_LIBELF:
        raise Skip("built without libelf")


def clean_environment(**more):
    """The environment without what would reach into the test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TSSHIM_", "LD_"))}
    # In a sanitized build the library brings ASan into commands that were built without it.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    env["TSSHIM_QUIET"] = "1"
    env.update(more)
    return env


def tsrun(*args, program=TSRUN, env=None, prefix=(), **more):
    """Run tsrun to its end, behind a @prefix; text output in .stdout and .stderr."""
    return subprocess.run([*prefix, program, *args], env=clean_environment(**(env or {})),
                          stdin=subprocess.DEVNULL, stdout=more.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, text=True, timeout=60, **more)


def expect(result, status, stderr=""):
    """Exit status as it is, and messages that contain (or for "" are) @stderr; the output."""
    assert result.returncode == status, (result.returncode, result.stdout, result.stderr)
    assert stderr in result.stderr if stderr else result.stderr == "", result.stderr
    return result.stdout


# ---- other namespaces ----

def needs(*prefix):
    if os.geteuid() != 0 or subprocess.run([*prefix, "true"]).returncode != 0:
        raise Skip("needs root and namespaces")


def mounted(*commands):
    """A prefix for a command that sees other mounts; what @commands mount goes with it."""
    needs("unshare", "--mount")
    return ["unshare", "--mount", "sh", "-ec", "%s; exec \"$@\"" % "; ".join(commands), "sh"]


# ---- groups ----

numbers = itertools.count(1)


def new_group():
    """The name of a group for one test alone."""
    return "clitest-%d-%d" % (os.getpid(), next(numbers))


@pytest.fixture(name="group")
def own_group():
    """In a file that imports this: new_group(), whose members end with the test; `tsrun gc` takes all that is left."""
    group = new_group()
    yield group
    for member in Member.of.pop(group, ()):
        member.end()
    age(everywhere(group))
    gc(group)
    assert everywhere(group) == []


def path(group, suffix, scope=None):
    return "/dev/shm/tsshim.%d.%s.%s.%s" % (os.geteuid(), scope or own_scope(), group, suffix)


BOTH = ["ledger", "ring"]  # of a group whose jobs have only just begun
ATTACH = 1, 0  # the lock that a ledger is made with: so many bytes, from there on
NOTHING = "nothing to remove\n"  # of gc


def there(group):
    """What this namespace has of the group."""
    return sorted(found[len(path(group, "")):] for found in glob.glob(path(group, "*")))


def everywhere(group, suffix="*"):
    """Objects of @group in all namespaces."""
    return sorted(glob.glob("/dev/shm/tsshim.%d.*-*.%s.%s" % (os.geteuid(), group, suffix)))


def age(paths):
    """As if nobody had touched them for hours."""
    then = time.time() - 3 * 3600
    for name in paths:
        with contextlib.suppress(FileNotFoundError):  # a gc of another test was faster
            os.utime(name, (then, then))


def leave_to_gc(group, stays=True):
    """What the group leaves @stays until `tsrun gc`: jobs of other tests start and end meanwhile,
    and take along what nobody uses or keeps."""
    support.overwrite(path(group, "ring"), support.KEPT_UNTIL, struct.pack("<Q", 1 << 63 if stays else 0))


@contextlib.contextmanager
def locked(file, size, begin):
    """We hold a lock on so many bytes of a ."""
    with open(file, "r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX, size, begin)
        yield


def stats(group, *more):
    done = tsrun("stats", "--json", "--group", group, *more)
    return json.loads(expect(done, 0))


def gc(group, *more):
    """What `tsrun gc` says of @group."""
    return expect(tsrun("gc", "--group", group, *more), 0)


class Member:
    """A process that has joined @group, started with @prefix; it does more when it is told to."""

    of = {}  # group: those that it has had

    def __init__(self, group, dataset="photos", *more, prefix=()):
        self.process = subprocess.Popen([*prefix, MEMBER, group, dataset, *more],
                                        env=clean_environment(), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        Member.of.setdefault(group, []).append(self)
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
        """Once is enough."""
        if self.process.stdout.closed:
            return
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
