# SPDX-License-Identifier: MIT
"""
Several nodes, which are network namespaces, and `tsrun cluster` on them.  For tests.
"""

import contextlib
import json
import os
import re
import shutil
import sys

import nodes
import support
from support import read

PORT = 11400
wait_for = support.wait_until
STRANGER = 61001  # a user without a name, a home or a process
SECRET = os.path.join(support.BUILD, "tsshim-secret")
FAILED = 125


def write(path, text, mode=0o600):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, mode)) as file:
        file.write(text)
    os.chmod(path, mode)
    return path


class Cluster:
    """@count nodes, and a directory that they all see, which is not made yet."""

    def __init__(self, count=4, hosts=None):
        if not os.path.exists(SECRET):
            raise support.Skip("openssl", "tsshim-secret was not built")
        if not shutil.which("memcached", path="/usr/bin:/usr/local/bin"):
            raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
        self.nodes = nodes.Nodes(count)
        self.hosts = hosts or self.nodes.addresses
        self.env = support.plain_environment()
        self.env.pop("XDG_RUNTIME_DIR", None)

    def __enter__(self):
        self.nodes.__enter__()
        self.directory = os.path.join(self.nodes.folder, "home", "cluster")
        os.mkdir(os.path.dirname(self.directory))
        self.list = write(os.path.join(self.nodes.folder, "list"), "".join(
            "%s:%d\n" % (host, PORT) for host in self.hosts), 0o644)
        return self

    def __exit__(self, *rest):
        self.nodes.__exit__(*rest)

    def path(self, name):
        return os.path.join(self.directory, name)

    def copy(self, **files):
        """Another directory of it, with other @files, {name, with _ for a dot: content}."""
        mine = os.path.join(self.nodes.folder, "mine")
        shutil.copytree(self.directory, mine)
        for name, text in files.items():
            write(os.path.join(mine, name.replace("_", ".")), text)
        return mine

    def words(self, *words, directory=None):
        return [support.TSRUN, "cluster", words[0], "--dir", directory or self.directory, *words[1:]]

    def tsrun(self, number, *words, directory=None, env=None, user=None):
        return self.nodes.run(number, self.words(*words, directory=directory), env or self.env, user)

    def expect(self, number, pattern, *words, **more):
        """It succeeds, and says this; what the pattern found."""
        done = self.tsrun(number, *words, **more)
        assert done.status == 0 and done.errors == "", (words, done.status, done.errors)
        found = re.fullmatch(pattern, done.output)
        assert found, done.output
        return found

    def refuse(self, number, errors, *words, **more):
        """It fails with that message, and nothing runs afterwards that did not before."""
        before = self.nodes.processes(number)
        done = self.tsrun(number, *words, **more)
        assert done.status == FAILED, (done.status, done.output, done.errors)
        assert done.errors == errors, done.errors
        assert self.nodes.processes(number) == before

    def up(self, number, *words, **more):
        """The number of the server's process."""
        return int(self.expect(number, r"(?:the list .*\n)?up: .*, process (\d+), .*\n", "up", *words,
                               **more).group(1))

    def up_all(self):
        done = self.nodes.run_all(self.words("up", "--nodes", self.list), self.env)
        assert [(one.status, one.errors) for one in done] == [(0, "")] * self.nodes.count, [
            one.errors for one in done]
        return [int(re.search(r"process (\d+)", one.output).group(1)) for one in done]

    def status(self, number, **more):
        """What --json says; the exit status follows from it."""
        done = self.tsrun(number, "status", "--json", **more)
        assert done.errors == "", done.errors
        found = json.loads(done.output)
        assert done.status == (any(one["state"] != "up" for one in found["nodes"])), done.status
        for one in found["nodes"]:
            for name in ("memory_used", "memory_limit", "items", "hits", "misses"):
                assert (one[name] is not None) == (one["state"] == "up"), one
        return found

    def states(self, number, **more):
        return [one["state"] for one in self.status(number, **more)["nodes"]]

    def await_states(self, number, states, **more):
        """What status says when these are the states.  A server may take longer than the second
        that it has, where the machine is slow."""
        def look():
            found = self.status(number, **more)
            return [one["state"] for one in found["nodes"]] == states and found
        return wait_for(look, "states %s" % states)

    def runtime(self, number, pattern="*"):
        """Names of what lies in the runtime directory of that node."""
        done = self.nodes.run(number, ["find", "/run/user/0/tsshim", "-name", pattern, "-type", "f"])
        return done.output.split()


def talk(number, cluster, program):
    """What a program of Python in that node prints, which has the server's address in `server`."""
    begin = "import socket, ssl\nserver = (%r, %d)\n" % (cluster.nodes.addresses[1], PORT)
    done = cluster.nodes.run(number, [sys.executable, "-c", begin + program])
    assert done.errors == "", done.errors
    return done.output


def is_gone(process):
    return not os.path.exists("/proc/%d" % process) or read("/proc/%d/stat" % process).rpartition(
        ") ")[2][0] in "ZX"
