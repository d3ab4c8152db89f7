# SPDX-License-Identifier: MIT
"""A staged large file beside local ones, for the benchmark "read".

Once open, a staged file is a file in local memory, and nothing of ours is in the way of its
reads.  But two such files of the same bytes can differ by a half: the kernel copies pages that
lie one behind the other faster than scattered ones, and whoever fills a file first is given
the scattered ones that earlier files have left.  So two local files are written in step with
the copy, a few megabytes each in turn, and get the same mixture.  Other programs on the
machine cost more than that; so the three are read in turn, piece by piece, by one process
(native/pairs.c).  It runs with tsshim, for the local files as well: read(2) and pread(2) are
not among the calls that tsshim takes (tests/abi/exports.txt).

The two local files, compared with each other in the same way, say how exact all of this is.
"""
import glob
import os
import shutil
import statistics
import tempfile
import time

from tsbench import jobs as tsjobs
from tsbench import machine, native

MIB = 1 << 20
MEMORY = "/dev/shm"

# Bytes a second of the storage: slow enough for the local files to keep up with the copy.
BANDWIDTH = 384 * MIB

PASSES = 8
JUMPS = 100000
OPENS = 300

# Numbers of files. The last one is the copy, by a name of its own.
STAGED, FIRST, SECOND, ITSELF = range(4)

# Copies take a quarter of the free memory at most, 85 % of that.
ROOM = 0.25 * 0.85


def size_that_fits(wanted):
    """@wanted, or less: what copies may have, and two local files and programs beside it."""
    room = shutil.disk_usage(MEMORY).free * ROOM * 0.98
    return int(min(wanted, room, machine.available_bytes() / 4)) // (64 * MIB) * 64 * MIB


def _in_step(size):
    """How many local files may grow with the copy, for what they take is not free any more."""
    room = shutil.disk_usage(MEMORY).free * ROOM * 0.99
    return max(count for count in range(3) if count == 0 or size * (1 + count * ROOM) < room)


def _copies(group):
    """A pattern of the paths of the copies of @group, those that are being made among them."""
    return f"{MEMORY}/tsshim.{os.getuid()}.*{group}.f.*"


def wait_for_copy(group, timeout=300):
    """Wait until @group has its one copy. Its path."""
    deadline = time.monotonic() + timeout
    while True:
        found = [path for path in glob.glob(_copies(group)) if not path.endswith(".part")]
        if found:
            return found[0]
        if time.monotonic() > deadline:
            raise tsjobs.JobError("read: a large file was not copied")
        time.sleep(0.05)


def _drop_pages(path):
    """The page cache of an original is in the way of what is measured."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Files:
    """A job that reads a staged file, two local ones, and the copy by a name of its own."""

    def __init__(self, large, storage, place):
        self.setup, self.group, self.size = large.data.setup, large.data.group(), large.bytes
        self.source = os.path.join(storage.source, "large")
        self.paths = [os.path.join(storage.path, "large"),
                      *(os.path.join(place, name) for name in ("first", "second", "itself"))]
        program = native.program(self.setup.root, self.setup.native, "pairs")
        self.job = self.setup.place.start(
            [program, self.setup.list_of(self.paths)], self.group,
            options=["--stage", "shm", "--dataset", f"large={storage.path}"])
        self.job.line(0)

    def make(self):
        """The copy, and local files in step with it: how many, and how far behind, in bytes."""
        count = _in_step(self.size)
        writers = [self._write(path, _copies(self.group)) for path in self.paths[1:1 + count]]
        self.job.ask(f"open 1 1 {STAGED}")
        lag = [int(writer.line(1)) for writer in writers]
        self.setup.place.end(writers)
        os.symlink(wait_for_copy(self.group), self.paths[ITSELF])
        late = [self._write(path, self.source) for path in self.paths[1 + count:3]]
        self.setup.place.end(late)
        for path in (self.source, self.paths[STAGED]):
            _drop_pages(path)
        return {"in_step": count, "lag": lag}

    def _write(self, path, leader):
        """A process that writes the file @path in step with @leader."""
        script = os.path.join(self.setup.root, "bench", "workloads", "follow.py")
        writer = self.setup.place.start([self.setup.python, script, self.source, leader, path])
        writer.line(0)
        return writer

    def ask(self, what, amount, seed, *numbers):
        """For each of the files @numbers what native/pairs.c says of it."""
        words = " ".join(map(str, numbers))
        answers = self.job.ask(f"{what} {amount} {seed} {words}")["files"]
        for number, answer in zip(numbers, answers):
            if answer["copy"] != (number in (STAGED, ITSELF)):
                raise tsjobs.JobError("read: what is measured is not what it should be")
        return answers

    def end(self):
        self.setup.place.end([self.job])
        self.setup.place.forget(self.group)


def _rounds(large, count, measure):
    """@count times new files, and what measure(files, number) says of them."""
    found = []
    with large.mount(bandwidth=BANDWIDTH) as storage:
        for number in range(count):
            with tempfile.TemporaryDirectory(prefix="tsshim-bench-", dir=MEMORY) as place:
                files = Files(large, storage, place)
                made = files.make()
                found.append({**made, **measure(files, number)})
                files.end()
    return found


def front(large, count):
    """Read from front to end: the three, and the copy beside itself; and open and close."""
    def measure(files, _):
        three, pair = (STAGED, FIRST, SECOND), (STAGED, ITSELF)
        return {"front": files.ask("front", PASSES, 1, *three),
                "itself": files.ask("front", PASSES, 1, *pair),
                "open": files.ask("open", OPENS, 1, *three)}
    return _rounds(large, count, measure)


def jumps(large, count, turns=3):
    """4 KiB anywhere, @turns times in each of @count rounds."""
    def measure(files, number):
        return {"jumps": [files.ask("jump", JUMPS, 1 + number * turns + turn, STAGED, FIRST,
                                    SECOND) for turn in range(turns)]}
    return _rounds(large, count, measure)


def staged_to_local(answers, in_step, clock="ns"):
    """The staged file / the mean of the local ones in step with it, or of both."""
    staged, *local = (answer[clock] for answer in answers)
    return staged / statistics.mean(local[:in_step or 2])


def local_to_local(answers, clock="ns"):
    """The one local file / the other."""
    return answers[1][clock] / answers[2][clock]


def open_to_close(found):
    """What front() found of one round, with opening and closing added."""
    return [{"ns": read["ns"] + opened["ns"]} for read, opened in
            zip(found["front"], found["open"])]
