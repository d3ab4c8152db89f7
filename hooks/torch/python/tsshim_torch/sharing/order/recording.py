# SPDX-License-Identifier: MIT
"""
What loaders in free order delivered, in a file: so a run can be repeated, alone or not.

A header of 48 bytes: magic, version, 4 of zero, the seed, 16 of zero, CRC-32 of these; padded.  Then
chunks, each appended by one write: kind, 1 where there are draws and 2 where there are occurrences,
2 of zero, bytes of what follows, which is the payload and the CRC-32 of both.

  EPOCH  name of the data set and loader (16), ordinal, epoch, samples of the epoch
  BATCH  number of its EPOCH in the file, then indices, then their occurrences unless all are 0, then
         draws unless all are the epoch

All numbers are little endian, of 32 bits but for the seed.  Whatever moment the job is killed at,
the file can be read up to the last whole chunk.
"""

import array
import os
import struct
import sys
import zlib

from ... import asking

HEADER = struct.Struct("<8sIIQ16s")
HEADER_BYTES = 48
CHUNK = struct.Struct("<BBHI")
EPOCH = struct.Struct("<16sIII")
CHECK = struct.Struct("<I")
MAGIC, VERSION = b"TSORDER\0", 2
IS_EPOCH, IS_BATCH = 1, 2
HAS_DRAWS, HAS_OCCURRENCES = 1, 2
BATCH_MOST = 1 << 26  # bytes; a batch of more is none


class Unusable(asking.Meant, RuntimeError):
    """The recording cannot be replayed; the message says why."""


def _checked(data):
    return data + CHECK.pack(zlib.crc32(data))


def _numbers(data):
    numbers = array.array("I", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _bytes(numbers):
    numbers = array.array("I", numbers)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def own_path(path):
    """The file of this process: one for each rank of a job of several."""
    rank = os.environ.get("RANK")
    return "%s.rank%s" % (path, rank) if rank else path


def header(seed):
    return _checked(HEADER.pack(MAGIC, VERSION, 0, seed, bytes(16))).ljust(HEADER_BYTES, b"\0")


def _chunk(kind, flag, payload):
    return _checked(CHUNK.pack(kind, flag, 0, len(payload)) + payload)


class Recorder:
    """Writes a file; any error ends the recording, with one line, and never the job."""

    def __init__(self, path, seed, say):
        self.path, self.say = own_path(path), say
        self.pid = os.getpid()
        self.epochs = 0
        self.ended = False
        self._append(header(seed), os.O_CREAT | os.O_EXCL)

    def _append(self, data, flags=0):
        # Opened anew each time: programs close descriptors that they do not know, and open others.
        if self.ended or os.getpid() != self.pid:
            return
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666)
            try:
                if os.write(fd, data) != len(data):
                    raise OSError("no room for all of it")
            finally:
                os.close(fd)
        except OSError as error:
            self.ended = True
            self.say("the recording '%s' ends here: %s" % (self.path, error.strerror or error))

    def begin(self, name, ordinal, epoch, count):
        """The number of the epoch that begins."""
        self._append(_chunk(IS_EPOCH, 0, EPOCH.pack(name, ordinal, epoch, count)))
        self.epochs += 1
        return self.epochs - 1

    def note(self, number, epoch, indices, occurrences, draws):
        """The samples of a batch of the epoch @number were delivered."""
        payload, flags = CHECK.pack(number) + _bytes(indices), 0
        if any(occurrences):
            payload, flags = payload + _bytes(occurrences), flags | HAS_OCCURRENCES
        if any(draw != epoch for draw in draws):
            payload, flags = payload + _bytes(draws), flags | HAS_DRAWS
        self._append(_chunk(IS_BATCH, flags, payload))


class Recorded:
    """One epoch of a recording."""

    def __init__(self, name, ordinal, epoch, count):
        self.name, self.ordinal, self.epoch, self.count = name, ordinal, epoch, count
        self.indices, self.occurrences, self.draws = (array.array("I") for _ in range(3))
        self.is_given = False  # an iterator has delivered some of it


class Replayed:
    """What one iterator is given of a recording."""

    def __init__(self, unusable, recorded, misfit=None):
        self.unusable = unusable  # what makes an Unusable of a reason
        self.recorded = recorded  # None: nothing
        self.misfit = misfit  # why the recording is none of what this iterator delivers, or None
        self.taken = 0

    def take(self, count):
        """[(index, occurrence, draw)] of the next @count samples, or of those that are left."""
        one = self.recorded
        if one is None:
            return []
        begin, self.taken = self.taken, min(self.taken + count, len(one.indices))
        return list(zip(*(each[begin:self.taken]
                          for each in (one.indices, one.occurrences, one.draws))))

    def deliver(self):
        """
        The program was given a batch.  Not before is an epoch used up, or a misfit one: with workers
        an iterator that nobody asks for a batch begins an epoch, too.  Raises Unusable.
        """
        if self.misfit is not None:
            raise self.unusable(self.misfit)
        if self.recorded is not None:
            self.recorded.is_given = True


class Recording:
    """What a file has; its epochs are given by their numbers, to each loader its own."""

    def __init__(self, path, seed):
        self.path = own_path(path)
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise Unusable("tsshim: the recording '%s' cannot be read: %s" % (
                self.path, error.strerror)) from None
        self.epochs = []
        self._read_header(data, seed)
        at = HEADER_BYTES
        while at < len(data):
            at = self._read_chunk(data, at)

    def _unusable(self, why):
        return Unusable("tsshim: the recording '%s' cannot be replayed: %s" % (self.path, why))

    def _read_header(self, data, seed):
        if len(data) < HEADER_BYTES or data[:len(MAGIC)] != MAGIC:
            raise self._unusable("it is none")
        _, version, _, its_seed, _ = HEADER.unpack_from(data)
        if version != VERSION:
            raise self._unusable("its version is %d, and this one knows %d" % (version, VERSION))
        if data[:HEADER_BYTES] != header(its_seed):
            raise self._unusable("it is damaged")
        if its_seed != seed:
            raise self._unusable("its seed is %d, not %d" % (its_seed, seed))

    def _read_chunk(self, data, at):
        """Where the next one begins; the end of the file where this one was not all written."""
        if len(data) - at < CHUNK.size:
            return len(data)
        kind, flags, zero, size = CHUNK.unpack_from(data, at)
        end = at + CHUNK.size + size + CHECK.size
        if kind not in (IS_EPOCH, IS_BATCH) or zero \
                or flags > (HAS_DRAWS | HAS_OCCURRENCES) or size > BATCH_MOST:
            raise self._unusable("it is damaged at byte %d" % at)
        if end > len(data):
            return len(data)
        if CHECK.unpack_from(data, end - CHECK.size)[0] != zlib.crc32(data[at:end - CHECK.size]):
            if end == len(data):  # the last one; the machine may have gone down
                return end
            raise self._unusable("it is damaged at byte %d" % at)
        payload = data[at + CHUNK.size:end - CHECK.size]
        try:
            (self._read_epoch if kind == IS_EPOCH else self._read_batch)(payload, flags)
        except (struct.error, IndexError, ValueError):
            raise self._unusable("it is damaged at byte %d" % at) from None
        return end

    def _read_epoch(self, payload, flags):
        self.epochs.append(Recorded(*EPOCH.unpack(payload)))

    def _read_batch(self, payload, flags):
        epoch = self.epochs[CHECK.unpack_from(payload)[0]]
        numbers = _numbers(payload[CHECK.size:])
        has_draws, has_occurrences = flags & HAS_DRAWS, flags & HAS_OCCURRENCES
        count, rest = divmod(len(numbers), 1 + bool(has_draws) + bool(has_occurrences))
        if rest:
            raise ValueError("as many of each")
        epoch.indices += numbers[:count]
        epoch.occurrences += numbers[count:2 * count] if has_occurrences \
            else array.array("I", [0]) * count
        epoch.draws += numbers[-count:] if has_draws and count \
            else array.array("I", [epoch.epoch]) * count

    def epoch_of(self, name, ordinal, epoch):
        """
        The Replayed of an iterator whose @epoch begins; it has nothing where the recording ends
        before.
        """
        own = [each for each in self.epochs if each.ordinal == ordinal and each.name == name]
        if not own and any(each.ordinal == ordinal for each in self.epochs):
            raise self._unusable("it is of another data set")
        left = [each for each in own if each.indices and not each.is_given]
        same = [each for each in left if each.epoch == epoch]
        misfit = "its epoch %d is here %d" % (left[0].epoch, epoch) if left and not same else None
        return Replayed(self._unusable, same[0] if same else None, misfit)
