# SPDX-License-Identifier: MIT
"""
A program that reads a WebDataset by two workers, as the releases have it: for each seed in its arguments
a child, which prints what it was given.
"""

import io
import json
import os
import sys
import tarfile
import tempfile

import torch
import webdataset as wds
from torch.utils.data import DataLoader

SHARDS, SAMPLES = 4, 20


def shards(place):
    for shard in range(SHARDS):
        with tarfile.open(os.path.join(place, "%04d.tar" % shard), "w") as file:
            for sample in range(SAMPLES):
                text = str(shard * SAMPLES + sample).encode()
                entry = tarfile.TarInfo("%06d.txt" % (shard * SAMPLES + sample))
                entry.size = len(text)
                file.addfile(entry, io.BytesIO(text))
    return os.path.join(place, "{0000..%04d}.tar" % (SHARDS - 1))


def child(seed):
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as directory:
        data = wds.DataPipeline(
            wds.SimpleShardList(shards(directory)), wds.split_by_worker, wds.tarfile_to_samples(),
            wds.shuffle(bufsize=20, initial=10), wds.decode(), wds.to_tuple("txt"),
            wds.map(lambda sample: int(sample[0])))
        print(json.dumps([int(number) for number in DataLoader(data, batch_size=None, num_workers=2)]), flush=True)


def main():
    for word in sys.argv[1:]:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child(int(word))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0, word


main()
