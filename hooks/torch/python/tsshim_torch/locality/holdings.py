# SPDX-License-Identifier: MIT
"""Which nodes hold which samples: those that read them in the epoch that all began with."""

import array


class Holdings:
    """A table of all samples, by their indices: four bytes for each."""

    def __init__(self, order, node_of):
        """Of the samples.Order @order of that epoch, in which rank r was on node @node_of[r]."""
        nodes = max(node_of) + 1
        # What a number in the table stands for: a node, nobody, or several, which are few: samples
        # that a sampler gives twice to fill up.
        self.sets = [(node,) for node in range(nodes)] + [()]
        self.table = array.array("i", [nodes]) * (order.largest() + 1)
        known = {}
        for number in range(order.steps):
            for node, batch in zip(node_of, order.step(number)):
                for sample in batch:
                    before = self.table[sample]
                    if before == nodes:
                        self.table[sample] = node
                    elif node not in self.sets[before]:
                        self.table[sample] = self._several(known, (*self.sets[before], node))

    def _several(self, known, holders):
        if holders not in known:
            known[holders] = len(self.sets)
            self.sets.append(holders)
        return known[holders]

    def of(self, sample):
        """The nodes that hold it, as assignment.reassign() asks."""
        return self.sets[self.table[sample]] if sample < len(self.table) else ()
