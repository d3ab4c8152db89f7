# SPDX-License-Identifier: MIT
"""Readers of data sets: `staged_readers.py NAME DIRECTORY [make]` makes or reads and prints."""

import hashlib
import io
import os
import random
import sqlite3
import subprocess
import sys
import tarfile
import zipfile


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def say(*words):
    print(*words, flush=True)


def path(name):
    return os.path.join(sys.argv[2], name)


def noise(seed, size=30000):
    return random.Random(seed).randbytes(size)


def array(seed=1):
    import numpy
    return numpy.arange(seed, seed + 60000, dtype="int32").reshape(300, 200)


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)


# ---- NumPy ---------------------------------------------------------------------------------


def make_numpy_files():
    import numpy
    numpy.save(path("a.npy"), array())
    numpy.savez(path("b.npz"), a=array(1), b=array(2))
    numpy.savez_compressed(path("c.npz"), a=array(3))
    array(4).tofile(path("d.raw"))


def numpy_files():
    import numpy
    say(digest(numpy.load(path("a.npy")).tobytes()))
    for name in ("b.npz", "c.npz"):
        with numpy.load(path(name)) as arrays:
            say({key: digest(arrays[key].tobytes()) for key in arrays.files})
    say(digest(numpy.fromfile(path("d.raw"), dtype="int32", count=777, offset=400).tobytes()))
    with open(path("a.npy"), "rb") as file:
        say(digest(numpy.load(file).tobytes()), file.tell())


def numpy_mapped():
    import numpy
    for mode in ("r", "c"):
        mapped = numpy.load(path("a.npy"), mmap_mode=mode)
        if mode == "c":
            mapped[0, 0] = 99
        say(mode, digest(mapped[::7].tobytes()), type(mapped).__name__, mapped.filename)
    mapped = numpy.memmap(path("d.raw"), dtype="int32", mode="r", offset=800, shape=(50, 100))
    say(digest(mapped.tobytes()))


# ---- HDF5 ----------------------------------------------------------------------------------


def make_hdf5_locked():
    import h5py
    for number in range(2):
        with h5py.File(path("data%d.h5" % number), "w") as file:
            file.create_dataset("x", data=array(number), chunks=(30, 200), compression="gzip")
            file["y"] = array(number + 5)


def hdf5_locked(**more):
    import h5py
    for number in range(2):
        with h5py.File(path("data%d.h5" % number), "r", **more) as file:
            say(digest(file["x"][:].tobytes()), digest(file["y"][10:20, 3].tobytes()))
            say(sorted(file), file["x"].chunks, file.filename)


def make_hdf5_many():
    import h5py
    for number in range(20):
        with h5py.File(path("data%02d.h5" % number), "w") as file:
            file["x"] = array(number)[:50]


def hdf5_many():
    import h5py
    for number in range(20):
        with h5py.File(path("data%02d.h5" % number), "r") as file:
            say(number, digest(file["x"][:].tobytes()))


def hdf5_unlocked():
    hdf5_locked(locking=False)


def hdf5_mapped_in_memory():
    hdf5_locked(locking=False, driver="core", backing_store=False)


# ---- LMDB ----------------------------------------------------------------------------------


def make_lmdb_locked():
    import lmdb
    with lmdb.open(path("data.lmdb"), map_size=1 << 22) as env, env.begin(write=True) as txn:
        for i in range(100):
            txn.put(b"%04d" % i, noise(i, 3000 + i))
    if "unlocked" in sys.argv[1]:
        os.unlink(path("data.lmdb/lock.mdb"))


def lmdb_locked(**more):
    import lmdb
    with lmdb.open(path("data.lmdb"), readonly=True, readahead=False, **more) as env:
        for _ in range(2):
            with env.begin(buffers=True) as txn:
                say(env.stat()["entries"], digest(b"".join(bytes(v) for _, v in txn.cursor())))
                say(digest(bytes(txn.get(b"0042"))))


def lmdb_unlocked():
    lmdb_locked(lock=False, meminit=False)


WRITER = """
import lmdb, sys
with lmdb.open(sys.argv[1], map_size=1 << 22) as env:
    for turn in range(5):
        with env.begin(write=True) as txn:
            for i in range(100):
                txn.put(b"%04d" % i, (b"%d-" % turn) * 700 + bytes(100 + 37 * turn))
"""


def lmdb_written():
    import lmdb
    own = path("own.lmdb")
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    subprocess.run(["rm", "-rf", own], env=plain, check=True)
    subprocess.run(["cp", "-r", path("data.lmdb"), own], env=plain, check=True)
    with lmdb.open(own, readonly=True, readahead=False) as env:
        for _ in range(3):
            with env.begin() as txn:
                values = b"".join(value for _, value in txn.cursor())
                say(txn.id(), len(values), digest(values), digest(txn.get(b"0042")))
            subprocess.run([sys.executable, "-c", WRITER, own], env=plain, check=True)


# ---- Arrow ---------------------------------------------------------------------------------


def table(seed=0):
    import pyarrow
    return pyarrow.table({"n": list(range(seed, seed + 3000)),
                          "b": [noise(seed + i, 40) for i in range(3000)]})


def make_arrow_mapped():
    import pyarrow
    for number in range(2):
        data = table(number)
        with pyarrow.OSFile(path("%d.arrow" % number), "wb") as sink, \
                pyarrow.ipc.new_file(sink, data.schema) as writer:
            writer.write_table(data, max_chunksize=700)


def arrow_mapped():
    import pyarrow
    for number in range(2):
        with pyarrow.memory_map(path("%d.arrow" % number), "r") as source:
            data = pyarrow.ipc.open_file(source).read_all()
            say(data.num_rows, digest(b"".join(data["b"].to_pylist())), source.size())


def arrow_files():
    import pyarrow
    for number in range(2):
        with pyarrow.OSFile(path("%d.arrow" % number), "rb") as source:
            batches = pyarrow.ipc.open_file(source)
            for i in reversed(range(batches.num_record_batches)):
                say(i, sum(batches.get_batch(i)["n"].to_pylist()))


def make_parquet():
    import pyarrow.parquet
    for number in range(3):
        pyarrow.parquet.write_table(table(number), path("%d.parquet" % number),
                                    row_group_size=500)


def parquet():
    import pyarrow.parquet
    for number in range(3):
        for mapped in (False, True):
            file = pyarrow.parquet.ParquetFile(path("%d.parquet" % number), memory_map=mapped,
                                               pre_buffer=not mapped)
            say(file.num_row_groups, digest(b"".join(file.read()["b"].to_pylist())))
            say(file.read_row_group(4, columns=["n"])["n"].to_pylist()[:3])
            file.close()


def parquet_dataset():
    """Many files at once, by Arrow's own threads."""
    import pyarrow.dataset
    data = pyarrow.dataset.dataset(sys.argv[2], format="parquet")
    found = data.to_table(filter=pyarrow.dataset.field("n") < 1000)
    say(found.num_rows, sum(found["n"].to_pylist()), len(data.files), data.count_rows())


# ---- archives ------------------------------------------------------------------------------


def make_webdataset():
    for shard in range(3):
        with tarfile.open(path("%03d.tar" % shard), "w") as file:
            for i in range(10):
                for suffix, data in (("bin", noise(shard * 10 + i, 4000)), ("cls", b"%d" % i)):
                    member = tarfile.TarInfo("%02d%04d.%s" % (shard, i, suffix))
                    member.size = len(data)
                    file.addfile(member, io.BytesIO(data))


def webdataset():
    import webdataset as wds
    shards = [path("%03d.tar" % i) for i in range(3)]
    data = wds.WebDataset(shards, shardshuffle=False).decode().to_tuple("bin", "cls", "__key__")
    for raw, label, key in data:
        say(key, label, digest(raw))


def webdataset_shuffled():
    """As training loops have it, two epochs; by the pattern of names in braces."""
    import webdataset as wds
    data = wds.WebDataset(path("{000..002}.tar"), shardshuffle=3, seed=7).shuffle(
        8, rng=random.Random(5)).decode().to_tuple("bin", "cls")
    for _ in range(2):
        found = [digest(raw) + str(label) for raw, label in data]
        say(len(found), digest("".join(sorted(found)).encode()))


def tarfile_random():
    for shard in range(3):
        with tarfile.open(path("%03d.tar" % shard)) as file:
            names = file.getnames()
            for i in random.Random(shard).sample(range(len(names)), 9):
                say(names[i], digest(file.extractfile(names[i]).read()))


def make_zip_random():
    with zipfile.ZipFile(path("data.zip"), "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(40):
            file.writestr("%02d" % i, noise(i, 3000))


def zip_random():
    for turn in range(2):
        with zipfile.ZipFile(path("data.zip")) as file:
            for i in random.Random(turn).sample(range(40), 20):
                say(i, digest(file.read("%02d" % i)))


# ---- others --------------------------------------------------------------------------------


def make_pillow():
    from PIL import Image
    for i in range(4):
        picture = Image.frombytes("RGB", (90, 70), noise(i, 18900))
        for suffix in ("png", "jpg", "webp", "tif"):
            picture.save(path("%d.%s" % (i, suffix)))


def pillow():
    """The wheel's own libraries, linked into it."""
    from PIL import Image
    for name in sorted(os.listdir(sys.argv[2])):
        with Image.open(path(name)) as picture:
            say(name, picture.size, digest(picture.convert("RGB").tobytes()))


def make_python_mmap():
    for i in range(4):
        write("f%d" % i, noise(i, 50000))


def python_mmap():
    import mmap
    for i in range(4):
        with open(path("f%d" % i), "rb") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                say(len(mapped), digest(mapped), mapped.find(b"ab"))
            copy = mmap.mmap(file.fileno(), 8192, access=mmap.ACCESS_COPY, offset=4096)
            copy[0] = 7
            say(digest(copy[:]), digest(file.read(100)))
            copy.close()


def make_sqlite():
    with sqlite3.connect(path("data.db")) as writer:
        writer.execute("create table t (a, b)")
        writer.executemany("insert into t values (?, ?)",
                           ((i, noise(i, 200)) for i in range(500)))
    writer.close()


def ask(reader):
    for i in range(0, 500, 50):
        say(i, digest(reader.execute("select b from t where a = ?", (i,)).fetchone()[0]))
    say(reader.execute("select count(*), sum(a) from t").fetchall())
    reader.close()


def sqlite():
    ask(sqlite3.connect(path("data.db")))


def sqlite_read_only():
    ask(sqlite3.connect("file:%s?mode=ro" % path("data.db"), uri=True))


def sqlite_immutable():
    """Without locks: the program says that nobody writes."""
    ask(sqlite3.connect("file:%s?mode=ro&immutable=1" % path("data.db"), uri=True))


# Those that read what is made for another one.
SAME = {"numpy_mapped": "numpy_files", "hdf5_unlocked": "hdf5_locked", "hdf5_mapped_in_memory": "hdf5_locked",
        "lmdb_unlocked": "lmdb_locked", "lmdb_written": "lmdb_locked", "arrow_files": "arrow_mapped",
        "parquet_dataset": "parquet", "webdataset_shuffled": "webdataset", "tarfile_random": "webdataset",
        "sqlite_read_only": "sqlite", "sqlite_immutable": "sqlite"}

if __name__ == "__main__":
    globals()["make_" + SAME.get(sys.argv[1], sys.argv[1]) if len(sys.argv) > 3 else sys.argv[1]]()
