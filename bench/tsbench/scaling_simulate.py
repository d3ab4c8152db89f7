# SPDX-License-Identifier: MIT
"""A distributed job on many nodes, step by step, as it would load its samples in several ways.

Nothing here is measured.  Each epoch is a real shuffle; who holds what, who asks whom and which
node waits for which are counted from it, and the times follow from the numbers of a Cluster.
All nodes wait for each other at each step, as ranks do that sum up gradients.
"""
from collections import namedtuple

import numpy

from . import locality

# ways to load: what a node has read lately is all that `node` knows of; the others ask each other
PLAIN, NODE, CLUSTER, LOCALITY, NOPFS = "plain", "node", "cluster", "locality", "nopfs"

# More steps than these are not timed; an epoch takes what they take, times how many it has.
STEPS = 640

Cluster = namedtuple("Cluster", (
    "samples",        # D
    "nodes",          # p
    "ranks",          # of a node, learners
    "local_batch",    # of a rank
    "learner_rate",   # samples/s
    "cores",          # of a node, which make samples
    "make_s",         # CPU time of one
    "workers",        # of a node: files that it asks the storage for at once
    "delay_s",        # a file of the storage, of one who is alone
    "storage_rate",   # files/s of the storage, all nodes together: R
    "transfer_s",     # a file from node to node, of each node's link
    "local_s",        # a file that the node holds
    "memory_files",   # room of a node
    "ahead"))         # batches that are loaded before they are needed

# Of each step and node, files: from the storage, from other nodes, for other nodes, from here.
Flow = namedtuple("Flow", "stored came went near")


def of_node(cluster):
    return cluster.ranks * cluster.local_batch


def shuffle(cluster, seed, epoch):
    """The samples of an epoch as [step, node, place]; what does not fill a batch is left out."""
    each = cluster.nodes * of_node(cluster)
    steps = cluster.samples // each
    order = numpy.random.default_rng([seed, epoch]).permutation(cluster.samples)
    return order[:steps * each].reshape(steps, cluster.nodes, of_node(cluster))


def _nodes_like(order):
    return numpy.broadcast_to(numpy.arange(order.shape[1])[None, :, None], order.shape)


def _per_node(mask, nodes, count):
    """[step, node]: how many places of each step are in @mask and have that node in @nodes."""
    steps = len(mask)
    step = numpy.broadcast_to(numpy.arange(steps)[:, None, None], mask.shape)
    key = step[mask] * count + nodes[mask]
    return numpy.bincount(key, minlength=steps * count).reshape(steps, count)


def _admit(nodes, wanted, room):
    """Of the places @wanted in the order of time, those for which their node has @room left."""
    flat = numpy.flatnonzero(wanted.ravel())
    at = nodes.ravel()[flat]
    order = numpy.argsort(at, kind="stable")
    begins = numpy.concatenate(([0], numpy.cumsum(numpy.bincount(at, minlength=len(room)))[:-1]))
    number = numpy.arange(len(at)) - begins[at[order]]
    admitted = numpy.zeros(wanted.size, bool)
    admitted[flat[order[number < room[at[order]]]]] = True
    return admitted.reshape(wanted.shape)


class Memory:
    """What nodes hold: of each sample one owner, and copies as far as there is room. No eviction."""

    def __init__(self, cluster):
        self.nodes, self.room = cluster.nodes, numpy.full(cluster.nodes, cluster.memory_files)
        self.owner = numpy.full(cluster.samples, -1, numpy.int16)
        self.copies = []

    def _take(self, nodes, wanted):
        admitted = _admit(nodes, wanted, self.room)
        self.room = self.room - numpy.bincount(nodes[admitted], minlength=self.nodes)
        return admitted

    def own(self, order, nodes):
        """@nodes become the owners of the samples of @order that have none."""
        admitted = self._take(nodes, self.owner[order] < 0)
        self.owner[order[admitted]] = nodes[admitted]

    def copy(self, order, nodes, wanted):
        admitted = self._take(nodes, wanted)
        kept = numpy.full(len(self.owner), -1, numpy.int16)
        kept[order[admitted]] = nodes[admitted]
        self.copies.append(kept)

    def near(self, order, nodes):
        found = self.owner[order] == nodes
        for kept in self.copies:
            found |= kept[order] == nodes
        return found


def _loaded(cluster, memory, order, way):
    """The flow of an epoch in which everybody takes the samples that the sampler gave him."""
    nodes = _nodes_like(order)
    none = numpy.zeros(order.shape[:2], int)
    if way == PLAIN:
        return Flow(none + of_node(cluster), none, none, none)
    near = memory.near(order, nodes)
    far = ~near & (memory.owner[order] >= 0) if way != NODE else numpy.zeros_like(near)
    count = cluster.nodes
    flow = Flow(_per_node(~near & ~far, nodes, count), _per_node(far, nodes, count),
                _per_node(far, memory.owner[order], count), _per_node(near, nodes, count))
    if way == CLUSTER:
        # Who fetched a file hands it to the one whom its hash names, when the link has nothing
        # else to do: nobody waits for that.
        memory.own(order, numpy.random.default_rng(order[0, 0, :1]).integers(
            count, size=order.shape).astype(numpy.int16))
    elif way in (LOCALITY, NOPFS):
        memory.own(order, nodes)
    if way != LOCALITY:
        memory.copy(order, nodes, ~memory.near(order, nodes))
    return flow


def _reassigned(cluster, memory, order):
    """The flow of an epoch in which each batch is reassigned; of as many steps as are timed."""
    order = order[:STEPS]
    node_of = [rank // cluster.ranks for rank in range(cluster.nodes * cluster.ranks)]
    table = [(node,) for node in range(cluster.nodes)] + [()]  # the last one is that of owner -1
    found = [numpy.zeros(order.shape[:2], int) for _ in Flow._fields]
    stored, came, went, near = found
    for step, batch in enumerate(memory.owner[order.reshape(len(order), -1)].tolist()):
        answer = locality.reassign(batch, table.__getitem__, node_of)
        for source, target, places in answer.moved:
            went[step, source] += len(places)
            came[step, target] += len(places)
        unheld = set(answer.stored)
        for rank, places in enumerate(answer.ranks if unheld else ()):
            stored[step, node_of[rank]] += sum(place in unheld for place in places)
    near += of_node(cluster) - stored - came
    return Flow(*found)


def loading(cluster, flow, overlaps):
    """Seconds of each step and node until its part of the batch is there."""
    stored = numpy.maximum(flow.stored * cluster.delay_s / cluster.workers,
                           (flow.stored > 0) * flow.stored.sum(1, keepdims=True)
                           / cluster.storage_rate)
    io = stored + numpy.maximum(flow.came, flow.went) * cluster.transfer_s + \
        flow.near * cluster.local_s / cluster.workers
    make = of_node(cluster) * cluster.make_s / cluster.cores
    return numpy.maximum(io, make) if overlaps else io + make  # (4) adds them up


def timed(cluster, load_s, ahead):
    """Seconds from the first step to the last, of ranks that wait for each other at each."""
    train_s = cluster.local_batch / cluster.learner_rate
    loaded, ends = numpy.zeros(load_s.shape[1]), []
    for step, one in enumerate(load_s):
        # A loader that is so far ahead waits until a batch has been taken from it.
        free = ends[step - ahead - 1] if step > ahead else 0.0
        loaded = numpy.maximum(loaded, free) + one
        ends.append(max(ends[-1] if ends else 0.0, float(loaded.max())) + train_s)
    return ends[-1]


def epochs(cluster, way, count=2, seed=1):
    """What becomes of @count epochs: of each {"seconds", "stored", "moved"}, shares of D."""
    memory, found = Memory(cluster), []
    for epoch in range(count):
        order = shuffle(cluster, seed, epoch)
        if way == LOCALITY and epoch:
            flow = _reassigned(cluster, memory, order)
        else:
            flow = _loaded(cluster, memory, order, way)
        load = loading(cluster, flow, way == NOPFS)[:STEPS]
        # A clairvoyant loader reads as far ahead as it has memory for.
        ahead = (cluster.memory_files // of_node(cluster) if way == NOPFS else cluster.ahead)
        total = flow.stored.shape[0] * cluster.nodes * of_node(cluster)
        found.append({"seconds": timed(cluster, load, ahead) * len(order) / len(load),
                      "load_s": float(load.max(1).sum()) * len(order) / len(load),
                      "stored": float(flow.stored.sum() / total),
                      "moved": float(flow.came.sum() / total)})
    return found
