# SPDX-License-Identifier: MIT
"""
The simulation of many nodes (bench/tsbench/scaling_simulate.py): nothing is lost or counted twice,
nobody holds more than there is room for, and time is that of the equations where they hold.
"""


import support

support.search("bench")
import numpy  # noqa: E402
from tsbench import scaling_cluster as clusters  # noqa: E402
from tsbench import scaling_model as model  # noqa: E402
from tsbench import scaling_simulate as simulate  # noqa: E402

WAYS = tuple(clusters.NAMES)
NUMBERS = {"make_s": .002, "storage_rate": 1000, "file_transfer_s": 1e-4, "local_s": 1e-4,
           "file_bytes": 1 << 20, "take_s": .0001}


def small(nodes=4, **changed):
    given = {"samples": 8192, "ranks": 2, "local_batch": 8, "memory_files": 8192 // nodes + 64,
             "storage_rate": 2000.0}
    return clusters.cluster(NUMBERS, nodes, **{**given, **changed})


def flows(one, way, epochs=3):
    """The flow of each epoch, and the memory after all."""
    memory, found = simulate.Memory(one), []
    for epoch in range(epochs):
        order = simulate.shuffle(one, 1, epoch)
        if way == simulate.LOCALITY and epoch:
            found.append(simulate._reassigned(one, memory, order))
        else:
            found.append(simulate._loaded(one, memory, order, way))
    return found, memory


def test_an_epoch_has_every_sample_once():
    one = small(samples=8200)
    order = simulate.shuffle(one, 1, 0)
    assert order.shape == (8192 // 64, 4, 16) and len(set(order.ravel().tolist())) == 8192
    assert (order == simulate.shuffle(one, 1, 0)).all()
    assert (order != simulate.shuffle(one, 1, 1)).any() and (order != simulate.shuffle(one, 2, 0)).any()


def test_every_file_comes_from_one_place():
    for nodes in (1, 4):
        for room in (0, 300, 8192):
            one = small(nodes, memory_files=room)
            for way in WAYS:
                for flow in flows(one, way)[0]:
                    assert (flow.stored + flow.came + flow.near == simulate.of_node(one)).all(), way
                    assert (flow.came.sum(1) == flow.went.sum(1)).all(), way
                    assert min(map(numpy.min, flow)) >= 0


def test_nobody_holds_more_than_there_is_room_for():
    one = small(memory_files=500)
    for way in WAYS:
        _, memory = flows(one, way)
        held = numpy.bincount(memory.owner[memory.owner >= 0], minlength=4)
        for kept in memory.copies:
            held += numpy.bincount(kept[kept >= 0], minlength=4)
        assert (held + memory.room == 500).all() and (memory.room >= 0).all(), way
        assert held.sum() == (0 if way == simulate.PLAIN else 2000), way


def test_first_epochs_read_everything_once():
    for way in WAYS:
        first = flows(small(), way, 1)[0][0]
        assert first.stored.sum() == 8192 and not first.came.sum() and not first.near.sum()


def test_second_epochs_are_as_the_equations_say():
    """8,192 files on 4 nodes with room for all: the storage is not asked again."""
    one = small(memory_files=8192)
    shares = {way: [part.sum() / 8192 for part in flows(one, way, 2)[0][1]] for way in WAYS}
    assert shares[simulate.PLAIN][0] == 1
    assert abs(shares[simulate.NODE][0] - 3 / 4) < .02 and shares[simulate.NODE][1] == 0
    for way in (simulate.CLUSTER, simulate.NOPFS, simulate.LOCALITY):
        assert shares[way][0] == 0
    assert abs(shares[simulate.NOPFS][1] - 3 / 4) < .02
    # Local batches of 16 on nodes of two ranks, four nodes.
    assert abs(shares[simulate.LOCALITY][1] - model.moved_exact(16, 4)) < .01


def test_without_room_nothing_is_gained():
    one = small(memory_files=0)
    for way in WAYS:
        assert all(flow.stored.sum() == 8192 for flow in flows(one, way, 2)[0])


def test_time_is_the_slower_of_training_and_loading():
    for rate, nodes in ((1, 4), (1e6, 4), (100, 8)):
        one = small(nodes, learner_rate=rate)
        found = simulate.epochs(one, simulate.PLAIN)[0]["seconds"]
        expected = clusters.by_equation(one)
        # The first batch has nothing to hide behind, the last nothing to hide.
        assert expected <= found * (1 + 1e-9) and found < expected * 1.03, (rate, found, expected)


def test_a_loader_may_be_so_far_ahead_and_no_further():
    """One node, loads of 1, 1, 1 and 9 s, and training of 3 s: what is loaded ahead hides the long one."""
    one = small(1, local_batch=3, learner_rate=1)
    loads = numpy.array([[1.0], [1.0], [1.0], [9.0]])
    assert simulate.timed(one, loads, 8) == 12 + 3
    assert simulate.timed(one, loads, 1) == 7 + 9 + 3  # the last one begins when the second is done
    assert simulate.timed(one, loads, 0) == 3 * (1 + 3) + 9 + 3


def test_a_sweep_reads_what_it_says():
    one = small(8, memory_files=8192, learner_rate=1e9, delay_s=1e-9, local_s=0.0, transfer_s=0.0,
                make_s=0.0)
    reads = {way: [round(seconds * one.storage_rate / 8192, 3)
                   for seconds in clusters.sweep(one, way, 0.0)]
             for way in WAYS if way != simulate.LOCALITY}
    assert reads[simulate.PLAIN] == [32, 32]  # 8 nodes, 4 jobs each
    assert reads[simulate.NODE] == [8, 0]
    assert reads[simulate.CLUSTER] == [1, 0]
    assert reads[simulate.NOPFS] == [32, 24]  # a fourth of the files fits into each job's part
    with_none = clusters.sweep(one._replace(memory_files=0), simulate.NODE, 0.0)
    assert [round(seconds * one.storage_rate / 8192, 3) for seconds in with_none] == [8, 8]

    # Room for a fourth: an eighth of the files is the node's own, and an eighth are copies.
    links = one._replace(memory_files=2048, transfer_s=1.0, storage_rate=1e12)
    assert [round(seconds) for seconds in clusters.sweep(links, simulate.CLUSTER, 0.0)] == [7168, 6144]
