# SPDX-License-Identifier: MIT
"""The global generators, put aside and put back: by memory what they are by their own words."""
import contextlib
import os
import random
import signal
import sys
import threading

import support

support.become_the_chosen_interpreter()
import numpy  # noqa: E402
import torch  # noqa: E402

sys.path.insert(0, os.path.join(support.HERE, "..", "..", "hooks", "torch", "python"))
from tsshim_torch.sharing.item import generators  # noqa: E402


def draws():
    """An odd number of normal ones: NumPy and random keep one of a pair for the next call."""
    return [numpy.random.normal(), random.gauss(0, 1), torch.randn(1).item(),
            numpy.random.randint(1 << 30), random.random(), numpy.random.rand(),
            numpy.random.normal(), numpy.random.normal()]


def told():
    """What NumPy says its state is."""
    name, key, *rest = numpy.random.get_state()
    return [name, key.tobytes(), *rest]


def memory():
    """The place of NumPy's state, which is known for every NumPy that is tested."""
    place, _ = generators.save()[2]
    assert place is not None, "NumPy %s has its state elsewhere" % numpy.__version__
    return place


def test_what_was_put_aside_comes_back():
    memory()
    states = []
    for _ in range(700):  # past the end of the words, and with and without one left over
        state, words = generators.save(), told()
        states.append((state, words, draws()))
    for state, words, values in reversed(states):
        generators.restore(state)
        assert told() == words and draws() == values


def test_a_seed_is_the_generators_own():
    generators.seed(1 << 62, 1 << 63, 1 << 31)
    values = draws()
    torch.manual_seed(1 << 62)
    random.seed(1 << 63)
    numpy.random.seed(1 << 31)
    assert draws() == values


def test_a_number_left_over_is_the_programs():
    """The words are the same before and after one that was left over is taken."""
    numpy.random.seed(5)
    numpy.random.normal()
    before, state = told(), generators.save()
    numpy.random.normal()
    after = told()
    assert before[1:3] == after[1:3] and before[3:] != after[3:]
    generators.restore(state)
    assert told() == before
    generators.restore(generators.save())
    assert told() == before


@contextlib.contextmanager
def exchanged(bits):
    """NumPy's generator is another one; yields its own."""
    own = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(bits)
    try:
        yield own
    finally:
        numpy.random.set_bit_generator(own)


if hasattr(numpy.random, "set_bit_generator"):  # from 1.24 on
    def test_another_kind_of_generator():
        """Where NumPy's is not the one it begins with, it is asked."""
        with exchanged(numpy.random.MT19937(9)) as own:
            assert memory().bits is numpy.random.get_bit_generator() is not own
            state, values = generators.save(), draws()
            generators.restore(state)
            assert draws() == values
            numpy.random.set_bit_generator(numpy.random.PCG64(9))
            assert generators._numpy_of() is None
        assert memory().bits is own

    def test_a_generator_that_is_exchanged_meanwhile():
        numpy.random.normal()
        state, words, values = generators.save(), told(), draws()
        with exchanged(numpy.random.MT19937(9)):
            generators.restore(state)
            assert told() == words
        generators.restore(state)
        assert draws() == values


def test_functions_of_another_library(monkeypatch):
    """As mkl_random puts there: whoever is seeded is saved."""
    other = numpy.random.RandomState(4)
    for name in ("seed", "get_state", "set_state", "normal"):
        monkeypatch.setattr(numpy.random, name, getattr(other, name))
    state, value = generators.save(), numpy.random.normal()
    generators.seed(1, 2, 3)
    generators.restore(state)
    assert numpy.random.normal() == value


def test_a_fork_by_another_thread():
    """A child can use the generator whatever this thread was doing: no lock is left taken."""
    done = threading.Event()

    def fork():
        for _ in range(100):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                numpy.random.seed(1)
                generators.restore(generators.save())
                os._exit(0)
            statuses.append(os.waitpid(child, 0)[1])
            if statuses[-1] != 0:
                break
        done.set()

    statuses = []
    thread = threading.Thread(target=fork)
    thread.start()
    while not done.is_set():
        generators.restore(generators.save())
    thread.join()
    assert statuses == [0] * 100, statuses[-1]


def test_a_place_that_is_not_right_is_not_used():
    numpy.random.seed(1)
    place = memory()
    place.gauss += 8
    numpy.random.normal()
    assert not place.is_right()
    generators._numpy = (None, None)
    assert memory().is_right() and memory() is not place
