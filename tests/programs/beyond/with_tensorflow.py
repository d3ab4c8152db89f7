# SPDX-License-Identifier: MIT
"""tf.data: graphs that C++ runs, and one that goes back to Python for each picture."""

import os

import common
import keras
import tensorflow as tf

BUFFER = common.COUNT  # of shuffle(): all there is


def decode(data):
    return tf.io.decode_jpeg(data, channels=3)


def crop(picture, seed):
    return tf.image.stateless_random_crop(picture, (common.SIDE, common.SIDE, 3), seed)


class Decode:
    """`tf.io.read_file` and `tf.io.decode_jpeg`, with two calls at once."""

    @staticmethod
    def pictures(options):
        paths = tf.data.Dataset.from_tensor_slices(common.pictures(options.data))
        return paths.shuffle(BUFFER, seed=options.seed).map(
            lambda path: decode(tf.io.read_file(path)), num_parallel_calls=2)

    def batches(self, options):
        pictures = self.pictures(options).repeat(options.epochs)
        seeds = tf.data.Dataset.random(seed=options.seed).batch(2)
        crops = tf.data.Dataset.zip(pictures, seeds).map(crop, num_parallel_calls=2)
        return crops.batch(options.batch).prefetch(2).as_numpy_iterator()


class Records(Decode):
    """The same from a TFRecord file."""

    @staticmethod
    def pictures(options):
        path = os.path.join(options.data, "pictures.tfrecord")
        return tf.data.TFRecordDataset(path).shuffle(BUFFER, seed=options.seed).map(
            decode, num_parallel_calls=2)


def write_records(root):
    """The file that Records reads, unless it is there."""
    path = os.path.join(root, "pictures.tfrecord")
    if not os.path.exists(path):
        with tf.io.TFRecordWriter(path + ".part") as writer:
            for name in common.pictures(root):
                writer.write(common.read(name))
        os.rename(path + ".part", path)


class Pillow(Decode):
    """`tf.numpy_function`: Pillow decodes."""

    @staticmethod
    def pictures(options):
        def load(path):
            return common.with_pillow(common.read(path))
        paths = tf.data.Dataset.from_tensor_slices(common.pictures(options.data))
        return paths.shuffle(BUFFER, seed=options.seed).map(
            lambda path: tf.ensure_shape(tf.numpy_function(load, [path], tf.uint8),
                                         (*reversed(common.SIZE), 3)), num_parallel_calls=2)


class Directory:
    """`keras.utils.image_dataset_from_directory`, pictures made smaller."""

    def batches(self, options):
        found = keras.utils.image_dataset_from_directory(
            os.path.join(options.data, "train"), seed=options.seed, batch_size=options.batch,
            image_size=(common.SIDE, common.SIDE), verbose=False)
        for _ in range(options.epochs):
            for batch, _ in found.as_numpy_iterator():
                yield batch
