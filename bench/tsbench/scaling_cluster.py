# SPDX-License-Identifier: MIT
"""The clusters that are simulated: which numbers of theirs are measured, published, supposed."""
from collections import namedtuple

from . import scaling_model as model
from . import scaling_simulate as simulate
from .scaling_simulate import CLUSTER, LOCALITY, NODE, NOPFS, PLAIN, Cluster

SAMPLES = 1_281_167  # of ImageNet-1K
RANKS, LOCAL_BATCH = 4, 32
NODES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
JOBS = 4  # of a sweep, on each node
LINKS = (125_000_000, 1_250_000_000, 3_125_000_000)  # bytes/s: Ethernet of 1, 10 and 25 Gbit/s

# What no machine here can tell, and what is not known of anybody's cluster.
Supposed = namedtuple("Supposed", "cores workers delay_s servers memory_bytes ahead")
SUPPOSED = Supposed(cores=64, workers=64, delay_s=.002, servers=8, memory_bytes=64 * 2**30,
                    ahead=8)

# ResNet-50 with mixed precision on an A100: NVIDIA DeepLearningExamples, ConvNets/resnet50v1.5.
ACCELERATOR_RATE = 2470

# The same words in tables, plots and text.
NAMES = {PLAIN: "without us", NODE: "each node by itself", CLUSTER: "cluster tier",
         LOCALITY: "with --locality", NOPFS: "NoPFS"}


def cluster(numbers, nodes, learner_rate=ACCELERATOR_RATE, **changed):
    """@nodes nodes with the measured @numbers of one, {name: value}."""
    given = {"samples": SAMPLES, "nodes": nodes, "ranks": RANKS, "local_batch": LOCAL_BATCH,
             "learner_rate": learner_rate, "cores": SUPPOSED.cores, "make_s": numbers["make_s"],
             "workers": SUPPOSED.workers, "delay_s": SUPPOSED.delay_s,
             "storage_rate": SUPPOSED.servers * numbers["storage_rate"],
             "transfer_s": numbers["file_transfer_s"], "local_s": numbers["local_s"],
             "memory_files": int(SUPPOSED.memory_bytes / numbers["file_bytes"]),
             "ahead": SUPPOSED.ahead}
    return Cluster(**{**given, **changed})


def node_rate(one):
    """V of a node."""
    return one.ranks * one.learner_rate


def by_equation(one):
    """Seconds of an epoch that reads all from the storage: (4) and (6)."""
    return model.overlapped_s(one.samples, one.nodes, node_rate(one),
                              one.samples / one.storage_rate, one.cores / one.make_s)


def _storage_s(one, files):
    """Until each node has read @files files of the storage, which all nodes ask."""
    rate = model.storage_rate(one.workers * one.nodes, one.delay_s, one.storage_rate)
    return files * one.nodes / rate


def sweep(one, way, take_s, jobs=JOBS):
    """(seconds of the first epoch, of later ones) of a sweep: @jobs on each node, one learner each.

    With us they are aligned: a node makes each sample once, and hands it to all for @take_s each.
    Elsewhere each makes its own.  Nothing is random here; these are equations.
    """
    total, room = one.samples, one.memory_files
    own, shared = total * jobs * one.make_s, total * (one.make_s + jobs * take_s)

    def epoch(stored, came, make_s):
        near = max(0, total - stored - came)
        return model.sweep_epoch_s(one.learner_rate, total, _storage_s(one, stored),
                                   came * one.transfer_s + near * one.local_s / one.workers,
                                   make_s, one.cores)

    if way == PLAIN:
        return epoch(jobs * total, 0, own), epoch(jobs * total, 0, own)
    if way == NODE:
        return epoch(total, 0, shared), epoch(max(0, total - room), 0, shared)
    if way == NOPFS:
        # Each job is a world of its own: it has its part of the memory, and nobody to ask.
        each = jobs * max(0, total - room // jobs)
        return epoch(jobs * total, 0, own), epoch(each, 0, own)
    # The cluster tier: one copy in all memories together, and copies where there is room left.
    held = min(total, one.nodes * room)
    copies = max(0, room - held // one.nodes)
    near = min(held, held // one.nodes + copies)
    return (epoch(total / one.nodes, total - total / one.nodes, shared),
            epoch((total - held), held - near, shared))


def job_epochs(numbers, nodes, seed=1, **changed):
    """{way: epochs} of one distributed job."""
    one = cluster(numbers, nodes, **changed)
    return {way: simulate.epochs(one, way, seed=seed) for way in NAMES}


def job_of_nodes(numbers, counts):
    """{nodes: {way: epochs}}"""
    return {nodes: job_epochs(numbers, nodes) for nodes in counts}


def sweep_of_nodes(numbers, counts):
    """{nodes: {way: (first, later)}}"""
    return {nodes: {way: sweep(cluster(numbers, nodes), way, numbers["take_s"])
                    for way in NAMES if way != LOCALITY} for nodes in counts}


def job_of_links(numbers, nodes):
    """{bytes/s of a node's link: {way: seconds of the second epoch}}: when does it matter who is near?"""
    found = {}
    for rate in LINKS:
        one = cluster(numbers, nodes, transfer_s=numbers["file_bytes"] / rate)
        found[rate] = {way: simulate.epochs(one, way)[1]["seconds"] for way in (CLUSTER, LOCALITY, NOPFS)}
    return found
