# SPDX-License-Identifier: MIT
"""
Groups of one name in several namespaces and boots: side by side, shown, and collected; and gc that waits in the
middle.  Every `tsrun gc` meanwhile would have something to say of what is here.
"""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import time

import support
from support import own_scope
from tsrun_common import (ATTACH, MEMBER, NOTHING, PIDS, TSRUN, Member, Skip, age, clean_environment, everywhere, expect,
                          gc, locked, mounted, needs, path, stats, there, tsrun)
from tsrun_common import own_group  # noqa: F401 -- the fixture "group"

USER = ["unshare", "--user", "--map-current-user"]


def elsewhere(group, suffix="*"):
    """Objects of @group in other namespaces than ours."""
    return [path for path in everywhere(group, suffix) if ".%s." % own_scope() not in path]


def other_boot(directory):
    """A prefix that shows its command another boot id; nothing else is different."""
    boot = os.path.join(directory, "boot_id")
    support.write(boot, "01234567-89ab-cdef-0123-456789abcdef\n")
    return mounted("mount --bind %s /proc/sys/kernel/random/boot_id" % boot)


def crash(group, prefix):
    """What a container that is killed leaves behind."""
    Member(group, prefix=prefix).kill()
    found = elsewhere(group)
    assert len(found) == 2, found
    return found


def test_containers_have_stores_of_their_own(group):
    needs(*PIDS)
    inside = Member(group, prefix=PIDS)
    text = tsrun("stats", "--group", group).stdout
    assert "no job has shared anything yet" in text, text
    assert "1 other container or namespace has a group of this name" in text, text
    assert stats(group)["elsewhere"] == 1 and stats(group)["jobs"] == []
    outside, second = Member(group), Member(group, prefix=PIDS)
    data, text = stats(group), tsrun("stats", "--group", group).stdout
    assert data["elsewhere"] == 2 and len(data["jobs"]) == 1, data
    assert "2 other containers or namespaces have a group of this name" in text, text
    assert len(everywhere(group, "ring")) == len(everywhere(group, "ledger")) == 3
    for member in (outside, second, inside):
        member.end()
    # The last one out took the ring along, in each of them.
    assert everywhere(group, "ring") == [] and len(everywhere(group, "ledger")) == 3
    age(everywhere(group))
    assert gc(group).count("removed ") == 3 and everywhere(group) == []


def test_processes_of_one_container_share(group):
    """Whatever lies beside their store, or was there before."""
    needs(*PIDS)
    Member(group)
    pid = Member(group, prefix=PIDS).pid
    inner, *_ = support.read("/proc/%d/task/%d/children" % (pid, pid)).split()
    enter = ["nsenter", "--target", inner, "--pid", "--mount"]
    second = Member(group, prefix=enter)
    data = json.loads(expect(tsrun("stats", "--json", "--group", group, prefix=enter), 0))
    second.end()
    assert len(data["jobs"]) == 2 and all(job["alive"] for job in data["jobs"]), data
    assert data["datasets"][0]["members"] == 2 and data["elsewhere"] == 1, data


def test_a_crashed_container_is_in_nobodys_way(group):
    needs(*PIDS)
    crash(group, PIDS)
    Member(group)
    assert len(stats(group)["jobs"]) == 1


def test_gc_leaves_what_another_namespace_may_use(group):
    """In use: a lock says so. Without one a job may start workers again, for an hour."""
    needs(*PIDS)
    member = Member(group, prefix=PIDS)
    objects = elsewhere(group)
    age(objects)
    assert gc(group, "-n").count("a process of another namespace holds a lock on it") == 2
    assert gc(group) == NOTHING and elsewhere(group) == objects
    member.kill()
    os.utime(objects[0])  # the ledger: as if somebody had joined just now
    assert gc(group, "-n").count("a job of another PID namespace may be alive") == 2
    assert gc(group) == NOTHING and elsewhere(group) == objects
    age(objects)
    assert gc(group, "-n").count("would remove") == 2 and elsewhere(group) == objects
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_joining_makes_a_group_young(group):
    needs(*PIDS)
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


def test_a_user_namespace_alone_hides_nobody(group):
    """The process ids are ours, so whose process has gone is dead at once."""
    needs(*USER)
    member = Member(group, prefix=USER)
    assert gc(group) == NOTHING and len(elsewhere(group)) == 2
    member.kill()
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_root_of_a_user_namespace(group, directory):
    """Another user number in the name, but our file: rootless containers."""
    become = ["setpriv", "--reuid", "61003", "--regid", "61003", "--clear-groups"]
    needs(*become, "unshare", "--user", "--map-root-user")
    os.chmod(directory, 0o755)
    member, program = (shutil.copy(name, directory) for name in (MEMBER, TSRUN))
    for copy in (member, program):
        os.chmod(copy, 0o755)
    inside = subprocess.Popen([*become, "unshare", "--user", "--map-root-user", member, group, "photos"],
                              env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert inside.stdout.readline() == "ready\n"
        names = glob.glob("/dev/shm/tsshim.0.*.%s.*" % group)
        assert len(names) == 2 and os.stat(names[0]).st_uid == 61003, names
        assert gc(group) == NOTHING, "not root's, whatever it is called"
    finally:
        inside.kill()
        inside.communicate(timeout=60)
    assert gc(group) == NOTHING and len(everywhere(group)) == 2
    done = subprocess.run([*become, program, "gc", "--group", group], env={}, stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout.count("removed ") == 2, done.stdout
    assert everywhere(group) == []


def test_what_a_container_left_half_made(group):
    needs(*PIDS)
    paths = [path(group, "new.%d" % os.getpid(), scope) for scope in ("1-2", "1-" + own_scope().split("-")[1])]
    for name in paths:
        support.write(name, bytes(4096))
    assert "its maker is of another PID namespace" in gc(group, "-n")
    assert gc(group) == NOTHING
    age(paths)
    gc(group)
    # With our process ids the maker is this process, however long it takes.
    assert everywhere(group) == paths[1:]
    os.unlink(paths[1])


def test_another_boot_is_dead(group, directory):
    """Where its objects have survived: own names as well as others."""
    boot = other_boot(directory)
    Member(group, prefix=boot).kill()
    expect(tsrun("stats", "--group", group), 125, "it is of another boot")
    assert gc(group).count("removed ") == 2 and everywhere(group) == []
    crash(group, PIDS + boot)
    assert gc(group).count("removed ") == 2 and everywhere(group) == []


def test_a_new_job_is_not_kept_from_sharing_by_another_boot(group, directory):
    Member(group, prefix=other_boot(directory)).kill()
    done = subprocess.run([MEMBER, group, "photos"], env=clean_environment(), text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and "cannot attach" in done.stderr, done
    expect(tsrun("--group", group, "--", "true"), 0)
    assert everywhere(group) == []
    Member(group)
    assert len(stats(group)["jobs"]) == 1


def test_another_boot_id_is_not_enough_where_a_lock_is_held(group, directory):
    """Some containers are shown a boot id of their own (systemd-nspawn)."""
    boot = other_boot(directory)
    for prefix in (boot, PIDS + boot):
        member = Member(group, prefix=prefix)
        assert gc(group) == NOTHING and len(everywhere(group)) == 2
        expect(tsrun("--group", group, "--", "true"), 0)
        assert len(everywhere(group)) == 2
        member.kill()
        gc(group)
        assert everywhere(group) == []


def test_odd_things_under_names_of_other_namespaces(group):
    ring, ledger = (path(group, suffix, "11-12") for suffix in ("ring", "ledger"))
    os.symlink("/etc/passwd", ledger)
    os.mkfifo(ring)
    assert gc(group) == NOTHING and stats(group)["elsewhere"] == 1
    assert os.path.lexists(ledger) and os.path.exists(ring) and os.path.exists("/etc/passwd")
    os.unlink(ring)
    os.unlink(ledger)
    for size in (0, 7, 447, 65536):
        for name in (ring, ledger):
            support.write(name, b"\x5a" * size)
        assert gc(group) == NOTHING, "young, and nobody knows what it is"
        age((ring, ledger))
        with locked(ring, 1, 1 << 60):
            assert gc(group) == NOTHING
        assert gc(group).count("removed ") == 2 and everywhere(group) == [], size


def test_other_users_names_are_not_looked_at(group):
    if os.geteuid() != 0:
        raise Skip("only root can make a file of another user")
    name = "/dev/shm/tsshim.61003.11-12.%s.ledger" % group
    open(name, "w").close()
    os.chown(name, 61003, 61003)
    age([name])
    try:
        assert gc(group, "-n") == NOTHING and stats(group)["elsewhere"] == 0
    finally:
        os.unlink(name)


def test_copies_of_files(group, directory):
    """In shared memory and in a directory: apart, and removed with their group."""
    needs(*PIDS)
    files, place = os.path.join(directory, "files"), os.path.join(directory, "place")
    os.mkdir(files)
    os.mkdir(place)
    support.write(os.path.join(files, "a"), "a" * 1000)

    def copies():
        return sorted(glob.glob("/dev/shm/tsshim.*.%s.f.*" % group) +
                      glob.glob(place + "/tsshim.*.%s/f.*" % group))

    for where in ("shm", place):
        settings = {"LD_PRELOAD": support.TEST_LIBRARY, "TSSHIM_GROUP": group, "TSSHIM_STAGE": where,
                    "TSSHIM_DATASET": "x=" + files, "TSSHIM_TEST_YOUNG_INPUTS": "1"}
        command = ["env", *("%s=%s" % pair for pair in settings.items()), "cat", os.path.join(files, "a"), "-"]
        readers = [subprocess.Popen([*prefix, *command], env=clean_environment(),
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
        assert "and 1 copies of files" in gc(group)
        assert copies() == [] == everywhere(group) and os.listdir(place) == []


# ---- beside jobs that leave ----

class Stuck:
    """A `tsrun gc` of @group that waits in the middle, where it has looked at ledger and ring: what it
    has to say of a directory in the journal's place nobody reads."""

    def __init__(self, group, *options):
        os.mkdir(path(group, "journal"))
        self.group = group
        self.end, other = os.pipe()
        os.set_blocking(other, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(other, b"x" * size)
        os.set_blocking(other, True)
        self.process = subprocess.Popen([TSRUN, "gc", *options, "--group", group], stderr=other,
                                        stdout=subprocess.DEVNULL, env=clean_environment())
        os.close(other)
        while not self.writes():
            assert self.process.poll() is None
            time.sleep(0.01)

    def writes(self):
        """proc(5): the number of the system call that it is in, and its first argument."""
        words = support.read("/proc/%d/syscall" % self.process.pid).split()
        return words[0] != "running" and int(words[1], 16) == 2

    def finish(self):
        with os.fdopen(self.end, "rb") as file:
            said = file.read().strip(b"x").decode()
        assert "cannot open '%s'" % path(self.group, "journal") in said, said
        assert self.process.wait(timeout=60) == 125
        os.rmdir(path(self.group, "journal"))


def test_what_a_job_had_to_leave_to_gc(group):
    """gc has seen that the job lives, and holds the lock until after it has given up and is gone."""
    member = Member(group)
    stuck = Stuck(group)
    member.end()
    assert "ring" in there(group), "gc holds the lock"
    stuck.finish()
    assert there(group) == []


def test_who_only_looks_holds_no_lock(group):
    member = Member(group)
    stuck = Stuck(group, "-n")
    member.end()
    assert "ring" not in there(group), "the last one out could remove it"
    stuck.finish()
    assert there(group) == ["ledger"]
    with locked(path(group, "ledger"), *ATTACH):
        assert "would keep %s: a process holds its lock" % path(group, "ledger") in gc(group, "-n")
    gc(group)
    assert there(group) == []
