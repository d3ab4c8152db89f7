# SPDX-License-Identifier: MIT
"""
Jobs on nodes (cluster_nodes.py) that read files with --stage and --cluster, and the account of it:
every byte that a node has either came from its storage or from another node.  For tests.
"""

import contextlib
import glob
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile

import support

sys.path.insert(1, os.path.join(support.HERE, "..", "storage"))
import cluster_nodes  # noqa: E402

HELPER = os.path.join(support.BUILD, "tsshim-peer-test")
WATCHER = os.path.join(support.BUILD, "tests", "unit", "peer", "peer-job")
LIAR = os.path.join(support.HERE, "cluster_liar.py")
NEW_SECRET = "f" * 64
GUARD = 30  # seconds that a file may take; the deadline is about one
PATIENT = {"library": support.TEST_LIBRARY, "TSSHIM_TEST_PATIENCE": "20"}
WARM = "warm"

# For each line, an order: read those files as a whole, and say "there" before the one with that
# number.
JOB = r"""
import hashlib, json, os, sys, time
root = sys.argv[1]
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    sums, worst = [], 0
    for number, name in enumerate(order["names"]):
        if number == order["tell"]:
            print("there", flush=True)
        begin = time.monotonic()
        with open(os.path.join(root, name), "rb", buffering=0) as file:
            data = file.readall()
        worst = max(worst, time.monotonic() - begin)
        sums.append([name, hashlib.blake2b(data).hexdigest()])
    print(json.dumps({"sums": sorted(sums), "worst": worst}), flush=True)
"""


wait = support.wait_until


def kill(process, how=signal.SIGKILL):
    """A process that is none of our children, and what becomes of it."""
    os.kill(process, how)
    wait(lambda: states(process) <= ({"T"} if how == signal.SIGSTOP else {"Z", "X"}),
         "it has the signal")


def states(process):
    """Of all its threads, each of which stops in its own time; none when it is gone."""
    found = set()
    for path in glob.glob("/proc/%d/task/*/stat" % process):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found.add(file.read().rpartition(") ")[2][0])
    return found


class Watcher:
    """A look into the table of one node's group, of which it is a job that reads nothing."""

    def __init__(self, site, number, group):
        self.process = subprocess.Popen(
            site.nodes.inside(number, WATCHER, group), env=support.plain_environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.servers = site.count

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def helper(self):
        return int(self.ask("helper").split()[0])

    def row(self, server):
        name, state, error, *counters = self.ask("peer", server).split()
        return {"name": name, "state": state, "error": error,
                **{key: int(value) for key, value in (word.split("=") for word in counters)}}

    def total(self, counter):
        """Of all servers."""
        return sum(self.row(server)[counter] for server in range(self.servers))

    def table(self, word):
        return dict(one.split("=") for one in self.ask("table").split())[word]

    def settle(self):
        """Until nothing is on its way to other nodes."""
        wait(lambda: self.ask("settled") == "yes", "all is stored and told")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Tier:
    """@each jobs of one group on the nodes @where of @site, with a helper on each.  @settings: of
    their environment, as for Site.environment(); @only: {node: further ones}."""

    def __init__(self, site, each=1, where=None, only=None, **settings):
        self.site, self.each, self.settings, self.only = site, each, settings, only or {}
        self.where = list(range(site.count)) if where is None else list(where)
        self.group = site.group()
        self.jobs, self.watchers, self.helpers = {}, {}, []
        self.seen = {number: set() for number in range(site.count)}
        self.random = random.Random(0)

    def __enter__(self):
        try:
            for number in self.where:
                self.begin(number)
        except BaseException:
            self.kill()
            raise
        return self

    def begin(self, number, helper=None):
        """Jobs on that node, and a helper that is at work; or one of our own with that environment."""
        if number not in self.where:
            self.where.append(number)
        self.watchers[number] = Watcher(self.site, number, self.group)
        if helper is not None:
            self.helpers.append(self.start_helper(number, helper))
        self.jobs[number] = [self.start(number) for _ in range(self.each)]
        if helper is None:
            self.warm_up(number)

    def start(self, number, **more):
        settings = {**self.settings, **self.only.get(number, {}), **more}
        library = settings.pop("library", None)
        env = self.site.environment(self.group, **settings)
        if library:
            env["LD_PRELOAD"] = library
        process = subprocess.Popen(
            self.site.nodes.inside(number, sys.executable, "-c", JOB, self.site.mount), env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    def start_helper(self, number, environment):
        """It ends with its group."""
        command = [HELPER, self.group, str(64 << 20), self.site.cluster, str(1 << 30)]
        settings = {name: value for name, value in self.settings.items() if name.startswith("TSSHIM_TEST")}
        process = subprocess.Popen(self.site.nodes.inside(number, *command),
                                   env=support.plain_environment(**{**settings, **environment}))
        wait(lambda: process.poll() is not None or self.watchers[number].helper(), "a helper")
        return process

    def warm_up(self, number):
        """Whoever stages the first file starts the helper, and reads that one by himself."""
        send(self.jobs[number][0], [WARM])
        hear(self.jobs[number][0])
        self.seen[number].add(WARM)
        wait(self.watchers[number].helper, "a helper")

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
            return
        for process in sum(self.jobs.values(), []):
            process.stdin.close()
        for process in sum(self.jobs.values(), []):
            errors = process.stderr.read()
            assert process.wait(support.TIMEOUT) == 0 and errors == "", errors
            process.stdout.close()
            process.stderr.close()
        for watcher in self.watchers.values():
            watcher.end()
        for process in self.helpers:
            assert process.wait(support.TIMEOUT) in (0, -signal.SIGKILL)

    def kill(self):
        for process in sum(self.jobs.values(), []):
            process.kill()
            process.communicate()
        for watcher in self.watchers.values():
            watcher.process.kill()
            watcher.process.communicate()

    # ---- reading ----

    def read(self, names, fault=None, at=0, where=None, counted=True):
        """All jobs (@where) read @names, each in an order of its own; @fault() comes when each has
        read @at of them.  They are right, and so is the account, unless counts of a server go (not
        @counted).  What the storage was asked for."""
        where = self.where if where is None else where
        before = {number: self.taken(number) for number in where}
        jobs = [job for number in where for job in self.jobs[number]]
        for job in jobs:
            order = list(names)
            self.random.shuffle(order)
            send(job, order, at if fault else -1)
        if fault:
            for job in jobs:
                assert job.stdout.readline() == "there\n", job.communicate()
            fault()
        expected = [[name, self.site.sums[name]] for name in sorted(names)]
        for said in list(map(hear, jobs)):
            assert said["sums"] == expected, "other bytes"
            assert said["worst"] < GUARD, "waited for %f seconds" % said["worst"]
        return sum(self.account(number, names, before[number], counted) for number in where)

    def taken(self, number):
        """(bytes from the storage, bytes from other nodes, requests that were left), up to now."""
        watcher = self.watchers[number]
        return (self.site.storages[number].counts()["bytes_read"], watcher.total("got_bytes"),
                int(watcher.table("left")))

    def account(self, number, names, before, counted):
        """What came from the storage and what came from other nodes are all the bytes of the files
        that were new here.  Only what somebody has left may have come, and was read all the
        same."""
        fetched, got, left = (now - then for now, then in zip(self.taken(number), before))
        sizes = [self.site.sizes[name] for name in set(names) - self.seen[number]]
        self.seen[number] |= set(names)
        most = sum(sorted(sizes)[len(sizes) - min(left, len(sizes)):])
        if self.each == 1 and counted:
            assert 0 <= fetched + got - sum(sizes) <= most, (number, fetched, got, sum(sizes), left)
        return fetched

    def totals(self):
        """All counters of all nodes and servers, once nothing is on its way."""
        self.settle()
        found = {}
        for number in self.where:
            for server in range(self.site.count):
                for counter, value in self.watchers[number].row(server).items():
                    if isinstance(value, int):
                        found[counter] = found.get(counter, 0) + value
        return found

    def sums(self, counter):
        """Of all nodes, now."""
        return sum(self.watchers[number].total(counter) for number in self.where)

    def since(self, before, counter):
        return self.totals()[counter] - before[counter]

    def settle(self):
        for number in self.where:
            self.watchers[number].settle()

    def left(self):
        return sum(int(self.watchers[number].table("left")) for number in self.where)


def send(job, names, tell=-1):
    job.stdin.write(json.dumps({"names": names, "tell": tell}) + "\n")
    job.stdin.flush()


def hear(job):
    line = job.stdout.readline()
    assert line, "a job has ended: %s" % (job.communicate(),)
    return json.loads(line)


def note(site, names):
    """What reading those files gives."""
    for name in names:
        data = support.read(os.path.join(site.source, name), "rb")
        site.sums[name] = hashlib.blake2b(data).hexdigest()
        site.sizes[name] = len(data)


def secret_of(site):
    return support.read(os.path.join(site.cluster, "secret")).strip()


def exchange(site, *secrets):
    """The cluster has these secrets from now on."""
    path = os.path.join(site.cluster, "secret")
    with open(path + ".new", "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.writelines(secret + "\n" for secret in secrets)
    os.rename(path + ".new", path)
    site.up()


@contextlib.contextmanager
def liar(site, number):
    """A program in the place of that node's server, which speaks no TLS and lies as tell(lie) has it."""
    kill(site.server(number))
    command = site.nodes.inside(number, sys.executable, LIAR, site.nodes.addresses[number], str(site.port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        def tell(lie):
            process.stdin.write(lie + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == lie + "\n"
        try:
            assert process.stdout.readline() == "ready\n"
            yield tell
        finally:
            process.kill()


@contextlib.contextmanager
def site(count, files=120, size=50000, up=True, words=(), **settings):
    """Nodes with servers, and @files files of about @size."""
    with tempfile.TemporaryDirectory() as folder:
        names = cluster_nodes.files(folder, files, size)
        # Of a root that changes meanwhile nodes may know different times, by which it is named.
        os.mkdir(os.path.join(folder, "fresh"))
        support.write(os.path.join(folder, WARM), b"w" * 1000)
        with cluster_nodes.Site(count, folder, names, **settings) as found:
            found.sums, found.sizes = {}, {}
            note(found, [WARM, *names])
            if up:
                found.up(*words)
            yield found


def fresh(one, count, size=2000):
    """So many further files at a time that nobody has read, and never the last ones."""
    while True:
        names = ["fresh/file%07d" % (len(one.sums) + place) for place in range(count)]
        for name in names:
            support.write(os.path.join(one.source, name), os.urandom(size))
        note(one, names)
        yield names


def cut(names, count):
    """@names in @count lists, of about the same length."""
    return [names[i::count] for i in range(count)]
