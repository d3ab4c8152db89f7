# SPDX-License-Identifier: MIT
"""
Jobs of a test that meet: at the beginning of their work however long each took to load torch, of
each epoch if they like, and at the end, so that none takes the ring away which others still need.

What they share is over in a second; on a busy machine they are further apart than that.
"""

import contextlib
import os
import tempfile
import time

VARIABLE = "TSSHIM_TEST_MEET"
GUARD = 200  # seconds; only a job that is lost does not come


@contextlib.contextmanager
def of(count):
    """The variable to start @count jobs with, as a dictionary."""
    with tempfile.TemporaryDirectory() as place:
        yield {VARIABLE: "%d:%s" % (count, place)}


def has_come(where, process, epoch):
    """Whether the @process that was started with @where, of of(), has begun its @epoch."""
    place = where[VARIABLE].partition(":")[2]
    return os.path.exists(os.path.join(place, "round%d.%d" % (epoch + 2, process.pid)))


def between(where, process, scene):
    """Whether the @process that was started with @where has done so many scenes as @scene, from 1,
    and waits to be let go on."""
    place = where[VARIABLE].partition(":")[2]
    return os.path.exists(os.path.join(place, "scene%d.%d" % (scene, process.pid)))


def go_on(where, scene):
    """Let all that have done @scene go on; of the one that started them."""
    os.mkdir(os.path.join(where[VARIABLE].partition(":")[2], "scene%d.go" % scene))


def come(where, rounds):
    """Of the one that started them, if there is one more to meet: it comes to so many meetings."""
    for number in range(rounds):
        os.mkdir(os.path.join(where[VARIABLE].partition(":")[2], "round%d.starter" % (number + 1)))


def leave(where):
    """Of the same: from here on nobody waits for it."""
    os.mkdir(os.path.join(where[VARIABLE].partition(":")[2], "end.starter"))


class _Company:
    """The jobs that this one meets, if there are any; each leaves a mark where it has come to."""

    def __init__(self):
        self.count, self.place, self.rounds, self.scenes = 0, None, 0, 0

    def wait(self, where, others=0):
        """Until all jobs and so many @others have come to @where, or have parted."""
        os.mkdir(os.path.join(self.place, "%s.%d" % (where, os.getpid())))
        end = time.monotonic() + GUARD
        while sum(name.startswith((where + ".", "end.")) for name in os.listdir(self.place)) \
                < self.count + others:
            assert time.monotonic() < end, "the others did not come to " + where
            time.sleep(0.01)


_company = _Company()


def arrive():
    """
    In a job, at the beginning and of each epoch: wait for the others; not for those that parted.

    The variable is taken away, so that the job's environment is what it is when it runs alone.
    """
    count, _, place = os.environ.pop(VARIABLE, "").partition(":")
    if place:
        _company.count, _company.place = int(count), place
    if _company.place:
        _company.rounds += 1
        _company.wait("round%d" % _company.rounds)


def is_alone():
    """In a job that has arrived once: whether there is nobody to meet."""
    return _company.place is None


def scene():
    """In a job, between two of its scenes: wait for the others, and until one lets all go on."""
    if _company.place:
        _company.scenes += 1
        _company.wait("scene%d" % _company.scenes, 1)


def part():
    """In a job: wait until all others have done what they had to do as well."""
    if _company.place:
        _company.wait("end")
