# SPDX-License-Identifier: MIT
"""
Programs of others on files of slow storage, plain and with `tsrun --stage shm`: the same output
and status, and the storage is asked for the bytes once, or the program is left alone.
"""

import contextlib
import gzip
import os
import shlex
import shutil
import subprocess
import tempfile
import zipfile

import pytest

import support
from support import HERE, PYTHON, Group, equal, run

support.search("tests", "storage")
import mounted  # noqa: E402

CHILD = os.path.join(HERE, "staged_readers.py")
COUNT, SIZE = 6, 70000


def content(seed, size=SIZE):
    """The same bytes in every run; half of them can be compressed."""
    import random
    return random.Random(seed).randbytes(size // 2) + bytes([seed % 256]) * (size - size // 2)


def write(root, name, data):
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    support.write(path, data)
    return path


def fill(root):
    """A few directories of files, links and what else a program may stumble over."""
    for i in range(COUNT):
        write(root, "d%d/f%d" % (i % 2, i), content(i, SIZE + i))
    os.symlink("f0", os.path.join(root, "d0/link"))
    os.link(os.path.join(root, "d0/f2"), os.path.join(root, "d1/hard"))
    open(os.path.join(root, "d1/empty"), "wb").close()


def call(command, cwd=None):
    """Make something with a program, to be read later; without us."""
    done = subprocess.run(command, cwd=cwd, env=support.plain_environment(),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, (command, done.stdout[-2000:])


@contextlib.contextmanager
def a_place(prepare, age_s=3600):
    """A data set on storage far away whose files are an hour old (or not made yet), and a group."""
    with mounted.Mounted(age_s=age_s) as storage, \
            tempfile.TemporaryDirectory(prefix="tsshim-programs-", dir="/var/tmp") as scratch:
        prepare(storage.source)
        with Group(TSSHIM_STAGE="shm", TSSHIM_DATASET="files=" + storage.path) as group:
            yield Place(storage, scratch, group.keep())
            group.release()
            group.gc()
            assert group.leftovers("f.*") + group.leftovers("stage") == []


class Place:
    def __init__(self, storage, scratch, group):
        self.storage, self.scratch, self.group, self.root = storage, scratch, group, storage.path

    def environment(self):
        """What programs write outside of the data set goes to a directory of their own."""
        return support.plain_environment(
            HOME=self.scratch, TMPDIR=self.scratch, OUT=os.path.join(self.scratch, "out"),
            ROOT=self.root, LC_ALL="C.UTF-8", TZ="UTC", GIT_CONFIG_NOSYSTEM="1",
            PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_CACHE_DIR="1", HDF5_DIR="")

    def fresh(self):
        """An empty directory for output."""
        out = os.path.join(self.scratch, "out")
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)

    def plain(self, command):
        self.fresh()
        self.storage.reset()
        return run(command, self.environment())

    def staged(self, command):
        self.fresh()
        self.storage.reset()
        return run([support.TSRUN, "--stage", "shm", "--dataset", "files=" + self.root,
                    "--group", self.group.name, "--", *command], self.environment())

    def read(self):
        """Bytes that the storage was asked for since the last run began."""
        return self.storage.counts()["bytes_read"]

    def counts(self):
        return self.group.staged()


def both(place, command):
    """The command plain, and the same fetching and staged; bytes read by these three."""
    reference = place.plain(command)
    assert reference.status == 0 and reference.output, (command, reference.errors[-2000:])
    took = [place.read()]
    equal(reference, place.plain(command), "not the same each time")
    for turn in ("fetching", "staged"):
        equal(reference, place.staged(command), turn)
        took.append(place.read())
    return took


def size_of(root):
    """Of all that can be opened there, by each of its names."""
    return sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(root) for name in names)


def served(command, prepare=fill):
    """The copies are read: what is opened comes from the storage once and whole, and nothing of it in the second run."""
    with a_place(prepare) as place:
        plain, fetching, staged = both(place, command)
        fetched, shared, passed = place.counts()
        assert plain > 0 and fetched > 0 and shared >= fetched, (fetched, shared, passed)
        assert fetching <= max(plain, size_of(place.storage.source)), (plain, fetching)
        assert staged == 0, (plain, fetching, staged, passed)
        assert passed == {}, passed


def readers():
    """The Python of the environment with readers of data sets."""
    return support.installed("readers", "READERS")


def shell(text):
    """Lines for bash, with $ROOT and $OUT; what fails in a pipe fails."""
    return ["/bin/bash", "-o", "pipefail", "-ec", text]


SUMS = "find . -type f -print0 | sort -z | xargs -0 -r sha256sum"
ALL = SUMS + "; find . -printf '%p %y %m %s %l\\n' | sort"


# ---- tools -------------------------------------------------------------------------------


def archive(root):
    fill(root)
    call(["tar", "-C", root, "-czf", root + "/a.tar.gz", "d0", "d1"])
    call(["tar", "-C", root, "-cf", root + "/a.tar", "d0", "d1"])


def repository(root):
    fill(root)
    options = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
    call(["git", "init", "-q", "-b", "main", root])
    for message in ("one", "two"):
        write(root, "text", message.encode() * 1000)
        call(["git", "-C", root, "add", "."])
        call(["git", "-C", root, *options, "commit", "-q", "-m", message,
              "--date=2020-01-01T00:00:00Z"])
    call(["git", "-C", root, "gc", "-q"])
    write(root, "text", b"not committed")


GIT = "export GIT_OPTIONAL_LOCKS=0; git config --global safe.directory '*'; cd $ROOT; "


def wheel(root):
    """A package, and its wheel, as pip installs it."""
    package = {"hello/__init__.py": "from .more import greet\n",
               "hello/more.py": "def greet():\n    return 'hello ' * 1000\n",
               "hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
               "hello-1.0.dist-info/WHEEL":
                   "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
               "hello-1.0.dist-info/RECORD": ""}
    os.makedirs(root + "/wheels")
    with zipfile.ZipFile(root + "/wheels/hello-1.0-py3-none-any.whl", "w") as file:
        for name, text in package.items():
            file.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
            write(root, "site/" + name, text.encode())


PIP = "%s -m pip --isolated install -q --no-index --no-deps --no-compile --find-links "


def test_pip_and_python_packages():
    python = shlex.quote(readers())
    served(shell((PIP % python) + "$ROOT/wheels --target $OUT/t hello; cd $OUT; " + SUMS +
                 "; export PYTHONPATH=$ROOT/site; " + python +
                 " -c 'import hello; print(len(hello.greet()), hello.__file__)'; " + python +
                 " -m zipfile -l $ROOT/wheels/*.whl"), wheel)


def hdf5(root):
    call([PYTHON, "-c", "import h5py, numpy; f = h5py.File('data.h5', 'w'); f.attrs['a'] = 1;"
          "f['x'] = numpy.arange(6000).reshape(300, 20); f['g/y'] = numpy.arange(100.) / 7"],
         root)


DUMP = "h5ls -rv $ROOT/data.h5; h5dump $ROOT/data.h5 | sha256sum; h5dump -d /g/y $ROOT/data.h5"
TOOLS = {
    "tar_makes": ("cd $ROOT; tar -cf $OUT/a.tar d0 d1; tar -tvf $OUT/a.tar; sha256sum <$OUT/a.tar", fill),
    "tar_reads": ("cd $OUT; mkdir a b; tar -C a -xzf $ROOT/a.tar.gz; tar -C b -xf $ROOT/a.tar; "
                  "tar -tvf $ROOT/a.tar; tar -df $ROOT/a.tar -C b; " + ALL, archive),
    "cp": ("cp -a $ROOT/d0 $ROOT/d1 $OUT; cp --sparse=always $ROOT/d0/f0 $OUT/s; "
           "cp --reflink=auto $ROOT/d1/f1 $OUT/r; cd $OUT; " + ALL +
           "; stat -c '%n %Y' d0/* d1/*; cmp s $ROOT/d0/f0; diff -r $ROOT/d0 d0", fill),
    "rsync": ("rsync -a $ROOT/ $OUT/a/; rsync -ac --stats $ROOT/ $OUT/a/ | grep -v -e rate -e "
              "speedup -e bytes -e seconds; cd $OUT; " + ALL + "; stat -c '%n %Y' a/d*/*", fill),
    "those_that_read": ("cd $ROOT; grep -c '' -r d0 | sort; sort d0/f0 | sha256sum; dd if=d1/f1 bs=999 "
                        "skip=3 count=9 status=none | sha256sum; head -c 5000 d0/f2 | tail -c 77 | od; "
                        "perl -ne '$n += length; END { print $n }' d0/f0; split -n 3 d0/f4 $OUT/p; "
                        "sha256sum $OUT/p*; cat <d1/f3 | sha256sum; tac d1/f5 | sha256sum", fill),
    "git": (GIT + "git log --stat --format=%H%s; git fsck --full; git status --short; "
            "git diff; git archive HEAD | sha256sum; git cat-file -p HEAD:text | sha256sum; "
            "git clone -q --no-hardlinks $ROOT $OUT/c; cd $OUT/c; git log --format=%H; "
            "git ls-files -s; sha256sum text d*/f*", repository),
    "hdf5_without_locks": ("export HDF5_USE_FILE_LOCKING=FALSE; " + DUMP, hdf5),
}


@pytest.mark.parametrize("name", TOOLS)
def test_tools(name):
    text, prepare = TOOLS[name]
    served(shell(text), prepare)


def test_hdf5_tools_with_locks_read_the_original():
    """The library locks what it opens, which only the original can do."""
    with a_place(hdf5) as place:
        plain, fetching, staged = both(place, shell(DUMP))
        fetched, shared, passed = place.counts()
        assert set(passed) == {"stage_original"} and passed["stage_original"] == fetched + shared
        assert plain > 0 and staged == plain, (plain, fetching, staged, passed)


# ---- readers ------------------------------------------------------------------------------


def flat(root):
    for i in range(COUNT):
        write(root, "f%d" % i, content(i, SIZE + 1000 * i))


@pytest.mark.parametrize("way", "read pread readv preadv2 mmap private fopen fdopen sendfile splice uring".split())
def test_reads_by(way):
    """Every system call that data loaders read with."""
    reader = support.victim("reader")
    if run([reader, way, reader]).status in (2, 77):
        raise support.Skip("io_uring", "forbidden here, or built without liburing")
    served(shell(shlex.quote(reader) + " " + way + " $ROOT/f*"), flat)


def test_static_programs():
    """They open the originals; what they are given is a copy with the same bytes."""
    reader = shlex.quote(support.victim("reader-static"))
    with a_place(flat) as place:
        plain, fetching, staged = both(place, shell(reader + " read $ROOT/f*"))
        assert plain == fetching == staged > 0 and place.counts()[:2] == (0, 0)
    served(shell("for f in $ROOT/f*; do for w in read pread mmap sendfile; do " + reader +
                 " $w - <$f; done; done"), flat)


def compressed(root):
    for i in range(COUNT):
        with gzip.GzipFile(os.path.join(root, "f%d.gz" % i), "wb", mtime=0) as file:
            file.write(content(i))


def test_static_decoders():
    busybox = shutil.which("busybox")
    if not busybox:
        raise support.Skip("busybox", "busybox-static is not installed")
    with a_place(compressed) as place:
        plain, fetching, staged = both(place, shell(
            "for f in $ROOT/f*; do %s gunzip -c $f | sha256sum; done" % busybox))
        assert plain == fetching == staged > 0 and place.counts()[:2] == (0, 0)
    served(shell("for f in $ROOT/f*; do %s gunzip -c <$f | sha256sum; done" % busybox),
           compressed)


@pytest.mark.parametrize("name", """numpy_files numpy_mapped hdf5_unlocked hdf5_mapped_in_memory lmdb_unlocked
    arrow_mapped arrow_files parquet parquet_dataset webdataset webdataset_shuffled tarfile_random pillow
    zip_random python_mmap sqlite_immutable""".split())
def test_from_readers(name):
    """Data loaders in Python, each as its own documentation says; staged_readers.py has them."""
    served(*reader_of(name))


def reader_of(name):
    """(the command that reads, what makes the files for it)"""
    command = [readers(), CHILD, name]
    return shell(shlex.join(command) + " $ROOT"), lambda root: call([*command, root, "make"])


@pytest.mark.parametrize("name, allowed", [
    ("hdf5_locked", ["stage_original"]),
    # Readers learn in the lock file what was written last: nothing beside it is a copy.
    ("lmdb_locked", ["stage_original"]),
    # The program opens for writing; a database opened read-only is locked.
    ("sqlite", []), ("sqlite_read_only", ["stage_original"])])
def test_readers_that_lock_or_write(name, allowed):
    """Of what they read nothing but the reasons @allowed is counted."""
    command, make = reader_of(name)
    with a_place(make) as place:
        plain, fetching, staged = both(place, command)
        fetched, shared, passed = place.counts()
        # What it reads before it locks anything may come from the copy: a page or two.
        assert plain >= staged > plain - 32768 > 0, (plain, fetching, staged, passed)
        assert set(passed) == set(allowed), passed
        assert (fetched + shared > 0) == bool(allowed), (fetched, shared, passed)


def test_many_hdf5_files_that_are_locked():
    """What the first few teach: to copy what is given back would be to read it twice."""
    command, make = reader_of("hdf5_many")
    with a_place(make) as place:
        plain, fetching, staged = both(place, command)
        fetched, shared, passed = place.counts()
        assert (fetched, shared) == (4, 4), (fetched, shared, passed)
        assert passed == {"stage_original": 8, "stage_locks": 32}, passed
        assert fetching < plain * 1.3 and staged <= plain, (plain, fetching, staged)


def test_lmdb_that_is_written():
    """By another process, while this one has it open; its pages are used again and again."""
    command, make = reader_of("lmdb_written")
    with a_place(make) as place:
        both(place, command)
        fetched, shared, passed = place.counts()
        assert set(passed) == {"stage_original"} and fetched > 0, (fetched, shared, passed)


def test_sqlite_tool():
    def database(root):
        call(["sqlite3", root + "/data.db", "create table t (a, b); with recursive c(x) as "
              "(select 1 union all select x + 1 from c where x < 5000) insert into t "
              "select x, hex(x * x) from c"])
    with a_place(database) as place:
        plain, fetching, staged = both(place, shell(
            "sqlite3 $ROOT/data.db 'select count(*), sum(a), max(b) from t; "
            "pragma integrity_check'"))
        # It peeks into the file to see what that is, and then opens it for writing.
        assert plain >= staged >= os.path.getsize(place.storage.source + "/data.db") and \
            place.counts() == (1, 1, {}), (plain, fetching, staged, place.counts())


# ---- programs at work, on files that they have just made -----------------------------------


def fresh(command, prepare=fill):
    """Nothing is copied, for all of it is of the future: what a program writes it reads back."""
    with a_place(prepare, age_s=-3600) as place:
        reference = place.plain(command)
        assert reference.status == 0 and reference.output, reference.errors[-2000:]
        for _ in range(2):
            equal(reference, place.staged(command), "at work")
        assert place.counts()[:2] == (0, 0), place.counts()


def test_pip_at_work():
    python = shlex.quote(readers())
    fresh(shell("rm -rf $ROOT/t; " + (PIP % python) + "$ROOT/wheels --target $ROOT/t hello; "
                "PYTHONPATH=$ROOT/t " + python + " -c 'import hello; print(len(hello.greet()), "
                "hello.__file__)'; cd $ROOT/t; " + SUMS + " | grep -v pyc"), wheel)


AT_WORK = {
    "git": "cd $ROOT; rm -rf r; git init -q -b main r; cd r; cp ../d0/f* .; "
           "export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'; "
           "g='git -c user.name=n -c user.email=e@x'; $g add .; $g commit -q -m one; "
           "echo more >>f0; $g status --short; $g stash -q; $g stash pop -q; $g commit -qam two; "
           "$g checkout -q -b other HEAD~1; echo x >f2; $g commit -qam three; $g merge -q main -m m; "
           "$g gc -q; $g fsck --full; $g log --format='%H %s'; " + SUMS + " | grep -v -e .git/",
    "sqlite": "cd $ROOT; rm -f n.db*; sqlite3 n.db 'pragma journal_mode=wal; create table t(a);"
              "insert into t values (1), (2)'; sqlite3 n.db 'update t set a = a + 1; select * "
              "from t; pragma journal_mode=delete; vacuum; select sum(a) from t'; ls -l n.db* "
              "| awk '{ print $5, $9 }'",
    "archives": "cd $ROOT; rm -rf o; mkdir o; t='tar --warning=no-timestamp'; $t -cf o/a.tar d0 d1; "
                "gzip -k o/a.tar; $t -C o -xzf o/a.tar.gz; rsync -a d0/ o/d0/; rsync -ac d1/ o/x/; "
                "cp o/a.tar o/b.tar; cmp o/a.tar o/b.tar; echo x >>o/b.tar; rsync -a --inplace "
                "o/a.tar o/b.tar; cmp o/a.tar o/b.tar; sed -i s/a/b/ o/d0/f0; cd o; rm a.tar.gz; " + SUMS,
}


@pytest.mark.parametrize("name", AT_WORK)
def test_tools_at_work(name):
    fresh(shell(AT_WORK[name]))
