# SPDX-License-Identifier: MIT
"""
Programs as people run them, unmodified, in three ways: plain, two jobs at once under tsrun, two
aligned jobs at once with other seeds.  What they compute is compared, and what they shared.

In default mode everything printed is the plain run's, bit for bit.  Aligned jobs begin with equal
weights and differ in their seeds; that they go through equal losses all the same shows that they
got equal data.  The environment and the scripts come from `scripts/deps programs`.  What each
shares is told in docs/programs.md.
"""

import functools
import os
import re

import pytest
import numpy

import support
from support import HERE, TSRUN, Group, finish, plain_environment, start

ROOT = os.environ.get("TSSHIM_TEST_PROGRAMS", "")
IMAGES, VALIDATION, EPOCHS = 96, 24, 2
DELIVERED = 2 * EPOCHS * (IMAGES + VALIDATION)  # to two jobs together
OURS = r"^(?:\d+ )?(?:\w*loss|validation|weights|grad_norm) \S+(?: tokens \d+)?$"


def python():
    return support.installed("programs", "PROGRAMS", "bin", "python")


def script(*parts):
    """A script of others', as scripts/deps programs put it there."""
    return os.path.join(ROOT, "scripts", *parts)


def fill(path):
    """Images in folders and a file of tokens."""
    generator = support.photographs(
        os.path.join(path, part, "class%d" % (number % 6), "%02d.jpg" % number)
        for part, count in (("train", IMAGES), ("val", VALIDATION)) for number in range(count))
    generator.randint(0, 512, 64 * 256 + 1).astype(numpy.uint16).tofile(os.path.join(path, "tokens"))


Data = support.Data("programs-data", fill)


# ---- the programs: command(seed, output, start) -> list; start is where a plain run wrote ----

def own(name, data="", *options):
    def command(seed, output, start):
        return [python(), os.path.join(HERE, name), os.path.join(Data.path, data), "--seed",
                str(seed), *options]
    return command


def trainer(seed, output, start):
    return [*own("programs_trainer.py")(seed, output, start), "--data-seed", "3",
            "--output", output]


def reference(seed, output, start, launcher=("programs_seeded.py",)):
    epochs, more = EPOCHS, []
    if start:
        epochs, more = 2 * EPOCHS, ["--resume", os.path.join(start, "checkpoint.pth")]
    seeded = [os.path.join(HERE, name) for name in launcher] + [str(seed)] * len(launcher)
    return [python(), *seeded, script("vision", "references", "classification", "train.py"),
            "--use-v2", "--data-path", Data.path, "--model", "shufflenet_v2_x0_5", "--device",
            "cpu", "-b", "16", "-j", "1", "--print-freq", "1", "--train-crop-size", "128",
            "--epochs", str(epochs), "--output-dir", output, *more]


def imagenet(seed, output, start):
    # It writes its checkpoints into the working directory.
    epochs, more = EPOCHS, []
    if start:
        epochs, more = 2 * EPOCHS, ["--resume", os.path.join(start, "checkpoint.pth.tar")]
    return [python(), script("imagenet", "main.py"), "-a", "shufflenet_v2_x0_5", "-j", "1",
            "-b", "16", "-p", "1", "--epochs", str(epochs), "--seed", str(seed), *more, Data.path]


def timm(seed, output, start):
    more = ["--initial-checkpoint", os.path.join(start, "job", "last.pth.tar")] if start else []
    return [python(), script("timm", "train.py"), "--data-dir", Data.path, "--model",
            "test_resnet", "--device", "cpu", "-b", "16", "--epochs", str(EPOCHS), "-j", "1",
            "--log-interval", "1", "--output", output, "--experiment", "job", "--num-classes",
            "6", "--img-size", "128", "--opt", "sgd", "--lr", "0.01", "--seed", str(seed), *more]


class Program:
    """One program, what of its output counts, and what it should share and why not more."""

    def __init__(self, name, command, default, facts=OURS, whole=False, aligned="sample",
                 aligned_facts=None, reason="torch_dataset", apart=False):
        self.name, self.command = name, command
        self.facts, self.aligned_facts = facts, aligned_facts or facts
        self.whole = whole  # its output is the same in every byte, messages included
        self.default, self.aligned = default, aligned  # the kind that is shared, or None
        self.reason = reason  # why default mode shares no samples
        self.apart = apart  # its jobs run in directories of their own
        self.known = None

    def start(self, seed, output, checkpoints=None, prefix=(), directory=None):
        os.makedirs(output)
        environment = plain_environment(HF_HUB_OFFLINE="1", HF_HOME=output)
        return start([*prefix, *self.command(seed, output, checkpoints)], environment,
                     cwd=directory or output)

    def found(self, outcome, pattern=None):
        assert outcome.status == 0, outcome.errors[-3000:]
        facts = re.findall(pattern or self.facts, outcome.output + outcome.errors, re.MULTILINE)
        assert len(facts) > 2 * EPOCHS, outcome.output[-2000:]
        return facts

    def plain(self, jobs=1):
        """The outcome without us, and where it left its checkpoints; run once, as so many jobs.
        One will do where others are compared with it: they show that it is repeatable."""
        where = os.path.join(work(), self.name)
        if self.known is None:
            assert not os.path.exists(where), "the plain run had failed"
            jobs = [self.start(1, os.path.join(where, "plain%d" % number))
                    for number in range(jobs)]
            outcomes = [finish(job) for job in jobs]
            one, *others = [self.found(outcome) for outcome in outcomes]
            assert all(other == one for other in others), "not repeatable"
            self.known = outcomes[0], os.path.join(where, "plain0")
        return self.known

    def together(self, mode, seeds, checkpoints, kind, *options):
        """Outcomes and Counts of two jobs at once; and of a third one where these shared too little
        as @kind.  Imports take longer than the training, so on a busy machine one may be done when
        the other begins to ask.  Then the second has made what the third one takes: the ring
        stays."""
        where = os.path.join(work(), self.name)
        # Only code that is known to keep nothing is shared between working directories.
        directory = None if self.apart else os.path.join(where, mode)
        if directory:
            os.makedirs(directory)
        with Group() as group:
            group.keep()
            before = group.statistics()
            prefix = [TSRUN, "--group", group.name, *options, "--"]

            def begin(seed, number):
                return self.start(seed, os.path.join(where, "%s%d" % (mode, number)), checkpoints,
                                  prefix, directory)

            jobs = [begin(seed, number) for number, seed in enumerate(seeds)]
            outcomes = [finish(job) for job in jobs]
            counts = Counts(before, group.statistics())
            if not counts.is_enough(kind):
                outcomes.append(finish(begin(seeds[-1], len(seeds))))
                counts = Counts(before, group.statistics())
            group.release()
            group.assert_clean(after_kill=True)
        return outcomes, counts


class Counts:
    """What jobs shared, without what had been shared @before by who keeps the ring."""

    def __init__(self, before, statistics):
        self.passed = statistics["passed"]
        self.shared = {kind: sum(sign * dataset[kind]["shared"] for sign, told in ((1, statistics), (-1, before))
                                 for dataset in told.get("datasets", [])) for kind in ("sample", "pixels")}

    def is_enough(self, kind):
        """Half of all is what one job can take from the other; the start costs some."""
        return kind is None or self.shared[kind] > DELIVERED / 6


@functools.lru_cache(maxsize=None)
def work():
    """A directory for what the programs write; goes with this process."""
    return support.lasting()


def expect(counts, kind, reason):
    """A good part of what could be was shared as @kind, and no samples for @reason."""
    print("# shared %s of %d" % (counts.shared, DELIVERED))
    assert counts.is_enough(kind), (counts.shared, counts.passed)
    if kind != "sample":
        assert counts.shared["sample"] == 0, counts.shared
        if reason:
            assert counts.passed[reason] > DELIVERED / 4, counts.passed


#: What runs without --whole: a public script with the current torch, as it is and aligned.
ALWAYS = ("reference_v2",)

PROGRAMS = [
    Program("lightning", own("programs_lightning.py"), "sample", whole=True),
    Program("trainer", trainer, "pixels"),
    # Nothing is counted in default mode: its workers never get as far as to join the group.
    Program("tokens", own("programs_tokens.py", "tokens"), None, whole=True, aligned=None,
            aligned_facts=r"tokens \d+", reason=None),
]
# Not every machine can fetch these; then a script of ours with the same parts takes the place of
# the original, where there is one.
ORIGINALS = [
    (script("vision", "references", "classification", "train.py"),
     Program("reference_v2", reference, "sample",
             facts=r"(?:loss|acc1|acc5): \S+ \(\S+\)|Acc@1 .*"), None),
    (script("imagenet", "main.py"),
     Program("imagenet", imagenet, "sample", facts=r"Loss \S+ \( *\S+\).*|Acc@1 .*",
             apart=True),
     Program("imagenet_style", own("programs_imagenet.py"), "sample", whole=True,
             apart=True)),
    (script("timm", "train.py"),
     Program("timm", timm, "pixels",
             facts=r"Loss: +\S+ +\( *\S+\)|Acc@[15]: +\S+ +\( *\S+\)|\"loss\": .*"),
     Program("timm_style", own("programs_timm.py"), "pixels", whole=True)),
]


def those_there():
    """Of others' scripts those that are there, and ours in the place of those that are not."""
    for path, original, stand_in in ORIGINALS:
        if os.path.exists(path):
            yield original
        elif stand_in:
            yield stand_in


def each(always):
    """A parameter: each program, of which some with @always run without --whole."""
    return pytest.mark.parametrize("program", [
        support.left_unless(always and program.name in ALWAYS, program) for program in (*PROGRAMS, *those_there())],
        ids=lambda program: program.name)


@support.whole
def test_reference_is_not_repeatable():
    if ORIGINALS[0][1] not in those_there():
        raise support.Skip("programs", "no %s (scripts/deps programs)" % ORIGINALS[0][0])
    Data.make()
    program = Program("unseeded", lambda *what: reference(*what, launcher=()), None,
                      facts=r"loss: \S+ \(\S+\)")
    try:
        program.plain(jobs=2)
    except AssertionError as error:
        assert str(error) == "not repeatable", error
        return
    raise AssertionError("repeatable; then it needs no launcher")


# The plain ones first: meanwhile the data becomes old enough to be shared.

@each(always=True)
def test_plain(program):
    Data.make()
    program.plain()


@each(always=False)
def test_default(program):
    """Jobs with one seed: everything as without us."""
    wanted, _ = program.plain()
    Data.settle()
    outcomes, counts = program.together("default", (1, 1), None, program.default)
    for outcome in outcomes:
        assert program.found(outcome) == program.found(wanted)
        if program.whole:
            support.equal(wanted, outcome, program.name)
    expect(counts, program.default, program.reason)


@each(always=True)
def test_aligned(program):
    """Jobs with other seeds and the same weights at first: equal data."""
    wanted, checkpoints = program.plain()
    Data.settle()
    outcomes, counts = program.together("aligned", (1, 2), checkpoints, program.aligned,
                                        "--align=7")
    one, *others = [program.found(outcome, program.aligned_facts) for outcome in outcomes]
    for other in others:
        assert one == other, [pair for pair in zip(one, other) if pair[0] != pair[1]][:3]
    assert one != program.found(wanted, program.aligned_facts), "nothing was aligned"
    expect(counts, program.aligned, "torch_cheap")


@support.whole
def test_other_seeds_share_pixels_by_default():
    Data.make()
    Data.settle()
    program = Program("seeds", own("programs_imagenet.py"), "pixels")
    outcomes, counts = program.together("default", (1, 2), None, "pixels")
    assert program.found(outcomes[0]) != program.found(outcomes[1])
    assert counts.is_enough("pixels"), (counts.shared, counts.passed)
