# SPDX-License-Identifier: MIT
"""
One iteration of a loader whose batches are shared out, in the process that iterates it.

The program's sampler goes along as ever, and its draws, its epoch and the end of the epoch come from
it; each batch that it gives is compared with what was expected of it, and replaced.
"""

import datetime
import json
import os
import sys
from collections import namedtuple

from torch.utils.data._utils import worker as torch_worker

from .. import native
from ..sharing.naming.digests import digest
from . import assignment, samplers

REASON = b"torch_locality"
VERSION = 1  # of who takes what: ranks with another one do not agree

# For what is there by now; where a rank was started anew and told twice, something is not.
PATIENCE = datetime.timedelta(seconds=5)


# Where this process is in the job; the node is a text, the same for all ranks of a node.
Place = namedtuple("Place", "rank ranks node store")


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


_jobs = {}  # (rank, ranks, description) -> _Loader
_said = set()


def _say(text, rank):
    """A line on stderr, once, of one rank."""
    if rank == 0 and text not in _said:
        _said.add(text)
        native.say(text)


class _Loader:
    """
    What is remembered of loaders that have equal samplers, of this @description: whether all ranks
    share out their batches, and since which epoch.

    Through the store by which the process group met.  Keys are named for the loader; `told` counts the
    ranks that have written `node/RANK`, `since` is 0 until rank 0 has seen all of them, and then the
    epoch plus one.  No rank waits for another: who finds nothing yet goes through an epoch as it is.
    """

    def __init__(self, where, description):
        self.where = where
        self.prefix = "tsshim-locality/%s/" % digest(VERSION, where.ranks, description).hex()
        self.told_in = None  # the epoch in which this rank has told
        self.first = None  # the epoch in which nothing was changed; None: nothing is agreed
        self.node_of = ()  # of each rank
        self.count = 0  # iterations
        self.last = {}  # Order of the last two, where that is not to be had again
        self.held = None  # assignment.Holdings, once it is agreed

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
            numbers, ranks = {}, range(where.ranks)  # of the nodes, from 0 as they come
            nodes = [numbers.setdefault(self.read("node/%d" % rank), len(numbers)) for rank in ranks]
            store.set(self.prefix + "nodes", json.dumps(nodes))
            since = store.add(self.prefix + "since", epoch + 1)
        if since:
            self.node_of = json.loads(self.read("nodes"))
            self.first = since - 1

    def hold(self, source):
        if self.held is None:
            order = self.last[self.first] if source.epoch() is None else source.draw(self.first)
            self.held = assignment.Holdings(order, self.node_of)
            self.last = {}
        return self.held

    def keep(self, number, order):
        """Who is behind rank 0 may learn only then that this was the epoch."""
        if self.held is None:
            self.last = {**{n: one for n, one in self.last.items() if n >= number - 1}, number: order}


class Turn:
    """Gives the indices of one iteration."""

    def __init__(self, name, source, loader):
        self.name, self.source, self.loader = name, source, loader
        self.is_begun = False
        self.epoch = None
        self.order = self.held = None
        self.number = getattr(source, "first", 0)  # of the next step
        self.steps = 0  # that were asked for

    def _begin(self):
        """The sampler is about to draw."""
        self.is_begun = True
        source, loader = self.source, self.loader
        self.epoch = source.epoch()
        is_counted = self.epoch is None
        if is_counted:
            self.epoch, loader.count = loader.count, loader.count + 1
        loader.look(self.epoch)
        nodes = len(set(loader.node_of))
        if nodes == 1:
            return
        if is_counted and loader.held is None:
            loader.keep(self.epoch, source.draw())
        if loader.first is None or self.epoch <= loader.first:
            # In the first one others may do so later.
            if loader.first is None and self.epoch > loader.told_in:
                refuse(self.name, "not every rank has told yet that it takes part", source.rank)
            return
        order = loader.last.get(self.epoch) or source.draw()
        self.held = loader.hold(source)
        self.order = order
        _say("locality: %s: batches of %d ranks are shared out by what %d nodes hold" % (
            self.name, source.ranks, nodes), source.rank)

    def _share_out(self, batch):
        """This rank's part of the step of which its sampler has given @batch."""
        batches = self.order.step(self.number) if self.number < self.order.steps else []
        rank = self.source.rank
        if not batches or type(batch) is not list or batches[rank] != batch:
            raise RuntimeError("the sampler gave another batch than was expected")
        samples = [sample for each in batches for sample in each]
        answer = assignment.reassign(samples, self.held.of, self.loader.node_of,
                                     [len(each) for each in batches])
        return [samples[place] for place in answer.ranks[rank]]

    def _give_up(self, error):
        """
        Where it was agreed on others go on, so some samples come twice and some not at all: nothing to be
        silent about.
        """
        self.order = None
        native.report(error)
        if self.loader.first is None:
            refuse(self.name, "it could not be agreed on (%s)" % type(error).__name__, self.source.rank)
            return
        native.count_pass(REASON)
        native.say("locality: %s: rank %d gives up in epoch %s: %s" % (
            self.name, self.source.rank, self.epoch, error))

    def next_index(self):
        """What the iterator's _next_index() gives, which torch's own does at the yield."""
        if not self.is_begun:
            try:
                self._begin()
            except samplers.Unknown as unknown:  # so it is for all ranks
                refuse(self.name, str(unknown), self.source.rank)
            except Exception as error:  # ours, or of the store
                self._give_up(error)
        batch, failure = yield
        if failure is not None:
            return None
        self.steps += 1
        if self.order is not None:
            try:
                batch = self._share_out(batch)
            except Exception as error:
                self._give_up(error)
            self.number += 1
        elif self.source.rank == 0 and self.loader.first is None and \
                self.steps & (self.steps - 1) == 0:  # others may have told since
            try:
                self.loader.look(self.epoch)
            except Exception as error:
                native.report(error)
        return batch


def refuse(name, why, rank):
    """Count that loader @name is left alone, and say so in rank 0."""
    native.count_pass(REASON)
    _say("no locality: %s: %s" % (name, why), rank)


def _environment(name, standard):
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else standard


def begin(loader, iterator, is_known):
    """
    The Turn of @iterator of @loader, or None where nothing is shared out.  @is_known: it is of a class
    whose batches come by their indices.
    """
    where = place()
    if torch_worker._worker_info is not None or where is not None and where.ranks == 1:
        return None
    name = "loader over " + type(loader.dataset).__qualname__
    try:
        if not is_known:
            raise samplers.Unknown("its samples do not come by their indices alone")
        if not iterator._auto_collation:
            raise samplers.Unknown("it makes no batches")
        source = samplers.source_of(iterator._index_sampler)
        if source is None or source.ranks == 1:
            return None
        if where is None:
            raise samplers.Unknown("no process group of torch.distributed tells of the ranks")
        if (source.rank, source.ranks) != (where.rank, where.ranks):
            raise samplers.Unknown("its sampler is not of one rank for each process")
        if native.settings.aligned:
            raise samplers.Unknown("the order is that of --align")
        description = source.description()
    except samplers.Unknown as unknown:
        if where is not None or _environment("WORLD_SIZE", 1) > 1:
            refuse(name, str(unknown), where.rank if where else _environment("RANK", 0))
        return None
    key = source.rank, source.ranks, repr(description)
    if key not in _jobs:
        _jobs[key] = _Loader(where, description)
    return Turn(name, source, _jobs[key])
