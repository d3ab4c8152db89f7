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

import mounted
import nodes
import support

PORT = 11500
AGE = 3600  # seconds: files that changed a moment ago are never staged


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

    def __enter__(self):
        self.nodes.__enter__()
        try:
            self.folder = self.nodes.folder
            self.mount = os.path.join(self.folder, "data")
            self.cluster = os.path.join(self.folder, "home", "cluster")
            os.mkdir(self.mount)
            os.mkdir(os.path.dirname(self.cluster))
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
        env = support.plain_environment(LD_PRELOAD=support.LIBRARY, TSSHIM_GROUP=group,
                                        TSSHIM_RING="64M", TSSHIM_STAGE="shm",
                                        TSSHIM_STAGE_METADATA=str(metadata),
                                        TSSHIM_DATASET="data=" + self.mount, **more)
        if cluster:
            env["TSSHIM_CLUSTER"] = self.cluster
        return env

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
