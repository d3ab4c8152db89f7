# SPDX-License-Identifier: MIT
"""
Loaders that are none of PyTorch's, under --align: what their programs are told, once, at the end.

A program may load its data with one of them and never import torch.  So that nobody takes it for
aligned, sitecustomize.py watches for these packages until torch is imported; what comes later,
patch.py sees at the end.
"""

import sys

from . import native

#: {module that is there where it was imported: (its name, whether it is there for its loaders
#: alone, so that it is told of also beside loaders of PyTorch)}
PACKAGES = {
    "torchdata.nodes.loader": ("torchdata.nodes", True),
    "grain._src": ("grain", True),
    "keras.src": ("keras", False),
    "tensorflow.python": ("tensorflow", False),
}

_is_said = _is_iterated = _is_said_of_keras = False


def note_iteration():
    """A loader of PyTorch's was iterated, of which it was said whether it is aligned."""
    global _is_iterated
    _is_iterated = True


def _is_worker():
    """Whether a program has started this process with multiprocessing."""
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def say_what_came_by():
    """At the end, once: what of the program went past everything here."""
    global _is_said
    if _is_said or not native.settings.aligned or _is_worker():
        return
    _is_said = True
    found = [name for module, (name, always) in PACKAGES.items()
             if module in sys.modules and (always or not _is_iterated)]
    if found:
        most = ", ".join(found[:-1])
        native.say("not aligned: loaders of %s, which this program has imported" % (
            most + " and " + found[-1] if most else found[-1]))


def is_fed_by_keras(dataset):
    """
    Whether @dataset is what Keras, on torch, hands batches to a loader through, and they do not
    come from code that runs as the loader asks: threads of Keras's draw when they like, and what it
    takes from iterators of others has begun before.
    """
    kind = type(dataset)
    if not kind.__module__.startswith("keras.src.") or kind.__name__ != "ConverterIterableDataset":
        return False
    generator = getattr(dataset, "iterable", None)
    name = getattr(getattr(generator, "gi_code", None), "co_name", "")
    return name not in ("_finite_generator", "_infinite_generator")


def say_of_keras():
    """That it is so; Keras makes a loader for each epoch."""
    global _is_said_of_keras
    if not _is_said_of_keras:
        _is_said_of_keras = True
        native.say("not aligned: batches that Keras makes ahead (workers of a PyDataset) or takes "
                   "from an iterator")
