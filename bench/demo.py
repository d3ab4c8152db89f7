#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Run the same unmodified PyTorch jobs without tsrun, with it, and aligned; compare them."""
import argparse
import errno
import os
import re
import sys
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

from tsbench import jobs as tsjobs  # noqa: E402
from tsbench import machine, photos, trial  # noqa: E402
from tsbench.terminal import Progress, bars, table  # noqa: E402

MADE = 60  # photographs; more are copies with other bytes


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
    parser.add_argument("--count", type=positive, default=800,
                        help="images to make (%(default)s)")
    parser.add_argument("--jobs", type=jobs, help="jobs at once (8; 4 with --speeds)")
    parser.add_argument("--workers", type=positive, default=1,
                        help="DataLoader workers of each job (%(default)s)")
    parser.add_argument("--epochs", type=positive, default=1, help="of each job (%(default)s)")
    parser.add_argument("--ring", type=ring_size, help="most shared memory (256M; "
                        "128M with --speeds)")
    parser.add_argument("--speeds", action="store_true", help="jobs of different speed instead, "
                        "in strict and in free order")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="a training command of your "
                        "own, after --: it is run in place of ours, with all its words in each "
                        "job ({job} in a word stands for the job's number)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help=argparse.SUPPRESS)
    parser.add_argument("--check-options", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only-images", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.jobs is None:
        arguments.jobs = len(trial.STEPS) if arguments.speeds else 8
    if arguments.ring is None:
        arguments.ring = "128M" if arguments.speeds else "256M"
    if arguments.images and not os.path.isdir(arguments.images):
        parser.error(f"--images: {arguments.images} is not a directory")
    if arguments.images and arguments.command:
        parser.error("--images is for our own training loop, not for a command of yours")
    if arguments.speeds and arguments.command:
        parser.error("--speeds is for our own training loop, not for a command of yours")
    return arguments


def made_images(arguments):
    """The directory of as many photographs as were asked for, made where it is not there."""
    some = min(arguments.count, MADE)
    made = os.path.join(arguments.build, f"demo-photos-{some}")
    progress = Progress("making photographs", some)
    photos.make(made, some, lambda done, total: progress.update(done))
    progress.finish()
    directory = os.path.join(arguments.build, f"demo-copies-{arguments.count}")
    if arguments.count == some:
        return made
    if not os.path.isdir(directory):
        shutil.rmtree(directory + ".unfinished", ignore_errors=True)
        photos.multiply(photos.find(made), directory + ".unfinished", arguments.count)
        os.rename(directory + ".unfinished", directory)
    return directory


def prepare_images(arguments, place):
    """The directory to train on; its files, which are in the page cache now; their bytes, and
    megabytes when decoded."""
    if arguments.images:
        directory = photos.image_folder(arguments.images, os.path.join(place.directory, "images"))
    else:
        directory = made_images(arguments)
    files = photos.find(directory)
    total = 0
    for path in files:
        with open(path, "rb") as file:
            total += len(file.read())
    return directory, files, total, photos.decoded_bytes(files) * len(files) / 1e6


def unit_of(outcomes):
    """What each way is compared by: (column's title, its number for an Outcome)."""
    if all(outcome.rate for outcome in outcomes.values()):
        return "images/s", lambda outcome: outcome.rate
    return "seconds", lambda outcome: outcome.seconds


def shared_words(outcome, jobs):
    """What of the work was not done again, as `2,400 of 3,200 samples`."""
    words = []
    for kind, name in (("sample", "samples"), ("pixels", "decodes")):
        made, taken, _ = outcome.kinds.get(kind, (0, 0, 0))
        if taken:
            words.append(f"{taken:,} of {made + taken:,} {name}")
    return ", ".join(words) or ("nothing" if outcome.kinds and jobs > 1 else "-")


def show(outcomes, jobs, speeds, given):
    """The table and the plot."""
    title, number = unit_of(outcomes)
    plain = outcomes[trial.PLAIN]
    rows = [["", title, "CPU seconds", "taken from another job"] + ["made / given to the fastest"] * speeds]
    lines = []
    for way, outcome in outcomes.items():
        gain = outcome.rate / plain.rate if plain.rate else plain.seconds / outcome.seconds
        rows.append([way, f"{number(outcome):.1f}", f"{outcome.cpu:.1f}",
                     shared_words(outcome, jobs)] +
                    [f"{outcome.made / given:.2f}" if outcome.made else "-"] * speeds)
        lines.append((way, gain, f"x {gain:.2f}" if outcome is not plain else ""))
    print(table(rows))
    print("\n" + bars(lines) + "\n")
    for way, outcome in outcomes.items():
        for line in outcome.said:
            print(f"{way} job 0 said:\n  {line}")


def report(outcomes, wrong, idle, arguments):
    given = 0 if arguments.command else arguments.epochs * outcomes[trial.PLAIN].count
    show(outcomes, arguments.jobs, arguments.speeds, given)
    if wrong:
        print("DIFFERENT RESULTS:\n  " + "\n  ".join(wrong))
        return
    for way in idle:
        print(f"NOTHING WAS SHARED by `{way}`: `tsrun --summary -- ...` says why; --ring and free "
              "memory\ndecide how much may be.")
    if arguments.command:
        plain, default, _ = outcomes.values()
        same = sum(a == b for a, b in zip(plain.results, default.results))
        print(f"{same} of {arguments.jobs} commands printed with `tsrun --` what they printed "
              "without it (times differ).")
        return
    checks = sum(map(len, outcomes[trial.PLAIN].results))
    if arguments.speeds:
        print("All aligned jobs were given the same samples, each once in an epoch; in strict order "
              "in one\norder. images/s: the sum of what each job had until its end. What else to "
              "try: docs/performance.md")
        return
    print(f"`tsrun --`: every job computed what it computes without it, bit for bit ({checks} "
          "checksums over\nall samples and losses). `tsrun --align --`: all jobs were given the "
          "same samples, for the\nseeds are tsrun's. What else to try: docs/performance.md")


def train_in_all_ways(place, arguments):
    directory, files, size, decoded = prepare_images(arguments, place)
    count = len(files)
    print(f"{arguments.jobs} unmodified PyTorch jobs, {count} photographs of "
          f"{size / count / 1000:.0f} KB ({decoded:.0f} MB decoded), {arguments.epochs} epochs,\n"
          f"same order, different augmentation, {arguments.workers} worker(s) each, "
          f"{machine.cores()} cores, {arguments.ring} of shared memory.\n", flush=True)
    if arguments.speeds:
        steps = ", ".join(map(str, trial.STEPS[:arguments.jobs]))
        print(f"A step of training takes the jobs {steps} ms an image.\n", flush=True)
    outcomes = {}
    for way in trial.ways(arguments):
        outcomes[way] = trial.train(place, way, machine_python(), directory, count, arguments)
    return outcomes


def machine_python():
    return os.environ.get("PYTHON", "/usr/bin/python3")


def demonstrate(arguments):
    tsrun = os.path.join(arguments.build, "shim", "tsrun", "tsrun")
    if not os.path.exists(tsrun):
        raise tsjobs.JobError(f"{tsrun} does not exist; run scripts/demo, which builds it")
    if arguments.command:
        trial.check_command(arguments.command)
    with tsjobs.Workplace(tsrun, ring=arguments.ring) as place:
        if arguments.command:
            print(f"{arguments.jobs} x {' '.join(arguments.command)}\n", flush=True)
            outcomes = {way: trial.run(place, way, arguments.command, arguments)
                        for way in trial.WAYS}
            wrong = []
        else:
            outcomes = train_in_all_ways(place, arguments)
            wrong = trial.complaints(outcomes, arguments.epochs)
        idle = trial.needs_sharing(outcomes, arguments.jobs)
    report(outcomes, wrong, idle, arguments)
    return 1 if wrong or idle else 0


def main():
    arguments = parse_arguments()
    if arguments.check_options:
        return 0
    try:
        if arguments.only_images:
            if not arguments.images and not arguments.command:
                made_images(arguments)
            return 0
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
