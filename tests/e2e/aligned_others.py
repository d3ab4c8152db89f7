# SPDX-License-Identifier: MIT
"""
Under --align, programs whose data does not come by PyTorch's loaders are told so, once; Keras's
batches on torch are not taken for aligned where they are not.  Packages of the same names stand in
for the real ones, which tests/programs/beyond runs by hand.
"""

import os
import tempfile

import support
from aligned_common import well
from support import PYTHON, Group, equal, run

FAKES = {
    "grain": "from . import _src\n",
    "grain/_src": "",
    "keras": "from . import src\n",
    "keras/src": "",
    "tensorflow": "import keras\nfrom . import python\n",
    "tensorflow/python": "",
    "keras/src/adapters": """
import random
import threading
import torch


class Adapter:
    def __init__(self, dataset, workers):
        self.dataset, self.workers = dataset, workers

    def _order(self):
        order = list(range(len(self.dataset)))
        random.shuffle(order)
        return order

    def _finite_generator(self):
        for index in self._order():
            yield self.dataset[index]

    def _finite_enqueuer_generator(self):
        orders = []
        thread = threading.Thread(target=lambda: orders.append(self._order()))
        thread.start()
        thread.join()
        for index in orders[0]:
            yield self.dataset[index]

    def get_torch_dataloader(self):
        return get_torch_dataloader(self._finite_enqueuer_generator() if self.workers else
                                    self._finite_generator())


def get_torch_dataloader(iterable):
    class ConverterIterableDataset(torch.utils.data.IterableDataset):
        def __init__(self, iterable):
            self.iterable = iterable

        def __iter__(self):
            for batch in self.iterable:
                yield torch.as_tensor(batch)

    return torch.utils.data.DataLoader(ConverterIterableDataset(iterable), batch_size=None)
""",
}

ITERATES = "import torch\nprint(list(torch.utils.data.DataLoader(range(4))))\n"
FIT = """
import random, sys
from keras.src import adapters
random.seed(int(sys.argv[1]))
for epoch in range(2):
    print([int(x) for x in adapters.Adapter(range(50), int(sys.argv[2])).get_torch_dataloader()])
print(random.random())
"""
WORKERS = """
import multiprocessing, os, %s
def work():
    import %s
if __name__ == "__main__":
    for kind in ("fork", "spawn"):
        worker = multiprocessing.get_context(kind).Process(target=work)
        worker.start()
        worker.join()
        assert worker.exitcode == 0
    if os.fork() == 0:
        raise SystemExit
    os.wait()
"""

scratch = tempfile.TemporaryDirectory(prefix="tsshim-others-")
for package, text in FAKES.items():
    os.makedirs(os.path.join(scratch.name, package))
    support.write(os.path.join(scratch.name, package, "__init__.py"), text)


def program(text, *arguments):
    """The command line of a program."""
    path = os.path.join(scratch.name, "program.py")
    support.write(path, text)
    return [support.torch_python() if "torch" in text or "adapters" in text else PYTHON, path,
            *map(str, arguments)]


def said(text, *arguments, **settings):
    """What one program is told, aligned unless @settings say otherwise; and its Outcome."""
    with Group(**{"TSSHIM_ALIGN": "7", **settings}) as group:
        outcome = well(run(program(text, *arguments), group.environment()))
    lines = [line for line in outcome.errors.splitlines() if line.startswith("tsshim: ")]
    return [line[len("tsshim: "):] for line in lines if "aligned data" not in line], outcome


def of(names):
    return ["not aligned: loaders of %s, which this program has imported" % names]


def test_programs_without_torch_are_told_at_the_end():
    for text, names in (("import grain", "grain"), ("import tensorflow", "keras and tensorflow"),
                        ("import tensorflow, grain", "grain, keras and tensorflow")):
        assert said(text)[0] == of(names), said(text)
        equal(run(program(text)), said(text, TSSHIM_ALIGN="off")[1], "default mode")
    assert said("import json")[0] == []


def test_it_is_told_once_whatever_workers_import():
    text = WORKERS % ("grain", "grain, keras")
    assert said(text)[0] == of("grain"), said(text)


def test_a_module_of_that_name_is_none_of_them(directory):
    """Who has a grain.py of his own is told nothing."""
    support.write(os.path.join(directory, "grain.py"), "")
    assert said("import sys; sys.path.insert(0, %r); import grain" % directory)[0] == []


@support.whole
def test_beside_loaders_of_torch():
    """grain is there for its loaders; TensorFlow may be there for anything."""
    assert said("import tensorflow\n" + ITERATES)[0] == []
    assert said(ITERATES + "import tensorflow\n")[0] == []
    assert said("import torch, tensorflow")[0] == of("keras and tensorflow")
    assert said("import grain\n" + ITERATES)[0] == of("grain")
    assert said(ITERATES + "import grain\n")[0] == of("grain")


def test_what_keras_makes_ahead_stays_the_jobs_own():
    plain = run(program(FIT, 1, 1))
    lines, outcome = said(FIT, 1, 1)
    assert len(lines) == 1 and lines[0].startswith("not aligned: batches that Keras"), lines
    assert "aligned data" not in outcome.errors.replace(lines[0], ""), outcome.errors
    assert outcome.output == plain.output, (plain.output, outcome.output)


def test_what_keras_makes_as_the_loader_asks_is_aligned():
    outcomes = [said(FIT, seed, 0) for seed in (1, 2)]
    assert [lines for lines, _ in outcomes] == [[], []], outcomes
    first, second = (outcome.output.splitlines() for _, outcome in outcomes)
    assert first[:2] == second[:2] and first[2] != second[2], (first, second)
    assert "aligned data, seed 7" in outcomes[0][1].errors
