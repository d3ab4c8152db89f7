# SPDX-License-Identifier: MIT
"""cluster: how often do jobs on several nodes read a file of slow storage, and what does a file cost
that another node has?

The nodes are network and mount namespaces of this machine (tests/e2e/nodes.py), each with a
/dev/shm, a mount of the storage (tests/storage/slowfs, which counts) and a memcached with TLS of
its own, behind one switch.  All of them share these processors, so what is said of speed is what
waiting for the storage costs, and no throughput of a network.
"""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

from tsbench import jobs as tsjobs
from tsbench import native
from tsbench.setup import row, without_bar

NODES, EACH = 4, 2
LATENCY_US = 5000
METADATA = 600  # seconds for which paths may be known, in the rows that say so
FILES, COUNTED = 1500, 2400  # where time is measured, and where bytes are
ROUNDS = 3
FETCHES, FETCHED = 400, 107000
TURNS = 9
PAIRS = 25  # where a hundredth decides, and a single pair differs by three
PORT = 11600


def modules(setup):
    """The nodes of the tests, which take programs from our build."""
    os.environ["TSSHIM_TEST_BUILD"] = setup.build
    os.environ["TSSHIM_TEST_SLOWFS"] = native.slowfs(setup.root, setup.native)
    for name in ("storage", "e2e"):
        sys.path.insert(0, os.path.join(setup.root, "tests", name))
    import cluster_nodes
    import support
    return cluster_nodes, support


class Readers:
    """Jobs of C on all nodes of a site, each with an order of its own."""

    def __init__(self, setup, site, group, each, cluster=True, metadata=0):
        reader = native.program(setup.root, setup.native, "reader")
        listing = setup.list_of([os.path.join(site.mount, name) for name in site.names])
        env = site.environment(group, cluster=cluster, metadata=metadata)
        self.site, self.group = site, group
        self.jobs = [tsjobs.Job(site.nodes.inside(number, reader, listing), env)
                     for number in range(site.count) for _ in range(each)]
        for job in self.jobs:
            job.line(0)
        self.taken = 1

    def epoch(self, number, count=None, first=0):
        """All files, or so many; seconds until the last job was done, and CPU time of all."""
        for place, job in enumerate(self.jobs):
            job.say(f"sum {first} {len(self.site.names) - first if count is None else count} "
                    f"{1 + 7919 * (number * len(self.jobs) + place)}")
        answers = [json.loads(job.line(self.taken)) for job in self.jobs]
        self.taken += 1
        if len({answer["sum"] for answer in answers}) != 1:
            raise tsjobs.JobError("cluster: jobs read different bytes")
        return max(answer["wall_ns"] for answer in answers) / 1e9

    def cpu(self):
        """CPU seconds of the jobs and of the helpers of their group until now."""
        mine = sum(tsjobs.cpu_clock(pid) for job in self.jobs for pid in job.pids())
        return mine + sum(tsjobs.cpu_clock(pid) for pid in self.helpers())

    def helpers(self):
        found = []
        for number in range(self.site.count):
            for pid in self.site.nodes.processes(number):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                    if words[0] == b"tsshim-peer" and words[1].decode() == self.group:
                        found.append(pid)
        return found

    def warm(self):
        """One file of its own, until there is a helper on each node: what it is asked for is no
        part of what is measured."""
        end = time.monotonic() + 30
        while len(self.helpers()) < self.site.count:
            self.epoch(0, 1)
            if time.monotonic() > end:
                raise tsjobs.JobError("cluster: no helper was started")
            time.sleep(0.05)

    def end(self):
        for job in self.jobs:
            job.wait()


@contextlib.contextmanager
def readers(setup, site, each=EACH, cluster=True, metadata=0, warm=True):
    jobs = Readers(setup, site, site.group(), each, cluster, metadata)
    if cluster and warm:
        jobs.warm()
    site.reset()
    yield jobs
    jobs.end()


@contextlib.contextmanager
def site_of(setup, nodes, count, files, **settings):
    """@count nodes with that many photographs at their storage, and servers."""
    source, paths = setup.streams(files)
    names = [os.path.relpath(path, source) for path in paths][:files]
    with nodes.Site(count, source, names, memory="1G", port=PORT, **settings) as site:
        site.up()
        yield site


def _bytes(setup, nodes, rounds):
    """Bytes that the storage is asked for in two epochs, relative to those of the files."""
    found = []
    for _ in range(rounds):
        with site_of(setup, nodes, NODES, 80 if setup.quick else COUNTED) as site:
            with readers(setup, site, warm=False) as jobs:
                jobs.epoch(1)
                first = site.fetched() / site.bytes
                site.reset()
                jobs.epoch(2)
                found.append((first, site.fetched() / site.bytes))
    return found


def _first(setup, nodes, rounds):
    """Seconds of the first epoch at a slow storage, without the tier and with it, in turns; and
    requests that reach the storage."""
    found = []
    for number in range(rounds):
        one = {}
        for metadata in (METADATA, 0):
            turns = [False, True] if number % 2 else [True, False]
            for cluster in turns:
                with site_of(setup, nodes, NODES, 80 if setup.quick else FILES,
                             latency_us=LATENCY_US) as site:
                    with readers(setup, site, cluster=cluster, metadata=metadata) as jobs:
                        before = jobs.cpu()
                        seconds = jobs.epoch(1, first=1)
                        name = ("with" if cluster else "without") + ("-known" if metadata else "")
                        one[name] = {"seconds": seconds, "cpu": jobs.cpu() - before,
                                     "requests": sum(site.requests().values())}
        found.append(one)
    return found


def _alone(setup, nodes, rounds):
    """CPU seconds of two jobs on a node whose list has no other one, with the tier and without."""
    found = []
    with site_of(setup, nodes, 1, 80 if setup.quick else FILES) as site:
        for number in range(rounds):
            one = {}
            for cluster in (False, True) if number % 2 else (True, False):
                with readers(setup, site, cluster=cluster, warm=False) as jobs:
                    before = jobs.cpu()
                    for epoch in range(1, 2 if setup.quick else 17):
                        jobs.epoch(epoch)
                    one["with" if cluster else "without"] = jobs.cpu() - before
            found.append(one)
    return found


class Fetcher:
    """A server on this machine, the helper, a job that asks it, and a bare client."""

    def __init__(self, setup, folder):
        self.setup, self.folder = setup, folder
        self.directory = os.path.join(folder, "cluster")
        self.group = setup.place.group("cluster-fetch")
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        self.jobs, self.helper = [], None

    def tsrun(self, *words):
        done = subprocess.run([self.setup.place.tsrun, "cluster", *words, "--dir", self.directory],
                              env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise tsjobs.JobError(done.stderr)

    def start(self, name, more, *words):
        """A small program of bench/native, compiled with @more."""
        job = tsjobs.Job([native.program(self.setup.root, self.setup.native, name, more), *words])
        self.jobs.append(job)
        job.line(0)
        return job

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self):
        listing = os.path.join(self.folder, "list")
        with open(listing, "w", encoding="ascii") as file:
            file.write(f"127.0.0.1:{PORT}\n")
        self.tsrun("up", "--nodes", listing, "--memory", "1G")
        setup = self.setup
        self.job = self.start("fetch", ["-I" + setup.root, os.path.join(
            setup.build, "libtsshim_core.a")], self.group)
        self.helper = subprocess.Popen([os.path.join(setup.build, "tsshim-peer"), self.group,
                                        str(64 << 20), self.directory, str(1 << 30)])
        end = time.monotonic() + 30
        while self.job.ask("helper") != self.helper.pid:
            if self.helper.poll() is not None or time.monotonic() > end:
                raise tsjobs.JobError("the helper for other nodes does not answer")
            time.sleep(0.01)
        auth = [os.path.join(where, name) for where, _, names in os.walk(self.folder)
                for name in names if name.endswith(".tokens")]
        self.bare = self.start("bare", ["-lssl", "-lcrypto"], "127.0.0.1", str(PORT),
                               os.path.join(self.directory, "cert.pem"),
                               os.path.join(self.directory, "key.pem"), auth[0])

    def __exit__(self, *_):
        for job in self.jobs:
            job.process.stdin.close()
            job.process.wait()
        if self.helper:
            self.helper.wait()  # it ends behind the last job
        self.tsrun("down")

    def server(self):
        """Process number of the server."""
        done = subprocess.run([self.setup.place.tsrun, "cluster", "status", "--json", "--dir",
                               self.directory], env=self.environment, capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout)["process"]

    def keys(self):
        path = os.path.join(self.folder, "keys")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(self.job.ask(f"key {number}") + "\n" for number in range(FETCHES))
        return path

    def turn(self, keys, bare_first):
        """Microseconds of wall and CPU time of a fetch, ours and the bare client's."""
        found = {}

        def bare(name, what):
            said = self.bare.ask(f"{what} {keys} {FETCHED + 80}")
            found[name] = {time: said[time + "_ns"] / FETCHES / 1e3 for time in ("wall", "cpu")}

        def ours(name, question):
            before = tsjobs.cpu_clock(self.helper.pid)
            said = self.job.ask(question)
            helper = (tsjobs.cpu_clock(self.helper.pid) - before) * 1e9
            if said["got"] != FETCHES:
                raise tsjobs.JobError(f"only {said['got']} of {FETCHES} values came")
            found[name] = {"wall": said["wall_ns"] / FETCHES / 1e3,
                           "cpu": (said["cpu_ns"] + helper) / FETCHES / 1e3}

        turns = [(bare, "bare", "get"), (ours, "ours", f"fetch {FETCHES} {FETCHED}"),
                 (bare, "file", "put"), (ours, "empty", f"empty {FETCHES}")]
        for one, name, what in turns if bare_first else turns[::-1]:
            one(name, what)
        return found


def _fetch(setup):
    with tempfile.TemporaryDirectory(prefix="tsshim-bench-") as folder, \
            Fetcher(setup, folder) as fetcher:
        fetcher.job.ask(f"store {FETCHES} {FETCHED}")
        keys = fetcher.keys()
        fetcher.turn(keys, True)
        return [fetcher.turn(keys, number % 2 == 0) for number in range(2 if setup.quick else TURNS)]


def measure(setup):
    nodes, support = modules(setup)
    rounds = 1 if setup.quick else ROUNDS
    try:
        fetch = _fetch(setup)
        counted = _bytes(setup, nodes, rounds)
        first = _first(setup, nodes, rounds)
        alone = _alone(setup, nodes, 2 if setup.quick else PAIRS)
    except support.Skip as error:
        raise tsjobs.Unavailable(f"several nodes: {error}") from None

    def faster(known):
        return [one["without" + known]["seconds"] / one["with" + known]["seconds"] for one in first]

    def fewer(known):
        return [one["without" + known]["requests"] / one["with" + known]["requests"]
                for one in first]

    def of_bare(what):
        return [one["ours"][what] / one["bare"][what] for one in fetch]

    def of_file(what):
        return [one["ours"][what] / one["file"][what] for one in fetch]

    def of_parts(what):
        return [one["ours"][what] / (one["file"][what] + one["empty"][what]) for one in fetch]

    who = f"{NODES} nodes x {EACH} jobs"
    rows = [
        row("cluster-once", f"bytes fetched / bytes of the files, {who}, first epoch", 1.02,
            [one[0] for one in counted]),
        row("cluster-again", "the same, second epoch", 0, [one[1] for one in counted]),
        row("cluster-fetch-cpu", "a remote file of 107 KB, CPU time / bare client with TLS", 1.4,
            of_bare("cpu")),
        row("cluster-fetch-wall", "the same, wall time", 1.4, of_bare("wall")),
        without_bar("cluster-fetch-file-cpu", "the same, CPU time / a bare client that puts the bytes "
                    "into files as well", of_file("cpu")),
        without_bar("cluster-fetch-file-wall", "the same, wall time", of_file("wall")),
        without_bar("cluster-fetch-parts-cpu", "the same, CPU time / a bare client that writes into "
                    "files, and an empty request to the helper", of_parts("cpu")),
        without_bar("cluster-fetch-parts-wall", "the same, wall time", of_parts("wall")),
        row("cluster-first", f"first epoch at 5 ms, {who}, paths known: files/s / without the tier",
            2.5, faster("-known"), below=False),
        without_bar("cluster-first-requests", "the same, requests to the storage without / with",
                    fewer("-known"), below=False),
        without_bar("cluster-first-unknown", "the same, paths not known: files/s", faster(""),
                    below=False),
        row("cluster-alone", "one node alone, CPU time with the tier / without", 1.01,
            [one["with"] / one["without"] for one in alone]),
    ]
    middle = sorted(fetch, key=lambda one: one["ours"]["cpu"])[len(fetch) // 2]
    notes = [
        f"A value of {FETCHED:,} bytes from a server on this machine takes "
        f"{middle['ours']['wall']:.0f} us and {middle['ours']['cpu']:.0f} us of CPU time, asking job "
        f"and helper together; a bare client {middle['bare']['wall']:.0f} and "
        f"{middle['bare']['cpu']:.0f} us, without proving what came or putting it into a file. With "
        f"the file it takes {middle['file']['wall']:.0f} and {middle['file']['cpu']:.0f} us. To ask the "
        f"helper for nothing takes {middle['empty']['wall']:.0f} and {middle['empty']['cpu']:.0f} us: two "
        "processes wake each other, where all that talks to a network has to be outside of the trainer's.",
        "All nodes share the processors of this machine, so first epochs are compared where storage "
        "is what they wait for; no throughput of a network is measured.",
    ]
    return {"title": "Many nodes", "rows": rows, "notes": notes,
            "raw": {"fetch": fetch, "bytes": counted, "first": first, "alone": alone},
            "settings": setup.settings(nodes=NODES, jobs=EACH, files=FILES, counted=COUNTED,
                                       latency_us=LATENCY_US, metadata=METADATA, rounds=rounds)}
