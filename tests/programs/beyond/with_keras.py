# SPDX-License-Identifier: MIT
"""Keras: a PyDataset that makes batches, and what `fit` delivers of it to a model."""

import math
import random

import common
import keras
import numpy


class Pictures(keras.utils.PyDataset):
    """Batches of crops; what is random follows from the seed, the epoch and the number."""

    def __init__(self, options, load, **more):
        super().__init__(**more)
        self.paths, self.options, self.load = common.pictures(options.data), options, load
        self.epoch = 0

    def __len__(self):
        return math.ceil(len(self.paths) / self.options.batch)

    def __getitem__(self, number):
        generator = numpy.random.default_rng((self.options.seed, self.epoch, number))
        first = number * self.options.batch
        paths = self.paths[first:first + self.options.batch]
        batch = numpy.stack([common.crop(self.load(path), generator) for path in paths])
        return batch, numpy.zeros(len(batch), numpy.float32)

    def on_epoch_end(self):
        self.epoch += 1


class Watcher(keras.Model):
    """Learns nothing, and hands on what it was given to learn from."""

    deliver = None

    def call(self, x):
        return keras.ops.mean(keras.ops.cast(x, "float32"), axis=(1, 2, 3))

    def train_step(self, *arguments):
        self.deliver(numpy.asarray(arguments[-1][0]))
        logs = {"loss": 0.0}
        return (logs, arguments[0]) if keras.backend.backend() == "jax" else logs


def by_pillow(path):
    return common.with_pillow(common.read(path))


def by_keras(path):
    return numpy.asarray(keras.utils.load_img(path))


class Fit:
    """`fit` makes batches itself; Pillow decodes."""

    load = staticmethod(by_pillow)
    workers, processes = 1, False

    def run(self, options, deliver):
        random.seed(options.seed)
        keras.utils.set_random_seed(options.seed)
        model = Watcher()
        model.deliver = deliver
        model.compile(optimizer="sgd", loss="mse", run_eagerly=True, jit_compile=False)
        pictures = Pictures(options, self.load, workers=self.workers,
                            use_multiprocessing=self.processes, max_queue_size=4)
        model.fit(pictures, epochs=options.epochs, shuffle=True, verbose=0)


class LoadImg(Fit):
    """The same, decoded by `keras.utils.load_img`."""

    load = staticmethod(by_keras)


class Threads(Fit):
    """Two threads make batches."""

    workers = 2


class Processes(Threads):
    """Two processes make batches."""

    processes = True
