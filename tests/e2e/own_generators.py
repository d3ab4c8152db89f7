# SPDX-License-Identifier: MIT
"""Generators of a data set's own: seeded where their state lies, to the state that they then tell."""

import random
import struct

import support

support.in_the_library()  # native.py looks for it when it is imported

import numpy  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

support.search("hooks", "torch", "python")
from tsshim_torch import native  # noqa: E402
from tsshim_torch.sharing.item import generators, private, seeding  # noqa: E402


def owners():
    return {"python": random.Random(1), "state": numpy.random.RandomState(1),
            "torch": torch.Generator(),
            **{kind: getattr(numpy.random, kind)(1)
               for kind in ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")}}


def told(owner):
    """What @owner says of its state."""
    for name in ("getstate", "get_state"):
        if hasattr(owner, name):
            state = getattr(owner, name)()
            return state.tolist() if hasattr(state, "tolist") else repr(private._plain(state))
    return repr(private._plain(owner.state))


def used():
    """Owners in the middle of something: with numbers left over."""
    found = owners()
    found["python"].gauss(0, 1)
    found["state"].normal()
    torch.randn(1, generator=found["torch"])
    for name in ("PCG64", "PCG64DXSM", "Philox", "SFC64"):
        numpy.random.Generator(found[name]).integers(1 << 20, dtype=numpy.uint32)
    return found


def test_every_place_is_known():
    """Else seeding them takes three times as long, and nobody is told."""
    found = private.Private([(name, owner) for name, owner in owners().items()])
    kinds = {name: entry.kind for (name, _), entry in zip(found._ids.values(), found._entries)}
    assert kinds == {"python": native.PYTHON, "state": native.NUMPY, "torch": native.TORCH,
                     "PCG64": native.PCG, "PCG64DXSM": native.PCG, "Philox": native.PHILOX,
                     "SFC64": native.SFC, "MT19937": native.NUMPY}, kinds


def test_what_is_written_is_what_the_library_makes():
    for number in range(20):
        there, asked = used(), used()
        found = private.Private([(name, owner) for name, owner in there.items()])
        found.seed(b"item %d" % number)
        for (name, _), entry in zip(found._ids.values(), found._entries):
            private.source_of(asked[name]).seed(tuple(entry.numbers))
            assert told(there[name]) == told(asked[name]), name
        assert len({tuple(entry.numbers) for entry in found._entries}) == len(there)


def test_they_are_put_back():
    there, kept = used(), used()
    found = private.Private([(name, owner) for name, owner in there.items()])
    found.seed(b"one")
    found.seed(b"another")
    found.restore()
    assert {name: told(owner) for name, owner in there.items()} == \
        {name: told(owner) for name, owner in kept.items()}


# ---- the global ones ----

SEEDS = (1 << 63 | 5, 1 << 62 | 7, 1 << 31 | 9)


def use_globals():
    """Leave numbers over in all of them."""
    random.gauss(0, 1)
    numpy.random.normal()
    torch.randn(1)


def after(seed, *seeds):
    """What they tell once @seed has seeded them; whom it leaves alone is as at first."""
    random.setstate(AT_FIRST[0])
    numpy.random.set_state(AT_FIRST[1])
    use_globals()
    seed(*seeds)
    return generators.digest()


AT_FIRST = random.getstate(), numpy.random.get_state()


def by_their_words(torch_seed, python_seed, numpy_seed):
    """The same by what the libraries offer for it."""
    torch.default_generator.manual_seed(torch_seed)
    state = bytearray(torch.default_generator.get_state().numpy().tobytes())
    struct.pack_into("=iiq624Q", state, 8, 624, 1, 1, *native.words(torch_seed))
    torch.default_generator.set_state(torch.tensor(state, dtype=torch.uint8))
    own = getattr(random.seed, "__self__", None)
    if own is None:
        random.seed(python_seed)
    else:
        own.setstate((3, (*native.words(python_seed), 0), None))
    if generators.own_of_numpy() is None:
        numpy.random.seed(numpy_seed)
    else:
        numpy.random.set_state(("MT19937", numpy.array(native.words(numpy_seed), dtype="u4"), 0))


def test_the_global_ones_in_one_call():
    own = seeding.Globals()
    for number in range(20):
        seeds = [each + number for each in SEEDS]
        assert after(own.seed, *seeds) == after(by_their_words, *seeds)
    assert [entry.kind for entry in own.entries] == [native.TORCH, native.PYTHON, native.NUMPY]


def test_seeds_side_by_side_have_nothing_in_common():
    """Means and correlations of 4,000 seeds, for the words that are drawn first and for later ones."""
    words = numpy.array([native.words(seed) for seed in range(4000)], dtype=numpy.float64) / 2**32
    assert numpy.unique(words).size > words.size * 0.999
    for found in (words[:, 0], words[:, 1], words[:, 15], words[:, 16], words[:, 623]):
        assert abs(found.mean() - 0.5) < 0.03 and abs(found.var() - 1 / 12) < 0.01
        assert abs(numpy.corrcoef(found[:-1], found[1:])[0, 1]) < 0.1
    for one, other in ((0, 1), (0, 8), (0, 16), (1, 623)):
        assert abs(numpy.corrcoef(words[:, one], words[:, other])[0, 1]) < 0.1
    generator, drawn = random.Random(), []
    for seed in range(2000):  # what follows the words, once they are drawn
        private.Python(generator).seed((seed,))
        drawn.append([generator.random() for _ in range(400)])
    drawn = numpy.array(drawn)
    assert abs(drawn[:, 320:].mean() - 0.5) < 0.01
    assert abs(numpy.corrcoef(drawn[:-1, 350], drawn[1:, 350])[0, 1]) < 0.1


def test_small_seeds():
    for seeds in ((0, 0, 0), (1, 1, 1), (1 << 32, 1 << 32, 1), ((1 << 64) - 1,) * 2 + (7,)):
        assert after(seeding.Globals().seed, *seeds) == after(by_their_words, *seeds)


def exchanged(module, name, value, known):
    """The same where @value stands for @name of @module; @known are the kinds that are found."""
    own = seeding.Globals()
    own.seed(*SEEDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, value)
        assert after(own.seed, *SEEDS) == after(by_their_words, *SEEDS)
        assert [entry.kind for entry in own.entries] == known
    assert after(own.seed, *SEEDS) == after(by_their_words, *SEEDS)
    assert [entry.kind for entry in own.entries] == [native.TORCH, native.PYTHON, native.NUMPY]


def test_functions_of_another_generator_in_place_of_randoms():
    other, asked = random.Random(1), []
    exchanged(random, "seed", lambda number: asked.append(number) or other.seed(number),
              [native.TORCH, native.OTHER, native.NUMPY])
    assert asked == [SEEDS[1]] * 2
    exchanged(random, "seed", other.seed, [native.TORCH, native.PYTHON, native.NUMPY])


def test_functions_in_place_of_numpys():
    asked = []
    exchanged(numpy.random, "seed", asked.append, [native.TORCH, native.PYTHON, native.OTHER])
    assert asked == [SEEDS[2]] * 2


def test_where_a_place_is_not_known_the_generator_is_asked(monkeypatch):
    monkeypatch.setattr(private, "_torch_offsets", lambda: None)
    own = seeding.Globals()
    assert after(own.seed, *SEEDS) == after(by_their_words, *SEEDS)
    assert [entry.kind for entry in own.entries] == [native.OTHER, native.PYTHON, native.NUMPY]


def test_a_place_that_is_not_right_is_not_used(monkeypatch):
    first, *others = private._torch_offsets()
    monkeypatch.setattr(private, "_right", {})
    monkeypatch.setattr(private, "_torch_offsets", lambda: (first + 4, *others))
    generator = torch.Generator()
    state = generator.get_state()
    own = private.Private([("torch", generator)])
    assert own._entries[0].kind == native.OTHER
    assert torch.equal(generator.get_state(), state)
