# SPDX-License-Identifier: MIT
"""What workers of one epoch leave for those of the next reaches them, and no one for long."""

import os
import sys
import types

import support

support.become_the_chosen_interpreter()
sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
from tsshim_torch import clock  # noqa: E402
from tsshim_torch.sharing.naming import hints  # noqa: E402


class Data:
    pass


def loader():
    """Also a scope: both have a data set and a collate function."""
    return types.SimpleNamespace(dataset=Data(), collate_fn=loader)


def in_child(work):
    """What @work does in a forked process; whether it did not raise."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0


def test_a_reason_reaches_workers_of_the_next_epoch():
    made = loader()
    hints.expect(made)
    assert hints.left(made) is None
    for reason in hints.REASONS:
        assert in_child(lambda: hints.leave(made, reason))
        assert hints.left(made) == reason
        hints.expect(made)  # for the next epoch
        assert in_child(lambda: (hints.left(made) == reason) or 1 / 0)


def test_what_a_worker_tells_reaches_those_after_it():
    made = loader()
    assert hints.told(made) == 0
    hints.tell(made, 7)  # nobody expects it
    assert hints.told(made) == 0
    hints.expect(made)
    assert hints.told(made) == 0
    assert in_child(lambda: hints.tell(made, (1 << 64) - 1))
    hints.expect(made)
    assert hints.told(made) == (1 << 64) - 1


def test_other_reasons_are_not_left():
    made = loader()
    hints.expect(made)
    hints.leave(made, b"torch_settings")
    assert hints.left(made) is None


def test_who_shares_is_believed_rather_than_who_does_not():
    made = loader()
    hints.expect(made)
    hints.leave(made, b"torch_cheap")
    assert not hints.are_shared(made)
    hints.shares(made)
    assert hints.left(made) is None and hints.are_shared(made)
    hints.leave(made, b"torch_cheap")
    assert hints.left(made) is None and hints.are_shared(made)


def test_hints_grow_old():
    made, now, real = loader(), 1000, clock.second
    try:
        clock.second = lambda: now
        hints.expect(made)
        hints.leave(made, b"torch_cheap")
        now += hints.SECONDS
        assert hints.left(made) == b"torch_cheap"
        now += 1
        assert hints.left(made) is None
        hints.shares(made)
        hints.leave(made, b"torch_dataset")
        assert hints.left(made) is None
        now += hints.SECONDS
        assert hints.are_shared(made)
        now += 1
        assert not hints.are_shared(made)
        hints.leave(made, b"torch_dataset")
        assert hints.left(made) == b"torch_dataset"
    finally:
        clock.second = real


def test_nothing_is_left_for_a_data_set_that_nobody_expects():
    stranger = loader()
    hints.leave(stranger, b"torch_cheap")
    hints.shares(stranger)
    assert hints.left(stranger) is None and not hints.are_shared(stranger)


def test_another_data_set_at_the_same_address():
    first = loader()
    hints.expect(first)
    hints.leave(first, b"torch_cheap")
    place, known = id(first.dataset), dict(hints._slots)
    del first.dataset
    kept = []
    for _ in range(1000):
        again = loader()
        if id(again.dataset) == place:
            break
        kept.append(again)
    assert id(again.dataset) == place, "the interpreter does not use memory again"
    hints.expect(again)
    assert hints.left(again) is None
    assert known.keys() == hints._slots.keys()


def test_a_data_set_without_weak_references_has_no_hints():
    made = types.SimpleNamespace(dataset=object(), collate_fn=loader)
    try:
        hints.expect(made)
    except TypeError:
        pass
    hints.leave(made, b"torch_cheap")
    assert hints.left(made) is None


def test_data_sets_without_end():
    """Places are used again, and begin anew."""
    made = [loader() for _ in range(3 * hints.SLOTS)]
    for each in made:
        hints.expect(each)
        assert hints.left(each) is None
        hints.leave(each, b"torch_cheap")
        assert hints.left(each) == b"torch_cheap"
    assert len(hints._slots) <= hints.SLOTS
