# SPDX-License-Identifier: MIT
"""Start jobs, listen to them, and leave nothing behind whatever happens."""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time


class JobError(Exception):
    """A job or a tool did not do what it was started for."""


class Unavailable(JobError):
    """Something that a measurement needs, and that is not installed by itself, is not here."""


def _children(pid):
    """The processes that any thread of @pid started; proc(5) task/TID/children.

    A thread may end while they are read.  What it started is another thread's then, perhaps of
    one that was asked before: all are asked again.
    """
    for _ in range(1000):
        try:
            found = []
            for path in glob.glob(f"/proc/{pid}/task/*/children"):
                with open(path, encoding="ascii") as file:
                    found += [int(word) for word in file.read().split()]
            return found
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise JobError(f"the threads of process {pid} end faster than they can be asked")


def cpu_clock(pid):
    """CPU seconds of the process @pid: its clock as clock_getcpuclockid(3) makes it."""
    return time.clock_gettime(~pid << 3 | 2)


def _read_bytes(pid):
    """The counter rchar of proc(5); memory mapped files do not count."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


class Job:
    """One started command: its lines of output, and at the end its CPU time."""

    def __init__(self, command, environment=None, on_line=None):
        self.command = command
        self.lines = []
        self.errors = tempfile.TemporaryFile()
        self._on_line = on_line
        self._changed = threading.Condition()
        self._ended = False
        self._taken = 0
        self.usage = None
        self.status = None
        # A session of its own: Ctrl-C reaches us alone, and we end the whole group.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=environment,
                                        start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if self._on_line:
                self._on_line(self, line)
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def say(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise JobError(self.complaint()) from None

    def line(self, index, timeout=900):
        """Line number @index of the output, waiting for it."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.lines) > index or self._ended, timeout)
            if len(self.lines) <= index:
                raise JobError(self.complaint())
            return self.lines[index]

    def answer(self, word, timeout=900):
        """The next line, after those taken so, that begins with @word."""
        while True:
            line = self.line(self._taken, timeout)
            self._taken += 1
            if line.startswith(word):
                return line

    def ask(self, text):
        """Send a line, return the line that answers it as JSON."""
        expected = len(self.lines)
        self.say(text)
        return json.loads(self.line(expected))

    def pids(self):
        """The command's process and those that it started and still runs."""
        found = [self.process.pid]
        for pid in found:
            found += _children(pid)
        return found

    def cpu(self):
        """CPU seconds until now of the command and of what it started and still runs."""
        return sum(cpu_clock(pid) for pid in self.pids())

    def read_bytes(self):
        """Bytes that the same processes have read(2) until now, from the page cache or not."""
        return sum(_read_bytes(pid) for pid in self.pids())

    def _state(self):
        """How the command ended, in words.  It may have closed its output and not ended yet."""
        try:
            status = self.process.wait(1)
        except subprocess.TimeoutExpired:
            return "it still runs, and has not said what it should"
        if status >= 0:
            return f"exit status {status}"
        name = signal.Signals(-status).name
        return f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")

    def complaint(self):
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip().splitlines()[-12:]
        return "\n".join([f"a job failed: {' '.join(self.command)}", self._state(), *text])

    def wait(self):
        """Wait for the end. Its CPU seconds, with all descendants it waited for."""
        if self.usage is None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
            _, status, self.usage = os.wait4(self.process.pid, 0)
            self.process.returncode = self.status = os.waitstatus_to_exitcode(status)
            self._reader.join(10)
        if self.status != 0:
            raise JobError(self.complaint())
        return self.usage.ru_utime + self.usage.ru_stime

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if self.usage is None and self.process.returncode is None:
            try:
                _, _, self.usage = os.wait4(self.process.pid, 0)
            except ChildProcessError:
                pass


class Workplace:
    """Temporary directory, group name and jobs of one measurement; a context manager.

    Its jobs have a ring of the size .ring, or as large as it is by default where that is None.

    Leaving it, also through Ctrl-C or SIGTERM, ends the jobs, removes the shared memory of
    the group and the directory.
    """

    _open = 0  # of several, which need not be left in order

    def __init__(self, tsrun, directory=None, ring="256M"):
        self.tsrun = tsrun
        self.ring = ring
        self.jobs = []
        self.groups = []
        self.directory = tempfile.mkdtemp(prefix="tsshim-bench-", dir=directory)

    def __enter__(self):
        Workplace._open += 1
        _handle_signals(_raise_interrupt)
        return self

    def __exit__(self, *error):
        _handle_signals(signal.SIG_IGN)
        for job in self.jobs:
            job.kill()
        for group in self.groups:
            self.forget(group)
        shutil.rmtree(self.directory, ignore_errors=True)
        Workplace._open -= 1
        _handle_signals(_raise_interrupt if Workplace._open else signal.SIG_DFL)

    def start(self, command, group=None, environment=None, on_line=None, options=()):
        """Start @command; under tsrun in @group unless that is None."""
        if group is not None:
            ring = ["--ring", self.ring] if self.ring else []
            command = [self.tsrun, "--group", group, *ring, *options, "--", *command]
        full = {name: value for name, value in os.environ.items()
                if not name.startswith("TSSHIM_")}
        full.update(environment or {})
        job = Job(command, full, on_line)
        self.jobs.append(job)
        return job

    def end(self, jobs):
        """Wait for @jobs; the list of their CPU seconds."""
        spent = [job.wait() for job in jobs]
        self.jobs = [job for job in self.jobs if job not in jobs]
        return spent

    def group(self, name):
        """A group name nobody else uses, removed at the end."""
        unique = f"bench-{os.getpid()}-{name}"
        if unique not in self.groups:
            self.groups.append(unique)
        return unique

    def forget(self, group):
        """Remove the shared memory of @group, for a few seconds at most.

        Loader workers that were just killed may still be dying, and nobody waits for them.
        """
        pattern = f"/dev/shm/tsshim.{os.getuid()}.*-*.{group}.*"
        end = time.monotonic() + 5
        while glob.glob(pattern) and os.path.exists(self.tsrun or ""):
            subprocess.run([self.tsrun, "gc", "--group", group], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=60, check=False)
            if not glob.glob(pattern) or time.monotonic() > end:
                break
            time.sleep(0.1)

    def stats(self, group):
        """What `tsrun stats --json` says of @group."""
        done = subprocess.run([self.tsrun, "stats", "--json", "--group", group],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise JobError(f"tsrun stats failed: {done.stderr.strip()}")
        return json.loads(done.stdout)


def _handle_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _raise_interrupt(signum, frame):
    raise KeyboardInterrupt


def pixels(stats):
    """Sums of the kind `pixels` over the datasets of `tsrun stats --json`."""
    total = {"produced": 0, "shared": 0, "shared_bytes": 0, "saved_seconds": 0.0}
    for dataset in stats["datasets"]:
        for name in total:
            total[name] += dataset["pixels"][name]
    return total
