# SPDX-License-Identifier: MIT
"""
The helper for other nodes (leader/peer/peer.h) and samples that it has stored at real memcacheds.
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
            support.wait_until(lambda: one.job("settled") == "yes", "it is stored, or not")
            return one.job.row()["removed"] > 0

        support.wait_until(one_more, "room is made")
        assert [server.stored("%s:%d" % (lost, chunk)) for chunk in range(2)] == theirs


# ---- who takes them ---------------------------------------------------------------------------


def looks(node):
    """How many were looked at, how many of these nobody had fetched, and how often it went off."""
    return tuple(map(int, node.job("samples").split()))


def test_what_no_node_takes():
    with nodes(1, TSSHIM_TEST_PATIENCE="1") as (_, one):
        names = ("sample%d" % number for number in range(1 << 20))

        def one_more():
            one.job("sample", next(names), 1000)
            return looks(one)[2] > 0

        support.wait_until(one_more, "it goes off")
        looked, unused, _ = looks(one)
        assert looked == unused >= 32


def test_what_another_node_takes():
    """It is fetched at once, and looked at half a minute later."""
    with nodes(2, TSSHIM_TEST_PATIENCE="3") as (_, one, other):
        for number in range(8):
            one.job.give("sample%d" % number, 1000)
            assert other.job("sample", "sample%d" % number, 1000) == "GOT"
        support.wait_until(lambda: looks(one)[0], "one of eight is looked at")
        assert looks(one) == (1, 0, 0) and looks(other) == (0, 0, 0)


if __name__ == "__main__":
    support.main(support.functions(globals()))
