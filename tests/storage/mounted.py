# SPDX-License-Identifier: MIT
"""
slowfs for tests and benchmarks: mount a directory as storage far away, make it slow or
faulty, and read what reached it.

    with mounted.Mounted(source, latency_us=2000) as storage:
        run_jobs_on(storage.path)
        print(storage.counts()["bytes_read"])

The mount and its process end with the block, however it ends, and with this process,
however that ends: slowfs watches it.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

try:
    from support import Skip
except (ImportError, KeyError):

    class Skip(RuntimeError):
        """Nothing can be mounted here. Among tests this is the Skip that they know."""

        def __init__(self, feature, why):
            super().__init__("%s: %s" % (feature, why))
            self.feature = feature


READY = 60  # seconds: it takes milliseconds, but on a crowded machine
END = 60  # seconds for slowfs to go of its own accord


def program():
    """Path of slowfs. Raises Skip where it cannot work."""
    path = os.environ.get("TSSHIM_TEST_SLOWFS") or os.path.join(
        os.environ.get("TSSHIM_TEST_BUILD", ""), "tests", "storage", "slowfs", "slowfs")
    if not os.path.exists(path):
        raise Skip("fuse", "slowfs was not built (is libfuse3-dev installed?)")
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        raise Skip("fuse", "/dev/fuse cannot be used here: %s" % error)
    if os.geteuid() != 0 and not shutil.which("fusermount3"):
        raise Skip("fuse", "not root, and fusermount3 is not installed")
    return path


def is_mounted(path):
    """Whether something is mounted at @path; also when it does not answer any more."""
    wanted = os.path.realpath(os.path.dirname(path)) + "/" + os.path.basename(path)
    with open("/proc/self/mountinfo", "rb") as lines:
        return any(line.split()[4].decode("unicode_escape") == wanted for line in lines)


def unmount(path):
    """Take it away now, even if it is in use."""
    command = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
    subprocess.run([*command, path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=False, timeout=END)


class Mounted:
    """
    A directory mounted through slowfs, for a `with` block.

    @source: what to mount; None makes an empty directory that ends with the block.
    @settings: as in `slowfs --help`.
    .path is where programs find it, .source the directory behind it.
    """

    def __init__(self, source=None, **settings):
        self.given, self.start_settings = source, settings
        self.owner = os.getpid()
        self.process = self.base = None

    def __enter__(self):
        command = [program()]
        self.base = tempfile.mkdtemp(prefix="tsshim-slowfs-")
        self.path = os.path.join(self.base, "mnt")
        self.control = os.path.join(self.base, "control")
        self.source = self.given or os.path.join(self.base, "source")
        command += ["--control=" + self.control, "--parent=%d" % self.owner]
        command += ["--%s=%d" % item for item in self.start_settings.items()]
        try:
            os.mkdir(self.path)
            if not self.given:
                os.mkdir(self.source)
            self.process = subprocess.Popen(
                [*command, self.source, self.path], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, start_new_session=True, cwd="/")
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def _wait_until_ready(self):
        deadline = time.monotonic() + READY
        while True:
            assert self.process.poll() is None, "slowfs ended: %r" % self.process.args
            try:
                self.settings()
                return
            except OSError:
                assert time.monotonic() < deadline, "slowfs does not answer"
                time.sleep(0.005)

    def close(self):
        """Unmount and clean up; again does nothing. A child of a fork leaves it alone."""
        if self.base is None or os.getpid() != self.owner:
            return
        try:
            self._end_process()
        finally:
            if is_mounted(self.path):
                unmount(self.path)
            assert not is_mounted(self.path), "%s is still mounted" % self.path
            shutil.rmtree(self.base)
            self.base = None
        # Killed on purpose, or as it should; anything else is a mistake of its own.
        status = self.process.returncode if self.process else 0
        assert status in (0, -signal.SIGKILL), "slowfs ended with %d" % status

    def _end_process(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(END)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def ask(self, line):
        """One question to the control socket. OSError while slowfs is not there."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(READY)
            peer.connect(os.path.join(self.control, "socket"))
            peer.sendall(line.encode() + b"\n")
            parts = []
            while True:
                parts.append(peer.recv(1 << 16))
                if not parts[-1]:
                    break
        # Paths are bytes, here and in os.fsdecode().
        answer = json.loads(b"".join(parts).decode("utf-8", "surrogateescape"))
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def set(self, **settings):
        """Change settings, all or none. ValueError when one is not allowed."""
        self.ask("set " + " ".join("%s=%d" % item for item in settings.items()))

    def settings(self):
        """All settings as they are."""
        return self.ask("get")

    def latency(self, ms, kind=None):
        """What each request takes; or those of one @kind, lookup or read.  Without a kind, for all of
        them again."""
        if kind:
            self.set(**{"latency_%s_us" % kind: ms * 1000})
            return
        own = [name for name in self.settings() if name.startswith("latency_")]
        self.set(**{**dict.fromkeys(own, -1), "latency_us": ms * 1000})

    def bandwidth(self, bytes_per_second):
        """Of all reads and writes together; 0: no limit."""
        self.set(bandwidth=bytes_per_second)

    def stall(self):
        """From now on requests wait."""
        self.set(stall=1)

    def resume(self):
        """They go on."""
        self.set(stall=0)

    def hold(self, nth=1):
        """The next read waits, or the n-th from now on, and no other one."""
        self.set(hold_nth=nth, let_go=0)

    def let_go(self):
        """It goes on, and from now on nothing waits for its time."""
        self.set(let_go=1)

    def wait_for_waiting(self, count, timeout=READY):
        """Until @count requests wait at once, that is, a stall has caught them."""
        deadline = time.monotonic() + timeout
        while self.counts()["waiting"] < count:
            assert time.monotonic() < deadline, "%d requests wait" % self.counts()["waiting"]
            time.sleep(0.005)

    def fail(self, reads=False, opens=False, beyond=-1):
        """EIO for all reads, all opens, reads from an offset on; without arguments for none."""
        self.set(fail_reads=reads, fail_opens=opens, fail_beyond=beyond)

    def counts(self):
        """{"requests": {kind: n}, "opens", "reads", "bytes_read", "bytes_written", "waiting",
        "files": {path below the source: {"opens", "reads", "bytes_read", "bytes_written"}}}"""
        return self.ask("counts")

    def reset(self):
        """All counts to zero."""
        self.ask("reset")
