# SPDX-License-Identifier: MIT
"""Recorded jobs, and what a replay delivers: bit for bit the same samples, alone or not."""

import os
import signal

import meeting
import support
from aligned_common import aligned, together, well
from free import FREE, ITEMS, alone, check, delivered, draws, job
from support import Group, finish, run, start


def recorded(directory, *options, ahead=(), kill=False, **more):
    """(path, outcome) of a job behind another one, so that its order is none that it has alone."""
    path = os.path.join(directory, "record")
    with aligned(**FREE) as group, meeting.of(2) as where:
        ahead = start(job("--epochs", 4, *ahead), group.environment(**where))
        behind = start(job("--epochs", 3, "--pause", .02, *options),
                       group.environment(TSSHIM_RECORD=path, **more, **where))
        if kill:
            support.wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 900,
                               "some batches are delivered")
            for process in (behind, ahead):  # who is left would wait for the other at the end
                support.signal_job(process, signal.SIGKILL)
        outcomes = finish(ahead), finish(behind)
    if not kill:
        for outcome in outcomes:
            well(outcome)
    return path, outcomes[1]


def replayed(path, *options, **more):
    return alone(*options, order="free", TSSHIM_REPLAY=path, **more)


@support.whole
def test_a_replay_delivers_the_same_alone(directory):
    path, outcome = recorded(directory)
    check(outcome, draws(60))
    wanted = delivered(outcome)
    for options in (["--workers", 0, "--batch", 64], ["--workers", 4, "--batch", 7]):
        assert delivered(replayed(path, *options)) == wanted, options
    # Behind its end the rule holds, which for who is alone is the next strict epoch.
    more = replayed(path, "--epochs", 5)
    assert delivered(more)[:3] == wanted
    check(more, draws(60))


@support.whole
def test_what_comes_again_in_an_epoch_is_replayed(directory):
    weighted = ("--how", "weighted")
    path, outcome = recorded(directory, *weighted, ahead=weighted)
    wanted = delivered(outcome)
    assert all(len({index for index, _ in epoch}) < len(epoch) == ITEMS for epoch in wanted)
    assert delivered(replayed(path, *weighted, "--workers", 0, "--batch", 64)) == wanted


@support.whole
def test_a_replay_delivers_the_same_beside_others(directory):
    path, outcome = recorded(directory, "--drop-last", "--batch", 20)
    wanted = delivered(outcome)
    assert [len(epoch) for epoch in wanted] == [80] * 3
    with aligned(**FREE) as group:
        other, again = together([job("--epochs", 4), job("--epochs", 3, "--batch", 20, "--drop-last")], group,
                                more=[{}, {"TSSHIM_REPLAY": path}])
    assert delivered(again) == wanted
    check(other, draws(60))


def test_what_a_killed_job_was_given_is_replayed_and_gone_on_with(directory):
    path, outcome = recorded(directory, kill=True)
    assert outcome.status == -signal.SIGKILL
    size = os.path.getsize(path)
    outcome = replayed(path)
    check(outcome, draws(60))
    again = replayed(path, "--workers", 0)
    assert delivered(again) == delivered(outcome) and os.path.getsize(path) == size


@support.whole
def test_a_recording_that_is_none_fails_before_the_first_batch(directory):
    path, _ = recorded(directory)
    damaged = os.path.join(directory, "damaged")
    data = bytearray(support.read(path, "rb"))
    data[120] ^= 1
    support.write(damaged, data)
    for file, settings, options, why in (
            (damaged, {}, [], "it is damaged at byte"),
            (os.path.join(directory, "none"), {}, [], "No such file"),
            (path, {"TSSHIM_ALIGN": "8"}, [], "its seed is 7, not 8"),
            (path, {"TSSHIM_EPOCH": "3"}, [], "its epoch 0 is here 3"),
            (path, {}, ["--items", 95], "it is of another data set"),
            (path, {}, ["--how", "subset"], "this loader has no index")):
        with Group(TSSHIM_ORDER="free", TSSHIM_REPLAY=file,
                   **{"TSSHIM_ALIGN": "7", **settings}) as group:
            outcome = run(job(*options), group.environment())
        assert outcome.status == 1 and why in outcome.errors, (why, outcome.errors[-2000:])
        assert "epoch" not in outcome.output, (why, outcome.output)


def test_no_room_for_a_recording_is_the_recordings_loss(directory):
    path = os.path.join(directory, "nowhere", "record")
    outcome = alone("--epochs", 2, order="free", TSSHIM_RECORD=path)
    assert outcome.errors.count("ends here") == 1, outcome.errors
    assert [len(epoch) for epoch in delivered(outcome)] == [ITEMS] * 2


def test_strict_orders_are_not_recorded(directory):
    """They follow from the seed."""
    path = os.path.join(directory, "record")
    alone("--how", "plain", "--epochs", 1, order="free", TSSHIM_RECORD=path)
    assert not os.path.exists(path)
