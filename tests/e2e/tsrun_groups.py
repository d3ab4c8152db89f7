# SPDX-License-Identifier: MIT
"""tsrun stats and tsrun gc: with nobody, with living, dead, damaged and foreign memory."""

import glob
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess

import support
from tsrun_common import (ATTACH, BOTH, NOTHING, Member, Skip, clean_environment, expect, gc, leave_to_gc, locked, mounted,
                          new_group, path, stats, there, tsrun)
from tsrun_common import own_group  # noqa: F401 -- the fixture "group"

MEMBERS = 1, (1 << 60) + 3  # of the lock of a member (leader/group/layout.h)


def die(group):
    """Let the only process of a @group be killed, whose things wait for gc."""
    member = Member(group)
    leave_to_gc(group)
    member.kill()
    assert there(group) == BOTH


def write_object(group, suffix, data):
    support.write(path(group, suffix), data, 0o600)


def damage(group, suffix, offset=16):
    with open(path(group, suffix), "r+b") as file:
        data = file.read(offset + 1)
        file.seek(offset)
        file.write(bytes([data[offset] ^ 0xff]))


def test_nothing_there(group):
    assert expect(tsrun("stats", "--group", group), 0) == "Group %s: no job has shared anything yet.\n" % group
    data = stats(group)
    assert data["group"] == group and data["datasets"] == [] and data["jobs"] == []
    assert data["ring"] == {"capacity": 0, "used": 0}
    assert data["verified"] == 0 and data["mismatched"] == 0
    assert data["made_apart"] == dict.fromkeys(
        ("samples", "align_would_share", "strict_samples", "free_would_share"), 0)
    assert data["passed"] and set(data["passed"].values()) == {0}
    assert gc(group) == NOTHING
    result = tsrun("stats", "--json", env={"TSSHIM_GROUP": group})
    assert json.loads(result.stdout)["group"] == group


def test_statistics_of_living_jobs(group):
    first, second, third = Member(group), Member(group), Member(group, "other")
    data = stats(group)
    text = tsrun("stats", "--group", group).stdout
    photos, = [d for d in data["datasets"] if d["name"] == "photos"]
    other, = [d for d in data["datasets"] if d["name"] == "other"]
    assert photos["leader"] == {"pid": first.pid, "alive": True}
    assert other["leader"] == {"pid": third.pid, "alive": True}
    assert photos["members"] == 2 and other["members"] == 1
    assert photos["pixels"] == {"produced": 6, "shared": 18, "shared_bytes": 8192,
                                "saved_seconds": 3.0}
    assert photos["sample"]["produced"] == 0 and photos["off"] is False
    assert set(photos) >= {"sample", "bytes", "device"}
    assert data["ring"]["capacity"] > 0 and data["ring"]["used"] == 0
    assert data["passed"]["jpeg_small"] == 15 and data["passed"]["alone"] == 0
    jobs = {job["pid"]: job for job in data["jobs"]}
    assert set(jobs) == {first.pid, second.pid, third.pid}
    assert jobs[third.pid]["datasets"] == ["other"] and jobs[third.pid]["alive"] is True
    assert jobs[third.pid]["pixels"]["shared"] == 9
    assert jobs[third.pid]["passed"]["jpeg_small"] == 5
    assert "3 jobs running, 3 processes attached" in text, text
    assert "leader pid %d, 2 processes attached" % first.pid in text, text
    assert "jpeg_small" in text and "decoding costs less than sharing would" in text
    assert "(75.0 %)" in text and "3.00 s" in text, text
    first.kill()
    photos, = [d for d in stats(group)["datasets"] if d["name"] == "photos"]
    assert photos["leader"] == {"pid": second.pid, "alive": True} and photos["members"] == 1


def test_the_memory_of_the_first_job_decides(group, directory):
    """One with less of it and one with more have one ring."""
    os.makedirs(os.path.join(directory, "memory"))
    for name, number in (("memory.max", 4 << 30), ("memory.current", 0), ("memory/memory.limit_in_bytes", 4 << 30),
                         ("memory/memory.usage_in_bytes", 0)):
        support.write(os.path.join(directory, name), "%d\n" % number)
    Member(group, "photos", "auto", prefix=mounted("mount --bind %s /sys/fs/cgroup" % directory))
    ring = stats(group)["ring"]["capacity"]
    Member(group)
    text = tsrun("stats", "--group", group).stdout
    assert "2 jobs running, 2 processes attached" in text, text
    # A tenth of what is left, instead of the 2 GiB that each has at least.
    assert stats(group)["ring"]["capacity"] == ring < (4 << 30) / 10
    assert re.search(r"Ring: .* in use \(auto, for 4[.]0 GiB of memory; limits allow no more\)\n", text), text


def test_who_joins_many_reads_no_file_of_theirs(group, directory):
    """The lock of each says that it lives: one that joins, and a waiter at its every look, costs no more."""
    if not shutil.which("strace"):
        raise support.Skip("strace", "needs strace, to see what is read")
    members = [Member(group) for _ in range(8)]
    log = os.path.join(directory, "log")
    Member(group, prefix=["strace", "-f", "-e", "trace=openat,fcntl", "-o", log]).end()
    with open(log) as file:
        text = file.read()
    assert text.count("F_GETLK") >= len(members), text
    assert not [member.pid for member in members if "/proc/%d/" % member.pid in text], text


def test_statistics_stay_after_the_jobs(group):
    Member(group).end()
    assert there(group) == ["ledger"], "the last one out removes the ring"
    data = stats(group)
    assert data["datasets"][0]["pixels"]["shared"] == 9
    assert data["datasets"][0]["members"] == 0
    assert data["datasets"][0]["leader"]["alive"] is False
    assert data["jobs"][0]["alive"] is False
    assert gc(group).startswith("removed " + path(group, "ledger"))
    assert there(group) == [] == stats(group)["datasets"]


def test_gc_removes_the_dead(group):
    die(group)
    assert gc(group, "-n").count("would remove") == 2 and there(group) == BOTH
    assert gc(group).count("removed ") == 2 and there(group) == []


def test_gc_leaves_the_living(group):
    member = Member(group)
    os.kill(member.pid, signal.SIGSTOP)
    try:
        assert gc(group) == NOTHING
        assert gc(group, "--dry-run").count("would keep") == 2
        assert there(group) == BOTH
    finally:
        os.kill(member.pid, signal.SIGCONT)


def test_gc_takes_the_dead_of_all_groups_or_of_one(group):
    dead, other = new_group(), new_group()
    for one in (dead, other):
        die(one)
    Member(group)
    gc(dead)
    assert there(dead) == [] and there(other) == BOTH
    tsrun("gc")
    assert there(other) == [] and there(group) == BOTH


def test_a_new_job_sweeps_the_dead_ring_and_no_other(group):
    Member(group)
    expect(tsrun("--group", group, "--", "true"), 0)
    assert there(group) == BOTH
    dead = new_group()
    die(dead)
    leave_to_gc(dead, False)
    expect(tsrun("--group", dead, "--", "true"), 0)
    assert there(dead) == ["ledger"]
    gc(dead)


def test_damaged_ledger(group):
    die(group)
    damage(group, "ledger")
    result = tsrun("stats", "--group", group)
    expect(result, 125, "cannot read the counters")
    assert "hint: `tsrun gc --group %s`" % group in result.stderr
    gc(group)
    assert there(group) == []


def test_damaged_ring_without_locks_goes(group):
    die(group)
    damage(group, "ring")
    result = tsrun("stats", "--json", "--group", group)
    data = expect(result, 125, "cannot read the ring of group '%s': it is" % group)
    assert json.loads(data)["datasets"], "the counters are still worth printing"
    gc(group)
    assert there(group) == []


def test_a_ring_with_a_lock_stays(group):
    for is_sound in (True, False):
        die(group)
        if not is_sound:
            damage(group, "ring")
        with locked(path(group, "ring"), *MEMBERS):
            gc(group)
            assert there(group) == BOTH, is_sound
        gc(group)
        assert there(group) == [], is_sound


def test_somebody_holds_the_attach_lock(group):
    die(group)
    with locked(path(group, "ledger"), *ATTACH):
        leave_to_gc(group, False)
        gc(group)  # tsrun() does not wait for ever
        expect(tsrun("--group", group, "true"), 0)
        assert there(group) == BOTH
    gc(group)
    assert there(group) == []


def test_truncated_and_empty_objects(group):
    for size in (0, 7, 447, 65535):
        for suffix in BOTH:
            write_object(group, suffix, bytes(size))
        expect(tsrun("stats", "--group", group), 125, "it is damaged")
        gc(group)
        assert there(group) == [], size


def test_garbage_in_the_tables(group):
    """Counters and tables carry no checksum: whatever they hold, nothing is read beyond them."""
    for seed in range(20):
        noise = random.Random(seed)
        die(group)
        # Behind the header of the one; the words of the other's that change, members, segments, entries.
        for suffix, begin, size in (("ledger", 128, 65536 - 128), ("ring", 384, 1 << 18)):
            support.overwrite(path(group, suffix), begin, noise.randbytes(size))
        data = stats(group)
        assert len(data["datasets"]) <= 32 and len(data["jobs"]) <= 56
        assert data["ring"]["used"] <= data["ring"]["capacity"]
        expect(tsrun("stats", "--group", group), 0)
        gc(group)
        assert there(group) == []


def test_ring_without_ledger(group):
    die(group)
    os.unlink(path(group, "ledger"))
    assert "0 jobs running, 0 processes attached" in expect(tsrun("stats", "--group", group), 0)
    expect(tsrun("gc"), 0)
    assert there(group) == []


def test_copies_of_files(group, directory):
    """Removed with their index, kept while a process uses the ring; look-alikes stay."""
    files = [os.path.join(directory, name) for name in ("a", "b")]
    for name in files:
        support.write(name, "a" * 1000)
    other = path("clitest-%d-like" % os.getpid(), "f.0123")
    settings = {"LD_PRELOAD": support.TEST_LIBRARY, "TSSHIM_GROUP": group, "TSSHIM_STAGE": "shm",
                "TSSHIM_DATASET": "x=" + directory, "TSSHIM_TEST_YOUNG_INPUTS": "1"}
    reader = subprocess.Popen(["cat", *files, "-"], env={**clean_environment(), **settings},
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def copies():
        return len(glob.glob(path(group, "f.*")))
    try:
        support.wait_until(lambda: copies() == 2, "two copies")
        open(other, "w").close()
        assert "would keep %s" % path(group, "stage") in tsrun("gc", "-n").stdout
        gc(group)
        assert copies() == 2 and "stage" in there(group)
        leave_to_gc(group)
        reader.kill()
        reader.wait()
        assert "would remove %s and 2 copies of files" % path(group, "stage") in gc(group, "-n") and copies() == 2
        assert "removed %s and 2 copies of files" % path(group, "stage") in gc(group)
        assert there(group) == [] and os.path.exists(other)
    finally:
        reader.kill()
        reader.wait()
        os.unlink(other)


def test_copies_to_a_gpu(group):
    """They are counted like any other kind; the table of GPUs goes with the ring."""
    member = Member(group, "photos", "gpu")
    photos, = stats(group)["datasets"]
    assert photos["device"] == {"produced": 3, "shared": 9, "shared_bytes": 4096, "saved_seconds": 1.5}, photos
    assert "copies to a GPU" in tsrun("stats", "--group", group).stdout
    assert "would keep %s" % path(group, "device") in tsrun("gc", "-n").stdout
    gc(group)
    assert "device" in there(group)
    leave_to_gc(group)
    member.kill()
    assert "removed %s" % path(group, "device") in gc(group) and there(group) == []
    member = Member(group, "photos", "gpu")
    assert "device" in there(group)
    member.end()
    assert "device" not in there(group), "the last one out removes it"
    gc(group)
    write_object(group, "device", b"")  # alone, it is found as well
    assert "removed %s" % path(group, "device") in tsrun("gc").stdout


def test_what_is_no_file_is_left_alone(group):
    os.symlink("/etc/passwd", path(group, "ledger"))
    os.mkfifo(path(group, "ring"))
    try:
        expect(tsrun("stats", "--group", group), 125, "no regular file")
        gc(group)
        assert there(group) == BOTH
        expect(tsrun("--group", group, "true"), 0)
    finally:
        for suffix in BOTH:
            os.unlink(path(group, suffix))


def test_other_users_objects_are_left_alone(group):
    if os.getuid() != 0:
        raise Skip("only root can make a file of another user")
    die(group)
    for suffix in BOTH:
        os.chown(path(group, suffix), 12345, 12345)
    expect(tsrun("stats", "--group", group), 125, "it belongs to somebody else")
    gc(group)
    assert there(group) == BOTH
    for suffix in BOTH:
        os.unlink(path(group, suffix))


PEERS = struct.pack("<QI", 0x7372656570746d31, 99)  # leader/mail/mail.h, of another version


def test_what_is_told_of_other_nodes_by_another_version(group):
    Member(group)
    write_object(group, "peers", PEERS.ljust(4096, b"\xff"))
    data = json.loads(expect(tsrun("stats", "--json", "--group", group), 125, "cannot read what is told of other "
                             "nodes of group '%s': it was made by another version of tsshim" % group))
    assert data["nodes"] is None and data["datasets"], "the rest is worth printing"
    for text in (b"", b"short", b"\0" * 4096, b"\xff" * 82176):
        write_object(group, "peers", text)
        expect(tsrun("stats", "--group", group), 125, "of other nodes of group '%s': it is damaged" % group)


def test_requests_to_other_nodes_go_with_their_group(group):
    member = Member(group)
    write_object(group, "peers", PEERS)
    assert "would keep %s" % path(group, "peers") in gc(group, "-n")
    assert gc(group) == NOTHING and "peers" in there(group)
    leave_to_gc(group)
    member.kill()
    assert "would remove %s" % path(group, "peers") in gc(group, "-n") and "peers" in there(group)
    assert "removed %s" % path(group, "peers") in gc(group) and there(group) == []


def test_private_files_of_dead_makers(group):
    child = subprocess.Popen(["true"])
    child.wait()
    dead, alive = ("new.%d" % pid for pid in (child.pid, os.getpid()))
    for suffix in (dead, alive):
        write_object(group, suffix, bytes(4096))
    expect(tsrun("gc"), 0)
    assert there(group) == [alive]
    os.unlink(path(group, alive))


def test_names_that_only_look_alike_are_left_alone():
    user = os.geteuid()
    names = [path("x", "rings"), path("x", "new."), path("x", "new.1x%d" % os.getpid()),
             path("x", "ring", "1-2x"), path("x", "ring", "12"), path("x", "ring", "-1"), path("x", "new.1", "1-"),
             "/dev/shm/tsshim.%d.ring" % user, "/dev/shm/tsshim.%d.x.ring" % user, "/dev/shm/tsshim.%d0.x.ring" % user]
    names = [n for n in names if not os.path.exists(n)]
    for name in names:
        open(name, "x").close()
    try:
        expect(tsrun("gc"), 0)
        assert all(map(os.path.exists, names))
    finally:
        for name in names:
            os.unlink(name)
