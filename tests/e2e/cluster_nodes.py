# SPDX-License-Identifier: MIT
"""
Jobs on several nodes (nodes.py) that read one slow storage, each node through a mount of its own
(tests/storage), with a real memcached on each node.  For tests and benchmarks.
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys

import mounted
import nodes
import support

PORT = 11500
AGE = 3600  # seconds: files that changed a moment ago are never staged

# What a job does: read each file as a whole in its order, once for each line on stdin.
JOB = r"""
import hashlib, json, os, random, sys, time
root, names, seed = sys.argv[1], open(sys.argv[2]).read().splitlines(), int(sys.argv[3])
print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    order = list(names)
    random.Random(seed * 1000 + number).shuffle(order)
    begin, cpu, total = time.monotonic(), time.process_time(), 0
    sums = {}
    for name in order:
        descriptor = os.open(os.path.join(root, name), os.O_RDONLY)
        data = b""
        while True:
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                break
            data += piece
        os.close(descriptor)
        total += len(data)
        sums[name] = hashlib.blake2b(data, digest_size=8).hexdigest()
    print(json.dumps({"bytes": total, "seconds": time.monotonic() - begin, "cpu": time.process_time() - cpu,
          "sum": hashlib.blake2b(json.dumps(sorted(sums.items())).encode()).hexdigest()[:16]}), flush=True)
"""


def files(folder, count, size, seed=0):
    """@count files of random bytes of about @size; their names."""
    draw = random.Random(seed)
    names = []
    for number in range(count):
        name = "%02d/file%05d" % (number % 20, number)
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        support.write(path, draw.randbytes(max(1, int(size * draw.uniform(0.8, 1.2)))))
        names.append(name)
    return names


class Storage:
    """The mount of one node; counts and settings as of mounted.Mounted."""

    def __init__(self, some, number, source, path, settings):
        self.control = os.path.join(some.folder, "control%d" % number)
        command = [mounted.program(), "--control=" + self.control, "--parent=%d" % os.getpid(),
                   *("--%s=%d" % item for item in settings.items()), source, path]
        self.process = subprocess.Popen(some.inside(number, *command), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)
        support.wait_until(self.is_ready, "the storage answers")

    ask = mounted.Mounted.ask
    counts = mounted.Mounted.counts
    set = mounted.Mounted.set
    reset = mounted.Mounted.reset

    def is_ready(self):
        assert self.process.poll() is None, "slowfs has ended"
        with contextlib.suppress(OSError):
            return self.ask("get")

    def close(self):
        self.process.kill()
        self.process.wait()


class Jobs:
    """Started jobs; each runs an epoch for each line that it is sent."""

    def __init__(self, processes):
        self.processes = processes
        for process in processes:
            assert process.stdout.readline() == "ready\n", process.communicate()

    def epoch(self):
        """What each says of it."""
        for process in self.processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        import json
        return [json.loads(process.stdout.readline() or "null") or self.fail(process)
                for process in self.processes]

    def fail(self, process):
        raise AssertionError("a job has ended: %s" % (process.communicate(),))

    def end(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            errors = process.stderr.read()
            assert process.wait() == 0 and errors == "", errors
            process.stdout.close()
            process.stderr.close()


class Site:
    """@count nodes, @names of files of a storage that all of them mount at .mount, and a cluster
    directory.  @delays: of nodes.Nodes; @settings: of the storage, as in `slowfs --help`."""

    def __init__(self, count, source, names, memory="256M", port=PORT, delays=False, **settings):
        if not shutil.which("memcached", path="/usr/bin:/usr/local/bin"):
            raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
        mounted.program()
        self.nodes = nodes.Nodes(count, delays)
        self.count, self.source, self.names, self.port = count, source, names, port
        self.memory, self.settings = memory, {"age_s": AGE, **settings}
        self.storages, self.groups = [], 0
        self.bytes = sum(os.path.getsize(os.path.join(source, name)) for name in names)
        self.library = support.LIBRARY

    def __enter__(self):
        self.nodes.__enter__()
        try:
            self.folder = self.nodes.folder
            self.mount = os.path.join(self.folder, "data")
            self.cluster = os.path.join(self.folder, "home", "cluster")
            self.listing = os.path.join(self.folder, "names")
            os.mkdir(self.mount)
            os.mkdir(os.path.dirname(self.cluster))
            support.write(self.listing, "\n".join(self.names) + "\n")
            self.nodes_list = os.path.join(self.folder, "list")
            support.write(self.nodes_list, "".join("%s:%d\n" % (address, self.port) for address in self.nodes.addresses))
            self.storages = [Storage(self.nodes, number, self.source, self.mount, self.settings)
                             for number in range(self.count)]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for storage in self.storages:
            storage.close()
        self.nodes.__exit__()

    def words_up(self, *words):
        return [support.TSRUN, "cluster", "up", "--dir", self.cluster, "--nodes", self.nodes_list,
                "--memory", self.memory, *words]

    def up(self, *words):
        """Start the servers of all nodes."""
        env = support.plain_environment()
        env.pop("XDG_RUNTIME_DIR", None)
        for one in self.nodes.run_all(self.words_up(*words), env):
            assert one.status == 0 and one.errors == "", one.errors

    def programs(self, number, name):
        """Process numbers of the programs called @name on that node, up to the 15 letters that are kept."""
        found = []
        for process in self.nodes.processes(number):
            with contextlib.suppress(OSError):
                if support.read("/proc/%d/comm" % process) == name[:15] + "\n":
                    found.append(process)
        return found

    def server(self, number):
        """The process of that node's server."""
        process, = self.programs(number, "memcached")
        return process

    def group(self):
        self.groups += 1
        return "e2e-%d-site%d" % (os.getpid(), self.groups)

    def environment(self, group, cluster=True, metadata=0, **more):
        env = support.plain_environment(LD_PRELOAD=self.library, TSSHIM_GROUP=group,
                                        TSSHIM_RING="64M", TSSHIM_STAGE="shm",
                                        TSSHIM_STAGE_METADATA=str(metadata),
                                        TSSHIM_DATASET="data=" + self.mount, **more)
        if cluster:
            env["TSSHIM_CLUSTER"] = self.cluster
        return env

    def start(self, each, group, where=None, seed=0, plain=False, **more):
        """@each jobs on each node of @where (all); each shuffles in its own way."""
        started = []
        for number in range(self.count) if where is None else where:
            env = support.plain_environment() if plain else self.environment(group, **more)
            for place in range(each):
                command = self.nodes.inside(number, sys.executable, "-c", JOB, self.mount, self.listing,
                                            str(seed + number * 100 + place))
                started.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE,
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                text=True))
        return Jobs(started)

    def fetched(self):
        """Bytes that the storage has been asked for through all mounts since the last reset()."""
        return sum(storage.counts()["bytes_read"] for storage in self.storages)

    def requests(self):
        found = {}
        for storage in self.storages:
            for kind, count in storage.counts()["requests"].items():
                found[kind] = found.get(kind, 0) + count
        return found

    def reset(self):
        for storage in self.storages:
            storage.reset()

    def stats(self, number, group):
        """`tsrun stats --json` of that node."""
        import json
        done = self.nodes.run(number, [support.TSRUN, "stats", "--json", "--group", group])
        assert done.status == 0, done.errors
        return json.loads(done.output)
