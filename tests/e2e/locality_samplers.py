# SPDX-License-Identifier: MIT
"""--locality with what Lightning and accelerate make of a loader, from `scripts/deps programs`."""

import support

support.in_the_library(support.installed("programs", "PROGRAMS", "bin", "python"), TSSHIM_LOCALITY="1",
                       ACCELERATE_USE_CPU="true")

import accelerate.data_loader as shards  # noqa: E402
import torch  # noqa: E402
import torch.utils.data as data  # noqa: E402
from lightning.fabric.utilities.distributed import DistributedSamplerWrapper  # noqa: E402
from lightning.pytorch.overrides.distributed import (UnrepeatedDistributedSampler,  # noqa: E402
                                                     UnrepeatedDistributedSamplerWrapper)
from tsshim_torch.locality import iteration, samplers  # noqa: E402
from locality_common import (RANKS, Job, Plain, check, check_same_batches, distributed,  # noqa: E402
                             epochs, loader)


def generator():
    return torch.Generator().manual_seed(11)


# ---- Lightning ----

def wrapped(make, kind=DistributedSamplerWrapper, size=16, **more):
    """The loaders of all ranks, over a sampler of @make's."""
    return [loader(range(4096), kind(make(), num_replicas=RANKS, rank=rank, **more), size)
            for rank in range(RANKS)]


@support.whole
def test_a_sampler_that_lightning_wraps():
    """Torch's own samplers, which draw from the job's generator or from one of their own."""
    weights = [1.0 + sample % 7 for sample in range(4096)]
    for make in (lambda: data.WeightedRandomSampler(weights, 2000),
                 lambda: data.WeightedRandomSampler(weights, 2000, generator=generator()),
                 lambda: data.SubsetRandomSampler(range(1, 4000, 2)),
                 lambda: data.RandomSampler(range(2048), generator=generator())):
        for shuffle in (False, True):
            _, _, job = check(lambda: wrapped(make, shuffle=shuffle), range(4), changed=(1, 2, 3))
            assert job.passed == []
            # The epoch's number decides nothing; that it was told or not, neither.
            check(lambda: wrapped(make, shuffle=shuffle), [5, None, 5, 2], changed=(1, 2, 3))


def test_lightnings_samplers_that_repeat_nothing():
    check(lambda: distributed(8 * 16 * 4 + 3, 16, kind=UnrepeatedDistributedSampler))
    check(lambda: wrapped(lambda: data.WeightedRandomSampler([1.0] * 4096, 8 * 16 * 3 + 5),
                          UnrepeatedDistributedSamplerWrapper))


def test_samplers_of_the_programs_own_inside_are_not_understood():
    class Own(data.RandomSampler):
        pass

    for make, passed in ((lambda: Own(range(2048)), 3 * RANKS), (lambda: data.SequentialSampler(range(512)), 0)):
        _, _, job = check(lambda: wrapped(make, shuffle=False), changed=())
        assert job.passed == [iteration.REASON] * passed, job.said


# ---- accelerate ----

def prepared(samples=2048, size=16, seedable=True, split=False, even=True, drop=False, sampler=None, ranks=RANKS):
    """What Accelerator.prepare() makes of a loader, for each rank."""
    found = []
    for rank in range(ranks):
        dataset = range(samples)
        inner = sampler(dataset) if sampler else data.RandomSampler(dataset, generator=generator())
        found.append(shards.prepare_data_loader(
            loader(dataset, inner, size * ranks if split else size, drop_last=drop), num_processes=ranks,
            process_index=rank, split_batches=split, even_batches=even, use_seedable_sampler=seedable,
            data_seed=7 if seedable else None))
        assert type(found[-1].base_dataloader.batch_sampler) is shards.BatchSamplerShard
    return found


def check_prepared(changed=(1, 2), numbers=(None,) * 3, **more):
    """It tells the epoch itself."""
    return check(lambda: prepared(**more), numbers, changed=changed)


def test_loaders_that_accelerate_deals_batches_of():
    for seedable in (True, False):
        for split in (False, True):
            _, _, job = check_prepared(seedable=seedable, split=split)
            assert job.passed == [] and len(job.said) == 1


@support.whole
def test_what_accelerate_does_at_the_end():
    """Fills up from the beginning, leaves out, or gives some ranks less."""
    for samples in (2048 + 16, 2048 + 5, 2048 + 16 * 7 + 1, 2047):
        for split in (False, True):
            for even, drop in ((True, False), (False, False), (True, True)):
                check_prepared(samples=samples, split=split, even=even, drop=drop, seedable=split)


def test_fewer_samples_than_a_batch_of_all():
    for samples in (5, 40, 127):
        for split in (False, True):
            found = []
            for job in (Job(), Plain()):
                found.append(epochs(job, prepared(samples=samples, split=split), [None] * 3))
            check_same_batches(*zip(*found))


def test_the_order_of_all_ranks_is_what_their_shards_give():
    for samples in (3, 16, 40, 128, 300, 2053):
        for split in (False, True):
            for even, drop in ((True, False), (False, False), (True, True)):
                loaders = prepared(samples=samples, split=split, even=even, drop=drop)
                for one in loaders:
                    one.set_epoch(3)
                order = samplers.source_of(loaders[2].batch_sampler).draw()
                found = [order.step(number) for number in range(order.steps)]
                expected = [list(one.batch_sampler) for one in loaders]
                assert [[step[rank] for step in found if step[rank]] for rank in range(RANKS)] == expected, (
                    samples, split, even, drop)
                assert order.largest() == max((sample for one in expected for batch in one for sample in batch),
                                              default=-1)


def test_a_loader_that_goes_on_in_an_epoch():
    """skip_first_batches() makes another loader: the rest of an epoch is the rest of what it is."""
    found = []
    for kind in (Job, Plain):
        loaders, job = prepared(), kind()
        first, whole = epochs(job, loaders, [None, None])
        again = [shards.skip_first_batches(one, 4) for one in prepared()]
        with job.going_on():
            for one in again:
                one.set_epoch(1)
                one.iteration = 1
            found.append((whole[4:], job.epoch(again)))
    (whole, rest), (whole_plain, rest_plain) = found
    assert rest == whole and rest_plain == whole_plain
    assert rest != rest_plain
    check_same_batches((rest, rest_plain))


def test_orders_of_accelerates_that_stay():
    _, _, job = check_prepared(changed=(), sampler=data.SequentialSampler)
    assert job.passed == []

    class Own(data.RandomSampler):
        pass

    _, _, job = check_prepared(changed=(), sampler=lambda dataset: Own(dataset, generator=generator()),
                               seedable=False)
    assert set(job.passed) == {iteration.REASON}
