# SPDX-License-Identifier: MIT
"""tsrun stats and tsrun gc: with nobody, with living, dead, damaged and foreign memory."""

import fcntl
import glob
import json
import os
import random
import signal
import struct
import subprocess
import time

import support
from support import own_scope
from tsrun_common import BUILD, Member, Skip, clean_environment, expect, new_group, stats, tsrun

LOCK_BASE = 1 << 60  # leader/group/layout.h
KEPT_UNTIL = 392  # struct ts_ring_header, kept_until_ns


def path(group, suffix, scope=None):
    return "/dev/shm/tsshim.%d.%s.%s.%s" % (os.geteuid(), scope or own_scope(), group, suffix)


def exists(group, suffix):
    return os.path.lexists(path(group, suffix))


def leave_to_gc(group, stays=True):
    """What the group leaves @stays until `tsrun gc`: jobs of other tests start and end meanwhile,
    and take along what nobody uses or keeps."""
    with open(path(group, "ring"), "r+b") as ring:
        ring.seek(KEPT_UNTIL)
        ring.write(struct.pack("<Q", 1 << 63 if stays else 0))


def dead_group():
    """A group whose only process was killed, and whose things wait for gc."""
    group = new_group()
    member = Member(group)
    leave_to_gc(group)
    member.kill()
    assert exists(group, "ring") and exists(group, "ledger")
    return group


def test_nothing_there(directory):
    group = new_group()
    result = tsrun("stats", "--group", group)
    expect(result, 0)
    assert result.stdout == "Group %s: no job has shared anything yet.\n" % group
    data = stats(group)
    assert data["group"] == group and data["datasets"] == [] and data["jobs"] == []
    assert data["ring"] == {"capacity": 0, "used": 0}
    assert data["verified"] == 0 and data["mismatched"] == 0
    assert data["made_apart"] == dict.fromkeys(
        ("samples", "align_would_share", "strict_samples", "free_would_share"), 0)
    assert data["passed"] and set(data["passed"].values()) == {0}
    result = tsrun("gc", "--group", group)
    expect(result, 0)
    assert result.stdout == "nothing to remove\n"


def test_group_of_the_environment(directory):
    group = new_group()
    result = tsrun("stats", "--json", env={"TSSHIM_GROUP": group})
    assert json.loads(result.stdout)["group"] == group


def test_statistics_of_living_jobs(directory):
    group = new_group()
    first, second = Member(group), Member(group)
    third = Member(group, "other")
    try:
        data = stats(group)
        text = tsrun("stats", "--group", group).stdout
    finally:
        for member in (first, second, third):
            member.end()
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


def test_leader_follows_the_living(directory):
    group = new_group()
    first, second = Member(group), Member(group)
    first.kill()
    leader = stats(group)["datasets"][0]["leader"]
    members = stats(group)["datasets"][0]["members"]
    second.end()
    assert leader == {"pid": second.pid, "alive": True} and members == 1
    tsrun("gc", "--group", group)


def test_statistics_stay_after_the_jobs(directory):
    group = new_group()
    Member(group).end()
    assert not exists(group, "ring"), "the last one out removes the ring"
    data = stats(group)
    assert data["datasets"][0]["pixels"]["shared"] == 9
    assert data["datasets"][0]["members"] == 0
    assert data["datasets"][0]["leader"]["alive"] is False
    assert data["jobs"][0]["alive"] is False
    result = tsrun("gc", "--group", group)
    expect(result, 0)
    assert result.stdout.startswith("removed " + path(group, "ledger")), result.stdout
    assert not exists(group, "ledger")
    assert stats(group)["datasets"] == []


def test_gc_removes_the_dead(directory):
    group = dead_group()
    dry = tsrun("gc", "-n", "--group", group)
    expect(dry, 0)
    assert dry.stdout.count("would remove") == 2, dry.stdout
    assert exists(group, "ring") and exists(group, "ledger")
    result = tsrun("gc", "--group", group)
    expect(result, 0)
    assert result.stdout.count("removed ") == 2, result.stdout
    assert not exists(group, "ring") and not exists(group, "ledger")


def test_gc_leaves_the_living(directory):
    group = new_group()
    member = Member(group)
    try:
        os.kill(member.pid, signal.SIGSTOP)
        result = tsrun("gc", "--group", group)
        expect(result, 0)
        assert result.stdout == "nothing to remove\n", result.stdout
        dry = tsrun("gc", "--dry-run", "--group", group).stdout
        assert dry.count("would keep") == 2, dry
        assert exists(group, "ring") and exists(group, "ledger")
    finally:
        os.kill(member.pid, signal.SIGCONT)
        member.end()
    tsrun("gc", "--group", group)
    assert not exists(group, "ledger")


def test_gc_of_all_groups_takes_only_the_dead(directory):
    dead, living = dead_group(), new_group()
    member = Member(living)
    try:
        result = tsrun("gc")
        assert not exists(dead, "ring") and not exists(dead, "ledger"), result.stdout
        assert exists(living, "ring") and exists(living, "ledger")
    finally:
        member.end()
    tsrun("gc", "--group", living)


def test_gc_of_one_group_leaves_the_others(directory):
    mine, other = dead_group(), dead_group()
    tsrun("gc", "--group", mine)
    assert not exists(mine, "ring") and exists(other, "ring") and exists(other, "ledger")
    tsrun("gc", "--group", other)
    assert not exists(other, "ring")


def test_a_new_job_sweeps_the_dead_ring(directory):
    group = dead_group()
    leave_to_gc(group, False)
    expect(tsrun("--group", group, "--", "true"), 0)
    assert not exists(group, "ring") and exists(group, "ledger")
    tsrun("gc", "--group", group)


def test_a_new_job_leaves_the_ring_of_the_living(directory):
    group = new_group()
    member = Member(group)
    expect(tsrun("--group", group, "--", "true"), 0)
    assert exists(group, "ring")
    member.end()
    tsrun("gc", "--group", group)


def damage(group, suffix, offset=16):
    with open(path(group, suffix), "r+b") as f:
        f.seek(offset)
        byte = f.read(1)
        f.seek(offset)
        f.write(bytes([byte[0] ^ 0xff]))


def test_damaged_ledger(directory):
    group = dead_group()
    damage(group, "ledger")
    expect(tsrun("stats", "--group", group), 125, "cannot read the counters")
    assert "hint: `tsrun gc --group %s`" % group in tsrun("stats", "--group", group).stderr
    expect(tsrun("gc", "--group", group), 0)
    assert not exists(group, "ledger") and not exists(group, "ring")


def test_damaged_ring_without_locks_goes(directory):
    group = dead_group()
    damage(group, "ring")
    result = tsrun("stats", "--json", "--group", group)
    expect(result, 125, "cannot read the ring of group '%s': it is" % group)
    assert json.loads(result.stdout)["datasets"], "the counters are still worth printing"
    expect(tsrun("gc", "--group", group), 0)
    assert not exists(group, "ring") and not exists(group, "ledger")


def test_damaged_ring_with_a_lock_stays(directory):
    group = dead_group()
    damage(group, "ring")
    with open(path(group, "ring"), "r+b") as f:
        fcntl.fcntl(f, fcntl.F_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, LOCK_BASE + 3, 1, 0))
        expect(tsrun("gc", "--group", group), 0)
        assert exists(group, "ring") and exists(group, "ledger")
    expect(tsrun("gc", "--group", group), 0)
    assert not exists(group, "ring") and not exists(group, "ledger")


def test_sound_ring_with_a_lock_stays(directory):
    group = dead_group()
    with open(path(group, "ring"), "r+b") as f:
        fcntl.fcntl(f, fcntl.F_SETLK,
                    struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, LOCK_BASE + 3, 1, 0))
        tsrun("gc", "--group", group)
        assert exists(group, "ring")
    tsrun("gc", "--group", group)
    assert not exists(group, "ring")


def test_somebody_holds_the_attach_lock(directory):
    group = dead_group()
    with open(path(group, "ledger"), "r+b") as f:
        fcntl.lockf(f, fcntl.LOCK_EX, 1, 0)
        leave_to_gc(group, False)
        expect(tsrun("gc", "--group", group), 0)  # tsrun() does not wait for ever
        expect(tsrun("--group", group, "true"), 0)
        assert exists(group, "ring") and exists(group, "ledger")
    tsrun("gc", "--group", group)
    assert not exists(group, "ring")


def test_truncated_and_empty_objects(directory):
    for size in (0, 7, 447, 65535):
        group = new_group()
        for suffix in ("ring", "ledger"):
            with open(path(group, suffix), "wb") as f:
                f.truncate(size)
            os.chmod(path(group, suffix), 0o600)
        expect(tsrun("stats", "--group", group), 125, "it is damaged")
        expect(tsrun("gc", "--group", group), 0)
        assert not exists(group, "ring") and not exists(group, "ledger"), size


def test_garbage_in_the_tables(directory):
    """Counters and tables carry no checksum: whatever they hold, nothing is read beyond them."""
    for seed in range(20):
        noise = random.Random(seed)
        group = dead_group()
        with open(path(group, "ledger"), "r+b") as f:
            f.seek(128)  # behind the header
            f.write(noise.randbytes(65536 - 128))
        with open(path(group, "ring"), "r+b") as f:
            f.seek(384)  # the words of the header that change, members, segments, entries
            f.write(noise.randbytes(1 << 18))
        result = tsrun("stats", "--json", "--group", group)
        expect(result, 0)
        data = json.loads(result.stdout)
        assert len(data["datasets"]) <= 32 and len(data["jobs"]) <= 56
        assert data["ring"]["used"] <= data["ring"]["capacity"]
        expect(tsrun("stats", "--group", group), 0)
        expect(tsrun("gc", "--group", group), 0)
        assert not exists(group, "ring") and not exists(group, "ledger")


def test_ring_without_ledger(directory):
    group = dead_group()
    os.unlink(path(group, "ledger"))
    text = tsrun("stats", "--group", group)
    expect(text, 0)
    assert "0 jobs running, 0 processes attached" in text.stdout
    expect(tsrun("gc"), 0)
    assert not exists(group, "ring")


def test_copies_of_files(directory):
    """Removed with their index, kept while a process uses the ring; look-alikes stay."""
    files = os.path.join(directory, "files")
    os.makedirs(files)
    for name in ("a", "b"):
        support.write(os.path.join(files, name), name * 1000)
    group, other = new_group(), path("clitest-%d-like" % os.getpid(), "f.0123")
    library = os.path.join(BUILD, "libtsshim-test.so")
    settings = {"LD_PRELOAD": library, "TSSHIM_GROUP": group, "TSSHIM_STAGE": "shm",
                "TSSHIM_DATASET": "x=" + files, "TSSHIM_TEST_YOUNG_INPUTS": "1"}
    reader = subprocess.Popen(["cat", os.path.join(files, "a"), os.path.join(files, "b"), "-"],
                              env={**clean_environment(), **settings}, stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(glob.glob(path(group, "f.*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        open(other, "w").close()
        assert "would keep %s" % path(group, "stage") in tsrun("gc", "-n").stdout
        expect(tsrun("gc", "--group", group), 0)
        assert len(glob.glob(path(group, "f.*"))) == 2 and exists(group, "stage")
        leave_to_gc(group)
        reader.kill()
        reader.wait()
        told = tsrun("gc", "-n", "--group", group).stdout
        assert "would remove %s and 2 copies of files" % path(group, "stage") in told, told
        assert len(glob.glob(path(group, "f.*"))) == 2
        told = tsrun("gc", "--group", group).stdout
        assert "removed %s and 2 copies of files" % path(group, "stage") in told, told
        assert glob.glob(path(group, "*")) == [] and os.path.exists(other)
    finally:
        reader.kill()
        reader.wait()
        os.unlink(other)


def test_copies_to_a_gpu(directory):
    """They are counted like any other kind; the table of GPUs goes with the ring."""
    group = new_group()
    member = Member(group, "photos", "gpu")
    try:
        photos, = stats(group)["datasets"]
        text = tsrun("stats", "--group", group).stdout
        assert photos["device"] == {"produced": 3, "shared": 9, "shared_bytes": 4096,
                                    "saved_seconds": 1.5}, photos
        assert "copies to a GPU" in text, text
        assert "would keep %s" % path(group, "device") in tsrun("gc", "-n").stdout
        expect(tsrun("gc", "--group", group), 0)
        assert exists(group, "device")
        leave_to_gc(group)
        member.kill()
        told = tsrun("gc", "--group", group).stdout
        assert "removed %s" % path(group, "device") in told, told
        assert glob.glob(path(group, "*")) == []
        member = Member(group, "photos", "gpu")
        assert exists(group, "device")
        member.end()
        assert not exists(group, "device"), "the last one out removes it"
        expect(tsrun("gc", "--group", group), 0)
        # Alone, it is found as well.
        with open(os.open(path(group, "device"), os.O_WRONLY | os.O_CREAT, 0o600), "w"):
            pass
        assert "removed %s" % path(group, "device") in tsrun("gc").stdout
    finally:
        member.process.kill()


def test_what_is_no_file_is_left_alone(directory):
    group = new_group()
    os.symlink("/etc/passwd", path(group, "ledger"))
    os.mkfifo(path(group, "ring"))
    try:
        expect(tsrun("stats", "--group", group), 125, "no regular file")
        expect(tsrun("gc", "--group", group), 0)
        assert exists(group, "ring") and exists(group, "ledger")
        expect(tsrun("--group", group, "true"), 0)
    finally:
        os.unlink(path(group, "ledger"))
        os.unlink(path(group, "ring"))


def test_other_users_objects_are_left_alone(directory):
    if os.getuid() != 0:
        raise Skip("only root can make a file of another user")
    group = dead_group()
    for suffix in ("ring", "ledger"):
        os.chown(path(group, suffix), 12345, 12345)
    expect(tsrun("stats", "--group", group), 125, "it belongs to somebody else")
    expect(tsrun("gc", "--group", group), 0)
    assert exists(group, "ring") and exists(group, "ledger")
    for suffix in ("ring", "ledger"):
        os.unlink(path(group, suffix))


PEERS = struct.pack("<QI", 0x7372656570746d31, 99)  # leader/mail/mail.h, of another version


def test_what_is_told_of_other_nodes_by_another_version(directory):
    group = new_group()
    member = Member(group)
    write_object(group, "peers", PEERS.ljust(4096, b"\xff"))
    result = tsrun("stats", "--json", "--group", group)
    expect(result, 125, "cannot read what is told of other nodes of group '%s': it was made by "
           "another version of tsshim" % group)
    data = json.loads(result.stdout)
    assert data["nodes"] is None and data["datasets"], "the rest is worth printing"
    for text in (b"", b"short", b"\0" * 4096, b"\xff" * 82176):
        write_object(group, "peers", text)
        expect(tsrun("stats", "--group", group), 125, "of other nodes of group '%s': it is damaged" % group)
    member.end()
    tsrun("gc", "--group", group)
    assert not exists(group, "peers") and not exists(group, "ledger")


def test_requests_to_other_nodes_go_with_their_group(directory):
    group = new_group()
    member = Member(group)
    write_object(group, "peers", PEERS)
    kept = tsrun("gc", "-n", "--group", group).stdout
    assert "would keep %s" % path(group, "peers") in kept, kept
    assert tsrun("gc", "--group", group).stdout == "nothing to remove\n" and exists(group, "peers")
    leave_to_gc(group)
    member.kill()
    dry = tsrun("gc", "-n", "--group", group).stdout
    assert "would remove %s" % path(group, "peers") in dry and exists(group, "peers"), dry
    said = tsrun("gc", "--group", group).stdout
    assert "removed %s" % path(group, "peers") in said, said
    assert not any(exists(group, suffix) for suffix in ("peers", "ring", "ledger"))


def write_object(group, suffix, data):
    support.write(path(group, suffix), data)
    os.chmod(path(group, suffix), 0o600)


def test_private_files_of_dead_makers(directory):
    group = new_group()
    child = subprocess.Popen(["true"])
    child.wait()
    for pid in (child.pid, os.getpid()):
        with open(path(group, "new.%d" % pid), "wb") as f:
            f.truncate(4096)
    expect(tsrun("gc"), 0)
    assert not exists(group, "new.%d" % child.pid) and exists(group, "new.%d" % os.getpid())
    os.unlink(path(group, "new.%d" % os.getpid()))


def test_names_that_only_look_alike_are_left_alone(directory):
    names = [path("x", "rings"), path("x", "new."), path("x", "new.1x"),
             path("x", "ring", "1-2x"), path("x", "ring", "12"), path("x", "ring", "-1"),
             path("x", "new.1", "1-"), "/dev/shm/tsshim.%d.ring" % os.geteuid(),
             "/dev/shm/tsshim.%d.x.ring" % os.geteuid(), "/dev/shm/tsshim.%d0.x.ring" % os.geteuid()]
    names = [n + str(os.getpid()) if n.endswith("new.1x") else n for n in names]
    names = [n for n in names if not os.path.exists(n)]
    for name in names:
        open(name, "x").close()
    try:
        expect(tsrun("gc"), 0)
        assert all(map(os.path.exists, names))
    finally:
        for name in names:
            os.unlink(name)


def test_nothing_is_left_behind(directory):
    assert glob.glob(path("clitest-%d-*" % os.getpid(), "*")) == []
