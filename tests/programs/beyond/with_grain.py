# SPDX-License-Identifier: MIT
"""grain, which feeds JAX programs: its DataLoader and its data sets."""

import absl.flags
import common
import grain

absl.flags.FLAGS.mark_as_parsed()  # as absl.app.run() does; grain asks when it starts processes


class Files:
    """A data source: the bytes of files."""

    def __init__(self, root):
        self.paths = common.pictures(root)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return common.read(self.paths[index])

    def __repr__(self):
        return "Files(%d)" % len(self)


class Decode(grain.transforms.Map):
    """Bytes to pixels, by the function @decode."""

    def __init__(self, decode):
        self.decode = decode

    def map(self, element):
        return self.decode(element)


class Crop(grain.transforms.RandomMap):
    """Augmentation: grain gives each element a generator of its own."""

    def random_map(self, element, rng):
        return common.crop(element, rng)


class Loader:
    """DataLoader, in the program itself; Pillow decodes."""

    decode = staticmethod(common.with_pillow)
    workers = 0

    def batches(self, options):
        source = Files(options.data)
        sampler = grain.samplers.IndexSampler(
            len(source), shuffle=True, num_epochs=options.epochs, seed=options.seed)
        steps = [Decode(self.decode), Crop(), grain.transforms.Batch(options.batch)]
        return grain.DataLoader(data_source=source, sampler=sampler, operations=steps,
                                worker_count=self.workers, worker_buffer_size=2,
                                shard_options=grain.sharding.NoSharding())


class LoaderWorkers(Loader):
    """DataLoader with two worker processes."""

    workers = 2


class LoaderOpenCv(Loader):
    """DataLoader, OpenCV of PyPI decodes."""

    decode = staticmethod(common.with_opencv)


class LoaderOpenCvWorkers(LoaderOpenCv):
    """The same with two worker processes."""

    workers = 2


class Threads:
    """A map data set, read ahead by 16 threads."""

    AHEAD = True  # of 500 batches

    def batches(self, options):
        source = grain.MapDataset.source(Files(options.data)).seed(options.seed).shuffle()
        steps = source.map(Decode(common.with_pillow)).repeat(options.epochs).random_map(Crop())
        return self.ahead(steps.batch(options.batch).to_iter_dataset())

    @staticmethod
    def ahead(dataset):
        return dataset


class Processes(Threads):
    """The same by `mp_prefetch`, two processes."""

    @staticmethod
    def ahead(dataset):
        return dataset.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(
            num_workers=2, per_worker_buffer_size=2))
