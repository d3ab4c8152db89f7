# SPDX-License-Identifier: MIT
"""
Sweeps as people start them, with the real tools, unmodified: two trials side by side, plain, in
default mode, aligned.  What each tool shares is told in docs/sweeps.md.

In default mode a tool prints, writes or returns what it does without us, to the last bit of every
loss.  Aligned, with trials whose seeds differ, it comes to its end with the same trials.  In both
the trials are jobs of their own, and take samples from each other.  The environment comes from
`scripts/deps sweeps`.
"""

import ast
import functools
import json
import os
import re
import shutil
import tempfile

import pytest
import support
import sweeps_train
from support import HERE, TSRUN, Group, finish, plain_environment, start

ROOT = os.environ.get("TSSHIM_TEST_SWEEPS", "")
IMAGES = 48
DELIVERED = 2 * sweeps_train.EPOCHS * IMAGES  # to the two trials together
# Of these taken from others; a half is the most.  While processors are busy with something else those
# that wait too long make samples themselves.
ENOUGH = DELIVERED // 12
GUARD = 600  # seconds for a tool: with two processors that others use as well
RATES = (0.05, 0.2)


def program(name):
    """A program of the environment."""
    return support.installed("sweeps", "SWEEPS", "bin", name)


def torch_program(name):
    """One of torch's environment, for trials that need no more than that."""
    return os.path.join(os.path.dirname(support.pypi_python()), name)


def trial(*words):
    """The words behind the interpreter's."""
    return [os.path.join(HERE, "sweeps_train.py"), Data.path, *words]


def tool(name, *words):
    return [os.path.join(HERE, "sweeps_tools.py"), name, Data.path, *words]


def python(name, *words):
    return [program("python"), *tool(name, *words)]


Data = support.Data("sweeps-data-%d" % IMAGES, lambda path: support.photographs(
    "%s/%02d.jpg" % (path, number) for number in range(IMAGES)))


class Sweep:
    """One run of a sweep in a directory of its own, in the group of @group or plain."""

    def __init__(self, place, group=None, *options, members=2):
        self.place = place
        self.prefix = [TSRUN, "--group", group.name, *options, "--"] if group else []
        meeting = os.path.join(place, "meeting")
        os.mkdir(meeting)
        self.environment = plain_environment(
            SWEEP_MEET="%d:%s" % (members, meeting), HOME=place, PYTHONWARNINGS="ignore",
            PYTHONPATH=HERE, RAY_USAGE_STATS_ENABLED="0", IPYTHONDIR=place,
            PATH=os.path.join(ROOT, "bin") + ":" + os.environ["PATH"])
        if "--align=7" in options:
            self.environment["SWEEP_SEEDS"] = "own"

    def run(self, *commands):
        """What these print, started at once; all have to succeed."""
        started = [start([*self.prefix, *command], self.environment, cwd=self.place)
                   for command in commands]
        outcomes = [finish(process, GUARD) for process in started]
        for outcome, command in zip(outcomes, commands):
            assert outcome.status == 0, (command, outcome.output[-2000:], outcome.errors[-3000:])
        return "".join(outcome.output for outcome in outcomes)

    def write(self, name, text):
        path = os.path.join(self.place, name)
        support.write(path, text)
        return path


def facts(text):
    """Lines in any order: trials run side by side."""
    return sorted(text.splitlines())


def trials(text):
    """What the lines are about: the trials without their losses."""
    return sorted(re.sub(r"(?<=loss )\S+", "", line) for line in text.splitlines())


class Counts:
    """What trials took from each other."""

    def __init__(self, statistics, delivered=DELIVERED):
        kinds = [dataset["sample"] for dataset in statistics["datasets"]]
        made, taken = (sum(kind[name] for kind in kinds) for name in ("produced", "shared"))
        # Who looks ahead takes what it has made itself, too.
        self.taken = min(taken, delivered - made)
        self.jobs = sum(job["sample"]["shared"] > 0 for job in statistics["jobs"])
        self.passed = {name: count for name, count in statistics["passed"].items() if count}

    def expect(self, jobs=2, enough=ENOUGH):
        print("# taken from others: %d, jobs that took: %d" % (self.taken, self.jobs), flush=True)
        assert self.taken >= enough and self.jobs == jobs, vars(self)


def shared(sweep, *options, members=2):
    """What the tool of @sweep printed under tsrun with these options, and Counts."""
    with Group() as group, tempfile.TemporaryDirectory() as place:
        printed = sweep(Sweep(place, group, *options, members=members))
        return printed, Counts(group.statistics())


def plain(sweep, members=2):
    with tempfile.TemporaryDirectory() as place:
        return sweep(Sweep(place, members=members))


# ---- shells ----

def xargs(sweep):
    rates = sweep.write("rates", "".join("--number %d --lr %g\n" % one
                                         for one in enumerate(RATES)))
    return sweep.run(["xargs", "-P", "2", "-L", "1", "-a", rates,
                      torch_program("python"), *trial()])


def parallel(sweep):
    if not shutil.which("parallel"):
        raise support.Skip("parallel", "GNU parallel is not installed (scripts/deps sweeps)")
    return sweep.run(["parallel", "-j", "2", torch_program("python"),
                      *trial("--number", "{#}", "--lr", "{}"), ":::", *map(str, RATES)])


# ---- launchers: each trial is a command ----

def torchrun(sweep):
    """Two trials of two ranks each, which share by rank."""
    launcher = [torch_program("torchrun"), "--standalone", "--nproc-per-node", "2"]
    return sweep.run(*([*launcher, *trial("--number", str(number), "--lr", str(rate))]
                       for number, rate in enumerate(RATES)))


def lightning(sweep):
    return sweep.run(*(python("lightning", str(rate), str(number))
                       for number, rate in enumerate(RATES)))


def accelerate(sweep):
    return sweep.run(*([program("accelerate"), "launch", "--cpu", "--num_processes", "1",
                        *tool("accelerate", str(rate), str(number))]
                       for number, rate in enumerate(RATES)))


# ---- tools that start trials themselves ----

def hydra(sweep):
    """Each trial in a directory of its own."""
    log = sweep.run(python("hydra", "--multirun", "hydra/launcher=joblib",
                          "hydra.launcher.n_jobs=2", "hydra.job.chdir=True",
                          "hydra.sweep.dir=multirun", "lr=" + ",".join(map(str, RATES))))
    results = ""
    for number in range(len(RATES)):
        place = os.path.join(sweep.place, "multirun", str(number))
        where, _, rest = support.read(os.path.join(place, "result")).partition(" ")
        assert where == place
        results += rest
    return re.sub(r"^\[[-\d: ,]*\]", "", log, flags=re.M).replace(sweep.place, "") + results


def submitit(sweep):
    return sweep.run(python("submitit", os.path.join(sweep.place, "jobs")))


def optuna(sweep, kind):
    """Two processes that work on one study."""
    words = kind, os.path.join(sweep.place, "study")
    sweep.run(python("optuna-create", *words))
    sweep.run(*(python("optuna-work", *words, str(number)) for number in range(len(RATES))))
    return sweep.run(python("optuna-show", *words))


def optuna_threads(sweep):
    return sweep.run(python("optuna-threads"))


def ray(sweep):
    printed = sweep.run(python("ray", sweep.place)).replace(sweep.place, "")
    # Times stand in names of directories, in a table that is as wide as they are.
    return re.sub(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(_\d+_\d+)?", "TIME", printed)


def test_a_worker_is_forked_in_the_middle_of_an_import(group):
    """By one thread, of what another one imports for the first time."""
    for options in ([], ["--align=7"]):
        done = support.run([TSRUN, "--group", group.name, *options, "--",
                            support.torch_python(), os.path.join(HERE, "sweeps_threads.py")])
        assert done.status == 0 and done.output.endswith(" True\n"), (done.output, done.errors)
        given = ast.literal_eval(done.output.rpartition(" ")[0])
        assert given == {"first": [6.0, 22.0], "second": [6.0, 22.0]}, given


# ---- containers ----

# What a container without rights has of its own: users, processes, and System V's IPC.
CONTAINER = ["unshare", "--user", "--map-root-user", "--ipc", "--pid", "--fork", "--mount-proc"]

# Outside nobody knows what the group inside has made.
INSIDE = """group=$1; shift
"$TSRUN" --group "$group" "$@"; status=$?
"$TSRUN" stats --json --group "$group" >statistics; "$TSRUN" gc --group "$group" >removed
exit $status"""


def contained(*options):
    """What xargs prints in such a container, and Counts."""
    with Group() as group, tempfile.TemporaryDirectory() as place:
        sweep = Sweep(place, None, *options)
        sweep.environment["TSRUN"] = TSRUN
        sweep.prefix = [*CONTAINER, "sh", "-c", INSIDE, "sh", group.name, *options, "--"]
        printed = xargs(sweep)
        return printed, Counts(json.loads(support.read(os.path.join(place, "statistics"))))


@support.whole
def test_a_container():
    """All trials in one; tsrun_namespaces.py tells of several."""
    if support.run([*CONTAINER, "true"]).status != 0:
        raise support.Skip("namespaces", "unshare makes none here")
    Data.make()
    wanted = plain(xargs)
    Data.settle()
    printed, counts = contained()
    assert facts(printed) == facts(wanted), (printed, wanted)
    counts.expect()
    printed, counts = contained("--align=7")
    assert trials(printed) == trials(wanted) and facts(printed) != facts(wanted), printed
    counts.expect()


# ---- notebooks ----

CELLS = [
    "import sys\nsys.path.insert(0, %r)\nimport sweeps_train" % HERE,
    "class Mine(sweeps_train.Pictures):\n"
    "    def __getitem__(self, index):\n"
    "        picture, label = super().__getitem__(index)\n"
    "        return picture * 2 - 1, label\n"
    "sweeps_train.Pictures = Mine",
]


def notebook(number, rate):
    last = "print('lr', %r, 'loss', sweeps_train.train(%r, %r, %d).hex())" % (
        rate, Data.path, rate, number)
    cells = [{"cell_type": "code", "id": "c%d" % place, "metadata": {}, "outputs": [],
              "execution_count": None, "source": text} for place, text in
             enumerate([*CELLS, last])]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def jupyter(sweep):
    names = [sweep.write("trial%d.ipynb" % number, notebook(number, rate))
             for number, rate in enumerate(RATES)]
    sweep.run(*([program("jupyter"), "nbconvert", "--to", "notebook", "--execute", "--inplace", name]
                for name in names))
    printed = ""
    for name in names:
        outputs = json.loads(support.read(name))["cells"][-1]["outputs"]
        printed += "".join("".join(output["text"]) for output in outputs
                           if output.get("name") == "stdout")
    return printed


# ---- all of them ----

@support.whole
@pytest.mark.parametrize("sweep, members, takers, options", [
    (xargs, 2, 2, ()), (parallel, 2, 2, ()), (torchrun, 4, 4, ()), (lightning, 2, 2, ()),
    (accelerate, 2, 2, ("--align-orders",)), (hydra, 2, 2, ()), (submitit, 2, 2, ()),
    # The storage of the second brings SQLAlchemy and Mako along, which register handlers in Python.
    *(pytest.param(functools.partial(optuna, kind=kind), 2, 2, (), id=kind) for kind in ("journal", "sqlite")),
    # All trials are one job, which has nobody to take from; and no thread waits for another.
    (optuna_threads, 2, 0, ("--align-orders",)),
    (ray, 2, 2, ()), (jupyter, 2, 2, ())])
def test_tool(sweep, members, takers, options):
    """In all three ways; so many of its jobs, the @members, take samples: with 0 there is nothing to take."""
    Data.make()
    wanted = plain(sweep, members)
    assert len(trials(wanted)) >= len(RATES), wanted
    Data.settle()
    printed, counts = shared(sweep, *options, members=members)
    assert facts(printed) == facts(wanted), (printed, wanted)
    counts.expect(takers, ENOUGH if takers else 0)
    printed, counts = shared(sweep, "--align=7", *options, members=members)
    assert trials(printed) == trials(wanted), (printed, wanted)
    assert facts(printed) != facts(wanted), "nothing was aligned"
    counts.expect(takers, ENOUGH if takers else 0)
