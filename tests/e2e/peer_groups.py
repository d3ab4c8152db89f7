# SPDX-License-Identifier: MIT
"""
Groups of jobs (in C) that are nodes of one cluster, with their helpers and memcacheds.  For tests.
"""

import contextlib
import glob
import hashlib
import hmac
import os
import re
import signal
import subprocess
import tempfile

import support
from memcached import MEMCACHED, SECRET, Memcached, openssl, write

JOB = os.path.join(support.BUILD, "tests", "unit", "peer", "peer-job")
HELPER = os.path.join(support.BUILD, "tsshim-peer-test")
CHUNK = 519920
SIZES = [1, 79, 4096, 107000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 16 << 20]
# Milliseconds that a job waits where the answer has to come, however busy the machine is.
LONG = 120000
KILLPOINT = re.compile(r"X\((peer_\w+)\)")


def killpoints():
    header = os.path.join(support.HERE, "..", "..", "leader", "object", "killpoint.h")
    found = KILLPOINT.findall(support.read(header))
    assert len(found) > 8, found
    return found


def token_of(secret):
    return hmac.new(bytes.fromhex(secret), b"tsshim peer 1: token", hashlib.sha256).hexdigest()


class Cluster:
    """A directory of a cluster, and @count servers on this machine."""

    def __init__(self, count=1, tls=False, host="127.0.0.1", **more):
        if not MEMCACHED:
            raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
        self.count, self.tls, self.host, self.more = count, tls, host, more
        self.servers = []

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "cluster")
        os.mkdir(self.path, 0o700)
        self.secret(SECRET)
        write(os.path.join(self.path, "cluster.conf"), "tls = %s\n" % ("on" if self.tls else "off"))
        if self.tls:
            self.make_certificate()
        self.servers = [self.start() for _ in range(self.count)]
        self.list(["%s:%d" % (self.host, one.port) for one in self.servers])
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self):
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        tls = self.path if self.tls else None
        return self.stack.enter_context(Memcached(folder, tls=tls, **self.more))

    def list(self, lines):
        path = os.path.join(self.path, "nodes")
        write(path + ".new", "".join(line + "\n" for line in lines))
        os.rename(path + ".new", path)

    def secret(self, *secrets):
        path = os.path.join(self.path, "secret")
        write(path + ".new", "".join(one + "\n" for one in secrets))
        os.rename(path + ".new", path)

    def make_certificate(self):
        """cert.pem and key.pem; under the names that Memcached has for them as well."""
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=cluster", "-days", "2",
                "-addext", "subjectAltName=IP:127.0.0.1", cwd=self.path)
        os.chmod(os.path.join(self.path, "key.pem"), 0o600)
        for name, of in (("ca.pem", "cert.pem"), ("server.pem", "cert.pem"), ("server.key", "key.pem")):
            os.symlink(of, os.path.join(self.path, name))


class Job:
    """A job of a node."""

    def __init__(self, group):
        self.process = subprocess.Popen(
            [JOB, group], env=support.plain_environment(TSSHIM_TEST_PATIENCE="120"), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().rstrip("\n")

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def __call__(self, *words):
        self.send(*words)
        return self.line()

    def settle(self):
        """Until the helper is through with what it was asked for last."""
        support.wait_until(lambda: self("settled") == "yes", "it is settled")

    def win(self, name, size=100, *more):
        said = self("fetch", name, size, LONG, *more)
        assert said.startswith("WON "), said

    def give_back(self):
        assert self("return") == "ok"
        self.settle()

    def make(self, name, size, *more, finish=True):
        """Win it, make it, store it; the helper is through with it."""
        self.win(name, size, *more)
        assert self("fill") == "ok"
        assert not finish or self("finish") == "ok"
        assert self("store") == "ok"
        self.settle()

    def give(self, name, size):
        """Win the sample, make it, hand it over; the helper is through with it."""
        said = self("sample", name, size)
        assert said == "WON", said
        self.settle()

    def row(self, index=0):
        """What is told of a server."""
        words = self("peer", index).split()
        found = {key: int(value) for key, value in (word.split("=") for word in words[3:])}
        return {"name": words[0], "state": words[1], "error": words[2], **found}

    def total(self, counter, servers=1):
        return sum(self.row(i)[counter] for i in range(servers))

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            assert self.process.wait(timeout=support.TIMEOUT) == 0
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Node:
    """A group with a job and a helper."""

    def __init__(self, cluster, **settings):
        self.cluster, self.helper, self.jobs = cluster, None, []
        self.group = support.Group()
        self.settings = {"TSSHIM_TEST_PATIENCE": "120", **settings}

    def __enter__(self):
        self.group.__enter__()
        self.job = self.start_job()
        self.start_helper()
        return self

    def start_job(self):
        self.jobs.append(Job(self.group.name))
        return self.jobs[-1]

    def start_helper(self, **settings):
        self.helper = subprocess.Popen(
            [HELPER, self.group.name, str(64 << 20), self.cluster.path, str(64 << 20)],
            env=support.plain_environment(**{**self.settings, **settings}))
        pid = str(self.helper.pid)
        support.wait_until(
            lambda: self.helper.poll() is not None or self.job("helper").split()[0] == pid, "a helper")

    def end_helper_now(self):
        self.helper.kill()
        assert self.end_helper() == -signal.SIGKILL

    def end_helper(self):
        """It has ended by itself."""
        status = self.helper.wait(timeout=support.TIMEOUT)
        self.helper = None
        return status

    def __exit__(self, kind, *_):
        for job in self.jobs:
            job.end() if kind is None else job.kill()
        if self.helper:
            if kind is not None:
                self.helper.kill()
            else:
                assert self.helper.wait(timeout=support.TIMEOUT) == 0, "the helper goes with the jobs"
            self.helper.wait()
        self.group.gc()
        for path in self.group.leftovers("*"):
            if kind is None:
                assert path.endswith("ledger"), path
            os.unlink(path)


@contextlib.contextmanager
def nodes(count=1, servers=1, tls=False, **settings):
    with Cluster(servers, tls) as cluster, contextlib.ExitStack() as stack:
        yield (cluster, *(stack.enter_context(Node(cluster, **settings)) for _ in range(count)))


def stopped(process):
    """All threads of it: each stops in its own time."""
    states = []
    for path in glob.glob("/proc/%d/task/*/stat" % process.pid):
        states.append(support.read(path).rpartition(")")[2].split()[0])
    return set(states) == {"T"}
