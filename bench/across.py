# SPDX-License-Identifier: MIT
"""across: how often do aligned jobs on several nodes make a sample, and what does one cost?

Nodes are namespaces of this machine as in cluster.py, with a memcached with TLS each, and share its
processors.  The jobs are those of the tests (tests/e2e/across_job.py): samples of 0.6 MB, which take
6 ms to make.  Servers have less memory than one epoch needs, as in any longer run.
"""
import contextlib
import os
import resource
import statistics
import tempfile
import threading
from concurrent import futures

import cluster
from tsbench import jobs as tsjobs
from tsbench.setup import row, without_bar

NODES = 4
ITEMS = {1: 1024, 2: 512}  # by the number of jobs on a node
FLOATS, BATCH, WORKERS, COST_MS = 150000, 32, 2, 6
EPOCHS = (1, 3)  # their difference is without the start of Python
ROUNDS = 3
PORT = 11700
MEMORY = "128M"  # of each server
CHUNKS = (520000, FLOATS * 4 + 12000 - 520000)  # that a sample is stored as, about
BARE = 200  # samples that a bare client stores and gets


class Others:
    """CPU seconds of helpers and servers of all nodes while a `with` block runs; they may end in it."""

    def __init__(self, some):
        self.some, self.seen, self.is_over = some, {}, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def look(self):
        for number in range(NODES):
            for pid in self.some.processes(number):
                with contextlib.suppress(OSError):
                    with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                        if file.read().strip() in ("memcached", "tsshim-peer"):
                            self.seen[pid] = tsjobs.cpu_clock(pid)

    def watch(self):
        while not self.is_over.wait(0.05):
            self.look()

    def __enter__(self):
        self.look()
        self.before = sum(self.seen.values())
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        self.look()

    def seconds(self):
        return sum(self.seen.values()) - self.before


def _children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _run(site, support, meeting, epochs, shares, each):
    """CPU seconds of all that one run of @each jobs on each node took, and samples made by them."""
    group = site.group()
    job = os.path.join(support.HERE, "across_job.py")
    command = [support.torch_python(), job, "--seed", "1", "--items", str(ITEMS[each]), "--floats",
               str(FLOATS), "--batch", str(BATCH), "--workers", str(WORKERS), "--epochs", str(epochs),
               "--cost", str(COST_MS)]
    where = {"MALLOC_PERTURB_": "0"}  # which is for tests
    with meeting.of(NODES * each) as meetings, Others(site.nodes) as others:
        where.update(meetings)
        env = support.plain_environment(**where)
        if shares:
            env = support.plain_environment(
                LD_PRELOAD=support.LIBRARY, TSSHIM_GROUP=group, TSSHIM_ALIGN="7", TSSHIM_RING="512M",
                TSSHIM_CLUSTER=site.cluster, TSSHIM_ACROSS="nodes", NPY_OF_RUN=group, **where)
        before = _children()
        started = [site.nodes.start(number, command, env)
                   for number in range(NODES) for _ in range(each)]
        # Of all at once: who has filled his pipe comes to no meeting.
        with futures.ThreadPoolExecutor(len(started)) as readers:
            outcomes = list(readers.map(support.finish, started))
        cpu = _children() - before
    for outcome in outcomes:
        if outcome.status != 0:
            raise tsjobs.JobError(f"across: {outcome.errors[-2000:]}")
    made = 0
    for number in range(NODES) if shares else ():
        made += sum(one["sample"]["produced"] for one in site.stats(number, group)["datasets"])
    return {"cpu": cpu, "others": others.seconds(), "made": made}


def _round(site, support, meeting, each):
    """Milliseconds of CPU time of a delivered sample, and samples made / distinct ones."""
    found, items = {}, ITEMS[each]
    for name, shares in (("plain", False), ("across", True)):
        short, long = (_run(site, support, meeting, epochs, shares, each) for epochs in EPOCHS)
        delivered = (EPOCHS[1] - EPOCHS[0]) * items * NODES * each
        for what in ("cpu", "others"):
            found[name, what] = (long[what] - short[what]) / delivered * 1e3
        found[name, "made"] = long["made"] / (EPOCHS[1] * items)
    return {"plain": found["plain", "cpu"], "jobs": found["across", "cpu"],
            "others": found["across", "others"], "made": found["across", "made"]}


def _bare(setup):
    """Milliseconds of CPU time in which a bare client and its server store a sample, and get one."""
    with tempfile.TemporaryDirectory(prefix="tsshim-bench-") as folder, \
            cluster.Fetcher(setup, folder) as fetcher:
        server, spent = fetcher.server(), {"set": 0, "get": 0}
        for number, size in enumerate(CHUNKS):
            keys = os.path.join(folder, f"keys{number}")
            with open(keys, "w", encoding="ascii") as file:
                file.writelines(f"s{number}:{one}\n" for one in range(BARE))
            fetcher.bare.ask(f"set {keys} {size}")  # memory that was never used costs more
            for what in spent:
                before = tsjobs.cpu_clock(server)
                said = fetcher.bare.ask(f"{what} {keys} {size}")
                spent[what] += (tsjobs.cpu_clock(server) - before) * 1e3 + said["cpu_ns"] / 1e6
    return {what: ms / BARE for what, ms in spent.items()}


def _oracle(one, bare, each):
    """CPU time of a round's delivered sample if all but making and a bare client were free."""
    jobs = NODES * each
    made = one["plain"] - COST_MS * (1 - 1 / jobs)
    return (made + (bare["set"] + (NODES - 1) * bare["get"]) / jobs) / one["plain"]


def measure(setup):
    nodes, support = cluster.modules(setup)
    import meeting
    if setup.quick:
        ITEMS.update({1: 64, 2: 32})
    try:
        bare = _bare(setup)
        with tempfile.TemporaryDirectory(prefix="tsshim-bench-") as folder:
            names = nodes.files(folder, 1, 2000)  # the jobs make their samples of nothing
            with nodes.Site(NODES, folder, names, memory=MEMORY, port=PORT) as site:
                site.up()
                both = {each: [_round(site, support, meeting, each)
                               for _ in range(1 if setup.quick else ROUNDS)] for each in ITEMS}
    except support.Skip as error:
        raise tsjobs.Unavailable(f"several nodes: {error}") from None
    rows, notes = [], []
    for each, rounds in both.items():
        name = "" if each == 1 else f"-{each}"
        who = f"{NODES} nodes, {each} aligned job{'s' * (each > 1)} each, --across nodes"
        rows += [
            row(f"across-made{name}", f"samples made / distinct samples, {who}", 1.05,
                [one["made"] for one in rounds]),
            row(f"across-cpu{name}", "the same, CPU time per delivered sample / plain", 0.45,
                [(one["jobs"] + one["others"]) / one["plain"] for one in rounds]),
            without_bar(f"across-oracle{name}", "the same, if only making, what plain jobs do besides, "
                        "and a bare client with TLS cost anything", [_oracle(one, bare, each)
                                                                    for one in rounds]),
        ]
        notes.append(_note(rounds, each))
    notes.append(f"A bare client and its server take {bare['set']:.2f} ms of CPU time to store a sample, "
                 f"and {bare['get']:.2f} ms to get one, on one address of this machine.")
    return {"title": "Samples between nodes", "rows": rows, "notes": notes,
            "raw": {"rounds": {str(each): rounds for each, rounds in both.items()}, "bare": bare},
            "settings": setup.settings(nodes=NODES, items=dict(ITEMS), floats=FLOATS, batch=BATCH,
                                       workers=WORKERS, cost_ms=COST_MS, epochs=list(EPOCHS),
                                       memory=MEMORY)}


def _note(rounds, each):
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    return (f"{each} job{'s' * (each > 1)} a node: a delivered sample of {FLOATS * 4 / 1e6:.1f} MB takes "
            f"{middle['plain']:.2f} ms of CPU time plain; {middle['jobs']:.2f} ms in the jobs and "
            f"{middle['others']:.2f} ms in helpers and servers, TLS both ways. What a trainer does with "
            "it is in both.")
