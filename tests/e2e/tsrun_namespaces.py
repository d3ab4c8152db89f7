# SPDX-License-Identifier: MIT
"""Groups of one name in several namespaces and boots: side by side, shown, and collected."""

import fcntl
import glob
import json
import os
import subprocess
import time

import support
from support import own_scope
from tsrun_common import (BUILD, MEMBER, TSRUN, Member, Skip, clean_environment, expect, gc, new_group,
                          stats, tsrun)

HOURS_AGO = 3 * 3600
PIDS = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
USER = ["unshare", "--user", "--map-current-user"]


def everywhere(group, suffix="*"):
    """Objects of @group in all namespaces."""
    return sorted(glob.glob("/dev/shm/tsshim.%d.*-*.%s.%s" % (os.geteuid(), group, suffix)))


def own(group, suffix):
    return "/dev/shm/tsshim.%d.%s.%s.%s" % (os.geteuid(), own_scope(), group, suffix)


def elsewhere(group, suffix="*"):
    """Objects of @group in other namespaces than ours."""
    return [path for path in everywhere(group, suffix) if ".%s." % own_scope() not in path]


def age(paths):
    """As if nobody had touched them for hours."""
    for path in paths:
        then = time.time() - HOURS_AGO
        os.utime(path, (then, then))


def needs(*prefix):
    if os.geteuid() != 0 or subprocess.run([*prefix, "true"]).returncode != 0:
        raise Skip("needs root and namespaces")


def other_boot(directory):
    """A prefix that shows its command another boot id; nothing else is different."""
    needs("unshare", "--mount")
    path = os.path.join(directory, "boot_id")
    support.write(path, "01234567-89ab-cdef-0123-456789abcdef\n")
    return ["unshare", "--mount", "sh", "-c",
            "mount --bind %s /proc/sys/kernel/random/boot_id && exec \"$@\"" % path, "sh"]


def crash(group, prefix):
    """What a container that is killed leaves behind."""
    Member(group, prefix=prefix).kill()
    found = elsewhere(group)
    assert len(found) == 2, found
    return found


def test_containers_have_stores_of_their_own(directory):
    needs(*PIDS)
    group = new_group()
    inside = Member(group, prefix=PIDS)
    try:
        text = tsrun("stats", "--group", group).stdout
        assert "no job has shared anything yet" in text, text
        assert "1 other container or namespace has a group of this name" in text, text
        assert stats(group)["elsewhere"] == 1 and stats(group)["jobs"] == []
        outside, second = Member(group), Member(group, prefix=PIDS)
        data, text = stats(group), tsrun("stats", "--group", group).stdout
        assert data["elsewhere"] == 2 and len(data["jobs"]) == 1, data
        assert "2 other containers or namespaces have a group of this name" in text, text
        assert len(everywhere(group, "ring")) == len(everywhere(group, "ledger")) == 3
        outside.end()
        second.end()
    finally:
        inside.end()
    # The last one out took the ring along, in each of them.
    assert everywhere(group, "ring") == [] and len(everywhere(group, "ledger")) == 3
    age(everywhere(group))
    said = gc(group)
    assert said.count("removed ") == 3 and everywhere(group) == [], (said, everywhere(group))


def test_processes_of_one_container_share(directory):
    """Whatever lies beside their store, or was there before."""
    needs(*PIDS)
    group = new_group()
    outside, first = Member(group), Member(group, prefix=PIDS)
    pid = first.process.pid
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        enter = ["nsenter", "--target", file.read().split()[0], "--pid", "--mount"]
    second = Member(group, prefix=enter)
    done = subprocess.run([*enter, TSRUN, "stats", "--json", "--group", group],
                          env=clean_environment(), stdout=subprocess.PIPE, timeout=60)
    data = json.loads(done.stdout)
    second.end()
    first.end()
    outside.end()
    assert len(data["jobs"]) == 2 and all(job["alive"] for job in data["jobs"]), data
    assert data["datasets"][0]["members"] == 2 and data["elsewhere"] == 1, data
    age(everywhere(group))
    gc(group)
    assert everywhere(group) == []


def test_a_crashed_container_is_in_nobodys_way(directory):
    needs(*PIDS)
    group = new_group()
    crash(group, PIDS)
    member = Member(group)
    assert len(stats(group)["jobs"]) == 1
    member.end()
    age(elsewhere(group))
    gc(group)
    assert everywhere(group) == []


def test_gc_leaves_what_another_namespace_may_use(directory):
    """In use: a lock says so. Without one a job may start workers again, for an hour."""
    needs(*PIDS)
    group = new_group()
    member = Member(group, prefix=PIDS)
    objects = elsewhere(group)
    age(objects)
    told = gc(group, "-n")
    assert told.count("a process of another namespace holds a lock on it") == 2, told
    assert gc(group) == "nothing to remove\n" and elsewhere(group) == objects
    member.kill()
    os.utime(objects[0])  # the ledger: as if somebody had joined just now
    told = gc(group, "-n")
    assert told.count("a job of another PID namespace may be alive") == 2, told
    assert gc(group) == "nothing to remove\n" and elsewhere(group) == objects
    age(objects)
    assert gc(group, "-n").count("would remove") == 2 and elsewhere(group) == objects
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_joining_makes_a_group_young(directory):
    needs(*PIDS)
    group = new_group()
    script = ("%s %s photos </dev/null && touch -d '3 hours ago' /dev/shm/*.%s.ledger && "
              "exec %s %s photos" % (MEMBER, group, group, MEMBER, group))
    inside = subprocess.Popen([*PIDS, "sh", "-c", script], env=clean_environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert inside.stdout.readline() == inside.stdout.readline() == "ready\n"
    book, = elsewhere(group, "ledger")
    assert os.stat(book).st_mtime > time.time() - 600
    inside.kill()
    inside.wait(timeout=60)
    inside.communicate(timeout=60)
    age(elsewhere(group))
    gc(group)
    assert everywhere(group) == []


def test_a_user_namespace_alone_hides_nobody(directory):
    """The process ids are ours, so whose process has gone is dead at once."""
    needs(*USER)
    group = new_group()
    member = Member(group, prefix=USER)
    assert gc(group) == "nothing to remove\n" and len(elsewhere(group)) == 2
    member.kill()
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_root_of_a_user_namespace(directory):
    """Another user number in the name, but our file: rootless containers."""
    if os.geteuid() == 0:
        needs("setpriv", "--reuid", "61003", "--regid", "61003", "--clear-groups", "unshare",
              "--user", "--map-root-user")
        become = ["setpriv", "--reuid", "61003", "--regid", "61003", "--clear-groups"]
    else:
        raise Skip("needs root, for another user")
    os.chmod(directory, 0o755)
    group = new_group()
    copies = {name: os.path.join(directory, os.path.basename(name)) for name in (
        MEMBER, TSRUN)}
    for name, copy in copies.items():
        subprocess.run(["cp", name, copy], check=True)
        os.chmod(copy, 0o755)
    inside = subprocess.Popen(
        [*become, "unshare", "--user", "--map-root-user", copies[MEMBER], group, "photos"],
        env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert inside.stdout.readline() == "ready\n"
        names = glob.glob("/dev/shm/tsshim.0.*.%s.*" % group)
        assert len(names) == 2 and os.stat(names[0]).st_uid == 61003, names
        assert gc(group) == "nothing to remove\n", "not root's, whatever it is called"
    finally:
        inside.kill()
        inside.communicate(timeout=60)
    assert gc(group) == "nothing to remove\n" and len(everywhere(group)) == 2
    done = subprocess.run([*become, copies[TSRUN], "gc", "--group", group], env={},
                          stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout.count("removed ") == 2, done.stdout
    assert everywhere(group) == []


def test_what_a_container_left_half_made(directory):
    needs(*PIDS)
    group = new_group()
    paths = ["/dev/shm/tsshim.%d.%s.%s.new.%d" % (os.geteuid(), scope, group, os.getpid())
             for scope in ("1-2", "1-" + own_scope().split("-")[1])]
    for path in paths:
        with open(path, "wb") as file:
            file.truncate(4096)
    assert "its maker is of another PID namespace" in gc(group, "-n")
    assert gc(group) == "nothing to remove\n"
    age(paths)
    gc(group)
    # With our process ids the maker is this process, however long it takes.
    assert everywhere(group) == paths[1:]
    os.unlink(paths[1])


def test_another_boot_is_dead(directory):
    """Where its objects have survived: own names as well as others."""
    boot = other_boot(directory)
    group = new_group()
    Member(group, prefix=boot).kill()
    expect(tsrun("stats", "--group", group), 125, "it is of another boot")
    assert gc(group).count("removed ") == 2 and everywhere(group) == []
    crash(group, PIDS + boot)
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_a_new_job_is_not_kept_from_sharing_by_another_boot(directory):
    group = new_group()
    Member(group, prefix=other_boot(directory)).kill()
    done = subprocess.run([MEMBER, group, "photos"], env=clean_environment(), text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and "cannot attach" in done.stderr, done
    expect(tsrun("--group", group, "--", "true"), 0)
    assert everywhere(group) == []
    member = Member(group)
    assert len(stats(group)["jobs"]) == 1
    member.end()
    gc(group)


def test_another_boot_id_is_not_enough_where_a_lock_is_held(directory):
    """Some containers are shown a boot id of their own (systemd-nspawn)."""
    boot = other_boot(directory)
    for prefix in (boot, PIDS + boot):
        group = new_group()
        member = Member(group, prefix=prefix)
        assert gc(group) == "nothing to remove\n" and len(everywhere(group)) == 2
        expect(tsrun("--group", group, "--", "true"), 0)
        assert len(everywhere(group)) == 2
        member.kill()
        gc(group)
        assert everywhere(group) == []


def test_odd_things_under_names_of_other_namespaces(directory):
    group = new_group()
    start = "/dev/shm/tsshim.%d.11-12.%s." % (os.geteuid(), group)
    ring, ledger = start + "ring", start + "ledger"
    os.symlink("/etc/passwd", ledger)
    os.mkfifo(ring)
    assert gc(group) == "nothing to remove\n" and stats(group)["elsewhere"] == 1
    assert os.path.lexists(ledger) and os.path.exists(ring) and os.path.exists("/etc/passwd")
    os.unlink(ring)
    os.unlink(ledger)
    for size in (0, 7, 447, 65536):
        for path in (ring, ledger):
            support.write(path, b"\x5a" * size)
        assert gc(group) == "nothing to remove\n", "young, and nobody knows what it is"
        age((ring, ledger))
        with open(ring, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, 1 << 60)
            assert gc(group) == "nothing to remove\n"
        assert gc(group).count("removed ") == 2 and everywhere(group) == [], size


def test_other_users_names_are_not_looked_at(directory):
    if os.geteuid() != 0:
        raise Skip("only root can make a file of another user")
    group = new_group()
    path = "/dev/shm/tsshim.61003.11-12.%s.ledger" % group
    open(path, "w").close()
    os.chown(path, 61003, 61003)
    age([path])
    try:
        assert gc(group, "-n") == "nothing to remove\n" and stats(group)["elsewhere"] == 0
    finally:
        os.unlink(path)


def test_copies_of_files(directory):
    """In shared memory and in a directory: apart, and removed with their group."""
    needs(*PIDS)
    files, place = os.path.join(directory, "files"), os.path.join(directory, "place")
    os.mkdir(files)
    os.mkdir(place)
    support.write(os.path.join(files, "a"), "a" * 1000)
    for where in ("shm", place):
        group = new_group()
        settings = {"LD_PRELOAD": os.path.join(BUILD, "libtsshim-test.so"),
                    "TSSHIM_GROUP": group, "TSSHIM_STAGE": where,
                    "TSSHIM_DATASET": "x=" + files, "TSSHIM_TEST_YOUNG_INPUTS": "1"}
        command = ["env", *("%s=%s" % pair for pair in settings.items()),
                   "cat", os.path.join(files, "a")]

        def copies():
            return sorted(glob.glob("/dev/shm/tsshim.*.%s.f.*" % group) +
                          glob.glob(place + "/tsshim.*.%s/f.*" % group))

        readers = [subprocess.Popen([*prefix, *command, "-"], env=clean_environment(),
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for prefix in (PIDS, PIDS, [])]
        for reader in readers:
            assert reader.stdout.read(1000) == b"a" * 1000
        assert len(copies()) == 3, copies()
        # One leaves in order: the others' copies stay, and what it leaves is dead at once.
        assert readers[0].communicate(timeout=60) == (b"", None)
        assert len(copies()) == 2 and len(elsewhere(group, "ledger")) == 2
        assert gc(group).count("removed ") == 1 and len(copies()) == 2
        readers[2].communicate(timeout=60)
        readers[1].kill()
        readers[1].wait(timeout=60)
        readers[1].communicate(timeout=60)
        age(elsewhere(group))
        told = gc(group)
        assert "and 1 copies of files" in told, told
        assert copies() == [] == everywhere(group) and os.listdir(place) == []


def test_nothing_is_left_behind(directory):
    assert everywhere("clitest-%d-*" % os.getpid()) == []
