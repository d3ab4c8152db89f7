# SPDX-License-Identifier: MIT
"""
Algorithm 1 of Yang and Cong as tsshim_torch/locality/assignment.py has it: who takes which part of
a global batch.  No library, no torch; found as bench/ finds it.
"""

import os
import random
import subprocess
import sys

import pytest
import support

BENCH = support.search("bench")
from tsbench import locality  # noqa: E402
from tsbench.scaling_model import moved_closed  # noqa: E402


def check(batch, holders, node_of, sizes=None):
    """What holds of every answer; returns it, and the places a node takes and does not hold."""
    answer = locality.reassign(batch, holders, node_of, sizes)
    sizes = sizes or [len(batch) // len(node_of)] * len(node_of)
    assert [len(places) for places in answer.ranks] == sizes
    assert sorted(place for places in answer.ranks for place in places) == list(range(len(batch)))
    node_at = {place: node_of[rank] for rank, places in enumerate(answer.ranks)
               for place in places}
    far = [place for place, node in node_at.items()
           if holders(batch[place]) and node not in holders(batch[place])]
    moved = [place for _, _, places in answer.moved for place in places]
    assert sorted(far) == sorted(moved)
    for source, target, places in answer.moved:
        assert source != target and places
        assert all(source in holders(batch[place]) and node_at[place] == target
                   for place in places)
    assert answer.stored == [place for place, one in enumerate(batch) if not holders(one)]
    # Messages are at most twice the fewest that could do.
    assert len(answer.moved) <= max(0, len(set(node_of)) - 1)
    return answer, far


def single(holder):
    return lambda sample: () if holder[sample] is None else (holder[sample],)


def test_the_example_of_the_paper():
    """12 samples of which 3 learners hold 2, 6 and 4: two move, a sixth of the volume."""
    holder = [0] * 2 + [1] * 6 + [2] * 4
    batch = list(range(12))
    random.Random(1).shuffle(batch)
    answer, far = check(batch, single(holder), [0, 1, 2])
    assert [(s, t, len(places)) for s, t, places in answer.moved] == [(1, 0, 2)]
    assert locality.moved_share(answer) == len(far) / 12 == 2 / 12


def test_balance_takes_the_largest_first():
    assert locality.balance([5, -1, 3, -7]) == [(0, 3, 5), (2, 3, 2), (2, 1, 1)]
    assert locality.balance([0, 0]) == [] and locality.balance([]) == []
    # Of equal ones the first: no two ranks may see it otherwise.
    assert locality.balance([2, 2, -2, -2]) == [(0, 2, 2), (1, 3, 2)]
    for wrong in ([1], [1, -2]):
        with pytest.raises(ValueError):
            locality.balance(wrong)


def test_balance_moves_no_more_than_is_above_and_at_most_nodes_less_one():
    for seed in range(200):
        draw = random.Random(seed)
        surplus = [draw.randrange(-9, 10) for _ in range(draw.randrange(1, 30))]
        surplus.append(-sum(surplus))
        left, messages = list(surplus), locality.balance(surplus)
        for source, target, count in messages:
            assert count > 0 and surplus[source] > 0 > surplus[target]
            left[source] -= count
            left[target] += count
        assert not any(left)
        above, below = (sum(x > 0 for x in surplus), sum(x < 0 for x in surplus))
        assert max(above, below) <= len(messages) <= max(0, above + below - 1)
        assert sum(count for _, _, count in messages) == sum(x for x in surplus if x > 0)


def test_everything_near_moves_nothing():
    holder = [sample % 4 for sample in range(64)]
    batch = random.Random(2).sample(range(64), 64)
    answer, far = check(batch, single(holder), [0, 1, 2, 3])
    assert not far and not answer.moved and not answer.stored
    for rank, places in enumerate(answer.ranks):
        assert {holder[batch[place]] for place in places} == {rank}


def test_nothing_held_is_read_from_the_storage_by_all_alike():
    answer, far = check(list(range(60)), lambda sample: (), [0, 1, 2, 0, 1, 2])
    assert not far and not answer.moved and len(answer.stored) == 60


def test_what_nobody_holds_fills_up_who_lacks_before_anything_moves():
    holder = [0] * 5 + [1] * 3 + [None] * 4
    answer, far = check(list(range(12)), single(holder), [0, 1, 2])
    assert len(far) == 1 and answer.moved[0][0] == 0
    answer, far = check(list(range(12)), single([0] * 4 + [1] * 2 + [None] * 6), [0, 1, 2])
    assert not far


def test_one_node_takes_all():
    holder = [0, None, 0, 0, None, 0, 0, 0]
    answer, far = check(list(range(8)), single(holder), [0, 0])
    assert not far and [len(places) for places in answer.ranks] == [4, 4]
    answer, far = check([3, 1], single(holder), [0])
    assert answer.ranks == [[0, 1]] and answer.stored == [1]


def test_one_node_holds_all():
    """Everybody else lives on what it gives, and it keeps its own number."""
    answer, far = check(list(range(40)), lambda sample: (3,), [0, 1, 2, 3])
    assert len(far) == 30 and [s for s, _, _ in answer.moved] == [3, 3, 3]


def test_ranks_of_one_node_share_what_it_holds():
    """A node is evened out as a whole: what its ranks hold together does not move."""
    node_of = [0, 0, 1, 1]
    holder = [0] * 8 + [1] * 8
    answer, far = check(random.Random(3).sample(range(16), 16), single(holder), node_of)
    assert not far
    # Ranks need not lie side by side, and one node may have more of them.
    for node_of in ([0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 0]):
        check(list(range(16)), single(holder), node_of)


def test_sizes_that_differ_are_met():
    answer, _ = check(list(range(10)), single([0] * 9 + [None]), [0, 1, 1], [5, 0, 5])
    assert [len(places) for places in answer.ranks] == [5, 0, 5]
    check([], lambda sample: (), [0, 1])
    for wrong in (([1, 2, 3], [0, 1], None), ([1, 2], [0, 1], [2, 1]), ([1, 2], [0, 1], [2])):
        with pytest.raises(ValueError):
            locality.reassign(wrong[0], lambda sample: (), wrong[1], wrong[2])


def test_a_sample_that_is_drawn_twice_is_taken_twice():
    answer, far = check([7, 7, 7, 7, 1, 1], lambda sample: (0,) if sample == 7 else (1,), [0, 1])
    assert len(far) == 1


def test_what_several_hold_goes_where_there_is_room():
    both = lambda sample: (0, 1) if sample < 6 else (0,)  # noqa: E731
    answer, far = check(list(range(12)), both, [0, 1])
    assert not far
    # Held by all: whoever takes it, nothing moves.
    _, far = check(list(range(90)), lambda sample: (0, 1, 2), [0, 1, 2])
    assert not far


def test_anything_at_all_is_exact():
    for seed in range(150):
        draw = random.Random(seed)
        nodes, each = draw.randrange(1, 9), draw.randrange(1, 4)
        node_of = [rank // each for rank in range(nodes * each)]
        draw.shuffle(node_of)
        weights = [draw.random() ** 3 for _ in range(nodes)]
        held = {}
        for sample in range(400):
            some = draw.choices(range(nodes), weights, k=draw.choice((0, 1, 1, 1, 2)))
            held[sample] = tuple(sorted(set(some)))
        sizes = [draw.randrange(0, 9) for _ in node_of]
        batch = draw.choices(range(400), k=sum(sizes))
        check(batch, held.__getitem__, node_of, sizes)


def test_two_processes_come_to_the_same_answer():
    """Whatever their hashes begin with."""
    program = ("import random, sys\nsys.path.insert(0, %r)\nfrom tsbench import locality\n"
               "draw = random.Random(5)\nheld = [draw.randrange(7) for _ in range(3000)]\n"
               "batch = draw.sample(range(3000), 280)\n"
               "print(locality.reassign(batch, lambda s: (held[s],), list(range(7))))" % BENCH)
    said = {subprocess.run([sys.executable, "-B", "-c", program], check=True, capture_output=True,
                           text=True, env={**os.environ, "PYTHONHASHSEED": seed}).stdout
            for seed in ("0", "1", "12345")}
    assert len(said) == 1 and "moved=[" in said.pop()


def share(local_batch, learners, batches, seed):
    """beta over some batches that are drawn from a data set anywhere."""
    draw = random.Random(seed)
    moved = 0
    for _ in range(batches):
        holder = draw.choices(range(learners), k=local_batch * learners)
        answer = locality.reassign(holder, lambda node: (node,), list(range(learners)))
        moved += sum(len(places) for _, _, places in answer.moved)
    return moved / (batches * local_batch * learners)


def test_what_moves_comes_near_to_the_closed_form():
    """Seeded, so always the same numbers; their standard error is 1.5 %."""
    found = {}
    for local_batch in (8, 32, 128):
        found[local_batch] = share(local_batch, 100, 24, seed=local_batch)
        assert abs(found[local_batch] / moved_closed(local_batch) - 1) < .05, found
    assert found[8] > found[32] > found[128]


def test_what_moves_does_not_grow_with_the_learners():
    few, many = share(32, 16, 60, seed=1), share(32, 240, 4, seed=1)
    assert abs(few / many - 1) < .1, (few, many)
