# SPDX-License-Identifier: MIT
"""
The equations of bench/tsbench/scaling_model.py against what Yang and Cong published, by hand,
and against each other.  No library, no torch.
"""

import math

import support

support.search("bench")
from tsbench import scaling_model as model  # noqa: E402

IMAGENET = 1_281_167


def near(value, expected, part=1e-9):
    assert abs(value - expected) <= part * abs(expected), (value, expected)


def test_units_by_hand():
    """1,000 samples, 10 nodes that train 5 and make 50 a second, storage of 20, peers of 40."""
    near(model.training_s(1000, 10, 5), 20)
    near(model.knee_nodes(20, 5), 4)
    near(model.epoch_s(1000, 4, 5, 20), 50)
    near(model.epoch_s(1000, 2, 5, 20), 100)
    near(model.epoch_s(1000, 10, 5, 20), 50)
    near(model.cached_io_s(1000, 10, 20, 40, .5), 25 + 500 / 400 * .9)
    near(model.local_io_s(1000, 10, 20, 40, .5, .07), 25 + 500 / 400 * .07)
    near(model.overlapped_s(1000, 10, 5, 30, 50), 32)
    near(model.overlapped_s(1000, 10, 5, 10, 50), 20)


def test_the_equations_meet_where_they_say_the_same():
    for nodes in (1, 2, 16, 256):
        nothing = model.cached_io_s(IMAGENET, nodes, 5000, 9000, 0)
        near(nothing, IMAGENET / 5000)
        near(model.local_io_s(IMAGENET, nodes, 5000, 9000, 0, .05), nothing)
        # Locality is caching of which only beta is remote; with beta = (p-1)/p it is caching.
        near(model.local_io_s(IMAGENET, nodes, 5000, 9000, .8, (nodes - 1) / nodes),
             model.cached_io_s(IMAGENET, nodes, 5000, 9000, .8))
    # One node that holds everything asks nobody; the epoch is the larger of two at the knee.
    assert model.cached_io_s(IMAGENET, 1, 5000, 9000, 1) == 0
    near(model.epoch_s(IMAGENET, 4, 1250, 5000), IMAGENET / 5000)
    near(model.overlapped_s(IMAGENET, 32, 1250, IMAGENET / 5000),
         model.epoch_s(IMAGENET, 32, 1250, 5000))


def test_more_nodes_do_not_help_behind_the_knee():
    epochs = [model.epoch_s(IMAGENET, nodes, 100, 3200) for nodes in (8, 16, 32, 64, 128)]
    near(epochs[0] / epochs[1], 2)
    near(epochs[1] / epochs[2], 2)
    assert epochs[2] == epochs[3] == epochs[4]


def test_published_epochs_of_resnet50():
    """Equal at 16 nodes, 1.9 times as fast at 64: with one knee the equations say both."""
    knee = 64 / 1.9
    node_rate, storage = 1000, 1000 * knee

    def gain(nodes):
        local = model.overlapped_s(
            IMAGENET, nodes, node_rate,
            model.local_io_s(IMAGENET, nodes, storage, storage, 1, model.moved_closed(32)))
        return model.epoch_s(IMAGENET, nodes, node_rate, storage) / local

    near(gain(16), 1)
    near(gain(64), 1.9)


def test_published_loading_of_mummi():
    """18, 35, 70 and 120 times at 16, 32, 64 and 128 nodes: in proportion to the nodes, of which
    the last falls short."""
    moved, rate = model.moved_closed(128), 1000
    storage = rate * 16 / moved / 18  # by the first of them

    def gain(nodes):
        return (model.local_io_s(1, nodes, storage, rate, 0, moved) /
                model.local_io_s(1, nodes, storage, rate, 1, moved))

    near(gain(16), 18)
    near(gain(32), 35, .05)
    near(gain(64), 70, .05)
    assert 1.15 < gain(128) / 120 < 1.25


def test_published_imbalance():
    """The closed form, and what the paper simulated, which is a little less."""
    for local_batch, closed, published in ((32, 7.05, 6.9), (64, 4.99, 4.8), (128, 3.53, 3.4)):
        found = 100 * model.moved_closed(local_batch)
        assert f"{found:.2f}" == f"{closed:.2f}"
        near(found, published, .05)
        # Without replacement from ImageNet, 1,024 learners: what they had at most.
        near(found * model.finite(IMAGENET, 1024 * local_batch), published, .025)


def test_the_exact_imbalance():
    """Against a sum over all that can be, and against the closed form where batches are large."""
    for local_batch, caches in ((1, 2), (3, 4), (8, 5)):
        draws = local_batch * caches
        mean = sum(math.comb(draws, k) * (1 / caches) ** k * (1 - 1 / caches) ** (draws - k) *
                   abs(k - local_batch) for k in range(draws + 1))
        near(model.moved_exact(local_batch, caches), mean / 2 / local_batch)
    assert model.moved_exact(8, 1) == 0
    near(model.moved_exact(128, 1024), model.moved_closed(128), .002)
    # A batch that is the whole data set has nothing left to chance.
    assert model.finite(1000, 1000) == 0 and model.finite(1000, 1) == 1


def test_storage_that_many_ask():
    """One waits for nobody, and many get what there is."""
    near(model.storage_rate(1, .008, 4000), 125)
    near(model.storage_rate(16, .008, 4000), 2000)
    assert model.storage_rate(32, .008, 4000) == model.storage_rate(5000, .008, 4000) == 4000
    made = {many: model.storage_rate(many, .0085, 5200) for many in (1, 2, 4, 8, 16, 32, 64)}
    near(model.fit_storage(made)[0], .0085)
    near(model.storage_rate(64, *model.fit_storage(made)), 5200)


def test_a_sweep_waits_for_what_is_slowest():
    near(model.sweep_epoch_s(10, 1000, 5, 1, 40, 8), 100)  # trains
    near(model.sweep_epoch_s(100, 1000, 5, 1, 400, 8), 56)  # makes
    near(model.sweep_epoch_s(100, 1000, 500, 1, 40, 8), 506)  # reads


def test_when_a_finished_sample_is_worth_its_way():
    """600 KB at 1.2 GB/s take 0.5 ms; a core needs 4: eight cores together are as fast."""
    near(model.across_pays_below(.004, 600_000, 1.2e9, 0), 8)
    assert model.across_pays_below(.004, 600_000, 1.2e9, .004) == 0
