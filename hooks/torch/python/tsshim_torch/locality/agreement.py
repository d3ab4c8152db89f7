# SPDX-License-Identifier: MIT
"""
Whether all ranks share out the batches of a loader, since which epoch, and on which nodes they are.

Through the store by which the process group met.  Keys are named for the loader; `told` counts the
ranks that have written `node/RANK`, `since` is 0 until rank 0 has seen all of them, and then the
epoch plus one.  No rank waits for another: who finds nothing yet goes through an epoch as it is.

Rank 0 writes before it takes part in a step of that epoch.  So whoever has gone through the epoch has
met rank 0 after that, as ranks do that sum up gradients, and finds it when he begins the next.
"""

import datetime
import json
import os
import sys

from ..sharing.digests import digest

VERSION = 1  # of who takes what: ranks with another one do not agree

# For what is there by now; where a rank was started anew and told twice, something is not.
PATIENCE = datetime.timedelta(seconds=5)


class Place:
    """Where this process is in the job."""

    def __init__(self, rank, ranks, node, store):
        self.rank, self.ranks = rank, ranks
        self.node = node  # a text, the same for all ranks of a node
        self.store = store


def node():
    """
    The name of this node: one kernel, which runs since one moment.  A launcher that says which of
    its nodes this is (torchrun's GROUP_RANK) may have several on one machine.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            name = file.read().strip()
    except OSError:
        name = os.uname().nodename
    return name + " " + os.environ.get("GROUP_RANK", "")


def place():
    """The Place of this process, or None where no process group tells, or it has no store (MPI's)."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    store = distributed.distributed_c10d._get_default_store()
    return store and Place(distributed.get_rank(), distributed.get_world_size(), node(), store)


def numbered(names):
    """[number of the node] for the names of the nodes of all ranks, from 0 as they come."""
    numbers = {}
    return [numbers.setdefault(name, len(numbers)) for name in names]


class Agreement:
    """That on the loaders with one @description."""

    def __init__(self, where, description):
        self.where = where
        self.prefix = "tsshim-locality/%s/" % digest(VERSION, where.ranks, description).hex()
        self.told_in = None  # the epoch in which this rank has told
        self.first = None  # the epoch in which nothing was changed; None: nothing is agreed
        self.node_of = ()  # of each rank

    def is_later(self, epoch):
        """Whether @epoch is shared out."""
        return self.first is not None and epoch > self.first

    def read(self, name):
        """What was written there.  Errors: the store's; it has waited PATIENCE, and not as long as it would."""
        self.where.store.wait([self.prefix + name], PATIENCE)
        return self.where.store.get(self.prefix + name)

    def look(self, epoch):
        """
        In @epoch: tell what this rank has to say, and look what was agreed on meanwhile.  A few questions to the
        store, as long as nothing is; as slow as that is.  Errors: the store's.
        """
        if self.first is not None:
            return
        store, where = self.where.store, self.where
        if self.told_in is None:
            self.told_in = epoch
            store.set(self.prefix + "node/%d" % where.rank, where.node)
            store.add(self.prefix + "told", 1)
        since = store.add(self.prefix + "since", 0)
        if where.rank == 0 and not since:
            if store.add(self.prefix + "told", 0) < where.ranks:
                return
            names = [self.read("node/%d" % rank).decode() for rank in range(where.ranks)]
            store.set(self.prefix + "nodes", json.dumps(numbered(names)))
            since = store.add(self.prefix + "since", epoch + 1)
        if since:
            self.node_of = json.loads(self.read("nodes"))
            self.first = since - 1
