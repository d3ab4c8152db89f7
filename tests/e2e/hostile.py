# SPDX-License-Identifier: MIT
"""Surroundings in which sharing is hard or impossible: programs must not notice."""

import glob
import os
import resource
import subprocess

import pytest

import support
import tables
from support import Group, run, same_pictures, victim


def command():
    """A job that would like to share."""
    return [victim("decode"), "--repeat", "2", *support.pictures("s_4")]


def says_why(group, reason, prefix, more):
    """A job in these surroundings tells its user why it could not share."""
    arguments = [*prefix, support.TSRUN, "--summary", "--group", group.name, "--ring", "256M",
               "--", *command()]
    outcome = run(arguments, **more)
    assert tables.reasons()[reason][0] in outcome.errors, (reason, outcome.errors)


def unharmed(group, what, prefix=(), env=None, reason=None, **more):
    """Three jobs at once in these surroundings say what one says without us; one that cannot share
    gives @reason for it."""
    reference = run(command())
    jobs = [support.start([*prefix, *command()], env or group.environment(), **more)
            for _ in range(3)]
    for job in jobs:
        outcome = support.finish(job)
        # One line of warning is allowed where shared memory cannot be used.
        outcome.errors = "\n".join(line for line in outcome.errors.splitlines()
                                   if not line.startswith("tsshim: "))
        same_pictures(reference, outcome, what)
    if reason:
        says_why(group, reason, prefix, more)


def need_namespaces(*options):
    if os.geteuid() != 0 or subprocess.run(["unshare", *options, "true"]).returncode != 0:
        raise support.Skip("unshare", "needs root and namespaces")


@pytest.mark.parametrize("what, script, reason", [
    ("64 MiB", "mount -t tmpfs -o size=64m none /dev/shm", None),
    ("one page", "mount -t tmpfs -o size=4k none /dev/shm", "no_space"),
    ("full", "mount -t tmpfs -o size=8m none /dev/shm && "
             "{ cat /dev/zero >/dev/shm/full 2>/dev/null || true; }", "no_space"),
    ("read-only", "mount -t tmpfs -o ro none /dev/shm", "no_store"),
    ("missing", "mount -t tmpfs none /dev && mknod /dev/null c 1 3", "no_store")])
def test_shm(what, script, reason, group):
    """A /dev/shm of their own, made by @script."""
    need_namespaces("-m")
    unharmed(group, what, ["unshare", "-m", "sh", "-c", script + ' && exec "$@"', "sh"], reason=reason)


def of_namespaces(group):
    """What processes of other namespaces left of this group; it is removed."""
    found = [path for path in glob.glob("/dev/shm/tsshim.*-*.%s.*" % group.name)
             if path not in group.leftovers("*")]
    for path in found:
        os.unlink(path)
    return found


def test_private_namespaces():
    """Everybody has a store of their own, beside one another's."""
    need_namespaces("-U", "-p", "-f", "--mount-proc")
    with Group() as group:
        group.keep()
        for options in (["-p", "-f"], ["-p", "-f", "--mount-proc"], ["-U", "--map-current-user"]):
            unharmed(group, " ".join(options), ["unshare", *options])
            found = of_namespaces(group)
            assert len(found) == 3 and all(path.endswith(".ledger") for path in found), found
        assert len(group.statistics()["jobs"]) == 1, "the keeper, and nobody else"


def test_a_store_of_another_namespace_under_our_name():
    """The kernel may use a number again; only what is in the store counts."""
    need_namespaces("-p", "-f")
    with Group() as group:
        unharmed(group, "once", ["unshare", "-p", "-f", "--mount-proc"])
        found = sorted(glob.glob("/dev/shm/tsshim.*-*.%s.ledger" % group.name))
        os.rename(found[0], "/dev/shm/" + support.shared_name(group.name, "ledger"))
        unharmed(group, "under our name", reason="store_scope")
        of_namespaces(group)


def file(data=b"\x5a" * 70000, mode=0o600, owner=None):
    """What makes a file as somebody might have left it."""
    def make(path):
        support.write(path, data)
        os.chmod(path, mode)
        if owner:
            os.chown(path, owner, owner)
    return make


@pytest.mark.parametrize("what, make, ring_reason, ledger_reason", [
    ("directory", os.mkdir, "store_foreign", "store_foreign"),
    ("fifo", os.mkfifo, "store_foreign", "store_foreign"),
    ("symlink", lambda path: os.symlink("/etc/passwd", path), "store_foreign", "store_foreign"),
    ("garbage", file(), None, "store_damaged"),
    ("empty file", file(b""), None, "store_damaged"),
    ("file of mode 0666", file(mode=0o666), None, "store_foreign"),
    ("foreign file", file(owner=12345), "store_foreign", "store_foreign")])
def test_squatter(what, make, ring_reason, ledger_reason):
    """Something else has the name of the ring (None: it is replaced), or of the ledger."""
    if what == "foreign file" and os.geteuid() != 0:
        raise support.Skip("root", "only root may give files away")
    for part, reason in (("ring", ring_reason), ("ledger", ledger_reason)):
        with Group() as group:
            path = "/dev/shm/" + support.shared_name(group.name, part)
            make(path)
            before = os.lstat(path)
            unharmed(group, "%s as %s" % (what, part), reason=reason)
            assert os.path.samestat(before, os.lstat(path)) or part == "ring", what


def test_older_abi():
    """A real ring and ledger whose header says that another version made them."""
    for part in ("ring", "ledger"):
        with Group() as group:
            group.keep()
            path = group.leftovers(part)[0]
            with open(path, "r+b") as file:
                file.seek(8)
                file.write(b"\x63\0\0\0")
            unharmed(group, "another ABI in the " + part, reason="store_abi")


def test_ring_unlinked_under_jobs():
    reference = run(command())
    with Group() as group:
        group.keep()
        jobs = [support.start(command(), group.environment()) for _ in range(2)]
        os.unlink(group.leftovers("ring")[0])
        jobs += [support.start(command(), group.environment()) for _ in range(2)]
        for job in jobs:
            same_pictures(reference, support.finish(job), "unlinked")


def test_address_space_limit(group):
    for mib in (64, 200, 1000):
        limit = mib << 20
        unharmed(group, "RLIMIT_AS %d MiB" % mib, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (limit, limit)))


def test_memory_cgroup(group):
    """A group of processes with 60 MiB: the ring must not get it killed."""
    version2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    parent = "/sys/fs/cgroup" if version2 else "/sys/fs/cgroup/memory"
    limit = "memory.max" if version2 else "memory.limit_in_bytes"
    path = os.path.join(parent, "tsshim-e2e-%d" % os.getpid())
    try:
        os.mkdir(path)
        support.write(os.path.join(path, limit), str(60 << 20))
    except OSError as problem:
        if os.path.exists(path):
            os.rmdir(path)
        raise support.Skip("cgroup", str(problem))
    try:
        unharmed(group, "cgroup", ["sh", "-c", 'echo $$ >%s/cgroup.procs && exec "$@"' % path, "sh"])
    finally:
        os.rmdir(path)


def test_test_library_says_the_same():
    """The library with kill points, which other tests use, is as exact as the real one."""
    with Group(support.TEST_LIBRARY) as group:
        unharmed(group, "test library")
