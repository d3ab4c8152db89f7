# SPDX-License-Identifier: MIT
"""
--locality as loaders of torch's run it, rank by rank in one process.  On which node a rank is stands in
the environment, as torchrun leaves it; the store by which a process group meets is a dictionary.
"""

import random

import support

support.become_the_chosen_interpreter()
support.in_the_library(TSSHIM_LOCALITY="1")  # torch is to be changed by it

import torch.utils.data as data  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402
from tsshim_torch import native  # noqa: E402
from tsshim_torch.locality import assignment, iteration, samplers  # noqa: E402
from locality_common import (NODES, RANKS, Job, Plain, Store, both, check, check_same_batches,  # noqa: E402
                             distributed, epochs, loader, tell)

support.search("bench")
from tsbench.scaling_model import moved_closed  # noqa: E402


# ---- what is given to whom ----

def test_epochs_behind_the_first_are_shared_out():
    _, _, job = check(lambda: distributed(2048, 16))
    assert job.passed == [] and job.said == [
        "locality: loader over range: batches of 8 ranks are shared out by what 4 nodes hold"]


def test_sizes_stay_where_nothing_is_even():
    """What does not fill batches or ranks, is left out, or comes twice to fill up."""
    for samples, drop_last, drop_batch in ((1003, False, False), (1003, True, False), (1003, False, True),
                                           (1019, True, True), (1016, False, False)):
        check(lambda: distributed(samples, 16, drop_last=drop_last, drop_batch=drop_batch, seed=5))
    # Fewer samples than ranks times batches, and than ranks.
    check(lambda: distributed(50, 3, ranks=8), range(4), changed=(1, 2, 3))
    got, plain, _ = both(lambda: distributed(5, 1, ranks=8))
    check_same_batches(*zip(got, plain))


def test_ranks_that_differ_by_a_batch():
    """As Lightning's sampler that repeats nothing: at the end some ranks have less, or nothing."""
    class Unrepeated(DistributedSampler):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            self.num_samples = len(range(self.rank, len(self.dataset), self.num_replicas))
            self.total_size = len(self.dataset)

        def __iter__(self):
            order = torch_order(self)
            return iter(order[self.rank:self.total_size:self.num_replicas])

    def torch_order(self):
        return random.Random(self.epoch).sample(range(len(self.dataset)), len(self.dataset))

    Unrepeated.__module__ = "lightning.pytorch.overrides.distributed"
    Unrepeated.__qualname__ = "UnrepeatedDistributedSampler"
    for samples in (8 * 16 * 4 + 3, 8 * 16 * 4 - 3):
        for drop in (False, True):
            check(lambda: distributed(samples, 16, kind=Unrepeated, drop_batch=drop))


def test_two_ranks_on_two_nodes_and_three_uneven_ones():
    check(lambda: distributed(512, 8, ranks=2), ranks=2, nodes=2)
    job = Job(6, 3)
    job.node_of = [0, 0, 0, 1, 1, 2]
    got, plain = (epochs(one, distributed(1200, 10, ranks=6), range(3)) for one in (job, Plain(6, 3)))
    check_same_batches(*zip(got, plain))
    assert got[0] == plain[0] and got[1] != plain[1]


def test_one_node_and_one_rank_have_nothing_to_share_out():
    _, _, job = check(lambda: distributed(512, 8), changed=(), nodes=1)
    assert job.said == job.passed == []
    _, _, job = check(lambda: distributed(64, 8, ranks=1), changed=(), ranks=1, nodes=1)
    assert job.said == job.passed == [] and job.store.values == {}


def test_what_is_the_same_in_each_epoch_stays():
    """Nobody tells the sampler its epoch, or it does not shuffle: what ranks read they have."""
    _, _, job = check(lambda: distributed(512, 8), numbers=[None] * 3, changed=())
    assert job.passed == []
    _, _, job = check(lambda: distributed(512, 8, shuffle=False), changed=())
    assert job.passed == [] and job.store.values == {}


def test_the_first_epoch_is_the_one_that_a_job_begins_with():
    """Whatever its number is: it may resume.  Before it, nothing is shared out; and it again is as it was."""
    got, plain, _ = both(lambda: distributed(2048, 16), [7, 8, 7, 3, 9])
    assert [one != before for one, before in zip(got, plain)] == [False, True, False, False, True]


def test_an_epoch_that_is_given_up():
    job, loaders = Job(), distributed(2048, 16)
    with job:
        for number, most in enumerate((3, 5, None)):
            got = job.epoch(tell(loaders, number), most)
    assert got == both(lambda: distributed(2048, 16))[0][2]


def test_a_rank_that_looks_at_the_data_alone():
    """Rank 0 takes a batch for itself before all begin, and between epochs."""
    job, loaders = Job(), distributed(2048, 16)
    with job:
        for number in range(3):
            with job.be(0):
                next(iter(loaders[0]))
            got = job.epoch(tell(loaders, number))
    assert got == both(lambda: distributed(2048, 16))[0][2] and job.passed == []


def test_workers_that_stay_and_workers_that_do_not():
    plain = epochs(Plain(2, 2), distributed(256, 8, ranks=2), range(3))
    for stay in (False, True):
        def make():
            return [loader(range(256), DistributedSampler(range(256), 2, rank), 8, num_workers=1,
                           persistent_workers=stay) for rank in range(2)]
        found = epochs(Job(2, 2), make(), range(3))
        check_same_batches(*zip(found, plain))
        assert found[0] == plain[0] and found[1] != plain[1] and found[2] != plain[2]


# ---- who does not take part ----

def test_a_rank_that_has_not_told():
    """Seven of eight ranks have us: nothing changes for anybody."""
    def run(job, who):
        found = []
        with job:
            for number in range(3):
                found.append([])
                loaders = tell(distributed(1024, 16), number)
                for rank in who:
                    with job.be(rank):
                        found[-1].append([batch.tolist() for batch in loaders[rank]])
        return found
    job = Job()
    assert run(job, range(7)) == run(Plain(), range(7))
    assert set(job.passed) == {iteration.REASON} and len(job.passed) == 2 * 7
    assert job.said == ["no locality: loader over range: not every rank has told yet that it takes part"]


def test_ranks_that_have_another_batch_size_or_seed():
    for one in ({"size": 8}, {"seed": 1}, {"samples": 1025}):
        def make():
            return [distributed(**{"samples": 1024, "size": 16, **(one if rank == 3 else {})})[rank]
                    for rank in range(RANKS)]
        got, plain, job = both(make)
        assert got == plain and set(job.passed) == {iteration.REASON}


def test_what_is_not_understood_stays_and_is_counted():
    class Own(DistributedSampler):
        def __iter__(self):
            return reversed(list(super().__iter__()))

    class Batches(data.BatchSampler):
        pass

    def own_batches():
        return [data.DataLoader(range(256), batch_sampler=Batches(DistributedSampler(range(256), RANKS, rank), 8, True))
                for rank in range(RANKS)]

    def alone():
        return [loader(range(256), data.WeightedRandomSampler([1.0] * 256, 64), 8) for _ in range(RANKS)]

    def singly():
        return [data.DataLoader(range(256), batch_size=None, sampler=DistributedSampler(range(256), RANKS, rank),
                                collate_fn=lambda sample: Item([sample])) for rank in range(RANKS)]

    class Item(list):
        def tolist(self):
            return list(self)

    for make, why in ((lambda: distributed(256, 8, kind=Own), "its sampler has code of its own ("),
                      (own_batches, "its batches come from a sampler of the program's ("),
                      (alone, "its sampler does not say what other ranks take (WeightedRandomSampler)"),
                      (singly, "it makes no batches")):
        with Job() as job:
            for _ in range(2):
                job.epoch(make())
        assert job.passed == [iteration.REASON] * 2 * RANKS, (why, job.passed)
        assert len(job.said) == 1 and why in job.said[0], (why, job.said)
        assert job.store.values == {}


def test_a_group_of_other_ranks():
    """Four replicas of two processes each, say: a sampler's rank is not the process's."""
    with Job() as job:
        with job.be(6):
            next(iter(distributed(256, 8, ranks=4)[3]))
    assert job.said == [] and job.passed == [iteration.REASON]


def test_orders_that_are_aligned(monkeypatch):
    monkeypatch.setattr(native.settings, "aligned", True)
    _, _, job = both(lambda: distributed(256, 8))
    assert job.said == ["no locality: loader over range: the order is that of --align"]
    assert job.passed == [iteration.REASON] * 3 * RANKS


def test_stores_in_which_nothing_can_be_agreed_on():
    """One fails; and in one a rank that was started anew has told twice: all seem to have told, and one has not."""
    class Broken(Store):
        def add(self, key, more):
            raise RuntimeError("connection reset")

    class Lost(Store):
        def set(self, key, value):
            if not key.endswith("node/5"):
                Store.set(self, key, value)

    for kind in (Broken, Lost):
        job = Job()
        job.store = kind()
        assert epochs(job, distributed(256, 8), range(3)) == epochs(Plain(), distributed(256, 8), range(3))
        assert "it could not be agreed on (RuntimeError)" in job.said[0] and job.passed


def test_an_error_in_the_middle_is_said_by_the_rank_that_has_it():
    def fails(self, batch):
        return 1 / 0 if self.source.rank == 5 else real(self, batch)

    real = iteration.Turn._share_out
    job, loaders = Job(), distributed(2048, 16)
    with job:
        for number in range(2):
            iteration.Turn._share_out = fails if number else real
            try:
                job.epoch(tell(loaders, number))
            finally:
                iteration.Turn._share_out = real
    assert job.said[1:] == ["locality: loader over range: rank 5 gives up in epoch 1: "
                            "division by zero"] and job.passed == [iteration.REASON]


# ---- how far it goes ----

def remote(steps, node_of, samples, room, held):
    """Bytes that nodes get from each other in an epoch; each keeps what it reads as long as there is room."""
    sizes = [50_000 + 1_000 * (sample * 7919 % 100) for sample in range(samples)]
    found = 0
    for step in steps:
        for rank, batch in enumerate(step):
            own = held[node_of[rank]]
            for sample in batch:
                if sample in own:
                    continue
                found += sizes[sample] * any(sample in other for other in held)
                if len(own) < room:
                    own.add(sample)
    return found


def test_what_moves_between_nodes_is_what_balance_costs():
    """8 ranks on 4 nodes, each with room for half of the data: of the bytes that come from other
    nodes in a later epoch, with us the closed form and three points more are left."""
    for size in (16, 32, 64):
        samples = 32 * size * RANKS
        got, plain, job = both(lambda: distributed(samples, size))
        shares = []
        held, held_plain = ([set() for _ in range(NODES)] for _ in range(2))
        for one, before in zip(got, plain):
            shares.append((remote(one, job.node_of, samples, samples // 2, held),
                           remote(before, job.node_of, samples, samples // 2, held_plain)))
        assert shares[0] == (0, 0)
        for ours, theirs in shares[1:]:
            assert 0 < ours <= theirs * (moved_closed(size) + .03), (size, shares)
        assert shares[1][1] > .7 * samples * 99_000  # most of what is read, without


def test_who_holds_what():
    """Who has read it, also the second one of what a sampler gives twice; and nobody what nobody has read."""
    order = samplers.Dealt([4, 2, 0, 9, 7, 1, 4, 4, 4, 2], 5, 1, False)  # ranks get 4 1, 2 4, 0 4, 9 4, 7 2
    held = assignment.Holdings(order, [0, 0, 1, 1, 2])
    assert [held.of(sample) for sample in range(11)] == [
        (1,), (0,), (0, 2), (), (0, 1), (), (), (2,), (), (1,), ()]


# ---- samplers ----

def batches_of(source, epoch=None):
    order = source.draw(epoch)
    return [order.step(number) for number in range(order.steps)]


def test_the_order_of_all_ranks_is_what_their_samplers_give():
    for samples in (3, 50, 64, 129):
        for drop_last in (False, True):
            for drop_batch in (False, True):
                loaders = tell(distributed(samples, 4, drop_last=drop_last, drop_batch=drop_batch, seed=3), 4)
                expected = [[*map(list, one.batch_sampler)] for one in loaders]
                source = samplers.source_of(loaders[1].batch_sampler)
                found = batches_of(source)
                assert [[step[rank] for step in found if step[rank]] for rank in range(RANKS)] == expected
                loaders[1].sampler.set_epoch(9)
                assert batches_of(source, 4) == found
                assert loaders[1].sampler.epoch == 9 and loaders[1].sampler.num_replicas == RANKS
