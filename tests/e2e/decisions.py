# SPDX-License-Identifier: MIT
"""
What the Python half decides by time, on a clock that goes only when it is told to, and by the
versions of what is loaded, which are what tests say.
"""

import os
import sys
import types

import pytest

import support

support.become_the_chosen_interpreter()
support.in_the_library()  # its functions are part of what is tested

import numpy  # noqa: E402
import PIL  # noqa: E402
import torch.utils.data  # noqa: E402  (brings the Python half)
import torchvision  # noqa: E402
from tsshim_torch import clock, native  # noqa: E402
from tsshim_torch.judge import versions  # noqa: E402
from tsshim_torch.sharing.batch import bulk, exact, fetch  # noqa: E402
from tsshim_torch.sharing.naming import hints, scopes  # noqa: E402

MS = 1_000_000


class Clock:
    """Takes the place of the clocks; @ns of CPU time and @seconds go as tests say."""

    def __init__(self):
        self.ns, self.seconds = 5 * MS, 1000

    def spend(self, ns):
        self.ns += ns


@pytest.fixture
def now(monkeypatch):
    made = Clock()
    monkeypatch.setattr(clock, "second", lambda: made.seconds)
    monkeypatch.setattr(clock, "thread", lambda: made.ns / 1e9)
    monkeypatch.setattr(clock, "thread_ns", lambda: made.ns)
    return made


class Data:
    """Its items cost what @costs says, the last one of them for ever."""

    def __init__(self, now=None, costs=()):
        self.now, self.costs = now, list(costs)

    def __getitem__(self, index):
        self.now.spend(self.costs[0] if len(self.costs) == 1 else self.costs.pop(0))
        return index


def fetcher(data):
    return types.SimpleNamespace(dataset=data, collate_fn=torch.utils.data.default_collate,
                                 auto_collation=True)


def items(kind, scope, count):
    """@count items of the data set of @scope are made, one by one."""
    for number in range(count):
        made = kind(scope, types.SimpleNamespace(occurrences=None, stream=b"x" * 16), [number])
        made._item(number)


def test_the_clocks_are_real_where_nobody_replaced_them():
    before = clock.second(), clock.thread(), clock.thread_ns()
    while clock.thread_ns() == before[2]:
        pass
    assert clock.second() >= before[0] and clock.thread() >= before[1]


def test_an_item_counts_what_it_takes(now):
    scope = scopes.Scope(fetcher(Data(now, [7 * MS, 3 * MS, 3 * MS])))
    for passed, fastest in ((1, 7 * MS), (2, 3 * MS), (3, 3 * MS)):
        items(fetch.Fetch, scope, 1)
        assert (scope.items, scope.item_ns) == (passed, fastest)
    assert scope.worked_ns == 13 * MS


def test_items_below_the_limit_are_cheap_after_the_first_eight(now):
    for cost, cheap in ((scopes.CHEAP_NS - 1, True), (scopes.CHEAP_NS, False)):
        scope = scopes.Scope(fetcher(Data(now, [cost])))
        items(fetch.Fetch, scope, scopes.CHEAP_AFTER - 1)
        assert not scope.is_cheap()
        items(fetch.Fetch, scope, 1)
        assert scope.is_cheap() == cheap


def test_slow_first_items_hide_no_cheap_ones(now):
    first = [900 * MS] * (scopes.CHEAP_AFTER - 1)
    scope = scopes.Scope(fetcher(Data(now, [*first, 1000, 1000])))
    items(fetch.Fetch, scope, scopes.CHEAP_AFTER)
    assert scope.is_cheap()


def test_each_cheap_item_is_timed_and_they_may_become_dear(now):
    scope = scopes.Scope(fetcher(Data(now, [1000] * scopes.CHEAP_AFTER + [800_000])))
    items(fetch.Fetch, scope, scopes.CHEAP_AFTER)
    until = 500
    found = []
    for _ in range(until):
        found.append(scope.is_cheap())
        items(fetch.Fetch, scope, 1)
    # Each one counts an eighth: after six of 0.8 ms the average is above 0.4 ms.
    assert found == [True] * 6 + [False] * (until - 6), found.index(False)
    scope.item_ns = 1000
    assert all(scope.is_cheap() for scope.items in range(until, 2 * until))


def looks(now, cost, step, until):
    """After how many ns of work a scope looked, whose looks cost @cost, asked each @step."""
    scope, found = scopes.Scope(fetcher(Data())), []
    scope.identities[0] = scope.dataset, b"same"

    def identify(_):
        found.append(now.ns - begin - cost * len(found))
        now.spend(cost)
        return b"same"

    scope._identify = identify
    begin = now.ns
    while now.ns - begin - cost * len(found) <= until:
        scope.look()
        now.spend(step)
    return found


def test_looking_takes_a_five_hundredth_of_the_work(now):
    assert looks(now, 1 * MS, 30 * MS, 1550 * MS) == [0, 510 * MS, 1020 * MS, 1530 * MS]
    # What costs next to nothing counts as 0.1 ms.
    assert looks(now, 0, 3 * MS, 155 * MS) == [0, 51 * MS, 102 * MS, 153 * MS]


def test_a_changed_data_set_gets_other_names_at_the_next_look(now):
    scope = scopes.Scope(fetcher(Data()))
    scope.identities[0] = scope.dataset, b"before"
    scope._identify = lambda _: b"after"
    scope.prefixes = kept = {"a": b"name"}
    scope.checked, scope.cost = now.ns / 1e9, 0.001
    now.spend(499 * MS)
    scope.look()
    assert scope.prefixes is kept
    now.spend(2 * MS)
    scope.look()
    assert scope.prefixes == {}


def test_a_batch_that_costs_less_than_fifty_looks_is_left_alone():
    scope = exact.Scope(fetcher(Data()))
    assert not scope.is_not_worth_a_look(8)  # nothing is known yet
    scope.item_ns, scope.cost = 1 * MS, 0.001
    assert scope._may_change()  # this is no worker
    assert scope.is_not_worth_a_look(exact.LOOKS - 1)
    assert not scope.is_not_worth_a_look(exact.LOOKS)
    scope._may_change = lambda: False
    assert not scope.is_not_worth_a_look(1)


def test_judging_is_part_of_a_look_where_each_batch_needs_one(now, monkeypatch):
    def slow(data):
        now.spend(3 * MS)
        return exact.judgement.Judgement(frozenset(), False, False)

    monkeypatch.setattr(exact.judgement, "judge", slow)
    scope = exact.Scope(fetcher(Data()))
    assert scope.judge() and round(scope.cost * 1e6) == 3000
    scope._may_change = lambda: False
    assert scope.judge() and round(scope.cost * 1e6) == 3000


def test_arrays_are_read_for_a_fiftieth_of_the_work():
    scope = exact.Scope(fetcher(Data()))
    for worked, room in ((0, exact.ROOM), (50 * exact.ROOM, exact.ROOM),
                         (50 * exact.ROOM + 50, exact.ROOM + 1)):
        scope.worked_ns = worked
        assert scope._room() == room


def test_two_items_are_timed_before_any_is_asked_for(now):
    for cost, cheap in ((scopes.CHEAP_NS - 1, True), (scopes.CHEAP_NS, False)):
        scope = exact.Scope(fetcher(Data(now, [cost])))
        batch = exact.Items(scope, types.SimpleNamespace(), [0])
        for _ in range(exact.TIMED):
            assert batch._ask(0) is None and scope.off_until == 0
            items(exact.Items, scope, 1)
        assert scope.is_cheap() == cheap
        if cheap:  # they go by the chunk, unless their indices have no names
            assert batch._ask(0) is None and scope.off_until == 0
            assert exact.Items(scope, types.SimpleNamespace(), ["first"])._ask(0) is None
            assert (scope.off_until, scope.reason) == (exact.RETRY, b"torch_cheap")


def test_a_scope_that_rests_is_looked_at_again_after_so_many_batches():
    made = fetcher(Data())
    scope = scopes.scope_of(made, exact.Scope)
    scope.items, scope.item_ns, scope.kinds = 5, 1000, []
    scope.rest(b"torch_cheap")
    scope.look, scope.judge = lambda: None, lambda: True
    for _ in range(exact.RETRY):
        assert exact._begin(made, [0]) is None
    assert (scope.items, scope.item_ns) == (5, 1000)
    scope.judge = lambda: setattr(scope, "kinds", []) or True
    assert isinstance(exact._begin(made, [0]), exact.Items)
    assert (scope.items, scope.item_ns, scope.off_until) == (0, None, 0)


# ---- hints: what workers of one epoch leave for those of the next ----

def expected():
    """A loader that hints are expected of; also a scope: both have a data set and a collate function."""
    made = fetcher(Data())
    hints.expect(made)
    return made


def test_hints_are_believed_by_workers_of_the_next_epoch_for_a_minute(now):
    made = expected()
    exact.Scope(made).rest(b"torch_cheap")
    now.seconds += hints.SECONDS
    later = exact.Scope(made)
    assert (later.reason, later.off_until) == (b"torch_cheap", exact.RETRY)
    now.seconds += 1
    later = exact.Scope(made)
    assert (later.reason, later.off_until, later.items) == (b"torch_dataset", 0, 0)
    hints.shares(made)
    hints.leave(made, b"torch_dataset")
    assert hints.left(made) is None and hints.are_shared(made)
    later = exact.Scope(made)
    assert (later.items, later.item_ns) == (exact.TIMED, scopes.CHEAP_NS)
    now.seconds += hints.SECONDS + 1
    assert exact.Scope(made).items == 0 and not hints.are_shared(made)
    hints.leave(made, b"torch_dataset")
    assert hints.left(made) == b"torch_dataset"


def test_hints_of_a_process_reach_those_after_it():
    made = expected()
    assert hints.left(made) is None and hints.told(made) == 0
    for reason in hints.REASONS:
        assert support.in_child(lambda: hints.leave(made, reason))
        assert hints.left(made) == reason
        hints.expect(made)  # for the next epoch
        assert support.in_child(lambda: (hints.left(made) == reason) or 1 / 0)
    assert support.in_child(lambda: hints.tell(made, (1 << 64) - 1))
    hints.expect(made)
    assert hints.told(made) == (1 << 64) - 1


def test_hints_of_other_reasons_are_not_left():
    made = expected()
    hints.leave(made, b"torch_settings")
    assert hints.left(made) is None


def test_hints_of_one_that_shares_are_believed_rather_than_of_another():
    made = expected()
    hints.leave(made, b"torch_cheap")
    assert not hints.are_shared(made)
    for _ in range(2):
        hints.shares(made)
        assert hints.left(made) is None and hints.are_shared(made)
        hints.leave(made, b"torch_cheap")


def test_no_hints_are_left_for_a_data_set_that_nobody_expects():
    stranger = fetcher(Data())
    hints.leave(stranger, b"torch_cheap")
    hints.shares(stranger)
    hints.tell(stranger, 7)
    assert hints.left(stranger) is None and not hints.are_shared(stranger) and hints.told(stranger) == 0


def test_no_hints_of_another_data_set_at_the_same_address():
    first = expected()
    hints.leave(first, b"torch_cheap")
    place, known = id(first.dataset), dict(hints._slots)
    del first.dataset
    kept = []
    for _ in range(1000):
        again = fetcher(Data())
        if id(again.dataset) == place:
            break
        kept.append(again)
    assert id(again.dataset) == place, "the interpreter does not use memory again"
    hints.expect(again)
    assert hints.left(again) is None
    assert known.keys() == hints._slots.keys()


def test_no_hints_of_a_data_set_without_weak_references():
    made = fetcher(object())
    hints.expect(made)
    hints.leave(made, b"torch_cheap")
    assert hints.left(made) is None


def test_hints_of_data_sets_without_end():
    """Places are used again, and begin anew."""
    made = []
    for _ in range(3 * hints.SLOTS):
        made.append(expected())
        assert hints.left(made[-1]) is None
        hints.leave(made[-1], b"torch_cheap")
        assert hints.left(made[-1]) == b"torch_cheap"
    assert len(hints._slots) <= hints.SLOTS


# ---- what was found of batches ----

def settled(word, name, kinds):
    """Whether a new worker that believes @word takes items of @kinds for those of a batch."""
    known = bulk.Known()
    known.believe(word, name, kinds)
    return known.is_settled(kinds)


def test_what_was_found_of_batches_is_believed_of_the_same_data_set():
    small, large = (torch.ones(2), 1), (torch.ones(3), 1)
    kinds = [bulk.kind_of(small), bulk.kind_of(large)]
    alike, mixed, whole = bulk.Known(), bulk.Known(), bulk.Known()
    assert alike.word(b"name") == 0
    assert alike.learn(kinds[:1] * 2, (small, small), [small, small], True)
    assert settled(alike.word(b"name"), b"name", kinds[:1])
    assert not settled(alike.word(b"name"), b"another", kinds[:1])
    assert not settled(alike.word(b"name"), b"name", kinds)
    assert not settled(alike.word(b"name"), b"name", kinds[1:])
    assert mixed.learn(kinds, (small, large), [small, large], True)
    assert settled(mixed.word(b"name"), b"name", kinds)
    assert not settled(mixed.word(b"name"), b"another", kinds)
    assert not whole.learn(kinds, (small, large), [large, large], True)
    assert whole.word(b"name") == 0


def test_the_user_who_vouches_is_not_asked_about_time(monkeypatch):
    monkeypatch.setattr(native.settings, "share", native.SHARE_SAMPLES)
    scope = exact.Scope(fetcher(Data()))
    assert scope._room() == float("inf") and scope.judge()


# ---- versions ----

NAMES = ["NumPy", "Pillow", "Python", "torch", "torchvision"]
OPTIONAL = {"NumPy": numpy, "Pillow": PIL, "torchvision": torchvision}


class Own(torch.utils.data.Dataset):
    """Of the user's, and only computes."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((3,), float(index))


@pytest.fixture
def of_version(monkeypatch):
    """What lets that which is loaded of a name say that it is of a version."""
    found = versions.found
    return lambda name, version: monkeypatch.setattr(versions, "found", lambda: {**found(), name: version})


def verdict(data):
    """None where samples of @data may be shared as far as its code goes, else the reason."""
    scope = exact.Scope(fetcher(data))
    return None if scope.judge() else scope.reason


def test_versions_that_are_installed_are_judged():
    assert sorted(versions.found()) == sorted(versions.JUDGED) == NAMES
    versions.check()
    assert verdict(Own()) is None


def test_a_version_is_its_first_two_numbers():
    for name, version, judged in (
            ("torch", "2.9.0a0+git123", True), ("torch", "2.1.0.dev20230801+cpu", True),
            ("torch", torch.torch_version.TorchVersion("2.0.1"), True),
            ("torch", "99.0.0a0+git123", False), ("torch", "git123", False),
            ("NumPy", "1.26.4", True), ("NumPy", "1.2.64", False), ("NumPy", "1.26rc1", True),
            ("NumPy", "126.4", False), ("NumPy", "v1.26.4", False), ("NumPy", "1", False),
            ("Pillow", "9.5.0.post1", True), ("Pillow", "9.x", False),
            ("torch", None, False), ("torch", 2.1, False), ("torch", (2, 1), False),
            ("torch", b"2.1.0", False)):
        assert versions.is_judged(name, version) is judged, (name, version)


def test_code_of_the_users_own_takes_part_with_judged_versions_only(monkeypatch, of_version):
    """What it works with may be of no other; the libraries' own code, and who vouches, may."""
    libraries, share = torch.utils.data.TensorDataset(torch.ones(4, 3)), native.settings.share
    for name, (_, first, last) in versions.JUDGED.items():
        beyond = [(last[0], last[1] + 1), (last[0] + 1, 0), (last[0], last[1] * 10 + 10), (first[0], first[1] - 1),
                  (first[0] - 1, 99), (99, 0), ("nightly",), ()]
        judged = [".".join(map(str, each)) for each in (first, last, (*first, 7), (*last, "1a0+git123"))]
        for version in (*judged, *(".".join(map(str, each)) for each in beyond), None):
            of_version(name, version)
            assert verdict(Own()) == (None if version in judged else b"torch_versions"), (name, version)
            assert verdict(libraries) is None, (name, version)
            monkeypatch.setattr(native.settings, "share", native.SHARE_SAMPLES)
            assert verdict(Own()) is None, (name, version)
            monkeypatch.setattr(native.settings, "share", share)
        monkeypatch.undo()


def test_interpreters_of_another_kind_have_no_version(monkeypatch):
    for owner, name, value, version in ((sys, "abiflags", "t", "free-threaded"),
                                        (sys.implementation, "name", "pypy", "pypy")):
        monkeypatch.setattr(owner, name, value)
        assert versions.found()["Python"] == version
        assert verdict(Own()) == b"torch_versions"
        monkeypatch.undo()
    assert verdict(Own()) is None


def test_no_code_is_read_where_a_version_is_not_judged(of_version):
    """It may consist of instructions that do not mean what they did."""
    class Broken(Own):
        def __getitem__(self, index):
            try:
                return index
            finally:
                print(index)

    assert verdict(Broken()) == b"torch_dataset"
    of_version("Python", "3.99")
    assert verdict(Broken()) == b"torch_versions"
    with pytest.raises(versions.Unjudged, match="^Python 3.99$"):
        exact.judgement.judge(Broken())


def test_the_documentation_has_the_versions_that_are_judged():
    text = " ".join(support.read(os.path.join(support.HERE, "..", "..", "docs", "reasons.md")).split())
    for name, (_, first, last) in versions.JUDGED.items():
        assert "%s %d.%d to %d.%d" % (name, *first, *last) in text, name


def test_what_is_not_loaded_has_no_version(monkeypatch):
    for name, module in OPTIONAL.items():
        monkeypatch.delitem(sys.modules, module.__name__)
        assert sorted(versions.found()) == [other for other in NAMES if other != name]
        versions.check()
        monkeypatch.setitem(sys.modules, module.__name__, types.ModuleType(name))  # and what does not say which it is
        assert versions.found()[name] is None
        with pytest.raises(versions.Unjudged, match="^%s None$" % name):
            versions.check()
        monkeypatch.undo()
