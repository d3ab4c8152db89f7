# SPDX-License-Identifier: MIT
"""Who takes which part of a global batch, when each node is to take what it holds.

This is the locality-aware loading of Yang and Cong (HiPC 2019, arXiv 1910.01196) with their
Algorithm 1 for the balance.  Every rank computes it for itself from the same batch and the same
directory of holders; there is nothing random and nothing of this process in it, so all ranks
come to the same answer without a word between them.

It needs nothing but the standard library: bench/ uses it as well, with nodes that are not there.
"""
import array
import heapq
from collections import namedtuple

# ranks: of each rank the places in the batch that are its own now.
# moved: (source node, node, places) of the samples that a node takes although another holds them.
# stored: the places that nobody holds, which whoever takes them reads from the storage.
Assignment = namedtuple("Assignment", "ranks moved stored")


def balance(surplus):
    """Algorithm 1: who gives how much to whom, so that nobody is above or below his number.

    @surplus has for each node how many samples it has more than it takes (fewer: below zero),
    0 in all.  Returns a list of (source node, node, count).  The largest surplus always meets the
    largest lack, and one of them is gone after that: at most one message less than there are nodes.
    The fewest messages would be an NP-complete problem; this is at most twice as many.  The
    samples that move are as few as can be: those above the number, each once.
    """
    if sum(surplus):
        raise ValueError("surplus and lack are not the same")
    giving = [(-count, node) for node, count in enumerate(surplus) if count > 0]
    taking = [(count, node) for node, count in enumerate(surplus) if count < 0]
    heapq.heapify(giving)
    heapq.heapify(taking)
    messages = []
    while giving:
        more, source = heapq.heappop(giving)
        less, target = heapq.heappop(taking)
        count = min(-more, -less)
        messages.append((source, target, count))
        if more + count:
            heapq.heappush(giving, (more + count, source))
        if less + count:
            heapq.heappush(taking, (less + count, target))
    return messages


def _held(batch, holders, room):
    """(of each node the places it keeps first, those nobody holds).

    What one node holds is its own.  What several hold goes, after that, to the one with most room.
    """
    kept, several, stored = [[] for _ in room], [], []
    for place, sample in enumerate(batch):
        nodes = holders(sample)
        if not nodes:
            stored.append(place)
        elif len(nodes) == 1:
            kept[nodes[0]].append(place)
        else:
            several.append((place, nodes))
    for place, nodes in several:
        kept[max(nodes, key=lambda node: (room[node] - len(kept[node]), -node))].append(place)
    return kept, stored


def _give_stored(kept, stored, room):
    """Whoever lacks most takes next of what must be read from the storage in any case."""
    lacking = [(len(places) - room[node], node) for node, places in enumerate(kept)
               if len(places) < room[node]]
    heapq.heapify(lacking)
    for place in stored:
        lack, node = lacking[0]
        kept[node].append(place)
        if lack + 1:
            heapq.heapreplace(lacking, (lack + 1, node))
        else:
            heapq.heappop(lacking)


def _deal(kept, sizes, node_of):
    """The places of each node to its ranks, in the order of the batch, to each its number."""
    ranks, begin = [], [0] * len(kept)
    places = [sorted(one) for one in kept]
    for rank, size in enumerate(sizes):
        node = node_of[rank]
        ranks.append(places[node][begin[node]:begin[node] + size])
        begin[node] += size
    return ranks


def reassign(batch, holders, node_of, sizes=None):
    """Give each place of the global @batch to a rank, near to the bytes where that can be.

    @batch: the samples, in the order that all ranks have drawn; one may be in it several times.
    @holders: function of a sample: the nodes that hold it, a sequence without repetition, () for
    nobody.  @node_of: of each rank its node; nodes are numbered from 0.  @sizes: how many samples
    each rank takes, exactly; where not given, all the same.
    """
    if sizes is None:
        sizes = [len(batch) // len(node_of)] * len(node_of)
    if sum(sizes) != len(batch) or len(sizes) != len(node_of):
        raise ValueError("the batch is not what the ranks take together")
    room = [0] * (max(node_of) + 1)
    for node, size in zip(node_of, sizes):
        room[node] += size
    kept, stored = _held(batch, holders, room)
    # The last of the batch move first.  What is in place stays, whatever is drawn behind it.
    above = {node: places[room[node]:] for node, places in enumerate(kept)
             if len(places) > room[node]}
    for node in above:
        del kept[node][room[node]:]
    _give_stored(kept, stored, room)
    moved = []
    for source, target, count in balance(
            [len(above.get(node, ())) + len(kept[node]) - room[node] for node in range(len(room))]):
        taken, above[source] = above[source][:count], above[source][count:]
        kept[target] += taken
        moved.append((source, target, taken))
    return Assignment(_deal(kept, sizes, node_of), moved, stored)


def moved_share(assignment):
    """beta of one batch: samples that go from node to node, of those in the batch."""
    total = sum(map(len, assignment.ranks))
    return sum(len(places) for _, _, places in assignment.moved) / total if total else 0.0


class Holdings:
    """
    Which nodes hold which samples: those that read them in the epoch that all began with.  A table of
    all samples, by their indices: four bytes for each.
    """

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
        """The nodes that hold it, as reassign() asks."""
        return self.sets[self.table[sample]] if sample < len(self.table) else ()
