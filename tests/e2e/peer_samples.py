# SPDX-License-Identifier: MIT
"""
The helper for other nodes (leader/peer/peer_run.c) and samples that it has stored at real memcacheds.
"""

import support
from peer_groups import CHUNK, nodes


def lose(server, node, name):
    """@name, which @node asked for last, is there no more; returns how the server calls it."""
    key = node.job("key")
    assert server.say("md %s:0" % key) == ["HD"], name
    return key


# ---- room -------------------------------------------------------------------------------------


def test_who_ends_removes_what_he_has_stored_and_nothing_of_others():
    with nodes(2) as (cluster, one, other):
        server = cluster.servers[0]
        one.job.give("ours", 2 * CHUNK)
        ours = one.job("key")
        one.job.give("lost", 1000)
        lost = lose(server, one, "lost")
        other.job.give("lost", 1000)
        theirs = server.stored(lost + ":0")
        assert theirs and server.stored(ours + ":0") and server.stored(ours + ":2")
        one.job.end()
        assert one.end_helper() == 0
        assert [server.stored("%s:%d" % (ours, chunk)) for chunk in range(3)] == [None] * 3
        assert server.stored(lost + ":0") == theirs


def test_room_is_made_of_ones_own():
    """What is the oldest of all was lost, and another node has made it again."""
    with nodes(2) as (cluster, one, other):
        server = cluster.servers[0]
        one.job.give("lost", CHUNK)
        lost = lose(server, one, "lost")
        other.job.give("lost", CHUNK)
        theirs = [server.stored("%s:%d" % (lost, chunk)) for chunk in range(2)]
        assert all(theirs)
        names = ("sample%d" % number for number in range(1 << 20))

        def one_more():
            said = one.job("sample", next(names), CHUNK)
            assert said in ("WON", "NONE"), said
            one.job.settle()
            return one.job.row()["removed"] > 0

        support.wait_until(one_more, "room is made")
        assert [server.stored("%s:%d" % (lost, chunk)) for chunk in range(2)] == theirs


# ---- who takes them ---------------------------------------------------------------------------


def looks(node):
    """How many were looked at, how many of these nobody had fetched, and how often it went off."""
    return tuple(map(int, node.job("samples").split()))


def fill(node, first):
    """Store samples, for which older ones are removed, and looked at before; a function for one more."""
    names = ("%s%d" % (first, number) for number in range(1 << 20))

    def one_more():
        node.job("sample", next(names), CHUNK)
        node.job.settle()
        return looks(node)
    return one_more


def test_what_no_node_takes():
    with nodes(1) as (_, one):
        one_more = fill(one, "sample")
        support.wait_until(lambda: one_more()[2] > 0, "it goes off")
        looked, unused, _ = looks(one)
        assert looked == unused >= 32


def test_what_another_node_takes():
    with nodes(2) as (_, one, other):
        for number in range(8):
            one.job.give("taken%d" % number, CHUNK)
            assert other.job("sample", "taken%d" % number, CHUNK) == "GOT"
        one_more = fill(one, "sample")
        support.wait_until(lambda: one_more()[0] > 1, "those of the first are looked at")
        # One of eight is, and what came behind these nobody has fetched.
        support.wait_until(lambda: looks(one) == looks(one), "the last answer is there")
        looked, unused, times = looks(one)
        assert looked - unused == 1 and times == 0, (looked, unused, times)
        assert looks(other) == (0, 0, 0)
