# SPDX-License-Identifier: MIT
"""across: how often do aligned jobs on several nodes make a sample, and what does one cost?

Nodes are namespaces of this machine as in cluster.py, with a memcached with TLS each, and share its
processors.  The jobs are those of the tests (tests/e2e/across_job.py): samples of 0.6 MB.
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
from tsbench.setup import row

NODES = 4
ITEMS, FLOATS, BATCH, WORKERS = 256, 150000, 32, 2
EPOCHS = (1, 4)  # their difference is without the start of Python
ROUNDS = 3
PORT = 11700


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


def _run(site, support, meeting, epochs, shares, items):
    """CPU seconds of all that one run of a job on each node took, and samples made by them."""
    group = site.group()
    job = os.path.join(support.HERE, "across_job.py")
    command = [support.torch_python(), job, "--seed", "1", "--items", str(items), "--floats", str(FLOATS),
               "--batch", str(BATCH), "--workers", str(WORKERS), "--epochs", str(epochs)]
    with meeting.of(NODES) as where, Others(site.nodes) as others:
        env = support.plain_environment(**where)
        if shares:
            env = support.plain_environment(
                LD_PRELOAD=support.LIBRARY, TSSHIM_GROUP=group, TSSHIM_ALIGN="7", TSSHIM_RING="512M",
                TSSHIM_CLUSTER=site.cluster, TSSHIM_ACROSS="nodes", NPY_OF_RUN=group, **where)
        before = _children()
        started = [site.nodes.start(number, command, env) for number in range(NODES)]
        # Of all at once: who has filled his pipe comes to no meeting.
        with futures.ThreadPoolExecutor(NODES) as readers:
            outcomes = list(readers.map(support.finish, started))
        cpu = _children() - before
    for outcome in outcomes:
        if outcome.status != 0:
            raise tsjobs.JobError(f"across: {outcome.errors[-2000:]}")
    made = 0
    for number in range(NODES) if shares else ():
        made += sum(one["sample"]["produced"] for one in site.stats(number, group)["datasets"])
    return {"cpu": cpu, "others": others.seconds(), "made": made}


def _round(site, support, meeting, items):
    """Milliseconds of CPU time of a delivered sample, and samples made / distinct ones."""
    found = {}
    for name, shares in (("plain", False), ("across", True)):
        short, long = (_run(site, support, meeting, epochs, shares, items) for epochs in EPOCHS)
        delivered = (EPOCHS[1] - EPOCHS[0]) * items * NODES
        for what in ("cpu", "others"):
            found[name, what] = (long[what] - short[what]) / delivered * 1e3
        found[name, "made"] = long["made"] / (EPOCHS[1] * items)
    return {"plain": found["plain", "cpu"], "jobs": found["across", "cpu"],
            "others": found["across", "others"], "made": found["across", "made"]}


def measure(setup):
    nodes, support = cluster.modules(setup)
    import meeting
    items = 64 if setup.quick else ITEMS
    try:
        with tempfile.TemporaryDirectory(prefix="tsshim-bench-") as folder:
            names = nodes.files(folder, 1, 2000)  # the jobs make their samples of nothing
            with nodes.Site(NODES, folder, names, memory="512M", port=PORT) as site:
                site.up()
                rounds = [_round(site, support, meeting, items)
                          for _ in range(1 if setup.quick else ROUNDS)]
    except support.Skip as error:
        raise tsjobs.Unavailable(f"several nodes: {error}") from None
    who = f"{NODES} nodes, an aligned job each, --across nodes"
    rows = [
        row("across-made", f"samples made / distinct samples, {who}", 1.05,
            [one["made"] for one in rounds]),
        row("across-cpu", "the same, CPU time per delivered sample / plain", 0.45,
            [(one["jobs"] + one["others"]) / one["plain"] for one in rounds]),
    ]
    middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    notes = [f"CPU time of a delivered sample of {FLOATS * 4 / 1e6:.1f} MB: {middle['plain']:.2f} ms plain; "
             f"{middle['jobs']:.2f} ms in the jobs and {middle['others']:.2f} ms in helpers and servers, "
             "TLS both ways. What a trainer does with it is in both."]
    return {"title": "Samples between nodes", "rows": rows, "notes": notes, "raw": {"rounds": rounds},
            "settings": setup.settings(nodes=NODES, items=items, floats=FLOATS, batch=BATCH,
                                       workers=WORKERS, epochs=list(EPOCHS))}
