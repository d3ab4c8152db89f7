#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Run the same unmodified PyTorch jobs without and with tsrun, compare, print what it saved."""
import argparse
import errno
import os
import re
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from tsbench import jobs as tsjobs  # noqa: E402
from tsbench import machine, photos  # noqa: E402
from tsbench.terminal import Progress, table  # noqa: E402

TRAIN = os.path.join(HERE, "workloads", "train.py")


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def jobs(text):
    number = positive(text)
    if number > 56:
        raise argparse.ArgumentTypeError("must be at most 56: tsrun counts no more apart")
    return number


def ring_size(text):
    """As tsrun wants it; asked for here, it would complain after minutes."""
    if not re.fullmatch("[0-9]{1,18}[KMGT]?", text):
        raise argparse.ArgumentTypeError("must be a size such as 512M or 4G")
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__,
                                     allow_abbrev=False)
    parser.add_argument("--images", metavar="DIR", help="your own JPEG files, in ImageFolder "
                        "layout or flat (default: makes photograph-like ones)")
    parser.add_argument("--count", type=positive, default=400, help="images to make (%(default)s)")
    parser.add_argument("--jobs", type=jobs, default=4, help="jobs at once (%(default)s)")
    parser.add_argument("--workers", type=positive, default=1,
                        help="DataLoader workers of each job (%(default)s)")
    parser.add_argument("--epochs", type=positive, default=2, help="of each job (%(default)s)")
    parser.add_argument("--ring", type=ring_size, default="128M", help="most shared memory (%(default)s)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.images and not os.path.isdir(arguments.images):
        parser.error(f"--images: {arguments.images} is not a directory")
    return arguments


def prepare_images(arguments, place):
    """The directory to train on, its files in the page cache; their number, their bytes, and
    megabytes when decoded."""
    if arguments.images:
        directory = photos.image_folder(arguments.images, os.path.join(place.directory, "images"))
    else:
        directory = os.path.join(arguments.build, f"demo-photos-{arguments.count}")
        progress = Progress("making photographs", arguments.count)
        photos.make(directory, arguments.count, lambda done, total: progress.update(done))
        progress.finish()
    files = photos.find(directory)
    total = 0
    for path in files:
        with open(path, "rb") as file:
            total += len(file.read())
    return directory, len(files), total, photos.decoded_bytes(files) * len(files) / 1e6


class Counter:
    """Adds up the progress lines of several jobs."""

    def __init__(self, progress, count):
        self.progress, self.count = progress, count
        self.lock = threading.Lock()
        self.seen = {}

    def line(self, job, line):
        words = line.split()
        with self.lock:
            epochs, part = self.seen.get(id(job), (0, 0))
            if words[:1] == ["progress"]:
                part = int(words[1])
            elif words[:1] == ["epoch"]:
                epochs, part = epochs + 1, 0
            self.seen[id(job)] = (epochs, part)
            self.progress.update(sum(e * self.count + p for e, p in self.seen.values()))


def parse_epochs(job):
    """The lines `epoch N key value ...` of a job, as dictionaries."""
    found = []
    for line in job.lines:
        words = line.split()
        if words[:1] == ["epoch"]:
            found.append(dict(zip(words[2::2], words[3::2])))
    return found


def run_jobs(place, arguments, directory, count, group):
    """Run all jobs at once. Seconds, CPU seconds in the loops, checksums per job."""
    title = f"{arguments.jobs} jobs {'with' if group else 'without'} tsrun"
    progress = Progress(title, arguments.jobs * arguments.epochs * count)
    counter = Counter(progress, count)
    started = []
    for number in range(arguments.jobs):
        command = [machine_python(), TRAIN, directory, "--wait",
                   "--epochs", str(arguments.epochs), "--workers", str(arguments.workers),
                   "--seed", "1", "--augment-seed", str(100 + number)]
        started.append(place.start(command, group, on_line=counter.line))
    for job in started:
        job.line(0)
    begin = time.monotonic()
    for job in started:
        job.say("go\n" * arguments.epochs)
    place.end(started)
    seconds = time.monotonic() - begin
    progress.finish()
    epochs = [parse_epochs(job) for job in started]
    return {
        "seconds": seconds,
        "images": sum(int(e["images"]) for job in epochs for e in job),
        "cpu": sum(float(e["cpu"]) for job in epochs for e in job),
        "checksums": [[e["checksum"] for e in job] for job in epochs],
    }


def machine_python():
    return os.environ.get("PYTHON", "/usr/bin/python3")


def compare(plain, shared, arguments):
    """Complaints about results that differ, or are missing."""
    wrong = []
    for number, (a, b) in enumerate(zip(plain["checksums"], shared["checksums"])):
        if len(a) != arguments.epochs or len(b) != arguments.epochs:
            wrong.append(f"job {number} did not finish its epochs")
        elif a != b:
            wrong.append(f"job {number} computed {b} with tsrun, {a} without")
    return wrong


def report(plain, shared, pixels, wrong, idle):
    decodes = plain["images"]
    rows = [["", "images/s", "CPU seconds", "decoded", "taken from ring"],
            ["without tsrun", f"{plain['images'] / plain['seconds']:.1f}",
             f"{plain['cpu']:.1f}", str(decodes), "-"],
            ["with tsrun", f"{shared['images'] / shared['seconds']:.1f}",
             f"{shared['cpu']:.1f}", str(pixels["produced"]), str(pixels["shared"])],
            ["difference", f"x {plain['seconds'] / shared['seconds']:.2f}",
             f"{100 * (shared['cpu'] / plain['cpu'] - 1):+.0f} %",
             f"{100 * (pixels['produced'] / decodes - 1):+.0f} %", ""]]
    print(table(rows))
    print()
    if wrong:
        print("DIFFERENT RESULTS:\n  " + "\n  ".join(wrong))
        return
    if idle:
        print("NOTHING WAS SHARED, though every job computed the same with and without tsrun.\n"
              "`tsrun --summary -- ...` says why; --ring and free memory decide how much may be.")
        return
    checks = sum(len(job) for job in plain["checksums"])
    print(f"Every job computed the same with and without tsrun ({checks} checksums over all "
          f"samples\nand losses). Saved: {plain['cpu'] - shared['cpu']:.1f} CPU seconds in the "
          f"training loops, {pixels['saved_seconds']:.1f} of them\ndecoding by tsrun's own "
          "account. What else to try: docs/performance.md")


def demonstrate(arguments):
    tsrun = os.path.join(arguments.build, "shim", "tsrun", "tsrun")
    if not os.path.exists(tsrun):
        raise tsjobs.JobError(f"{tsrun} does not exist; run scripts/demo, which builds it")
    with tsjobs.Workplace(tsrun, ring=arguments.ring) as place:
        directory, count, size, decoded = prepare_images(arguments, place)
        print(f"{arguments.jobs} unmodified PyTorch jobs, {count} photographs of "
              f"{size / count / 1000:.0f} KB ({decoded:.0f} MB decoded), {arguments.epochs} "
              f"epochs,\nsame order, different augmentation, {arguments.workers} worker(s) each, "
              f"{machine.cores()} cores, {arguments.ring} of shared memory.\n")
        plain = run_jobs(place, arguments, directory, count, None)
        group = place.group("demo")
        shared = run_jobs(place, arguments, directory, count, group)
        pixels = tsjobs.pixels(place.stats(group))
    wrong = compare(plain, shared, arguments)
    idle = arguments.jobs > 1 and pixels["shared"] == 0
    report(plain, shared, pixels, wrong, idle)
    return 1 if wrong or idle else 0


def main():
    arguments = parse_arguments()
    if arguments.check_options:
        return 0
    try:
        return demonstrate(arguments)
    except KeyboardInterrupt:
        print("\ninterrupted; the jobs and their shared memory are gone", file=sys.stderr)
        return 130
    except (tsjobs.JobError, photos.NotAPicture, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            print("hint: the disk is full; TMPDIR and --build may point elsewhere, --count "
                  "makes fewer photographs", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
