# SPDX-License-Identifier: MIT
"""
The helper for other nodes (leader/peer/peer_run.c) between jobs and real memcacheds.  A group is a
node: its jobs, here of C, ask its helper, and two groups of one cluster share by the servers only.
"""

import os
import re
import signal

import pytest
import support
from peer_groups import CHUNK, HELPER, LONG, SIZES, killpoints, nodes, stopped


# ---- what works -------------------------------------------------------------------------------


@pytest.mark.parametrize("servers, tls", [(1, False), (3, True)])
def test_values_of_all_sizes_reach_another_node(servers, tls):
    with nodes(2, servers=servers, tls=tls) as (_, one, other):
        for size in SIZES:
            one.job.make("size%d" % size, size)
            for node in (one, other):
                assert node.job("fetch", "size%d" % size, size, LONG) == "GOT equal", size
        for job, counted in ((one.job, {"stored": len(SIZES), "stored_bytes": sum(SIZES), "won": len(SIZES)}),
                             (other.job, {"got": len(SIZES), "got_bytes": sum(SIZES), "won": 0})):
            assert {name: job.total(name, servers) for name in counted} == counted
        assert all(other.job.row(i)["state"] == "open" for i in range(servers))


def test_pieces_lie_where_they_belong_and_are_stored_without_a_name():
    with nodes(2) as (_, one, other):
        one.job.make("piece", CHUNK + 100, 12345)
        assert other.job("fetch", "piece", CHUNK + 100, LONG, 12345) == "GOT equal"
        one.job.make("part", 1000, finish=False)
        assert other.job("fetch", "part", 1000, LONG) == "GOT equal"


def test_what_is_returned_is_won_by_the_next_one():
    with nodes(2) as (_, one, other):
        one.job.win("name")
        one.job.give_back()
        other.job.win("name")
        other.job.give_back()


def test_what_is_returned_late_is_not_another_nodes_value():
    with nodes(2) as (cluster, one, other):
        one.job.win("name")
        # As when its two seconds are over.
        assert cluster.servers[0].say("md " + one.job("key") + ":0") == ["HD"]
        other.job.make("name", 100)
        one.job.give_back()
        # Over the connection that the deletion was sent on before.
        assert one.job("fetch", "name", 100, LONG) == "GOT equal"


def test_who_dies_with_what_was_won_returns_it():
    with nodes(2) as (_, one, other):
        doomed = one.start_job()
        doomed.win("name")
        doomed.kill()
        one.jobs.remove(doomed)
        one.job.settle()
        support.wait_until(lambda: other.job("fetch", "name", 100, LONG).startswith("WON"), "it is won")
        other.job.give_back()


def test_who_asks_for_what_another_node_makes_waits_for_it():
    with nodes(2) as (_, one, other):
        one.job.win("name")
        other.job.send("fetch", "name", 100, LONG)
        support.wait_until(lambda: one.job.row()["won"] == 1, "it is won")
        assert one.job("fill") == "ok" and one.job("store") == "ok"
        said = other.job.line()
        # On a machine that stood still for two seconds the place has ended: then it was won.
        assert said == "GOT equal" or said.startswith("WON"), said


def test_nobody_waits_for_another_node_beyond_a_deadline():
    with nodes(2) as (cluster, one, other):
        one.job.win("name")
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
        one.job.win("name", 2 * CHUNK)
        assert one.job("cut") == "ok" and one.job("store") == "ok"
        one.job.settle()
        assert one.job.row()["stored"] == 0
        other.job.win("name", 2 * CHUNK)
        other.job.give_back()


# ---- the helper's life ------------------------------------------------------------------------


def test_there_is_one_helper():
    with nodes(1) as (cluster, one):
        second = support.run([HELPER, one.group.name, str(64 << 20), cluster.path, str(64 << 20)])
        assert second.status == 1
        assert one.job("helper").split() == [str(one.helper.pid), "0"]
        one.job.win("name")
        one.job.give_back()


def test_it_says_why_it_ends_or_cannot_begin():
    """When its cluster is another one, or has gone; or with a secret that others may read."""
    for change, error, begins in ((lambda cluster: cluster.list(["127.0.0.1:1"]), "ESTALE", False),
                                  (lambda cluster: os.rename(cluster.path, cluster.path + ".gone"), "ENOENT", False),
                                  (lambda cluster: os.chmod(cluster.path + "/secret", 0o640), "EPERM", True)):
        with nodes(1) as (cluster, one):
            if begins:
                one.end_helper_now()
            change(cluster)
            if begins:
                one.start_helper()
            assert one.end_helper() == 1
            assert one.job("helper").split() == ["0", error]


def test_one_that_a_person_starts_says_so():
    done = support.run([HELPER])
    assert (done.status, done.errors) == (2, "tsshim-peer is started by libtsshim.so only\n")


def test_it_leaves_no_core():
    with nodes(1) as (_, one):
        assert int(support.read("/proc/%d/coredump_filter" % one.helper.pid), 16) == 0
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
            said = []
            # Not all 200 milliseconds of a busy machine are the helper's.
            support.wait_until(lambda: stopped(one.helper) or said.append(one.job("fetch", "name", 1000, 200)),
                               "it is stopped")
            assert "ETIME" in said, said
            one.helper.send_signal(signal.SIGCONT)
            one.job.settle()
            assert one.job("untouched") == "yes", point
            assert one.job("fetch", "name", 1000, LONG) == "GOT equal", point


# A .part that the killed one may have written half is not used; the next helper goes on.
ANSWERS = {"GOT equal", "NONE", "FAILED", "LATE", "ETIME", "EAGAIN"}


@pytest.mark.parametrize("point", killpoints())
def test_a_helper_killed_at_every_step_is_followed_by_another_one(point):
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
            one.job.settle()
            one.job.win("third")
            assert one.job("return") == "ok"
        status = one.end_helper()
        assert status == -signal.SIGKILL, (point, status)
        one.start_helper()
        one.job.settle()
        for node in (one, other):
            assert node.job("fetch", "there", 2 * CHUNK, LONG) == "GOT equal", point
