# SPDX-License-Identifier: MIT
"""What every benchmark gets: programs, photographs, sizes, and a place to work in."""
import os
import statistics

from . import native, photos
from .jobs import JobError
from .terminal import Progress

UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}

# Data must be this many rings large, or a benchmark would measure a cache that never evicts.
RINGS = 20


def size(text):
    """Bytes of 256M and the like."""
    if text[-1:].upper() in UNITS:
        return int(text[:-1]) * UNITS[text[-1].upper()]
    return int(text)


class Setup:
    """Settings of this run and the workers that all benchmarks use."""

    def __init__(self, root, build, place, arguments):
        self.root, self.build, self.place = root, build, place
        self.quick, self.jobs, self.ring = arguments.quick, arguments.jobs, arguments.ring
        self.words = arguments.k
        self.python = os.environ.get("PYTHON", "/usr/bin/python3")
        self.native = os.path.join(build, "bench")
        self.photos = self._photos(arguments.images)
        self.each = photos.decoded_bytes(self.photos)
        self._lists = 0

    def _photos(self, directory):
        if directory:
            self.source = "real photographs"
            return photos.find(directory)
        self.source = "made photographs"
        count = 100 if self.quick else 400
        directory = os.path.join(self.build, f"demo-photos-{count}")
        progress = Progress("making photographs", count)
        photos.make(directory, count, lambda done, total: progress.update(done))
        progress.finish()
        return photos.find(directory)

    def ring_images(self):
        """How many decoded photographs fill the ring."""
        return max(1, int(size(self.ring) / self.each))

    def data_images(self):
        """How many photographs make the data RINGS rings large; few in a quick run."""
        return 120 if self.quick else RINGS * self.ring_images() + 1

    def block_images(self):
        """A piece of the data that surely still is in the ring when a second job comes."""
        return 20 if self.quick else max(8, self.ring_images() // 8)

    def streams(self, count, directory="data"):
        """@count distinct photographs, in the page cache. Their directory and paths."""
        where = os.path.join(self.place.directory, directory)
        progress = Progress("copying photographs", count)
        paths = photos.multiply(self.photos, where, count,
                                lambda done, total: progress.update(done))
        progress.finish()
        return where, paths

    def list_of(self, paths):
        """A file with the names @paths, for the decoding workers."""
        self._lists += 1
        name = os.path.join(self.place.directory, f"list{self._lists}")
        with open(name, "w", encoding="utf-8") as file:
            file.write("\n".join(paths) + "\n")
        return name

    def decoder(self, api, listing):
        """The command of a decoding worker: c, rgbx (as Pillow asks), pillow, torchvision."""
        if api in ("c", "rgbx"):
            command = [native.program(self.root, self.native, "decode"), listing]
            return command + (["rgbx"] if api == "rgbx" else [])
        script = os.path.join(self.root, "bench", "workloads", "decode.py")
        return [self.python, script, listing, api]

    def start_decoder(self, api, listing, group=None, environment=None, options=()):
        """Start a decoding worker; it is ready when this returns."""
        job = self.place.start(self.decoder(api, listing), group, environment,
                               options=options)
        job.line(0)
        return job

    def chosen(self, phases):
        """Those of @phases, {name: anything}, in whose name a word of -k stands; all without -k."""
        found = {name: phase for name, phase in phases.items()
                 if not self.words or any(word in name for word in self.words)}
        if not found:
            raise JobError(f"-k: no word stands in one of {', '.join(phases)}")
        return found

    def settings(self, **more):
        """For the results: what all benchmarks have in common, and @more."""
        mean = sum(os.path.getsize(path) for path in self.photos) / len(self.photos)
        return {"ring": self.ring, "ring_images": self.ring_images(), "photos": self.source,
                "photo_bytes": round(mean), "decoded_bytes": round(self.each),
                "quick": self.quick, **more}


def ask_all(jobs, text):
    """Send @text to all jobs at once, return their answers."""
    expected = [len(job.lines) for job in jobs]
    for job in jobs:
        job.say(text)
    import json
    return [json.loads(job.line(index)) for job, index in zip(jobs, expected)]


def blocks(count, length):
    """(first, count) of the blocks of @length within @count."""
    return [(first, length) for first in range(0, count - length + 1, length)]


def row(name, label, bar, samples, unit="", below=True, value=None):
    """
    One line of the results: the median of @samples (or @value) against @bar; None: nothing has been
    promised of it.
    """
    value = statistics.median(samples) if value is None else value
    passed = None if bar is None else value <= bar if below else value >= bar
    return {"id": name, "label": label, "bar": bar, "below": below, "unit": unit,
            "value": value, "min": min(samples), "max": max(samples),
            "samples": samples, "passed": passed}


def with_quartiles(row):
    """@row with the quartiles of its samples in place of the smallest and the largest."""
    if len(row["samples"]) > 1:
        row["min"], _, row["max"] = statistics.quantiles(row["samples"], n=4, method="inclusive")
    return row


def without_bar(name, label, samples, below=True, unit=""):
    """A line of the results that nothing has been promised of."""
    return row(name, label, None, samples, unit=unit, below=below)
