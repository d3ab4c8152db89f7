# SPDX-License-Identifier: MIT
"""corpus: what a lone job pays, with pipelines of the kinds that people have.

The pipelines are those of tests/programs.  A job without us, one in default mode and an aligned one
take turns, each from its start to its end; what counts is the CPU time of the job and its workers
in all epochs but the first.  What the first one costs more is told beside it.
"""
import os
import statistics

from tsbench import jobs as tsjobs
from tsbench.setup import row, without_bar

SAMPLES = 240  # of an epoch
EPOCHS = 4
TURNS = 2
BAR = 1.02
NAMES = {"vision.Folder": "ImageFolder", "vision.Version2": "transforms of version 2",
         "drawing.Numpy": "a generator of its own", "arrays.Hdf5": "HDF5",
         "hub.Transform": "Hugging Face's datasets", "streams.WebDataset": "WebDataset"}
MODES = {"plain": None, "default": (), "aligned": ("--align",)}


class Data:
    """The files of the pipelines."""

    def __init__(self, setup):
        self.python = os.environ.get("TSSHIM_BENCH_CORPUS_PYTHON", "")
        if not os.path.exists(self.python):
            raise tsjobs.Unavailable("there is no environment with the libraries of the pipelines; "
                                     "scripts/deps corpus makes one, of 1 GB")
        self.programs = os.path.join(setup.root, "tests", "programs")
        self.directory = os.path.join(setup.place.directory, "corpus")
        self.samples = 96 if setup.quick else SAMPLES
        self.environment = {"CORPUS_SAMPLES": str(self.samples), "OMP_NUM_THREADS": "1"}
        self.names = list(NAMES)[:1] if setup.quick else list(NAMES)
        self.turns = 1 if setup.quick else TURNS
        setup.place.end([self.start(setup, "data.py", [self.directory])])

    def start(self, setup, script, words, group=None, options=()):
        """Start a program of theirs."""
        return setup.place.start([self.python, os.path.join(self.programs, script), *words], group,
                                 self.environment, options=options)


def _run(setup, data, name, mode):
    """CPU seconds of each epoch of a job of the pipeline @name."""
    options = MODES[mode]
    group = None if options is None else setup.place.group(f"corpus-{mode}")
    words = [name, "--data", data.directory, "--epochs", str(EPOCHS), "--cpu"]
    job = data.start(setup, "trainer.py", words, group, options or ())
    epochs = [float(job.answer("cpu").split()[2]) for _ in range(EPOCHS)]
    setup.place.end([job])
    if group is not None:
        setup.place.forget(group)
    return epochs


def _turns(setup, data, name):
    found = []
    for number in range(data.turns):
        found.append({})
        for mode in sorted(MODES, reverse=number % 2 == 1):
            found[-1][mode] = _run(setup, data, name, mode)
    return found


def measure(setup, data):
    raw = {name: _turns(setup, data, name) for name in data.names}
    rows = []
    for mode in ("default", "aligned"):
        for name in data.names:
            ratios = [sum(turn[mode][1:]) / sum(turn["plain"][1:]) for turn in raw[name]]
            rows.append(row(f"corpus-{mode}-{name}", f"K=1, CPU time with / without, "
                            f"{NAMES[name]}, {mode}", BAR, ratios))
    for mode in ("default", "aligned"):
        more = [1e3 * statistics.median([turn[mode][0] - turn["plain"][0] for turn in raw[name]])
                for name in data.names]
        rows.append(without_bar(f"corpus-{mode}-begin",
                                f"CPU time of start and first epoch more than without, ms, {mode}",
                                more))
    return {"title": "Pipelines of many kinds, alone", "rows": rows, "raw": raw,
            "settings": setup.settings(jobs=1, images=data.samples, epochs=EPOCHS,
                                       turns=data.turns)}
