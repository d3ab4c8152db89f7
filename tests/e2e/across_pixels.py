# SPDX-License-Identifier: MIT
"""
Decoded pictures between nodes (--across nodes): aligned jobs whose samples cannot be shared as a
whole decode each picture once on all nodes, and get what they get without.
"""

import os
import signal

import support
from across_common import PATIENT, Run, between, nothing, servers, site

ITEMS = 96
PICTURES = ("--pictures", "--items", ITEMS)


def decodes(run):
    """(made, taken) of all nodes; each decode is one of the two."""
    made, taken = run.count("produced", "pixels"), run.count("shared", "pixels")
    assert run.count("shared") == 0 and run.reason("torch_dataset") > 0  # samples are not shared
    assert made + taken == run.given(), (made, taken, run.given(), run.told())
    assert all(statistics["mismatched"] == 0 for statistics in run.statistics)
    print("# decoded %d of %d pictures, took %d" % (made, ITEMS, taken), flush=True)
    return made, taken


def test_two_nodes_decode_each_picture_once():
    with site(2) as some:
        without = Run(some, *PICTURES, across="off")
        both = Run(some, *PICTURES, **PATIENT)
        both.expect(without)
        assert decodes(both)[0] == ITEMS
        assert both.reason("across_alone") == 0


def test_a_server_that_is_killed_changes_nothing():
    with site(2) as some:
        words = (*PICTURES, "--scenes", "--epochs", 3)
        without = Run(some, *words, across="off", meanwhile=between(*[nothing] * 3))

        def kill(run):
            for process in servers(some, 1):
                os.kill(process, signal.SIGKILL)

        run = Run(some, *words, meanwhile=between(kill, nothing, nothing))
        run.expect(without)
        decodes(run)
        assert run.reason("across_alone") > 0


if __name__ == "__main__":
    support.main(support.functions(globals()))
