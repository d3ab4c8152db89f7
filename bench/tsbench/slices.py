# SPDX-License-Identifier: MIT
"""Jobs that live through a measurement and take turns, one slice of the data after the other."""
import os
import time

from .jobs import JobError

# A sample made from younger files is not shared, for they may still be changing.
FILE_AGE = 3  # of a local file system

STARVED = "epoch -1 images 0 distinct 0 seconds 0 checksum -"


def warm(paths):
    """Read all files: a system that gives idle memory away may have dropped some of them."""
    for path in paths:
        with open(path, "rb") as file:
            file.read()


def wait_for_age(paths):
    """Return when the youngest of @paths is FILE_AGE seconds old."""
    youngest = max(os.stat(path).st_ctime for path in paths)
    time.sleep(max(0, youngest + FILE_AGE - time.time()))


def _check_feeders(feeders):
    for feeder in feeders:
        if feeder.process.poll() is not None:
            raise JobError(feeder.complaint())


def _fed_answer(job, feeders, end):
    """What @job says until @end on the monotonic clock, as long as its feeders live."""
    while True:
        try:
            return job.answer("epoch", max(0, min(1, end - time.monotonic())))
        except JobError:
            _check_feeders(feeders)
            if job.process.poll() is not None:
                raise
            # It still waits for its samples, and will take the next slice's for them.
            if time.monotonic() >= end:
                return STARVED


def take_turn(jobs, feeders=(), patience=900):
    """Let @jobs, and @feeders that give no answer of their own, take their next slice.

    A job must be done @patience seconds after the one before it.  Where there are feeders, all
    must be that many seconds after the begin, and one that is not was starved by them: it has
    been given nothing.  A feeder that has died is an error.

    Returns CPU seconds of all of them, wall seconds until the last job had its samples, bytes
    that were read from files, and of each job the number of samples, of distinct ones, and
    their checksum.
    """
    everybody = (*jobs, *feeders)
    cpu = -sum(job.cpu() for job in everybody)
    read = -sum(job.read_bytes() for job in everybody)
    begin = time.monotonic()
    for job in everybody:
        job.say("go")
    answers = [(_fed_answer(job, feeders, begin + patience) if feeders
                else job.answer("epoch", patience)).split() for job in jobs]
    wall = time.monotonic() - begin
    _check_feeders(feeders)
    cpu += sum(job.cpu() for job in everybody)
    read += sum(job.read_bytes() for job in everybody)
    answers = [dict(zip(words[2::2], words[3::2])) for words in answers]
    if any(not int(answer["images"]) for answer in answers):
        # The clock went on until patience ended; the others know when they were done.
        wall = max(float(answer["seconds"]) for answer in answers)
    return {"cpu": cpu, "wall": wall, "read": read,
            "images": [int(answer["images"]) for answer in answers],
            "distinct": [int(answer["distinct"]) for answer in answers],
            "checksums": [answer["checksum"] for answer in answers]}


def rate(turn):
    """Samples per second of all jobs together."""
    return sum(turn["images"]) / turn["wall"]


def cpu_each(turn):
    """CPU seconds per sample that a job was given."""
    return turn["cpu"] / sum(turn["images"])
