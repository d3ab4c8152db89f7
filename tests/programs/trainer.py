# SPDX-License-Identifier: MIT
"""
trainer.py PIPELINE --data DIR --seed S --batch B --model a|b --workers W

Trains something tiny for some epochs with what a pipeline delivers, as a training program would
go about it, and prints a digest of each sample, each loss to the last bit, and what the global
generators would draw at the end.
"""

import argparse
import functools
import hashlib
import importlib
import multiprocessing
import os
import random
import sys
import time

import numpy
import torch
from torch.utils.data._utils import fetch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import holders  # noqa: E402
import meeting  # noqa: E402 -- of the tests beside


def update(hasher, value):
    """Feed all of @value, whatever it is made of."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().as_subclass(torch.Tensor).contiguous()
        hasher.update(repr((plain.dtype, tuple(plain.shape))).encode())
        hasher.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.dim() else
                      repr(plain.item()).encode())
    elif isinstance(value, numpy.ndarray):
        hasher.update(repr((value.dtype.str, value.shape)).encode())
        hasher.update(repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes())
    elif hasattr(value, "keys"):
        for key in sorted(value.keys(), key=str):
            hasher.update(str(key).encode())
            update(hasher, value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            update(hasher, part)
    elif hasattr(value, "tobytes"):
        hasher.update(value.tobytes())
    elif hasattr(value, "__dict__"):
        update(hasher, vars(value))
    else:
        hasher.update(repr(value).encode())


def digest(value):
    """A short text for @value."""
    hasher = hashlib.md5()
    update(hasher, value)
    return hasher.hexdigest()[:12]


def _leaves(value, found):
    if hasattr(value, "keys"):
        for key in sorted(value.keys(), key=str):
            _leaves(value[key], found)
    elif isinstance(value, (list, tuple)) and value and isinstance(
            value[0], (list, tuple, dict, torch.Tensor, numpy.ndarray)):
        for part in value:
            _leaves(part, found)
    else:
        found.append(value)
    return found


def _length(value):
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        return len(value) if value.ndim else 0
    return len(value) if isinstance(value, (list, tuple)) else 0


def samples(batch):
    """The samples of a collated @batch: the rows of everything that has as many as the batch."""
    leaves = _leaves(batch, [])
    large = [leaf for leaf in leaves if getattr(leaf, "ndim", 0) >= 2] or leaves
    count = _length(large[0])
    return [[leaf[row] for leaf in leaves if _length(leaf) == count] for row in range(count)]


def feature(batch):
    """A number that follows from @batch, to learn from."""
    numbers = [torch.as_tensor(leaf).detach().as_subclass(torch.Tensor).double().mean()
               for leaf in _leaves(batch, []) if getattr(leaf, "ndim", 0) >= 2]
    return torch.stack(numbers).sum().float().reshape(1, 1) if numbers else torch.zeros(1, 1)


class Cost:
    """CPU time that the items take where torch fetches them, its collate functions left out."""

    def __init__(self):
        self.ns = multiprocessing.Value("q", 0)  # of this process and all workers
        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            kind.fetch = self.timed(kind.fetch)

    def timed(self, function):
        """@function, a method of a fetcher, which counts."""
        @functools.wraps(function)
        def counting(fetcher, indices):
            collated, collate = [], fetcher.collate_fn

            def collating(samples):
                start = time.thread_time_ns()
                batch = collate(samples)
                collated.append(time.thread_time_ns() - start)
                return batch

            fetcher.collate_fn = collating
            start = time.thread_time_ns()
            try:
                return function(fetcher, indices)
            finally:
                fetcher.collate_fn = collate
                with self.ns.get_lock():
                    self.ns.value += time.thread_time_ns() - start - sum(collated)
        return counting


def run(options, pipeline, loaders):
    """All epochs of a @pipeline's @loaders."""
    split = getattr(pipeline, "samples", samples)
    network = torch.nn.Linear(1, 4 if options.model == "a" else 7)
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    for epoch in range(options.epochs):
        before = sum(os.times()[:4])
        for part, loader in enumerate(loaders):
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(epoch)
            for batch in loader:
                loss = network(feature(batch)).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if not options.cpu:
                    print("batch", epoch, part, digest(batch), loss.item().hex())
                    for sample in split(batch):
                        print("sample", epoch, part, digest(sample))
        if options.cpu:
            print("cpu", epoch, sum(os.times()[:4]) - before, flush=True)
    print("state", repr(torch.rand(1).item()), random.random(), numpy.random.rand())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pipeline", help="module.class of pipelines")
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--model", default="a")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--holder", choices=sorted(holders.HOLDERS),
                        help="how the data sets hold the options of the program")
    parser.add_argument("--run", type=int, help="number of the run among the options (the seed)")
    parser.add_argument("--cpu", action="store_true",
                        help="print the CPU time of each epoch, workers included, instead of digests")
    parser.add_argument("--cost", action="store_true",
                        help="say at the end what all items took (only where nothing is preloaded)")
    options = parser.parse_args()
    options.run = options.seed if options.run is None else options.run
    random.seed(options.seed)
    numpy.random.seed(options.seed)
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    module, _, name = options.pipeline.partition(".")
    pipeline = getattr(importlib.import_module("pipelines." + module), name)()
    cost = Cost() if options.cost else None
    loaders = pipeline.make(options)  # which imports libraries, for seconds
    if options.holder and not holders.put_around(loaders, options.holder, options):
        print("~ nothing holds options")
    meeting.arrive()
    try:
        run(options, pipeline, loaders)
        if cost is not None:
            print("~ items", cost.ns.value, "ns")
    except Exception as error:
        print("raised", type(error).__name__)
        raise
    finally:
        meeting.part()


if __name__ == "__main__":
    main()
