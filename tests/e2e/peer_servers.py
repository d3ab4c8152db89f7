# SPDX-License-Identifier: MIT
"""
The helper for other nodes (leader/peer/peer_run.c) and servers that are in trouble, lie, or want another
secret.
"""

import itertools
import signal
import socket
import threading

import support
from memcached import SECRET, TOKEN, answer_all
from peer_groups import CHUNK, LONG, Cluster, Node, nodes, stopped, token_of


# ---- servers in trouble -----------------------------------------------------------------------


def test_a_killed_server_costs_nobody_more_than_a_refusal():
    """And has closed, not lied."""
    for tls, asked in ((False, 20), (False, 0), (True, 0)):
        with nodes(1, tls=tls) as (cluster, one):
            one.job.make("name", 100)
            cluster.servers[0].process.kill()
            cluster.servers[0].process.wait()
            answers = [one.job("fetch", "name", 100, LONG) for _ in range(asked)]
            if asked:
                assert set(answers) == {"FAILED", "CLOSED"}, answers
                assert one.job.row()["state"] == "shut"
            support.wait_until(lambda: one.job.row()["state"] == "shut", "it is noticed")
            assert one.job.row()["error"] in ("ECONNRESET", "ECONNREFUSED")[:2 if asked else 1], one.job.row()


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
            one.job.settle()
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
