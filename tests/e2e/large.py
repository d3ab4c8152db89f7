# SPDX-License-Identifier: MIT
"""Samples larger than a segment of the ring: shared, refused, and made by workers that die."""

import sys

if __name__ == "__main__":  # a job over such samples
    import hashlib

    import torch
    from torch.utils.data import DataLoader, Dataset

    import costs
    import data_job
    import meeting

    class Volumes(Dataset):
        """Every @small-th is a small one; each is full of its number and a random one."""

        def __init__(self, options):
            self.count, self.size, self.small = options.count, options.mb << 18, options.small

        def __len__(self):
            return self.count

        def __getitem__(self, index):
            small = self.small and index % self.small == 0
            volume = torch.arange(1 << 18 if small else self.size, dtype=torch.float32)
            return volume.mul_(index + 1).add_(torch.rand(()))

    def digest(volume):
        return hashlib.sha256(volume.numpy()).hexdigest()[:16]

    options = data_job.options_of(mb=20, count=6, epochs=2, batch=1, workers=1, small=0)
    costs.install()
    torch.set_num_threads(1)
    loader = DataLoader(Volumes(options), options.batch, shuffle=True, num_workers=options.workers)
    for epoch in range(options.epochs):
        meeting.arrive()
        for batch in loader:
            for volume in batch:
                print("epoch %d %d %s" % (epoch, round(float(volume[1] - volume[0])) - 1, digest(volume)), flush=True)
    meeting.part()
    sys.exit()

import meeting
import support
from aligned_common import aligned, counter, full_dev_shm, job_of, samples, together, well, without_ring
from support import finish, start

job = job_of("large.py")

# Segments of 4 MiB, 15 of them: a record has seven at most.
RING = "64M"

# Of 8 MiB, 31 of them: all samples of an epoch.
ROOM = "256M"

known = {}


def same(outcomes, *options):
    """Whether all @outcomes are of the job with these @options, as it is alone."""
    if options not in known:
        known[options] = samples(without_ring(job(*options)))
    assert len(known[options]) == 12
    for outcome in outcomes:
        assert samples(outcome) == known[options]


def passed(group, reason):
    return group.statistics()["passed"].get(reason, 0)


def test_jobs_share_what_fills_several_segments():
    with aligned(TSSHIM_RING=ROOM, TSSHIM_VERIFY="0") as group:
        same(together([job(), job("--batch", 2)], group))
        # The second epoch's six, which all know by then to be wanted, but for what a busy machine costs.
        assert counter(group, "shared") >= 3, group.report()
        assert passed(group, "too_large") == 0
        group.assert_clean()


@support.whole
def test_what_is_taken_is_what_it_is_computed_as():
    with aligned(TSSHIM_RING=ROOM, TSSHIM_VERIFY="100") as group:
        same(together([job(), job()], group))
        statistics = group.statistics()
        assert statistics["verified"] > 0 and statistics["mismatched"] == 0


def test_what_the_ring_is_too_small_for_is_said_and_the_rest_is_shared():
    options = "--mb", 30, "--small", 2
    with aligned(TSSHIM_RING=RING, TSSHIM_VERIFY="0") as group:
        same(together([job(*options), job(*options)], group), *options)
        assert passed(group, "too_large") > 0
        assert counter(group, "shared") > 0
        assert "larger than half of the ring" in group.report()


def test_a_worker_that_dies_while_it_writes_one_holds_nobody_up():
    for place in "segment_tied:3", "reserve_header", "publish_ready":
        with aligned(TSSHIM_RING=RING, TSSHIM_VERIFY="0", LD_PRELOAD=support.TEST_LIBRARY) as group, \
                meeting.of(1) as where:
            victim = start(job(), group.environment(TSSHIM_TEST_KILL=place, **where))
            others = [start(job(), group.environment()) for _ in range(2)]
            same([well(finish(process)) for process in others])
            assert finish(victim).status != 0, place
            group.assert_clean(after_kill=True)


@support.whole
def test_a_full_dev_shm_costs_nobody_a_sample():
    options = "--mb", 8
    for until in None, 'until "$TSRUN" stats --json | grep -q \'"shared": *[1-9]\'; do sleep 0.1; done;':
        outcomes, _ = full_dev_shm(until, job(*options))
        same(outcomes, *options)
