# SPDX-License-Identifier: MIT
"""
The helper for other nodes (leader/peer/peer.h) between jobs and real memcacheds.  A group is a
node: its jobs, here of C, ask its helper, and two groups of one cluster share by the servers only.
"""

import contextlib
import glob
import hashlib
import hmac
import itertools
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading

import support
from memcached import MEMCACHED, SECRET, TOKEN, Memcached, answer_all, openssl, write

JOB = os.path.join(support.BUILD, "tests", "unit", "peer", "peer-job")
HELPER = os.path.join(support.BUILD, "tsshim-peer-test")
CHUNK = 519920
SIZES = [1, 79, 4096, 107000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 16 << 20]
# Milliseconds that a job waits where the answer has to come, however busy the machine is.
LONG = 120000
KILLPOINT = re.compile(r"X\((peer_\w+)\)")


def killpoints():
    header = os.path.join(support.HERE, "..", "..", "leader", "object", "killpoint.h")
    with open(header, encoding="utf-8") as file:
        found = KILLPOINT.findall(file.read())
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
            [JOB, group], env=support.plain_environment(), stdin=subprocess.PIPE,
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

    def make(self, name, size, *more, finish=True):
        """Win it, make it, store it; the helper is through with it."""
        said = self("fetch", name, size, LONG, *more)
        assert said.startswith("WON "), said
        assert self("fill") == "ok"
        assert not finish or self("finish") == "ok"
        assert self("store") == "ok"
        support.wait_until(lambda: self("settled") == "yes", "the value is stored")

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


# ---- what works -------------------------------------------------------------------------------


def go_through_sizes(one, other, servers):
    for size in SIZES:
        one.job.make("size%d" % size, size)
        for node in (one, other):
            assert node.job("fetch", "size%d" % size, size, LONG) == "GOT equal", size
    assert one.job.total("stored", servers) == len(SIZES)
    assert one.job.total("stored_bytes", servers) == sum(SIZES)
    assert other.job.total("got", servers) == len(SIZES)
    assert other.job.total("got_bytes", servers) == sum(SIZES)
    assert one.job.total("won", servers) == len(SIZES)
    assert other.job.total("won", servers) == 0


def test_values_of_all_sizes_reach_another_node():
    with nodes(2) as (_, one, other):
        go_through_sizes(one, other, 1)


def test_values_of_all_sizes_over_tls_from_three_servers():
    with nodes(2, servers=3, tls=True) as (_, one, other):
        go_through_sizes(one, other, 3)
        assert all(other.job.row(i)["state"] == "open" for i in range(3))


def test_a_piece_of_a_file_lies_where_it_belongs():
    with nodes(2) as (_, one, other):
        one.job.make("piece", CHUNK + 100, 12345)
        assert other.job("fetch", "piece", CHUNK + 100, LONG, 12345) == "GOT equal"


def test_a_part_that_has_no_name_yet_is_stored():
    with nodes(2) as (_, one, other):
        one.job.make("part", 1000, finish=False)
        assert other.job("fetch", "part", 1000, LONG) == "GOT equal"


def test_what_is_returned_is_won_by_the_next_one():
    with nodes(2) as (_, one, other):
        assert one.job("fetch", "name", 100, LONG).startswith("WON")
        assert one.job("return") == "ok"
        support.wait_until(lambda: one.job("settled") == "yes", "it is returned")
        assert other.job("fetch", "name", 100, LONG).startswith("WON")
        assert other.job("return") == "ok"


def test_what_is_returned_late_is_not_another_nodes_value():
    with nodes(2) as (cluster, one, other):
        assert one.job("fetch", "name", 100, LONG).startswith("WON")
        # As when its two seconds are over.
        assert cluster.servers[0].say("md " + one.job("key") + ":0") == ["HD"]
        other.job.make("name", 100)
        assert one.job("return") == "ok"
        support.wait_until(lambda: one.job("settled") == "yes", "it is returned")
        # Over the connection that the deletion was sent on before.
        assert one.job("fetch", "name", 100, LONG) == "GOT equal"


def test_who_dies_with_what_was_won_returns_it():
    with nodes(2) as (_, one, other):
        doomed = one.start_job()
        assert doomed("fetch", "name", 100, LONG).startswith("WON")
        doomed.kill()
        one.jobs.remove(doomed)
        support.wait_until(lambda: one.job("settled") == "yes", "its slot is free")
        support.wait_until(lambda: other.job("fetch", "name", 100, LONG).startswith("WON"), "it is won")
        assert other.job("return") == "ok"


def test_who_asks_for_what_another_node_makes_waits_for_it():
    with nodes(2) as (_, one, other):
        assert one.job("fetch", "name", 100, LONG).startswith("WON")
        other.job.send("fetch", "name", 100, LONG)
        support.wait_until(lambda: one.job.row()["won"] == 1, "it is won")
        assert one.job("fill") == "ok" and one.job("store") == "ok"
        said = other.job.line()
        # On a machine that stood still for two seconds the place has ended: then it was won.
        assert said == "GOT equal" or said.startswith("WON"), said


def test_nobody_waits_for_another_node_beyond_a_deadline():
    with nodes(2) as (cluster, one, other):
        assert one.job("fetch", "name", 100, LONG).startswith("WON")
        key, server = one.job("key") + ":0", cluster.servers[0]
        # A place that lasts, in the place of one that ends within two seconds.
        server.say("md " + key)
        assert server.say("mg %s v N3600" % key) == ["VA", "0", "W"]
        # Not all 300 milliseconds of a busy machine are the helper's.
        support.wait_until(lambda: other.job("fetch", "name", 100, 300) == "LATE", "it says so")
        assert other.job.row()["late"] > 0


# ---- files that are none ----------------------------------------------------------------------


def test_a_file_that_was_cut_is_not_stored_and_nobody_waits():
    with nodes(2) as (_, one, other):
        assert one.job("fetch", "name", 2 * CHUNK, LONG).startswith("WON")
        assert one.job("cut") == "ok" and one.job("store") == "ok"
        support.wait_until(lambda: one.job("settled") == "yes", "it is given up")
        assert one.job.row()["stored"] == 0
        assert other.job("fetch", "name", 2 * CHUNK, LONG).startswith("WON")
        assert other.job("return") == "ok"


def stopped(process):
    """All threads of it: each stops in its own time."""
    states = []
    for path in glob.glob("/proc/%d/task/*/stat" % process.pid):
        with open(path, encoding="ascii") as file:
            states.append(file.read().rpartition(")")[2].split()[0])
    return set(states) == {"T"}


# ---- servers in trouble -----------------------------------------------------------------------


def test_a_killed_server_costs_nobody_more_than_a_refusal():
    with nodes(1) as (cluster, one):
        one.job.make("name", 100)
        cluster.servers[0].process.kill()
        cluster.servers[0].process.wait()
        answers = [one.job("fetch", "name", 100, LONG) for _ in range(20)]
        assert set(answers) == {"FAILED", "CLOSED"}, answers
        assert one.job.row()["error"] in ("ECONNREFUSED", "ECONNRESET"), one.job.row()
        assert one.job.row()["state"] == "shut"


def test_a_killed_server_has_closed_and_not_lied():
    for tls in (False, True):
        with nodes(1, tls=tls) as (cluster, one):
            one.job.make("name", 100)
            cluster.servers[0].process.kill()
            cluster.servers[0].process.wait()
            # Nobody asks it meanwhile.
            support.wait_until(lambda: one.job.row()["state"] == "shut", "it is noticed")
            assert one.job.row()["error"] == "ECONNRESET", one.job.row()


def test_a_stopped_server_keeps_nobody():
    with nodes(1, TSSHIM_TEST_PATIENCE="1") as (cluster, one):
        said = one.job("fetch", "name", 100, LONG)
        assert said.startswith("WON") or said in ("FAILED", "CLOSED"), said
        cluster.servers[0].process.send_signal(signal.SIGSTOP)
        support.wait_until(lambda: stopped(cluster.servers[0].process), "it is stopped")
        answers = [one.job("fetch", "name%d" % i, 100, LONG) for i in range(10)]
        assert set(answers) <= {"FAILED", "CLOSED"} and "CLOSED" in answers, answers
        cluster.servers[0].process.send_signal(signal.SIGCONT)
        support.wait_until(lambda: one.job("fetch", "again", 100, LONG).startswith("WON"), "it is back")


def test_what_has_lost_a_chunk_is_made_anew():
    with nodes(2, servers=2) as (cluster, one, other):
        size = 9 * CHUNK
        one.job.make("name", size)
        key = one.job("key")
        for server in cluster.servers:
            server.say("md %s:5" % key)
        assert other.job("fetch", "name", size, LONG) == "NONE"
        # Chunk 0 goes as well, so that somebody wins.
        support.wait_until(lambda: all(x.stored(key + ":0") is None for x in cluster.servers), "it goes")
        other.job.make("name", size)
        assert one.job("fetch", "name", size, LONG) == "GOT equal"


def test_a_full_server_is_told_and_nobody_waits():
    with nodes(2) as (_, one, other):
        names = ["name%d" % i for i in range(12)]
        for name in names:
            said = one.job("fetch", name, 10_000_000, LONG)
            if not said.startswith("WON"):
                assert said in ("NONE", "FAILED"), said
                continue
            assert one.job("fill") == "ok" and one.job("store") == "ok"
            support.wait_until(lambda: one.job("settled") == "yes", "it is stored, or not")
        assert one.job.row()["full"] > 0
        assert one.job.row()["stored"] > 0
        assert other.job("fetch", names[0], 10_000_000, LONG) == "GOT equal"


def test_a_server_that_refuses_the_token_is_left_alone():
    with Cluster(1, tokens=("7" * 64,)) as cluster, Node(cluster) as one:
        assert one.job("fetch", "name", 100, LONG) == "CLOSED"
        assert one.job("fetch", "name", 100, LONG) == "CLOSED"
        row = one.job.row()
        assert (row["state"], row["error"], row["opened"], row["closed"]) == ("shut", "EACCES", 1, 2), row


def test_a_name_that_nobody_knows_is_no_server_and_keeps_nobody():
    with Cluster(1) as cluster:
        cluster.list(["no-such-host.invalid:11211"])
        with Node(cluster) as one:
            assert one.job("fetch", "name", 100, LONG) == "CLOSED"


def test_a_name_is_looked_up():
    with Cluster(1, host="localhost") as cluster, Node(cluster) as one:
        support.wait_until(lambda: one.job("fetch", "name", 100, LONG).startswith("WON"), "it is found")
        assert one.job("return") == "ok"


# ---- what a hostile server does ---------------------------------------------------------------


def test_a_changed_value_is_refused_and_heals():
    with nodes(2) as (cluster, one, other):
        one.job.make("name", 1000)
        server = cluster.servers[0]
        key = one.job("key") + ":0"
        value = bytearray(server.stored(key))
        value[-1] ^= 1
        server.put(key, bytes(value))
        assert other.job("fetch", "name", 1000, LONG) == "REFUSED"
        assert other.job.row()["refused"] == 1
        assert other.job("fetch", "name", 1000, LONG) == "REFUSED"
        assert other.job.row()["refused"] == 1, "it was not asked for again"
        support.wait_until(lambda: server.stored(key) is None, "it is taken away")
        one.job.make("name", 1000)
        assert one.job("fetch", "name", 1000, LONG) == "GOT equal"


def test_what_is_no_server_fails():
    with Cluster(1) as cluster, socket.create_server(("127.0.0.1", 0)) as other:
        cluster.list(["127.0.0.1:%d" % other.getsockname()[1]])
        thread = threading.Thread(target=answer_all, args=(other, b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        thread.start()
        with Node(cluster) as one:
            assert one.job("fetch", "name", 100, LONG) in ("FAILED", "CLOSED")
            assert one.job.row()["error"] in ("EPROTO", "EACCES"), one.job.row()
        other.shutdown(socket.SHUT_RDWR)
        thread.join()


# ---- secrets ----------------------------------------------------------------------------------


def test_secrets_are_exchanged_while_it_runs():
    new = "f" * 64
    with Cluster(1, tokens=(TOKEN, token_of(new))) as cluster, \
            Node(cluster) as one, Node(cluster) as other:
        numbers = itertools.count()

        def maker():
            """Which secret a value is made with."""
            one.job.make("made%d" % next(numbers), 1000)
            return cluster.servers[0].stored(one.job("key") + ":0")[8:12]

        old = maker()
        cluster.secret(new, SECRET)
        support.wait_until(lambda: maker() != old, "the new secret is used")
        # The other one may not have looked at it yet, and then refuses once.
        other.end_helper_now()
        other.start_helper()
        for i in range(next(numbers)):
            assert other.job("fetch", "made%d" % i, 1000, LONG) == "GOT equal", i
        assert one.helper.poll() is None


def test_a_server_that_knows_the_older_token_only_is_asked_with_that():
    new = "f" * 64
    with Cluster(1) as cluster:
        cluster.secret(new, SECRET)
        with Node(cluster) as one:
            assert one.job("fetch", "name", 100, LONG).startswith("WON")
            assert one.job("return") == "ok"
            assert one.job.row()["opened"] == 2


# ---- the helper's life ------------------------------------------------------------------------


def test_there_is_one_helper():
    with nodes(1) as (cluster, one):
        second = support.run([HELPER, one.group.name, str(64 << 20), cluster.path, str(64 << 20)])
        assert second.status == 1
        assert one.job("helper").split() == [str(one.helper.pid), "0"]
        assert one.job("fetch", "name", 100, LONG).startswith("WON")
        assert one.job("return") == "ok"


def test_it_ends_when_its_cluster_is_another_one():
    with nodes(1) as (cluster, one):
        cluster.list(["127.0.0.1:1"])
        assert one.end_helper() == 1
        assert one.job("helper").split() == ["0", "ESTALE"]


def test_it_ends_when_its_cluster_has_gone():
    with nodes(1) as (cluster, one):
        os.rename(cluster.path, cluster.path + ".gone")
        assert one.end_helper() == 1
        assert one.job("helper").split() == ["0", "ENOENT"]


def test_it_says_why_it_cannot_begin():
    with Cluster(1) as cluster, Node(cluster) as one:
        one.end_helper_now()
        os.chmod(os.path.join(cluster.path, "secret"), 0o640)
        one.start_helper()
        assert one.end_helper() == 1
        assert one.job("helper").split() == ["0", "EPERM"]


def test_one_that_a_person_starts_says_so():
    done = support.run([HELPER])
    assert (done.status, done.errors) == (2, "tsshim-peer is started by libtsshim.so only\n")


def test_it_leaves_no_core():
    with nodes(1) as (_, one):
        with open("/proc/%d/coredump_filter" % one.helper.pid, encoding="ascii") as file:
            assert int(file.read(), 16) == 0
        with open("/proc/%d/limits" % one.helper.pid, encoding="ascii") as file:
            assert re.search(r"^Max core file size +0 +0 ", file.read(), re.M)


def test_a_stopped_helper_keeps_nobody():
    with nodes(1) as (_, one):
        one.job.make("name", 1000)
        one.helper.send_signal(signal.SIGSTOP)
        support.wait_until(lambda: stopped(one.helper), "it is stopped")
        assert one.job("fetch", "name", 1000, 100) == "EAGAIN"
        assert one.job("settled") == "yes"
        one.helper.send_signal(signal.SIGCONT)
        assert one.job("fetch", "name", 1000, LONG) == "GOT equal"


def test_one_that_is_stopped_does_not_write_for_who_has_left():
    for point in ("peer_found", "peer_asked", "peer_opened"):
        with nodes(2) as (_, one, other):
            other.job.make("name", 1000)
            one.end_helper_now()
            one.start_helper(TSSHIM_TEST_STOP=point)
            support.wait_until(lambda: one.job("fetch", "name", 1000, 200) == "ETIME", "it is left")
            support.wait_until(lambda: stopped(one.helper), "it is stopped")
            one.helper.send_signal(signal.SIGCONT)
            support.wait_until(lambda: one.job("settled") == "yes", "it is through")
            assert one.job("untouched") == "yes", point
            assert one.job("fetch", "name", 1000, LONG) == "GOT equal", point


# A .part that the killed one may have written half is not used; the next helper goes on.
ANSWERS = {"GOT equal", "NONE", "FAILED", "LATE", "ETIME", "EAGAIN"}


def kill_at(point):
    with nodes(2) as (_, one, other):
        one.job.make("there", 2 * CHUNK)
        one.end_helper_now()
        one.start_helper(TSSHIM_TEST_KILL=point)
        if one.helper.poll() is None:
            # One fetch of what is there, one of what is not, and what follows of it.
            said = one.job("fetch", "there", 2 * CHUNK, LONG)
            assert said in ANSWERS, (point, said)
            if one.helper.poll() is None:
                said = one.job("fetch", "new", 2 * CHUNK, LONG)
                assert said.startswith("WON") or said in ANSWERS, (point, said)
                if said.startswith("WON"):
                    assert one.job("fill") == "ok" and one.job("store") == "ok"
        if point == "peer_returned" and one.helper.poll() is None:
            support.wait_until(lambda: one.job("settled") == "yes", "it is stored")
            assert one.job("fetch", "third", 100, LONG).startswith("WON")
            assert one.job("return") == "ok"
        status = one.end_helper()
        assert status == -signal.SIGKILL, (point, status)
        one.start_helper()
        support.wait_until(lambda: one.job("settled") == "yes", "the next helper goes on")
        assert one.job("fetch", "there", 2 * CHUNK, LONG) == "GOT equal", point
        assert other.job("fetch", "there", 2 * CHUNK, LONG) == "GOT equal", point


def test_a_helper_killed_at_every_step_is_followed_by_another_one():
    for point in killpoints():
        kill_at(point)


support.main(support.functions(globals()))
