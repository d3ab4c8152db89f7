#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A training loop without a model over loaders of other libraries.

It knows nothing of tsshim.  In its --write form it makes the files of a kind from photographs.
"""
import argparse
import hashlib
import io
import os
import sys
import tarfile
import time

import torch
from torch.utils.data import DataLoader
from torchvision import transforms

SHARD = 100  # photographs

TRAIN = transforms.Compose([
    transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])


def write_shards(paths, where):
    """Tar files as WebDataset reads them."""
    for first in range(0, len(paths), SHARD):
        with tarfile.open(os.path.join(where, "shard-%04d.tar" % (first // SHARD)), "w") as shard:
            for number, path in enumerate(paths[first:first + SHARD], first):
                for suffix, content in (("jpg", open(path, "rb").read()), ("cls", b"%d" % number)):
                    member = tarfile.TarInfo("%06d.%s" % (number, suffix))
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))


def write_table(paths, where):
    """A table of pictures as Hugging Face's datasets keep it."""
    import datasets
    rows = {"image": [{"bytes": open(path, "rb").read(), "path": None} for path in paths],
            "label": list(range(len(paths)))}
    table = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    table.save_to_disk(where)


def webdataset(where, options):
    import webdataset as library
    shards = sorted(os.path.join(where, name) for name in os.listdir(where))
    stream = library.WebDataset(shards, shardshuffle=len(shards)).shuffle(200).decode("pil")
    stream = stream.to_tuple("jpg", "cls").map_tuple(TRAIN, int)
    return DataLoader(stream, options.batch_size, num_workers=options.workers)


def _transform(rows):
    return {"image": [TRAIN(picture.convert("RGB")) for picture in rows["image"]],
            "label": rows["label"]}


def _collate(items):
    return (torch.stack([item["image"] for item in items]),
            torch.tensor([item["label"] for item in items]))


def table(where, options, **more):
    import datasets
    rows = datasets.load_from_disk(where)
    rows.set_transform(_transform)
    if options.part:
        rows = _Part(rows, *map(int, options.part.split("/")))
    return DataLoader(rows, options.batch_size, shuffle=True, num_workers=options.workers, **more)


def collated(where, options):
    return table(where, options, collate_fn=_collate)


class _Part(torch.utils.data.Dataset):
    """@rows of which one in @parts is made; the others lie ready in memory, and cost nothing."""

    def __init__(self, rows, part, parts):
        self.rows, self.part, self.parts = rows, part, parts
        self.ready = torch.rand(len(rows), 3, 224, 224)

    def __len__(self):
        return len(self.rows)

    def __getitems__(self, indices):
        own = [index for index in indices if index % self.parts == self.part]
        made = dict(zip(own, self.rows.__getitems__(own) if own else ()))
        return [made.get(index) or {"image": self.ready[index], "label": index}
                for index in indices]


KINDS = {"webdataset": (write_shards, webdataset), "datasets": (write_table, table),
         "collated": (write_table, collated)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("where", help="directory of the kind's files")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", metavar="N/OF", help="of a table, make only such a part")
    parser.add_argument("--write", metavar="FILE", help="of paths; make the kind's files")
    options = parser.parse_args()
    write, load = KINDS[options.kind]
    if options.write:
        with open(options.write, encoding="utf-8") as file:
            write(file.read().splitlines(), options.where)
        return
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    loader = load(options.where, options)
    print("ready", flush=True)
    for epoch, _ in enumerate(sys.stdin):
        check, labels, count, begin = hashlib.sha256(), set(), 0, time.monotonic()
        for batch in loader:
            pictures, targets = batch.values() if isinstance(batch, dict) else batch
            words = pictures.numpy().reshape(len(pictures), -1).view("uint64")
            check.update(words.sum(axis=1).tobytes())
            labels.update(targets.tolist())
            count += len(pictures)
        print(f"epoch {epoch} images {count} distinct {len(labels)} seconds "
              f"{time.monotonic() - begin:.3f} checksum {check.hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
