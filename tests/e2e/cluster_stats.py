# SPDX-License-Identifier: MIT
"""
What `tsrun stats` says of other nodes: the numbers of the table, in each of its forms, and sums that
two nodes have in common.
"""

import contextlib
import json
import re

import support
from cluster_tier import PATIENT, Tier, cluster_nodes, site

FILES = 12
TOTALS = ("posted", "unposted", "left")
WHY_NOT = ("won", "none", "late", "closed", "failed", "refused")


def table_of(tier, number):
    """Totals, and {node: {counter: value}}, as a job of that node finds them in memory."""
    watcher, nodes = tier.watchers[number], {}
    for server in range(tier.site.count):
        row = watcher.row(server)
        nodes[row["name"]] = {name: value for name, value in row.items() if isinstance(value, int)}
    return {name: int(watcher.table(name)) for name in TOTALS}, nodes


def told(tier, number, *words):
    done = tier.site.nodes.run(number, [support.TSRUN, "stats", "--group", tier.group, *words])
    assert (done.status, done.errors) == (0, ""), done.errors
    return done.output


def steady(tier, number):
    """What the table says when it says it twice: nothing is on its way any more."""
    def look():
        first = table_of(tier, number)
        return first == table_of(tier, number) and first
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


def check_forms(tier, number):
    """All forms have what the table has."""
    totals, nodes = steady(tier, number)
    found = json.loads(told(tier, number, "--json"))["nodes"]
    assert {name: found[name] for name in TOTALS} == totals, (found, totals)
    assert {node["name"]: {name: node[name] for name in nodes[node["name"]]} for node in found["list"]} == nodes, found
    assert found["helper"] > 0 and found["error"] is None, found
    assert list(nodes) == ["%s:%d" % (address, tier.site.port) for address in tier.site.nodes.addresses]
    assert metrics(told(tier, number, "--prometheus")) == nodes
    verbose, text = told(tier, number, "-v"), told(tier, number)
    assert "\nOther nodes: asked by process %d\n" % found["helper"] in text, text
    for name, counters in nodes.items():
        assert rows_of(verbose, name) == {key: str(value) for key, value in counters.items()}
        shown = rows_of(text, name)
        assert set(shown) == {key for key, value in counters.items() if value > 0}, text
        assert all(shown[key] == str(counters[key]) for key in shown if "bytes" not in key), text


@contextlib.contextmanager
def pair(metadata):
    """Two nodes with a job each, whose helpers are there: values are asked for from the first file on;
    and since(number), that node's totals, and counters less those of now."""
    with site(2, files=FILES, size=100000) as one, Tier(one, metadata=metadata, **PATIENT) as tier:
        before = [steady(tier, number)[1] for number in range(2)]

        def since(number):
            totals, nodes = steady(tier, number)
            return totals, {node: {name: value - before[number].get(node, {}).get(name, 0)
                                   for name, value in counters.items()} for node, counters in nodes.items()}
        yield tier, since
        for number in range(2):
            check_forms(tier, number)


def test_two_nodes_agree():
    """The first reads all of it from the storage and hands it over; the second is given that."""
    with pair(metadata=0) as (tier, since):
        def is_well(number):
            """Nothing was given up, as on a machine that is too slow for it."""
            totals, nodes = since(number)
            return totals["left"] + totals["unposted"] == 0 and not any(
                total(nodes, name) for name in ("late", "closed", "failed", "refused", "full"))

        tier.read(tier.site.names, where=[0])
        support.wait_until(lambda: total(since(0)[1], "stored") == FILES or not is_well(0), "all of it was handed over")
        tier.read(tier.site.names, where=[1])
        (_, given), (totals, taken) = since(0), since(1)
        assert total(taken, "got") > 0
        assert total(taken, "got_bytes") <= total(given, "stored_bytes")
        # Whatever did not come has its reason.
        lost = sum(total(taken, name) for name in WHY_NOT) + totals["left"] + totals["unposted"]
        assert total(taken, "got") + lost >= FILES, taken
        if is_well(0) and is_well(1):
            assert total(given, "won") == total(taken, "got") == FILES, (given, taken)
            for node in taken:
                assert taken[node]["got"] == taken[node]["asked"] == given[node]["stored"], node
                assert taken[node]["got_bytes"] == given[node]["stored_bytes"], node


def test_paths_that_are_told_of():
    with pair(metadata=600) as (tier, since):
        tier.read(tier.site.names, where=[0])
        support.wait_until(lambda: total(since(0)[1], "told") > 0, "paths are told of")
        tier.read(tier.site.names, where=[1])


def test_a_group_that_asks_nobody():
    with cluster_nodes.nodes.Nodes(1) as one:
        for words, said in (((), "odes"), (("-v",), "odes"), (("--prometheus",), "node=")):
            done = one.run(0, [support.TSRUN, "stats", "--group", "none", *words])
            assert done.status == 0 and said not in done.output, done.output
        done = one.run(0, [support.TSRUN, "stats", "--group", "none", "--json"])
        assert json.loads(done.output)["nodes"] is None
