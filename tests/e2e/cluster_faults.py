# SPDX-License-Identifier: MIT
"""
Jobs on several nodes read files with --stage and --cluster while servers, nodes and helpers go
wrong: each job gets what it gets without the tier, and what no node gave came from the storage.
"""

import errno
import os
import signal
import time

import pytest

import events_common
import support
from cluster_tier import (NEW_SECRET, PATIENT, Tier, cut, exchange, fresh, kill, liar, secret_of, site, wait)

AFTER = 10  # files that each job has read when it happens
PAUSE = 5  # seconds in which nobody asks a helper that has not answered


def held(fault, count=2, metadata=0, mend=None, more=None, **settings):
    """Jobs (with @more settings) read a part, a second one in which @fault(site) comes, and a
    third one; then, after @mend(site), until other nodes give something again.  What was
    counted before the third."""
    with site(count, **settings) as one, Tier(one, metadata=metadata, **(more or {})) as tier:
        first, second, third = cut(one.names, 3)
        tier.read(first)
        assert tier.totals()["asked"] > 0
        tier.read(second, fault=lambda: fault(one), at=AFTER)
        before = tier.totals() if mend is None else None
        fetched = tier.read(third)
        if mend:
            mend(one)
            read_until_something_comes(tier, "it is back")
            return None
        return {"fetched": fetched, "bytes": count * sum(one.sizes[name] for name in third),
                "before": before, "after": tier.totals()}


def read_until_something_comes(tier, what):
    """Nobody asks for seconds where somebody has waited in vain, or a server was lost."""
    rest, got = fresh(tier.site, 10), tier.sums("got")
    wait(lambda: tier.read(next(rest)) is not None and tier.sums("got") > got, what)


def grew(found, *counters):
    return sum(found["after"][counter] - found["before"][counter] for counter in counters)


# ---- servers ----------------------------------------------------------------------------------


def test_a_killed_server():
    for metadata in (0, 600):
        found = held(lambda one: kill(one.server(1)), metadata=metadata, more=PATIENT)
        assert grew(found, "failed", "closed") > 0
        # What the other one has is still got.
        assert found["fetched"] < found["bytes"], found


def servers(one, how=signal.SIGKILL, ends=kill):
    for process in [one.server(number) for number in range(one.count)]:
        ends(process, how)


# Faults, and what mends them, if anything does.
FAULTS = {
    "killed_servers_that_come_back": (servers, lambda one: one.up()),
    "a_stopped_server": (lambda one: kill(one.server(1), signal.SIGSTOP), None),
    "stopped_servers_that_go_on": (lambda one: servers(one, signal.SIGSTOP),
                                   lambda one: servers(one, signal.SIGCONT, os.kill)),
    "a_node_that_is_cut_off_and_mended": (lambda one: one.nodes.cut(1), lambda one: one.nodes.mend(1)),
    "a_slow_network": (lambda one: [one.nodes.shape(number, delay_ms=300, rate_mbit=1)
                                    for number in range(one.count)], None),
}


@pytest.mark.parametrize("what", [support.left_unless(what not in ("stopped_servers_that_go_on", "a_slow_network"), what)
                                  for what in FAULTS])
def test_fault(what):
    fault, mend = FAULTS[what]
    held(fault, mend=mend, delays=what == "a_slow_network")


def test_all_servers_gone():
    for metadata in (0, 600):
        found = held(servers, metadata=metadata)
        assert found["fetched"] == found["bytes"], "each node reads all of it"


def test_full_servers():
    with site(2, files=40, size=6_000_000, memory="64M") as one, Tier(one, **PATIENT) as tier:
        for part in cut(one.names, 4):
            tier.read(part)
        assert tier.totals()["full"] > 0
        assert tier.totals()["got"] > 0
        # It is read once more, from here.
        assert tier.read(one.names) == 0


def test_the_event_log_says_when_a_server_is_gone_and_when_it_is_back():
    with site(2, files=1) as one:
        log = os.path.join(one.folder, "log")
        with Tier(one, only={0: {"TSSHIM_EVENTS": log}}) as tier:
            rest = fresh(one, 8)
            name = "%s:%d" % (one.nodes.addresses[1], one.port)

            def said():
                lines, damaged = events_common.parse(support.read(log))
                assert damaged == []
                return [line["nodes"] for line in lines if "nodes" in line]

            def states():
                return [(server["state"], server["errno"]) for nodes in said()
                        for server in nodes["servers"] if server["server"] == name]

            def read_until(is_so, state):
                """And nobody asks from then on, so it stays so; the log is a second behind."""
                wait(lambda: is_so(tier.watchers[0].row(1)) or tier.read(next(rest)) is None, "it is " + state)
                wait(lambda: [what for what, _ in states()][-1:] == [state], "the log says " + state)

            read_until(lambda row: row["state"] == "open", "open")
            kill(one.server(1))
            read_until(lambda row: row["state"] == "shut", "shut")
            assert states()[-1][1] in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EPIPE), states()
            one.up()
            asked = tier.watchers[0].row(1)["won"]
            read_until(lambda row: row["won"] > asked, "open")
            assert states()[-1] == ("open", None)
            assert said()[-1]["helper"] == tier.watchers[0].helper()


# ---- what is no server of ours ----------------------------------------------------------------


# Each with what is counted of it.
LIES = {
    **dict.fromkeys(("noise", "nothing", "cut", "endless", "other_number"), ("failed", "closed")),
    **dict.fromkeys(("changed", "version", "swapped"), ("refused",)), "won": ("won",), "made": ("late",),
}


def test_a_server_that_lies():
    with site(2, files=20 * len(LIES), size=20000, words=["--no-tls"]) as one, liar(one, 1) as tell:
        with Tier(one, **PATIENT) as tier:
            tier.read(one.names)
            tier.settle()
        for names, (lie, counters) in zip(cut(one.names, len(LIES)), LIES.items()):
            tell(lie)
            with Tier(one, metadata=0) as tier:
                tier.read(names)
                found = tier.totals()
                assert sum(found[counter] for counter in counters) > 0, (lie, found)
            tell("none")


def test_a_server_that_begins_to_lie_while_jobs_read():
    with site(2, files=240, size=20000, words=["--no-tls"]) as one, liar(one, 1) as tell, Tier(one) as tier:
        first, second, third = cut(one.names, 3)
        tier.read(first)
        for names, lie in ((second, "noise"), (third, "changed")):
            tier.read(names, fault=lambda lie=lie: tell(lie), at=AFTER)
            tell("none")


def test_a_program_that_speaks_no_tls_in_the_place_of_a_server():
    with site(2) as one, liar(one, 1), Tier(one) as tier:
        tier.read(one.names)
        rows = [tier.watchers[number].row(1) for number in range(2)]
        assert {row["error"] for row in rows} <= {"EACCES", "ECONNRESET", "EBADMSG", "ETIMEDOUT"}, rows
        assert all(row["got"] == 0 for row in rows)


# ---- clocks -----------------------------------------------------------------------------------


def skewed(seconds):
    """A helper and a server on node 1 whose clock is wrong; what was got by all."""
    library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if not os.path.exists(library):
        raise support.Skip("faketime", "needs libfaketime (scripts/deps test)")
    fake = {"LD_PRELOAD": library, "FAKETIME": "%+d" % seconds, "NO_FAKE_STAT": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    with site(2, up=False) as one:
        for number, words in enumerate(({}, fake)):
            done = one.nodes.run(number, one.words_up(), support.plain_environment(**words))
            assert done.errors == "", done.errors
        with Tier(one, where=[0], **PATIENT) as tier:
            tier.begin(1, helper=fake)
            tier.read(one.names)
            return tier.totals(), one.bytes


def test_a_node_whose_clock_is_fast_by_a_year():
    found, size = skewed(365 * 86400)
    assert found["got_bytes"] >= size, "each file once"


def test_a_node_whose_clock_is_slow_by_a_month():
    # Before the certificate is valid there: it takes no part, and nobody is harmed.
    found, _ = skewed(-30 * 86400)
    assert found["closed"] > 0, "it is left alone"


# ---- secrets ----------------------------------------------------------------------------------


def test_a_secret_that_is_exchanged_while_jobs_read():
    with site(2, files=300) as one, Tier(one) as tier:
        old, helpers = secret_of(one), [tier.watchers[number].helper() for number in range(2)]
        for names, secrets in zip(cut(one.names, 3), ([old, NEW_SECRET], [NEW_SECRET, old], [NEW_SECRET])):
            tier.read(names, fault=lambda secrets=secrets: exchange(one, *secrets), at=AFTER)
        read_until_something_comes(tier, "the tier goes on")
        assert [tier.watchers[number].helper() for number in range(2)] == helpers


# ---- helpers ----------------------------------------------------------------------------------


def test_a_killed_helper_is_followed_by_another_one():
    with site(2, files=300, size=300) as one, Tier(one) as tier:
        names = one.names
        tier.read(names[:100])
        first = tier.watchers[0].helper()
        tier.read(names[100:], fault=lambda: kill(first), at=AFTER)
        rest = fresh(one, 5, 300)
        # Whoever wants a file when it is time starts another one.
        wait(lambda: tier.watchers[0].helper() not in (0, first) or tier.read(next(rest)) is None,
             "another helper")
        got = tier.watchers[0].total("got")
        wait(lambda: tier.read(next(rest)) is not None and tier.watchers[0].total("got") > got,
             "it is at work")


def test_a_stopped_helper():
    """Who has waited for it in vain says so to all: for a while nobody asks."""
    with site(2, files=3000, size=300) as one, Tier(one) as tier:
        def left():
            return int(tier.watchers[0].table("left"))

        rest = iter(cut(one.names, 300))
        tier.read(next(rest))
        tier.settle()
        helper = tier.watchers[0].helper()
        kill(helper, signal.SIGSTOP)
        before, begin = left(), time.monotonic()
        wait(lambda: tier.read(next(rest)) is not None and left() > before, "somebody waits")
        tier.read(sum(list(rest)[:4], []))
        found, passed = left() - before, time.monotonic() - begin
        assert (found - 1) * PAUSE <= passed, (found, passed)
        os.kill(helper, signal.SIGCONT)
        tier.settle()
