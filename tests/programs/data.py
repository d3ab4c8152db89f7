# SPDX-License-Identifier: MIT
"""The data that the pipelines read: pictures in several formats, arrays, archives, tables."""

import csv
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile

import numpy
import PIL.Image

TRAIN = int(os.environ.get("CORPUS_SAMPLES", "96"))
VALIDATION, CLASSES = 24, 6
SIZE = (320, 240)
VERSION = "3"  # of all this; another one is made anew


def _picture(generator):
    small = generator.randint(0, 256, (24, 32, 3)).astype(numpy.uint8)
    return PIL.Image.fromarray(small).resize(SIZE, PIL.Image.BICUBIC)


def _folders(root, generator):
    for kind, options in (("jpg", {"quality": 90}), ("png", {}), ("webp", {"quality": 90})):
        for part, count in (("train", TRAIN), ("val", VALIDATION)):
            for number in range(count):
                folder = os.path.join(root, kind, part, "c%d" % (number % CLASSES))
                os.makedirs(folder, exist_ok=True)
                _picture(generator).save(
                    os.path.join(folder, "%03d.%s" % (number, kind)), **options)


def _masks(root, generator):
    os.makedirs(os.path.join(root, "masks"))
    for number in range(TRAIN):
        small = generator.randint(0, 4, (24, 32)).astype(numpy.uint8)
        PIL.Image.fromarray(small).resize(SIZE, PIL.Image.NEAREST).save(
            os.path.join(root, "masks", "%03d.png" % number))


def paths(root, part="train", kind="jpg"):
    """All pictures of @part, in order of their numbers."""
    found = []
    for folder in sorted(os.listdir(os.path.join(root, kind, part))):
        for name in sorted(os.listdir(os.path.join(root, kind, part, folder))):
            found.append(os.path.join(root, kind, part, folder, name))
    return sorted(found, key=os.path.basename)


def label(path):
    """The class of the picture at @path."""
    return int(os.path.basename(os.path.dirname(path))[1:])


def _arrays(root, generator):
    os.makedirs(os.path.join(root, "npz"))
    pictures = generator.randint(0, 256, (TRAIN, 160, 160, 3)).astype(numpy.uint8)
    labels = numpy.arange(TRAIN) % CLASSES
    numpy.save(os.path.join(root, "pictures.npy"), pictures)
    for number in range(TRAIN):
        numpy.savez_compressed(os.path.join(root, "npz", "%03d.npz" % number),
                               x=pictures[number, :, :, :1], y=labels[number])
    volumes = generator.normal(size=(TRAIN // 4, 32, 64, 64)).astype(numpy.float32)
    numpy.save(os.path.join(root, "volumes.npy"), volumes)
    return pictures, labels


def _archives(root):
    names = paths(root)
    with zipfile.ZipFile(os.path.join(root, "pictures.zip"), "w") as archive:
        for name in names:
            archive.write(name, os.path.basename(name))
    with tarfile.open(os.path.join(root, "pictures.tar"), "w") as archive:
        for name in names:
            archive.add(name, os.path.basename(name))
    for shard in range(4):
        with tarfile.open(os.path.join(root, "shard-%d.tar" % shard), "w") as archive:
            for name in names[shard::4]:
                stem = os.path.basename(name).partition(".")[0]
                archive.add(name, stem + ".jpg")
                text = str(label(name)).encode()
                member = tarfile.TarInfo(stem + ".cls")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))


def _tables(root):
    with open(os.path.join(root, "train.csv"), "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "label", "fold"])
        for number, name in enumerate(paths(root)):
            rows.writerow([name, label(name), number % 4])
    boxes = []
    images = []
    for number, name in enumerate(paths(root)):
        images.append({"id": number, "file_name": os.path.relpath(name, root), "width": SIZE[0],
                       "height": SIZE[1]})
        for box in range(1 + number % 3):
            left, top = 10 + 40 * box, 20 + number
            boxes.append({"id": len(boxes) + 1, "image_id": number, "category_id": 1 + box,
                          "bbox": [left, top, 60, 50], "area": 3000, "iscrowd": 0,
                          "segmentation": [[left, top, left + 60, top, left + 60, top + 50]]})
    with open(os.path.join(root, "boxes.json"), "w") as file:
        json.dump({"images": images, "annotations": boxes,
                   "categories": [{"id": 1 + n, "name": "k%d" % n} for n in range(3)]}, file)


def _with_libraries(root, pictures, labels):
    """What can be written only by the libraries that read it."""
    import datasets
    import h5py
    import lmdb
    import pyarrow
    from pyarrow import parquet
    with h5py.File(os.path.join(root, "pictures.h5"), "w") as file:
        file.create_dataset("x", data=pictures, chunks=(1, 160, 160, 3), compression="gzip")
        file.create_dataset("y", data=labels)
    with lmdb.open(os.path.join(root, "pictures.lmdb"), map_size=1 << 28) as environment:
        with environment.begin(write=True) as transaction:
            for number, name in enumerate(paths(root)):
                with open(name, "rb") as file:
                    transaction.put(b"%03d" % number, file.read())
    rows = pyarrow.table({"path": paths(root), "label": [label(name) for name in paths(root)]})
    parquet.write_table(rows, os.path.join(root, "pictures.parquet"), row_group_size=8)
    table = datasets.Dataset.from_dict(
        {"image": paths(root), "label": [label(name) for name in paths(root)]})
    table = table.cast_column("image", datasets.Image())
    table.map(lambda row: row).save_to_disk(os.path.join(root, "arrow"))
    _chunks(root)


def _row(path):
    return {"image": path, "label": label(path)}  # a path to a picture stands for that


def _chunks(root):
    """As litdata's streams read them."""
    import litdata
    litdata.optimize(_row, paths(root), os.path.join(root, "lit"), num_workers=1, chunk_size=8)


def make(root):
    """Make it all below @root, unless it is there."""
    done = os.path.join(root, "complete")
    if os.path.exists(done) and open(done).read() == VERSION:
        return
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    generator = numpy.random.RandomState(0)
    _folders(root, generator)
    _masks(root, generator)
    arrays = _arrays(root, generator)
    _archives(root)
    _tables(root)
    _with_libraries(root, *arrays)
    with open(done, "w") as file:
        file.write(VERSION)


if __name__ == "__main__":
    make(sys.argv[1])
