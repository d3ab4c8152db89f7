# SPDX-License-Identifier: MIT
"""
What `tsrun stats` says of other nodes: the numbers of the table, in each of its forms, and sums that
two nodes have in common.
"""

import base64
import json
import os
import re
import struct
import sys
import tempfile

import support

sys.path.append(os.path.join(support.HERE, "..", "storage"))
import cluster_nodes  # noqa: E402

FILES = 12
TOTALS = ("posted", "unposted", "left")
WHY_NOT = ("won", "none", "late", "closed", "failed", "refused")

# leader/mail/mail.h
COUNT_AT, TOTALS_AT, SLOTS_AT, SLOTS, SLOT, PEER, COUNTERS_AT = 196, 200, 448, 160, 192, 224, 96


def counter_names():
    """Of TS_MAIL_COUNTERS, in its order."""
    with open(os.path.join(support.HERE, "..", "..", "leader", "mail", "mail.h")) as file:
        body = re.search(r"#define TS_MAIL_COUNTERS\(X\)(.*?)\n\n", file.read(), re.S).group(1)
    return re.findall(r"X\([A-Z_]+, (\w+),", body)


def table_of(site, number, group):
    """Totals, and {node: {counter: value}}, as they lie in the memory of that node."""
    done = site.nodes.run(number, ["sh", "-c", "base64 /dev/shm/*.%s.peers" % group])
    assert done.status == 0, done.errors
    raw = base64.b64decode(done.output)
    count, = struct.unpack_from("<I", raw, COUNT_AT)
    totals = dict(zip(TOTALS, struct.unpack_from("<3Q", raw, TOTALS_AT)))
    names, nodes = counter_names(), {}
    for row in range(count):
        at = SLOTS_AT + SLOTS * SLOT + row * PEER
        name = raw[at:at + 64].rstrip(b"\0").decode()
        nodes[name] = dict(zip(names, struct.unpack_from("<%dQ" % len(names), raw, at + COUNTERS_AT)))
    return totals, nodes


def told(site, number, group, *words):
    done = site.nodes.run(number, [support.TSRUN, "stats", "--group", group, *words])
    assert (done.status, done.errors) == (0, ""), done.errors
    return done.output


def as_json(site, number, group):
    """The same two of `tsrun stats --json`, and its object."""
    found = json.loads(told(site, number, group, "--json"))["nodes"]
    nodes = {node["name"]: {name: node[name] for name in counter_names()} for node in found["list"]}
    return {name: found[name] for name in TOTALS}, nodes, found


def steady(site, number, group):
    """What the table says when it says it twice: nothing is on its way any more."""
    def look():
        first = table_of(site, number, group)
        return first == table_of(site, number, group) and first
    return support.wait_until(look, "the table is still")


def total(nodes, name):
    return sum(node[name] for node in nodes.values())


def metrics(text):
    found = {}
    for name, node, value in re.findall(
            r'^tsshim_node_(\w+)_total\{group="[^"]*",node="([^"]*)"\} (\d+)$', text, re.M):
        found.setdefault(node, {})[name] = int(value)
    return found


def rows_of(text, name):
    """{counter: value} of a node, as people see it."""
    part = text.split("\nNode %s  (" % name)[1].split("\n\n")[0]
    return {key: value.replace(" ", "") for key, value in re.findall(r"^    (\w+) +(\d\S*(?: \S+)*)  ", part, re.M)}


def check_forms(site, number, group):
    """All forms have what the table has; returns it."""
    totals, nodes = steady(site, number, group)
    told_totals, told_nodes, found = as_json(site, number, group)
    assert (told_totals, told_nodes) == (totals, nodes), (told_totals, totals, told_nodes, nodes)
    assert found["helper"] > 0 and found["error"] is None, found
    assert list(nodes) == ["%s:%d" % (address, site.port) for address in site.nodes.addresses]
    assert metrics(told(site, number, group, "--prometheus")) == nodes
    verbose = told(site, number, group, "-v")
    text = told(site, number, group)
    assert "\nOther nodes: asked by process %d\n" % found["helper"] in text, text
    for name, counters in nodes.items():
        assert rows_of(verbose, name) == {key: str(value) for key, value in counters.items()}
        shown = rows_of(text, name)
        assert set(shown) == {key for key, value in counters.items() if value > 0}, text
        assert all(shown[key] == str(counters[key]) for key in shown if "bytes" not in key), text
    return totals, nodes


class Pair:
    """Two nodes with a job each, whose helpers are there: values are asked for from the first file on."""

    def __init__(self, metadata):
        self.folder = tempfile.TemporaryDirectory()
        names = cluster_nodes.files(self.folder.name, FILES + 2, 100000)
        self.site = cluster_nodes.Site(2, self.folder.name, names)
        self.site.library = support.TEST_LIBRARY
        self.more = {"metadata": metadata, "TSSHIM_TEST_PATIENCE": "120"}
        self.names = names

    def __enter__(self):
        self.site.__enter__()
        self.site.up()
        self.group = self.site.group()
        self.warm = [self.read(number, self.names[number:number + 1]) for number in range(2)]
        for number in range(2):
            support.wait_until(lambda: as_json(self.site, number, self.group)[2]["helper"], "a helper")
        self.before = [steady(self.site, number, self.group)[1] for number in range(2)]
        return self

    def __exit__(self, *_):
        self.site.__exit__()
        self.folder.cleanup()

    def read(self, number, names):
        """A job of that node has read these files, and still runs."""
        support.write(self.site.listing, "\n".join(names) + "\n")
        jobs = self.site.start(1, self.group, where=[number], **self.more)
        jobs.epoch()
        return jobs

    def since(self, number):
        """Totals, and counters less those of before the files were read."""
        totals, nodes = steady(self.site, number, self.group)
        return totals, {node: {name: value - self.before[number].get(node, {}).get(name, 0)
                               for name, value in counters.items()} for node, counters in nodes.items()}

    def is_well(self, number):
        """Nothing was given up, as on a machine that is too slow for it."""
        totals, nodes = self.since(number)
        return totals["left"] + totals["unposted"] == 0 and not any(
            total(nodes, name) for name in ("late", "closed", "failed", "refused", "full"))

    def end(self, *jobs):
        for one in (*self.warm, *jobs):
            one.end()


def test_two_nodes_agree():
    """The first reads all of it from the storage and hands it over; the second is given that."""
    with Pair(metadata=0) as pair:
        site, group = pair.site, pair.group
        first = pair.read(0, pair.names[2:])
        support.wait_until(lambda: total(pair.since(0)[1], "stored") == FILES or not pair.is_well(0),
                           "all of it was handed over")
        second = pair.read(1, pair.names[2:])
        for number in range(2):
            check_forms(site, number, group)
        (_, given), (totals, taken) = pair.since(0), pair.since(1)
        assert total(taken, "got") > 0
        assert total(taken, "got_bytes") <= total(given, "stored_bytes")
        # Whatever did not come has its reason.
        lost = sum(total(taken, name) for name in WHY_NOT) + totals["left"] + totals["unposted"]
        assert total(taken, "got") + lost >= FILES, taken
        if pair.is_well(0) and pair.is_well(1):
            assert total(given, "won") == total(taken, "got") == FILES, (given, taken)
            for node in taken:
                assert taken[node]["got"] == taken[node]["asked"] == given[node]["stored"], node
                assert taken[node]["got_bytes"] == given[node]["stored_bytes"], node
        pair.end(first, second)


def test_paths_that_are_told_of():
    with Pair(metadata=600) as pair:
        first = pair.read(0, pair.names[2:])
        support.wait_until(lambda: total(pair.since(0)[1], "told") > 0, "paths are told of")
        second = pair.read(1, pair.names[2:])
        for number in range(2):
            check_forms(pair.site, number, pair.group)
        pair.end(first, second)


def test_a_group_that_asks_nobody():
    with cluster_nodes.nodes.Nodes(1) as one:
        for words, said in (((), "odes"), (("-v",), "odes"), (("--prometheus",), "node=")):
            done = one.run(0, [support.TSRUN, "stats", "--group", "none", *words])
            assert done.status == 0 and said not in done.output, done.output
        done = one.run(0, [support.TSRUN, "stats", "--group", "none", "--json"])
        assert json.loads(done.output)["nodes"] is None
