# SPDX-License-Identifier: MIT
"""
Jobs on several nodes read files with --stage and --cluster: each byte comes from the storage once
for all of them.  cluster_faults.py is about what goes wrong.
"""

import os
import sys

import pytest

import support
from cluster_tier import PATIENT, Tier, fresh, note, site, wait

PIECE = 8 << 20  # of a large file


def opens(one):
    return sum(storage.counts()["opens"] for storage in one.storages)


@pytest.mark.parametrize("count, metadata", [
    support.left_unless(count < 8, count, metadata) for count in (2, 4, 8) for metadata in (0, 600)])
def test_nodes_read_each_byte_once(count, metadata):
    """The first pass asks the storage for each byte once, and further ones for nothing."""
    with site(count) as one, Tier(one, metadata=metadata, **PATIENT) as tier:
        before = tier.totals()
        one.reset()
        assert tier.read(one.names) == one.bytes
        assert one.fetched() == one.bytes
        assert tier.since(before, "won") == len(one.names)
        assert tier.since(before, "stored_bytes") == one.bytes
        assert tier.since(before, "got_bytes") == (count - 1) * one.bytes
        assert opens(one) >= len(one.names)
        one.reset()
        assert tier.read(one.names) == 0
        assert opens(one) == (0 if metadata else count * len(one.names))
        assert tier.left() == 0


def test_what_one_node_knows_is_opened_by_no_other():
    with site(4) as one, Tier(one, metadata=600, **PATIENT) as tier:
        before = tier.totals()
        one.reset()
        assert tier.read(one.names, where=[0]) == one.bytes
        assert opens(one) == len(one.names)
        # It is told of in the background.
        assert tier.since(before, "told") == len(one.names)
        assert tier.read(one.names, where=[1, 2, 3]) == 0
        assert opens(one) == len(one.names)
        assert tier.since(before, "brought") == 3 * len(one.names)


def test_several_jobs_of_a_node_get_what_they_get_without():
    with site(2) as one, Tier(one, each=2, **PATIENT) as tier:
        tier.read(one.names)
        one.reset()
        assert tier.read(one.names) == 0


def test_a_node_that_joins_late_finds_everything():
    for metadata in (0, 600):
        with site(3) as one, Tier(one, where=[0, 1], metadata=metadata, **PATIENT) as tier:
            assert tier.read(one.names) == one.bytes
            tier.settle()
            tier.begin(2)
            # Its first file may be one that it stores, or gets: the others' may have come before
            # their helpers.
            before = tier.totals()
            one.reset()
            assert tier.read(one.names, where=[2]) == 0
            assert tier.since(before, "got_bytes") == one.bytes
            assert tier.since(before, "stored") == 0
            # The paths too, of those that were told of before it came: by whoever opened them.
            assert opens(one) == (0 if metadata else len(one.names))


def take_off(one, number):
    """Drain that node: the others have a list without it, and its server ends."""
    lines = support.read(one.nodes_list).splitlines(True)
    support.write(one.nodes_list, "".join(lines[:number] + lines[number + 1:]))
    down = [support.TSRUN, "cluster", "down", "--dir", one.cluster]
    for node in sorted(range(one.count), key=lambda node: node == number):
        done = one.nodes.run(node, down if node == number else one.words_up(), support.plain_environment())
        assert done.status == 0 and done.errors == "", done.errors


def test_a_node_that_is_drained_while_jobs_read():
    with site(3, files=300, size=300) as one, Tier(one, where=[0, 1], **PATIENT) as tier:
        tier.read(one.names[:100])
        first = [tier.watchers[number].helper() for number in tier.where]
        tier.read(one.names[100:], fault=lambda: take_off(one, 2), at=5, counted=False)
        # The helpers end with their list; who reads when it is time starts the next ones, which
        # have no row for the server that has gone.
        rest = fresh(one, 5, 300)
        wait(lambda: all(tier.watchers[number].helper() not in (0, first[number])
                         for number in tier.where) or tier.read(next(rest), counted=False) is None,
             "other helpers")
        # A helper is there before it has named its rows.
        wait(lambda: not any(isinstance(count, int) and count for number in tier.where
                             for count in tier.watchers[number].row(2).values()), "the new list")
        tier.settle()
        # From then on the two share as if there had never been another one.
        names = next(rest)
        size = sum(one.sizes[name] for name in names)
        before = tier.totals()
        one.reset()
        assert tier.read(names) == size
        assert tier.since(before, "stored_bytes") == tier.since(before, "got_bytes") == size


def test_a_file_that_has_changed_is_another_file():
    with site(2, files=4) as one, Tier(one, **PATIENT) as tier:
        name = one.names[0]
        assert tier.read([name], where=[0]) == one.sizes[name]
        tier.settle()
        size = one.sizes[name]
        with open(os.path.join(one.source, name), "r+b") as file:
            file.write(b"changed" * 7)
        os.utime(os.path.join(one.source, name))
        note(one, [name])
        assert one.sizes[name] == size
        # The kernel of that node knows its old times for a second.
        before = one.sums[name]
        wait(lambda: digest_there(one, 1, name) == before, "it is seen")
        assert tier.read([name], where=[1]) == size
        tier.settle()
        wait(lambda: digest_there(one, 0, name) == before, "it is seen here as well")
        # Known here under its new times, and from the other node.
        tier.seen[0].discard(name)
        assert tier.read([name], where=[0]) == 0
        assert tier.watchers[0].total("got_bytes") == size


def digest_there(one, number, name):
    """Of what a program without us reads there."""
    program = ("import hashlib, sys; print(hashlib.blake2b(open(sys.argv[1], 'rb').read()).hexdigest())")
    done = one.nodes.run(number, [sys.executable, "-c", program, os.path.join(one.mount, name)])
    assert done.errors == "", done.errors
    return done.output.strip()


# ---- large files ------------------------------------------------------------------------------


# Opens a file, which begins to be copied then, and reads nothing of it.
OPEN = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDONLY))"


def copy_large(tier, name):
    """All nodes have a copy."""
    env = tier.site.environment(tier.group, TSSHIM_TEST_PATIENCE="20")
    env["LD_PRELOAD"] = support.TEST_LIBRARY
    find = ["find", "/dev/shm", "-size", "%dc" % tier.site.sizes[name], "-perm", "400"]
    started = [tier.site.nodes.start(number, [sys.executable, "-c", OPEN, os.path.join(
        tier.site.mount, name)], env) for number in tier.where]
    for process in started:
        done = support.finish(process)
        assert (done.status, done.output, done.errors) == (0, "", ""), done.errors
    for number in tier.where:
        wait(lambda number=number: tier.site.nodes.run(number, find).output, "the copy is there")


def test_large_files_are_shared_in_pieces_by_all_servers():
    with site(4, files=1, size=44 << 20, memory="512M") as one, Tier(one, **PATIENT) as tier:
        name, = one.names
        pieces = -(-one.sizes[name] // PIECE)
        before = tier.totals()
        one.reset()
        copy_large(tier, name)
        assert tier.since(before, "won") == pieces
        assert tier.since(before, "stored_bytes") == one.bytes
        assert tier.since(before, "got_bytes") == 3 * one.bytes
        # Of the pages around a piece the kernel reads ahead.
        assert one.bytes <= one.fetched() <= one.bytes + pieces * (1 << 20), one.fetched() / one.bytes
        got = [sum(tier.watchers[number].row(server)["got_bytes"] for number in tier.where)
               for server in range(4)]
        assert sum(count > PIECE for count in got) > 1, got
        # What they have is the file.
        one.reset()
        for number in tier.where:
            tier.seen[number].add(name)
        assert tier.read([name]) == 0


# ---- where it cannot run ----------------------------------------------------------------------


def test_without_rights_it_is_skipped_by_name():
    words = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable, "-m", "pytest",
             "-p", "no:cacheprovider", __file__ + "::test_nodes_read_each_byte_once[2-0]"]
    for must, status in (("", 0), ("1", 1)):
        done = support.run(words, {**os.environ, "TSSHIM_TEST_MUST": must, "TSSHIM_TEST_MAY_SKIP": ""})
        assert done.status == status, (done.status, done.output, done.errors)
        assert "nodes: needs root, for network namespaces" in done.output, done.output
        assert ("1 skipped" in done.output) == (status == 0), done.output
