# SPDX-License-Identifier: MIT
"""The same jobs at once, in one way of sharing: how long, at what cost, and what each computed."""
import dataclasses
import os
import threading
import time

from . import jobs as tsjobs
from .terminal import Progress

TRAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workloads",
                     "train.py")

# name -> how the jobs are started: without us, or with these options of tsrun's
PLAIN, DEFAULT, ALIGNED, FREE = ("without tsrun", "tsrun --", "tsrun --align --",
                                 "tsrun --align --order free --")
WAYS = {PLAIN: None, DEFAULT: (), ALIGNED: ("--align",)}
WAYS_OF_SPEEDS = {PLAIN: None, ALIGNED: ("--align",), FREE: ("--align", "--order", "free")}

# What a step of training takes in each of the jobs of different speed, in milliseconds an image;
# further jobs begin again.
STEPS = (0, 4, 8, 16)


@dataclasses.dataclass
class Outcome:
    """Of all jobs of one way together."""

    rate: float  # images a second of all jobs; 0: not known
    seconds: float
    cpu: float
    results: list  # of each job: what it computed, to be compared
    samples: list  # of each job: what it was given, and in which order, to be compared
    sets: list  # the same without the order
    kinds: dict  # "pixels" and "sample" of tsrun stats: (made, taken, CPU seconds saved)
    said: tuple = ()  # what tsrun said of the first job when it ended: what was shared, or why not
    made: int = 0  # samples, by all jobs, until the first one had ended its last epoch
    count: int = 0  # samples of an epoch

    def taken(self):
        return sum(taken for _, taken, _ in self.kinds.values())


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


def epochs_of(job):
    """The lines `epoch N key value ...` of a job, as dictionaries."""
    found = []
    for line in job.lines:
        words = line.split()
        if words[:1] == ["epoch"]:
            found.append(dict(zip(words[2::2], words[3::2])))
    return found


def _kinds(place, group):
    """What was made and taken in @group, by kind."""
    found = {}
    for dataset in place.stats(group)["datasets"] if group else ():
        for kind in ("pixels", "sample"):
            made, taken, saved = found.get(kind, (0, 0, 0.0))
            tally = dataset[kind]
            found[kind] = (made + tally["produced"], taken + tally["shared"],
                           saved + tally["saved_seconds"])
    return found


def ways(arguments):
    """How the jobs are started, one way after the other: name -> options of tsrun's."""
    return WAYS_OF_SPEEDS if arguments.speeds else WAYS


def _group(place, options):
    if options is None:
        return None
    return place.group("demo-" + ("-".join(word.strip("-") for word in options) or "default"))


def _rate(epochs, seconds, arguments):
    """Of jobs that end at one time as of one; of others the sum of what each had of its own."""
    if not arguments.speeds:
        return sum(int(e["images"]) for job in epochs for e in job) / seconds
    return sum(sum(int(e["images"]) for e in job) / sum(float(e["seconds"]) for e in job)
               for job in epochs)


def _said(job):
    """What tsrun said of @job when it ended: its line, the last."""
    job.errors.seek(0)
    lines = job.errors.read().decode(errors="replace").splitlines()
    return tuple([line for line in lines if line.startswith("tsshim: ")][-1:])


def _made_until_end_of(place, job, group, epochs):
    """Samples that all jobs had made when @job, the fastest, had ended its last epoch."""
    for _ in range(epochs):
        job.answer("epoch")
    return _kinds(place, group).get("sample", (0,))[0]


def train(place, way, python, directory, count, arguments):
    """The training loop of workloads/train.py, with seeds of its own in each job."""
    options = ways(arguments)[way]
    group = _group(place, options)
    progress = Progress(f"{arguments.jobs} jobs {way}".removesuffix(" --"),
                        arguments.jobs * arguments.epochs * count)
    counter = Counter(progress, count)
    started = []
    for number in range(arguments.jobs):
        command = [python, TRAIN, directory, "--wait", "--epochs", str(arguments.epochs),
                   "--workers", str(arguments.workers), "--augment-seed", str(100 + number)]
        if not arguments.speeds:  # one order for all, so that they meet each other's pictures by default
            command += ["--seed", "1"]
        if arguments.speeds:
            command += ["--step-ms", str(STEPS[number % len(STEPS)])]
        started.append(place.start(command, group, on_line=counter.line, options=options or ()))
    for job in started:
        job.line(0)
    begin = time.monotonic()
    for job in started:
        job.say("go\n" * arguments.epochs)
    made = _made_until_end_of(place, started[0], group, arguments.epochs)
    place.end(started)
    seconds = time.monotonic() - begin
    progress.finish()
    epochs = [epochs_of(job) for job in started]
    return Outcome(_rate(epochs, seconds, arguments), seconds,
                   sum(float(e["cpu"]) for job in epochs for e in job),
                   [[e["checksum"] for e in job] for job in epochs],
                   [[e["samples"] for e in job] for job in epochs],
                   [[e["set"] for e in job] for job in epochs], _kinds(place, group),
                   _said(started[0]), made, count)


def run(place, way, command, arguments):
    """A command of the user's, so many times at once; it must end with status 0."""
    options = WAYS[way]
    group = _group(place, options)
    progress = Progress(f"{arguments.jobs} x {os.path.basename(command[0])}, {way}", arguments.jobs)
    begin = time.monotonic()
    started = [place.start([word.replace("{job}", str(number)) for word in command], group,
                           options=options or ()) for number in range(arguments.jobs)]
    cpu = 0.0
    for number, job in enumerate(started):
        cpu += place.end([job])[0]
        progress.update(number + 1)
    seconds = time.monotonic() - begin
    progress.finish()
    return Outcome(0, seconds, cpu, [job.lines for job in started], [], [], _kinds(place, group),
                   _said(started[0]))


def _unfinished(outcome, epochs, way):
    return [f"job {number} of `{way}` did not finish its epochs"
            for number, found in enumerate(outcome.results) if len(found) != epochs]


def complaints(outcomes, epochs):
    """
    What is wrong with the @outcomes of train(), by way: by default each job computes what it does
    without us; aligned jobs are given the same samples, whatever their seeds, in one order unless
    that is free.
    """
    wrong = [line for way, outcome in outcomes.items() for line in _unfinished(outcome, epochs, way)]
    if DEFAULT in outcomes:
        for number, (a, b) in enumerate(zip(outcomes[PLAIN].results, outcomes[DEFAULT].results)):
            if a != b:
                wrong.append(f"job {number} computed {b} with tsrun, {a} without")
    first = outcomes[ALIGNED]
    for number, samples in enumerate(first.samples):
        if samples != first.samples[0]:
            wrong.append(f"aligned job {number} was given {samples}, job 0 {first.samples[0]}")
    if FREE in outcomes:
        for number, found in enumerate(outcomes[FREE].sets):
            if found != first.sets[0]:
                wrong.append(f"job {number} in free order was given {found}, in strict order "
                             f"{first.sets[0]}")
    return wrong


def needs_sharing(outcomes, jobs):
    """The ways in which nothing was shared though something could have been."""
    return [way for way, outcome in outcomes.items()
            if way != PLAIN and jobs > 1 and outcome.taken() == 0]


def check_command(command):
    """Raise JobError unless @command can be started."""
    for where in ("",) if "/" in command[0] else os.environ.get("PATH", "").split(":"):
        path = os.path.join(where, command[0])
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return
    raise tsjobs.JobError(f"{command[0]}: there is no such command")
