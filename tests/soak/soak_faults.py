# SPDX-License-Identifier: MIT
"""
What goes wrong during the soak (soak.py).  A fault is a function of class Faults: it does harm, and says what to
undo after some seconds, or raises Nothing where there is nothing to harm.
"""

import contextlib
import heapq
import os
import resource
import shutil
import signal
import subprocess
import time

from soak_runs import CHANGING, FAKETIME, IN_C, SLOTS, support

LASTING = (1.0, 6.0)  # seconds
# How often each kind is drawn; the names of those after which jobs may end are in HURT.
WEIGHTS = {
    "kill_job": 8, "kill_worker": 3, "terminate_job": 3, "stop_job": 6, "stop_worker": 6, "stop_group": 2, "stutter": 3,
    "kill_recorder": 3, "stop_recorder": 2, "kill_helper": 4, "stop_helper": 3, "kill_server": 2, "stop_server": 3,
    "cut_network": 3, "stall_storage": 3, "fill_shm": 2, "shrink_shm": 2, "no_inodes": 2, "memory": 3,
    "address_space": 2, "open_files": 2, "file_size": 3, "clock": 6, "change_files": 10, "upgrade": 3, "collect": 3,
    "lose_log": 2, "unlink_ring": 1}


class Nothing(Exception):
    """There is nothing to do this to."""


class Faults:
    """@runs is {slot: Run}, of jobs as they are now."""

    def __init__(self, place, runs):
        self.place, self.runs, self.random, self.site = place, runs, place.random, place.site
        self.undo, self.serial, self.counts, self.said = [], 0, {}, []
        self.short = {0: set(), 1: set()}  # by node: faults that last, after which jobs with workers may end

    def one(self):
        """Some fault; its name."""
        while True:
            name, = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            try:
                getattr(self, name)()
            except (Nothing, ProcessLookupError, FileNotFoundError):
                continue
            self.counts[name] = self.counts.get(name, 0) + 1
            return name

    def later(self, action, *words, least=LASTING[0], most=LASTING[1]):
        """Do that after some seconds."""
        self.serial += 1
        heapq.heappush(self.undo, (time.monotonic() + self.random.uniform(least, most), self.serial, action, words))

    def tick(self, everything=False):
        """What is to be undone by now."""
        while self.undo and (everything or self.undo[0][0] <= time.monotonic()):
            _, _, action, words = heapq.heappop(self.undo)
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                action(*words)

    # ---- whom ----

    def run(self, condition=lambda run: True):
        """A job that is at work."""
        found = [run for slot, run in sorted(self.runs.items()) if run.process.poll() is None and condition(run)]
        if not found:
            raise Nothing
        return self.random.choice(found)

    def mortal(self, condition=lambda run: True):
        return self.run(lambda run: run.kind != "elder" and condition(run))

    def worker(self, run):
        return self.random.choice(self.place.members(run.pid) or self.nobody())

    def nobody(self):
        raise Nothing

    def program(self, name):
        """The process of some node's program of that @name."""
        found = [process for number in range(2) for process in self.site.programs(number, name)]
        return self.random.choice(found or self.nobody())

    def stop(self, process, kill=os.kill):
        kill(process, signal.SIGSTOP)
        self.later(kill, process, signal.SIGCONT)

    # ---- jobs ----

    def kill_job(self):
        run = self.mortal()
        run.hurt.add("kill_job")
        run.signal(signal.SIGKILL, everybody=self.random.random() < .5)

    def kill_worker(self):
        run = self.mortal(lambda run: run.recipe.workers)
        worker = self.worker(run)
        run.hurt.add("kill_worker")
        os.kill(worker, signal.SIGKILL)

    def terminate_job(self):
        run = self.mortal()
        run.hurt.add("terminate_job")
        run.signal(self.random.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))

    def stop_job(self):
        self.stop(self.run().pid)

    def stop_worker(self):
        self.stop(self.worker(self.run(lambda run: run.recipe.workers)))

    def stop_group(self):
        self.stop(self.run().pid, os.killpg)

    def stutter(self):
        """Stopped ten times for a moment."""
        run = self.run()
        for turn in range(10):
            self.later(run.signal, signal.SIGSTOP, True, least=.3 * turn, most=.3 * turn)
            self.later(run.signal, signal.SIGCONT, True, least=.3 * turn + .1, most=.3 * turn + .2)

    # ---- helpers and servers ----

    def kill_recorder(self):
        os.kill(self.program("tsshim-recorder"), signal.SIGKILL)

    def stop_recorder(self):
        self.stop(self.program("tsshim-recorder"))

    def kill_helper(self):
        os.kill(self.program("tsshim-peer"), signal.SIGKILL)

    def stop_helper(self):
        self.stop(self.program("tsshim-peer"))

    def kill_server(self):
        os.kill(self.program("memcached"), signal.SIGKILL)
        self.later(self.servers_up, most=10)

    def servers_up(self):
        """An administrator starts again what has ended; while a node is cut off, or a server stopped, that may fail."""
        env = support.plain_environment()
        env.pop("XDG_RUNTIME_DIR", None)
        for number in range(2):
            if not self.site.programs(number, "memcached"):
                self.site.nodes.run(number, self.site.words_up(), env)

    def stop_server(self):
        self.stop(self.program("memcached"))

    def cut_network(self):
        self.site.nodes.cut(1)
        self.later(self.site.nodes.mend, 1)

    def stall_storage(self):
        storage = self.random.choice(self.site.storages)
        storage.set(stall=1)
        self.later(lambda: storage.set(stall=0))

    # ---- memory ----

    def scarce(self, name):
        """Some node, on which workers of PyTorch may fail, and libfaketime as it starts, until mended()."""
        number = self.random.randrange(2)
        if self.short[number]:
            raise Nothing
        self.short[number].add(name)
        for run in self.runs.values():
            if run.node == number and (run.recipe.workers or run.is_young()):
                run.hurt.add(name)
        return number

    def mended(self, number):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.place.shm(number) + "/soak-fill")
        self.place.resize(number)
        self.short[number].clear()

    def fill_shm(self):
        """ENOSPC."""
        number = self.scarce("fill_shm")
        room = os.statvfs(self.place.shm(number))
        with open(self.place.shm(number) + "/soak-fill", "wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail) * room.f_frsize)
        self.later(self.mended, number)

    def shrink_shm(self):
        """A quota that leaves some pages."""
        number = self.scarce("shrink_shm")
        room = os.statvfs(self.place.shm(number))
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        with contextlib.suppress(subprocess.CalledProcessError):  # more is used by now
            self.place.resize(number, "%d" % (used + self.random.choice((1, 16, 512)) * 4096))
        self.later(self.mended, number)

    def no_inodes(self):
        """No further name."""
        number = self.scarce("no_inodes")
        room = os.statvfs(self.place.shm(number))
        with contextlib.suppress(subprocess.CalledProcessError):
            self.place.resize(number, inodes=room.f_files - room.f_ffree + 1)
        self.later(self.mended, number)

    def memory(self):
        """The job's control group lets it have hardly more than it has."""
        run = self.mortal(lambda run: "memory" not in run.hurt)
        path = "/sys/fs/cgroup/memory/%s-%d" % (self.place.name, run.pid)
        if not os.path.isdir("/sys/fs/cgroup/memory"):
            raise Nothing
        run.hurt.add("memory")
        os.mkdir(path)
        for process in [run.pid, *self.place.members(run.pid)]:
            with contextlib.suppress(OSError):  # it has ended
                support.write(path + "/cgroup.procs", str(process))
        support.write(path + "/memory.limit_in_bytes", str(self.random.choice((1, 4, 16)) << 20))
        self.later(self.free, path, most=10)

    def free(self, path):
        """The processes go back, and with the group its limit."""
        for process in support.read(path + "/cgroup.procs").split():
            with contextlib.suppress(OSError):
                support.write("/sys/fs/cgroup/memory/cgroup.procs", process)
        with contextlib.suppress(OSError):
            os.rmdir(path)
            return
        if os.path.exists(path):
            self.later(self.free, path)

    def limited(self, name, kind, value, harmless=lambda run: False):
        """A job is told a lower limit, for a while."""
        run = self.mortal()
        soft, hard = resource.prlimit(run.pid, kind)
        if not harmless(run):
            run.hurt.add(name)
        resource.prlimit(run.pid, kind, (value(run), hard))
        self.later(resource.prlimit, run.pid, kind, (soft, hard))

    def address_space(self):
        def most(run):
            pages = int(support.read("/proc/%d/statm" % run.pid).split()[0])
            return pages * 4096 + (self.random.choice((1, 8, 64)) << 20)
        self.limited("address_space", resource.RLIMIT_AS, most)

    def open_files(self):
        """Programs in C that have a few numbers left do as ever."""
        def most(run):
            return max(map(int, os.listdir("/proc/%d/fd" % run.pid))) % 500 + 4
        self.limited("open_files", resource.RLIMIT_NOFILE, most, harmless=lambda run: run.kind in IN_C)

    def file_size(self):
        """Nothing may be larger than some bytes.  A program that only reads does as ever."""
        self.limited("file_size", resource.RLIMIT_FSIZE, lambda run: self.random.choice((0, 4096, 1 << 20)),
                     harmless=lambda run: not run.recipe.workers)

    # ---- what jobs read ----

    def clock(self):
        """The clock of some jobs goes back or ahead, by seconds or days."""
        if not os.path.exists(FAKETIME) or not any(fake for *_, fake in SLOTS):
            raise Nothing
        offset = self.random.choice((-1, 1)) * self.random.choice((1, 3, 60, 3600, 86400, 30 * 86400))
        support.write(self.place.clock + ".new", "%+d\n" % offset)
        os.rename(self.place.clock + ".new", self.place.clock)

    def change_files(self):
        history = self.place.history
        for name in self.random.sample(history.names, self.random.randint(1, CHANGING // 4)):
            history.change(name)

    def upgrade(self):
        """As a package manager does it: each file of the library is replaced by another one."""
        for top, _, names in os.walk(self.place.install):
            for name in names:
                path = os.path.join(top, name)
                if name.endswith(".new") or os.path.islink(path):
                    continue
                shutil.copy2(path, path + ".new")
                if name == "libtsshim.so":  # and another one it is: with or without names for debuggers
                    source = support.LIBRARY
                    shutil.copy2(source, path + ".new")
                    if self.random.random() < .5:
                        subprocess.run(["strip", path + ".new"], check=True)
                os.rename(path + ".new", path)

    def collect(self):
        """Somebody runs `tsrun gc`."""
        number = self.random.randrange(2)
        done = self.site.nodes.run(number, [self.place.tsrun, "gc"])
        if done.status != 0:
            self.said.append("gc ends with %d: %s" % (done.status, done.errors))

    def lose_log(self):
        """The event log of a group is gone, or emptied."""
        folder = self.place.path("state/tsshim")
        path = os.path.join(folder, self.random.choice(os.listdir(folder) or self.nobody()))
        if self.random.random() < .5:
            os.unlink(path)
        else:
            os.truncate(path, 0)

    def unlink_ring(self):
        number = self.random.randrange(2)
        rings = [name for name in os.listdir(self.place.shm(number)) if name.endswith(".ring")]
        os.unlink(os.path.join(self.place.shm(number), self.random.choice(rings or self.nobody())))
