#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
Run the gates of bench/gates, or those with one of the given words in their name; print TAP.

A gate says how fast or how much, which a busy machine may miss without a fault: people run them,
alone on an idle machine, and CI never does.
"""
import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "gates"))


def gates():
    """(name, function) of all gates; each module adds the directories of what it runs."""
    for file in sorted(os.listdir(os.path.join(HERE, "gates"))):
        if file.endswith(".py"):
            found = vars(importlib.import_module(file[:-3]))
            yield from ((n[5:], f) for n, f in found.items() if n.startswith("gate_"))


if __name__ == "__main__":
    chosen = list(gates())
    import support  # of tests/e2e, which the gates have made known
    support.main(chosen)
