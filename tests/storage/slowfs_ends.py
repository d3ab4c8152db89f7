#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""However a test, a program or slowfs ends: no mount, no process and no waiting is left."""

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

from storage_common import HERE, raises, read_file, write_file, write_files

import mounted
from mounted import Mounted, is_mounted


def within(limit, condition, what):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def is_running(pid):
    """Whether the process is there and not only waits to be collected."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def start(program, *arguments):
    """Python text in a process of its own; what it prints can be read."""
    text = "import os, sys, time\nsys.path[:0] = %r\n" % sys.path + textwrap.dedent(program)
    return subprocess.Popen([sys.executable, "-c", text, *arguments], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=HERE)


KEEPS_MOUNT = """
    import mounted, subprocess
    with mounted.Mounted() as storage:
        user = subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=2,
                                cwd=storage.path if sys.argv[1] == "busy" else "/")
        print(storage.base, storage.process.pid, user.pid, flush=True)
        time.sleep(60)
"""


def test_mounts_end_with_the_test_that_made_them():
    mounted.program()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for busy in ("busy", "idle"):
            test = start(KEEPS_MOUNT, busy)
            base, pid, user = test.stdout.readline().split()
            assert is_mounted(base + "/mnt") and is_running(int(pid))
            test.send_signal(number)
            test.wait(60)
            within(60, lambda: not is_mounted(base + "/mnt"), (number, busy, "mounted"))
            within(60, lambda: not is_running(int(pid)), (number, busy, "running"))
            os.kill(int(user), signal.SIGKILL)
            test.communicate(timeout=60)
            assert not os.path.exists(base + "/control"), (number, busy)
            if number == signal.SIGINT:
                assert not os.path.exists(base)
            else:
                subprocess.run(["rm", "-r", base], check=True)


def test_a_failed_test_leaves_nothing():
    try:
        with Mounted() as storage:
            raise RuntimeError("a test fails")
    except RuntimeError:
        pass
    assert storage.process.returncode == 0, storage.process.returncode
    assert not is_mounted(storage.path) and storage.base is None


def test_a_mount_in_use_is_taken_away():
    with Mounted() as storage:
        write_file(storage.path + "/f", b"x" * 10)
        user = start("""
            file = open(sys.argv[1] + "/f", "rb", buffering=0)
            os.chdir(sys.argv[1])
            print("open", flush=True)
            sys.stdin.readline()
            try:
                os.pread(file.fileno(), 10, 0)
            except OSError as error:
                print(error.errno, flush=True)
            time.sleep(60)
        """, storage.path)
        assert user.stdout.readline() == "open\n"
    assert not is_mounted(storage.path) and not is_running(storage.process.pid)
    user.kill()
    user.communicate(timeout=60)


def test_a_stalled_mount_ends_and_wakes_who_waits():
    with Mounted() as storage:
        write_file(storage.source + "/f", b"x")
        storage.stall()
        user = start("""
            try:
                open(sys.argv[1] + "/f", "rb").read()
            except OSError as error:
                print(error.errno, flush=True)
        """, storage.path)
        storage.wait_for_waiting(1)
        storage.close()
        assert storage.process.returncode == 0, "it had to be killed"
    out, _ = user.communicate(timeout=60)
    assert int(out) == errno.EIO, out


def test_slowfs_killed_leaves_a_mount_that_is_removed():
    with Mounted() as storage:
        write_file(storage.source + "/f", b"x")
        storage.process.kill()
        storage.process.wait()
        raises(errno.ENOTCONN, read_file, storage.path + "/f")
        assert is_mounted(storage.path)
    assert not is_mounted(storage.path)


def test_unmounting_from_outside_ends_slowfs(storage):
    mounted.unmount(storage.path)
    assert storage.process.wait(60) == 0
    assert not os.path.exists(storage.control)


READS = """
    fds = [os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
           for name in sorted(os.listdir(sys.argv[1]))]
    print("open", flush=True)
    while True:
        for fd in fds:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.pread(fd, 1 << 20, 0)
"""


def test_killed_programs_die_and_disturb_nobody():
    with Mounted() as storage:
        files = write_files(storage.source, 3, 300000)
        for stalled in (False, True):
            users = [start(READS, storage.path) for _ in range(4)]
            for user in users:
                assert user.stdout.readline() == "open\n"
            if stalled:
                # Some wait here, others for pages that those have asked for.
                storage.stall()
                storage.wait_for_waiting(1)
            for user in users:
                user.kill()
            # Their files are open, so the end of each is a flush to storage that stalls.
            for user in users:
                user.communicate(timeout=60)
                assert user.returncode == -signal.SIGKILL
            storage.resume()
            assert read_file(storage.path + "/f0001") == files["f0001"]
            within(60, lambda: storage.counts()["waiting"] == 0, "requests still wait")
    assert storage.process.returncode == 0


def test_files_that_are_forgotten_cost_nothing():
    with Mounted(entry_timeout_ms=0) as storage:
        write_file(storage.source + "/stays", b"")
        for _ in range(100):
            os.stat(storage.path + "/stays")
        for name in write_files(storage.source, 500, 10):
            with open(os.path.join(storage.path, name), "rb"):
                os.unlink(os.path.join(storage.path, name))
        descriptors = "/proc/%d/fd" % storage.process.pid
        # The kernel tells of it when it finds the time.
        within(60, lambda: len(os.listdir(descriptors)) < 30, "descriptors stay open")


def test_other_signals_do_not_end_a_wait():
    with Mounted() as storage:
        write_file(storage.source + "/f", b"x")
        storage.stall()
        user = start("""
            import signal
            signal.signal(signal.SIGUSR1, lambda *_: None)
            print("ready", flush=True)
            fd = os.open(sys.argv[1] + "/f", os.O_RDONLY)
            print(os.read(fd, 5), flush=True)
        """, storage.path)
        assert user.stdout.readline() == "ready\n"
        storage.wait_for_waiting(1)
        before = storage.counts()["requests"]
        for _ in range(5):
            user.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        # Python would ask again.
        assert user.poll() is None and storage.counts()["requests"] == before
        storage.resume()
        assert user.communicate(timeout=60)[0] == "b'x'\n" and user.returncode == 0


def test_the_control_is_ours_alone(storage):
    assert stat.S_IMODE(os.stat(storage.control).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(storage.control + "/socket").st_mode) == 0o600
    assert os.listdir(storage.path) == []
    for mode in (0o755, 0o770):
        os.mkdir(storage.base + "/open")
        os.mkdir(storage.base + "/mnt2")
        os.chmod(storage.base + "/open", mode)
        done = subprocess.run([mounted.program(), "--control=" + storage.base + "/open",
                               storage.source, storage.base + "/mnt2"], timeout=60,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and "/open: Operation not permitted" in done.stderr, done
        assert not is_mounted(storage.base + "/mnt2")
        os.rmdir(storage.base + "/open")
        os.rmdir(storage.base + "/mnt2")


def test_wrong_usage():
    for arguments, status, text in (
            ((), 2, "usage:"), (("a",), 2, "usage:"), (("a", "b", "c"), 2, "slowfs: c"),
            (("--nonsense=1", "/", "/"), 2, "--nonsense=1: No such file"),
            (("--latency_us=x", "/", "/"), 2, "Invalid argument"),
            (("--threads=0", "/", "/"), 2, "out of range"),
            (("--parent=999999999", "/", "/"), 2, "--parent"),
            (("/no/such/source", "/"), 1, "/no/such/source: No such file"),
            (("/", "/no/such/place"), 1, "/no/such/place: No such file")):
        done = subprocess.run([mounted.program(), *arguments], stderr=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (status, ""), done
        assert text in done.stderr, done
    done = subprocess.run([mounted.program(), "--help"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "--latency_us=0" in done.stdout
