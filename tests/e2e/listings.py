# SPDX-License-Identifier: MIT
"""
Listings of directories (--stage-metadata): read once, the same for all, and never outdated for longer than they may
be.
"""

import glob
import os
import time

import pytest
import support
from far_away import FarAway
from support import equal

CLASSES, FILES = 4, 150


def fill(root):
    """Classes with pictures, as ImageFolder wants them, and things of other types."""
    for i in range(CLASSES):
        place = os.path.join(root, "class%d" % i)
        os.mkdir(place)
        for k in range(FILES):
            with open(os.path.join(place, "picture-%d-%03d.jpg" % (i, k)), "wb"):
                pass
    os.mkdir(os.path.join(root, "class0", "below"))
    os.symlink("class1", os.path.join(root, "link"))
    os.symlink("nowhere", os.path.join(root, "class0", "dangling"))
    os.mkfifo(os.path.join(root, "class0", "pipe"))
    with open(os.path.join(root, "class0", "n" * 255), "wb"):
        pass


# What the jobs do: lines of Python with `root`, `path(name)`, `say(...)` and the C library.
PROLOGUE = """
import ctypes, hashlib, os, sys, threading, time
root = sys.argv[1]
def path(*names): return os.path.join(root, *names)
def say(*what): print(*what, flush=True)

class Entry(ctypes.Structure):
    _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_long), ("bytes", ctypes.c_uint16),
                ("type", ctypes.c_uint8), ("name", ctypes.c_char * 256)]
    def fields(self): return self.ino, self.off, self.bytes, self.type, self.name

c = ctypes.CDLL(None, use_errno=True)
for symbol in ("opendir", "fdopendir"): getattr(c, symbol).restype = ctypes.c_void_p
for symbol in ("readdir", "readdir64"):
    getattr(c, symbol).restype = ctypes.POINTER(Entry)
    getattr(c, symbol).argtypes = [ctypes.c_void_p]
for symbol in ("closedir", "rewinddir", "dirfd"): getattr(c, symbol).argtypes = [ctypes.c_void_p]
c.telldir.argtypes, c.telldir.restype = [ctypes.c_void_p], ctypes.c_long
c.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
c.readdir_r.argtypes = c.readdir64_r.argtypes = [ctypes.c_void_p] * 3

def opendir(name):
    stream = c.opendir(os.fsencode(name))
    assert stream, os.strerror(ctypes.get_errno())
    return stream
def rest(stream, read=c.readdir64):
    found = []
    ctypes.set_errno(77)
    while True:
        entry = read(stream)
        if not entry: break
        found.append(entry.contents.fields())
    assert ctypes.get_errno() == 77
    return found
def whole(name, read=c.readdir64):
    stream = opendir(name)
    found = rest(stream, read)
    c.closedir(stream)
    return found
def show(name):
    found = whole(name)
    say(os.path.basename(name), len(found), hashlib.sha256(repr(found).encode()).hexdigest()[:16])
def names(name):
    try: say(sorted(os.listdir(path(name))))
    except OSError as error: say(error.strerror)
"""

# Entries with all their fields and in their order.
READ = """
for name in (".", "class0", "class1", "class2", "class3", "class0/below"): show(path(name))
"""


FAR = FarAway(fill, PROLOGUE)
job, outcome, storage_and_group = FAR.job, FAR.outcome, FAR.storage_and_group


def lists(storage):
    """How often the storage was asked for entries."""
    return storage.counts()["requests"]["readdir"]


def files_of(group):
    """Listings, and copies if there are any, whole and begun."""
    return sorted(glob.glob("/dev/shm/" + support.shared_name(group.name, "f.*")))


def served(storage, body, group, **settings):
    """What a job says that must not ask for entries."""
    storage.reset()
    done = outcome(body, storage.path, group, **settings)
    assert done.status == 0, done.errors[-3000:]
    assert lists(storage) == 0, storage.counts()["requests"]
    return done


def test_a_second_job_asks_for_no_entries():
    """Names, inodes, types, places and order are the storage's."""
    with storage_and_group() as (storage, group):
        reference = outcome(READ, storage.path)
        assert reference.status == 0, reference.errors
        storage.reset()
        equal(reference, outcome(READ, storage.path), "twice without us")
        alone = lists(storage)
        storage.reset()
        equal(reference, outcome(READ, storage.path, group), "the first")
        assert 0 < lists(storage) <= alone, (lists(storage), alone)
        opened = storage.counts()["requests"]["opendir"]
        equal(reference, served(storage, READ, group), "the second")
        assert storage.counts()["requests"]["opendir"] == opened == 6
        assert len(files_of(group)) == 6, files_of(group)


# What two jobs say as one says it without us; of SERVED, which are Python's programs, the second asks for nothing.
BODIES = {
    "walks": """
for place, below, files in os.walk(root): say(os.path.relpath(place, root), below, files)
import glob
say(glob.glob(path("*", "picture-1-00*")))
for entry in os.scandir(path("class0")):
    say(entry.name, entry.inode(), entry.is_dir(follow_symlinks=False), entry.is_symlink(),
        entry.is_file(follow_symlinks=False))
""",
    # As torchvision.datasets.folder has them; the real ones are used where they are installed.
    "image_folder": """
try:
    from torchvision.datasets.folder import find_classes, make_dataset
except ImportError:
    def find_classes(directory):
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        return classes, {name: i for i, name in enumerate(classes)}
    def make_dataset(directory, class_to_idx, extensions):
        instances = []
        for target in sorted(class_to_idx):
            for place, _, files in sorted(os.walk(os.path.join(directory, target),
                                                  followlinks=True)):
                instances += [(os.path.join(place, name), class_to_idx[target])
                              for name in sorted(files) if name.lower().endswith(extensions)]
        return instances
classes, numbers = find_classes(root)
samples = make_dataset(root, numbers, extensions=(".jpg",))
say(classes, numbers, len(samples), samples)
""",
    # Every call of the family, in orders that programs use and in some that they do not.
    "all_calls": """
one = whole(path("class0"))
say(one == whole(path("class0"), c.readdir), len(one))
s = opendir(path("class0"))
say(c.telldir(s)); places = [c.telldir(s)]; found = []
while True:
    e = c.readdir(s)
    if not e: break
    found.append(e.contents.fields()); places.append(c.telldir(s))
say(found == one, places[:-1] == [0] + [e[1] for e in one[:-1]])
say(bool(c.readdir(s)), bool(c.readdir64(s)), c.telldir(s) == places[-1])
for number in (3, 0, len(one) - 1, 7):
    c.seekdir(s, places[number]); say(c.telldir(s) == places[number], rest(s) == one[number:])
c.seekdir(s, places[5]); c.rewinddir(s); say(rest(s) == one)
c.closedir(s)
s = opendir(path("class0")); c.seekdir(s, places[4]); say(rest(s) == one[4:]); c.closedir(s)
s = opendir(path("class0")); c.rewinddir(s); say(rest(s) == one); c.closedir(s)
s = opendir(path("class0")); c.seekdir(s, 12345); rest(s); c.rewinddir(s); say(rest(s) == one)
c.closedir(s)
for read in (c.readdir_r, c.readdir64_r):
    s = opendir(path("class0")); found = []
    e, p = Entry(), ctypes.c_void_p()
    while True:
        status = read(s, ctypes.byref(e), ctypes.byref(p))
        if status or not p.value: break
        assert p.value == ctypes.addressof(e)
        found.append((e.ino, e.off, e.bytes, e.type, e.name))
    say(found == one, status); c.closedir(s)
fd = os.open(path("class0"), os.O_RDONLY)
say(os.listdir(fd) == [os.fsdecode(e[4]) for e in one if e[4] not in (b".", b"..")])
say(len(os.listdir(fd)), os.lseek(fd, 0, os.SEEK_CUR))
s = c.fdopendir(fd); c.readdir(s); c.readdir(s); say(rest(s) == one[2:])
say(os.lseek(fd, 0, os.SEEK_CUR) == places[-1]); c.closedir(s)
fd = os.open(path("class0"), os.O_RDONLY); os.lseek(fd, places[6], os.SEEK_SET)
s = c.fdopendir(fd); say(rest(s) == one[6:]); c.closedir(s)
for i in range(300):
    s = opendir(path("class%d" % (i % 4))); e = c.readdir(s).contents.fields(); c.closedir(s)
many = [opendir(path("class%d" % (i % 4))) for i in range(100)]
say([hashlib.sha256(repr(rest(s)).encode()).hexdigest()[:8] for s in many[::-1]][:50])
for s in many: c.closedir(s)
""",
    # The C library gives a closed stream's memory to the next one, here or in scandir(3).
    "an_address_is_used_again": """
first = whole(path("class0")); seen = set(); same = 0
for i in range(40):
    s = opendir(path("class%d" % (i % 4))); seen.add(s)
    for _ in range(i % 5): c.readdir(s)
    c.closedir(s)
    other = opendir("/proc/self"); seen.add(other)
    assert b"status" in [e[4] for e in rest(other)]
    c.closedir(other)
    s = opendir(path("class0")); assert rest(s) == first
    # Closed past us: the address comes back with another descriptor, or the same one.
    libc = ctypes.CDLL("libc.so.6"); libc.closedir.argtypes = [ctypes.c_void_p]; libc.closedir(s)
    t = opendir("/proc/self/task" if i % 2 else path("class1")); seen.add(t)
    assert len(rest(t)) == 3 if i % 2 else rest(t) != first
    c.closedir(t)
    # And opened past us as well, which has a descriptor that the note does not know.
    s = opendir(path("class0")); c.readdir(s); libc.closedir(s)
    hold = os.open("/", os.O_RDONLY)
    libc.opendir.restype = ctypes.c_void_p
    t = libc.opendir(b"/proc/self/task"); same += t == s
    assert c.readdir(t).contents.name == b"."; assert len(rest(t)) == 2
    assert c.telldir(t) != 0; c.seekdir(t, 0); assert len(rest(t)) == 3
    c.closedir(t); os.close(hold)
say(len(seen) < 20, same > 0)
""",
    # A child reads on where its parent was, or from the beginning, and so does the parent.
    "forks": """
one = whole(path("class0"))
s = opendir(path("class0"))
for _ in range(5): c.readdir(s)
if os.fork() == 0:
    say("child", rest(s) == one[5:]); c.closedir(s); say(whole(path("class0")) == one); os._exit(0)
os.wait()
say("parent", rest(s) == one[5:]); c.closedir(s)
s = opendir(path("class1"))
if os.fork() == 0: os._exit(0)
os.wait()
say(len(rest(s))); c.closedir(s)
""",
    # closedir(NULL) is an error, and nothing becomes of the streams that there are.
    "the_end_of_no_stream": """
first = opendir(path("class0"))
some = c.readdir64(first).contents.fields()
say(c.closedir(None), ctypes.get_errno() != 0, some, rest(first))
c.closedir(first)
show(path("class1"))
""",
}
SERVED, BEHIND_READ = ("walks", "image_folder"), ("forks", "the_end_of_no_stream")


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name):
    with storage_and_group() as (storage, group):
        reference = outcome(BODIES[name], storage.path)
        assert reference.status == 0, reference.errors
        assert name != "image_folder" or "picture-3-149" in reference.output
        if name in BEHIND_READ:
            outcome(READ, storage.path, group)
        equal(reference, outcome(BODIES[name], storage.path, group), "the first")
        second = served(storage, BODIES[name], group) if name in SERVED else outcome(BODIES[name], storage.path, group)
        equal(reference, second, "the second")


def test_programs():
    """ls and bash, which call opendir, and find, which opens descriptors."""
    commands = [["ls", "-Ua", "class1"], ["bash", "-c", "echo */*"], ["find", ".", "-name", "p*"]]
    with storage_and_group() as (storage, group):
        env = group.environment(TSSHIM_DATASET="files=" + storage.path)
        for command in commands:
            reference = support.run(command, support.plain_environment(), cwd=storage.path)
            assert reference.status == 0 and reference.output, reference.errors
            for turn in range(2):
                storage.reset()
                equal(reference, support.run(command, env, cwd=storage.path), (command, turn))
            # A listing is made for opendir only; find takes those that are there.
            assert lists(storage) == 0 or command[0] == "find", (command, lists(storage))
        with_links = lists(storage)
        # find has no listing of class0/below, which nobody has opened by opendir.
        assert with_links <= 2, with_links


STAT = """
for directory in ("many0", "many1"):
    with os.scandir(path(directory)) as entries:
        say(sorted((entry.name, entry.stat().st_size) for entry in entries))
"""


def test_attributes_still_come_with_the_names():
    """FUSE sends them only while somebody asks for some, so who makes a listing does."""
    with storage_and_group(readdirplus=1, attr_timeout_ms=60000, entry_timeout_ms=60000) as (
            storage, group):
        for directory in "many0", "many1":
            place = os.path.join(storage.source, directory)
            os.mkdir(place)
            for number in range(1500):
                support.write(os.path.join(place, "picture-%05d.jpg" % number), b"x" * number)
        reference = outcome(STAT.replace("path(", "os.path.join(%r, " % storage.source),
                            storage.path)
        storage.reset()
        equal(reference, outcome(STAT, storage.path, group), "the first")
        requests = storage.counts()["requests"]
        assert 4 <= requests["readdir"] and requests["lookup"] < 100, requests
        equal(reference, served(storage, STAT, group), "the second")


def test_off_by_default():
    with storage_and_group(seconds=0) as (storage, group):
        outcome(READ, storage.path, group)
        storage.reset()
        outcome(READ, storage.path, group)
        assert lists(storage) > 0 and files_of(group) == []


def test_closed_streams_are_forgotten():
    """There is room for 64 at once, however many have been open before."""
    body = """
many = [opendir(path("class1")) for _ in range(300)]
for s in many: c.closedir(s)
# The same addresses do not come back.
c.malloc.argtypes, c.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
taken = [c.malloc(32768 + 48) for _ in range(600)]
""" + READ
    with storage_and_group() as (storage, group):
        reference = outcome(body, storage.path)
        outcome(READ, storage.path, group)
        equal(reference, served(storage, body, group), "after 300")


def test_threads():
    """Each with its own stream, and several with one: no entry is lost or told twice."""
    body = """
one = sorted(whole(path("class0")))
def many(): assert all(sorted(whole(path("class0"))) == one for _ in range(20))
threads = [threading.Thread(target=many) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
for _ in range(20):
    s, found = opendir(path("class0")), []
    lock = threading.Lock()
    def some():
        e, p = Entry(), ctypes.c_void_p()
        while c.readdir_r(s, ctypes.byref(e), ctypes.byref(p)) == 0 and p.value:
            found.append(e.fields())
    threads = [threading.Thread(target=some) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    # The longest name loses what aligned it, as the C library does it.
    assert sorted(e[0] for e in found) == sorted(e[0] for e in one), (len(found), len(one))
    c.closedir(s)
say("done")
"""
    with storage_and_group() as (storage, group):
        for turn in range(3):
            done = outcome(body, storage.path, group)
            assert done.status == 0 and done.output == "done\n", (turn, done.errors)


def test_no_permission():
    """What opendir refuses is refused; and what another user may see is another listing."""
    if os.geteuid() != 0:
        raise support.Skip("root", "only root can have fewer rights than its jobs")
    body = "names('class1')"
    fewer = ("class H(ctypes.Structure): _fields_ = [('v', ctypes.c_uint), ('p', ctypes.c_int)]\n"
             "c.capset(ctypes.byref(H(0x20080522, 0)), (ctypes.c_uint * 6)())\n")
    with storage_and_group() as (storage, group):
        outcome(body, storage.path, group)
        os.chmod(os.path.join(storage.source, "class1"), 0)
        outcome(body, storage.path, group)
        served(storage, body, group)
        reference = outcome(fewer + body, storage.path)
        assert "Permission denied" in reference.output, reference.output
        equal(reference, outcome(fewer + body, storage.path, group), "fewer rights")


def damage(data):
    """Ways in which a listing can be wrong, as (what, bytes)."""
    middle = len(data) // 2
    yield "cut", data[:-8]
    yield "longer", data + b"\0" * 8
    yield "empty", b""
    yield "header", b"\0" * 8 + data[8:]
    yield "moment", data[:16] + b"\xff" * 6 + data[22:]
    yield "entries", data[:middle] + b"XXXX" + data[middle + 4:]
    yield "zeroes", data[:200] + b"\0" * (len(data) - 200)


def test_damaged_listings_are_refused():
    """And made again. The file of a link or a pipe in their place is nobody's listing."""
    body = "show(path('class0'))"
    with storage_and_group() as (storage, group):
        reference = outcome(body, storage.path)
        outcome(body, storage.path, group)
        place, = files_of(group)
        data = support.read(place, "rb")
        for what, bad in damage(data):
            os.chmod(place, 0o600)
            support.write(place, bad)
            os.chmod(place, 0o400)
            storage.reset()
            equal(reference, outcome(body, storage.path, group), what)
            assert lists(storage) > 0, what
            equal(reference, served(storage, body, group), what)
        for what, make in (("link", lambda: os.symlink("/etc/passwd", place)),
                           ("pipe", lambda: os.mkfifo(place, 0o400)),
                           ("directory", lambda: os.mkdir(place))):
            os.unlink(place)
            make()
            equal(reference, outcome(body, storage.path, group), what)
            if what == "directory":
                os.rmdir(place)


KILLS = ("listing_locked", "listing_piece", "listing_filled", "listing_admitted",
         "listing_sized", "listing_headed", "listing_written", "listing_finished",
         "listing_renamed")


def test_killed_at_every_step():
    """The next job reads the same, makes what is missing, and the one after it asks nobody."""
    with storage_and_group() as (storage, group):
        reference = outcome(READ, storage.path)
        for point in KILLS:
            killed = outcome(READ, storage.path, group, TSSHIM_TEST_KILL=point + ":2")
            assert killed.status == -9, (point, killed.status, killed.errors[-2000:])
            assert len([name for name in files_of(group) if name.endswith(".part")]) <= 1, point
            equal(reference, outcome(READ, storage.path, group), point)
            equal(reference, served(storage, READ, group), point)
            assert len(files_of(group)) == 6, files_of(group)
            for name in files_of(group):
                os.unlink(name)


def test_an_old_listing_is_replaced_by_every_step():
    """Killed while it replaces one that has expired: the old one or the new one is there."""
    with storage_and_group(seconds=1) as (storage, group):
        reference = outcome("show(path('class0'))", storage.path)
        outcome("show(path('class0'))", storage.path, group)
        for point in KILLS:
            time.sleep(1.1)
            killed = outcome("show(path('class0'))", storage.path, group, TSSHIM_TEST_KILL=point)
            assert killed.status == -9, (point, killed.status, killed.errors[-2000:])
            equal(reference, outcome("show(path('class0'))", storage.path, group), point)
        assert len(files_of(group)) == 1, files_of(group)


def test_errors_of_the_storage():
    """They are the program's, behind the entries that came before them."""
    body = """
s = opendir(path("class0")); ctypes.set_errno(0); found = 0
while c.readdir(s): found += 1
say(found, os.strerror(ctypes.get_errno()))
"""
    with storage_and_group() as (storage, group):
        storage.set(fail_lists=1)
        reference = outcome(body, storage.path)
        assert "Input/output error" in reference.output, reference.output
        equal(reference, outcome(body, storage.path, group), "from the start")
        assert files_of(group) == []
        storage.set(fail_lists=0)
        equal(outcome(body, storage.path), outcome(body, storage.path, group), "and again")


@support.whole
@pytest.mark.parametrize("count, tail, is_kept", [(100000, "", True), (70000, "n" * 230, False)], ids=["many", "too_large"])
def test_large_ones(count, tail, is_kept):
    """More than fits, made so by long names, is read as ever; the next job does not even try."""
    body = "show(path('large')); say(len(os.listdir(path('large'))))"
    with storage_and_group() as (storage, group):
        large = os.path.join(storage.source, "large")
        os.mkdir(large)
        for i in range(count):
            os.mknod(os.path.join(large, "%07d" % i + tail))
        reference = outcome(body, storage.path)
        assert "large %d " % (count + 2) in reference.output and "\n%d\n" % count in reference.output
        for turn in range(3):
            equal(reference, outcome(body, storage.path, group), turn)
        name, = files_of(group)
        assert (os.path.getsize(name) > 4096) == is_kept, os.path.getsize(name)


def test_no_room():
    """Then every job reads for itself."""
    with storage_and_group() as (storage, group):
        reference = outcome(READ, storage.path)
        for turn in range(2):
            equal(reference, outcome(READ, storage.path, group, TSSHIM_STAGE_SIZE="4K"), turn)
        assert files_of(group) == []


def test_four_jobs_at_once():
    """At 2 ms a request, from the start: hardly more is asked for than by one."""
    with storage_and_group(latency_us=2000) as (storage, group):
        reference = outcome(READ, storage.path)
        storage.reset()
        outcome(READ, storage.path)
        alone = lists(storage)
        storage.reset()
        started = [job(READ, storage.path, group) for _ in range(4)]
        for process in started:
            equal(reference, support.finish(process), "at once")
        assert lists(storage) <= alone, (lists(storage), alone)


# ---- never outdated ----

def test_young_directories_are_not_shared():
    """One that has just changed may change again before its times show it."""
    with storage_and_group(age_s=-3600) as (storage, group):
        for _ in range(2):
            storage.reset()
            equal(outcome(READ, storage.path), outcome(READ, storage.path, group), "young")
        assert lists(storage) > 0 and files_of(group) == []


def test_changes_of_others_are_seen_at_once():
    """Where the storage keeps times of directories; also what takes the place of another."""
    body = "names('class1'); names('.')"
    with storage_and_group() as (storage, group):
        source = storage.source
        served_once = outcome(body, storage.path, group)
        assert served_once.status == 0
        changes = [
            lambda: open(os.path.join(source, "class1", "new"), "wb").close(),
            lambda: os.unlink(os.path.join(source, "class1", "new")),
            lambda: os.rename(os.path.join(source, "class1"), os.path.join(source, "other")),
            lambda: os.rename(os.path.join(source, "class2"), os.path.join(source, "class1")),
            lambda: os.mkdir(os.path.join(source, "class1", "more")),
        ]
        for number, change in enumerate(changes):
            change()
            reference = outcome(body, storage.path)
            for turn in range(2):
                equal(reference, outcome(body, storage.path, group), (number, turn))


def test_seconds():
    """Where it keeps none, which a test can make so, they are seen after so many seconds."""
    for seconds in (600, 3):
        with storage_and_group(seconds=seconds, still=1) as (storage, group):
            body = "names('class1')"
            place = os.path.join(storage.source, "class1")
            before = outcome(body, storage.path)
            equal(before, outcome(body, storage.path, group), "before")
            with open(os.path.join(place, "new"), "wb"):
                pass
            after = outcome(body, storage.path)
            assert after.output != before.output
            if seconds == 600:
                equal(before, outcome(body, storage.path, group), "within ten minutes")
                continue
            time.sleep(seconds + 2)
            equal(after, outcome(body, storage.path, group), "after three seconds")
            equal(after, served(storage, body, group, TSSHIM_STAGE_METADATA="600"),
                  "and again from the new one")
            assert len(files_of(group)) == 1, files_of(group)


# Ways to make a file in class1, which the user has promised that no job does: the same process and others see
# it at once all the same.
CHANGES = {
    "create": "open(path('class1', 'new'), 'xb').close()",
    "os_open": "os.close(os.open(path('class1', 'new'), os.O_CREAT | os.O_RDONLY))",
    "touch": "import subprocess; subprocess.run(['touch', path('class1', 'new')], check=True)",
    "relative": "os.chdir(path('class1')); open('new', 'xb').close()",
    "and_then": "open(path('class1', 'new'), 'xb').close(); os.mkdir(path('class1', 'more'));"
                "os.rename(path('class0', 'pipe'), path('class1', 'pipe')); os.rmdir(path('class0', 'below'))",
    "while_open": "s = opendir(path('class1')); c.readdir(s); open(path('class1', 'new'), 'xb').close();"
                  "c.rewinddir(s); say(sorted(e[4] for e in rest(s)))",
    "between": "s = opendir(path('class1')); open(path('class1', 'new'), 'xb').close();"
               "say(sorted(e[4] for e in rest(s)))",
}
LOOK = "\nnames('class0'); names('class1'); names('.')\n"


OTHER = "import subprocess; subprocess.run([sys.executable, '-c', %r, root], check=True)" % (
    PROLOGUE + LOOK)


@pytest.mark.parametrize("what", CHANGES)
def test_own_change(what):
    """On storage that keeps no times of directories, so that these do not help."""
    seen = {}
    for kind in ("plain", "known"):
        with storage_and_group(still=1) as (storage, group):
            who = group if kind == "known" else None
            if who:
                outcome(LOOK, storage.path, who)
                served(storage, LOOK, who)
            # The other one looks first: it has no change of its own to go by.
            seen[kind] = outcome("\n".join((LOOK, CHANGES[what], OTHER, LOOK)), storage.path, who)
    assert seen["plain"].status == 0, seen["plain"].errors
    equal(seen["plain"], seen["known"], what)
