# SPDX-License-Identifier: MIT
"""
Samples between nodes (--across nodes): aligned jobs on several nodes make each sample once, and get
what they get without, whatever happens to helpers and servers.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile

import support
sys.path.append(os.path.join(support.HERE, "..", "storage"))
import cluster_nodes  # noqa: E402
import meeting  # noqa: E402

JOB = os.path.join(support.HERE, "across_job.py")
# Samples that were made a second time say why, each by one of these.
EXCUSES = ("alone", "across_alone", "verify", "timeout", "torch_again", "torch_changed",
           "directory_busy", "no_segment", "no_lease", "no_store")
# Steps of the helper at which samples are on their way, and how often each is gone through before.
STEPS = [("peer_entered", 1), *((step, 20) for step in (
    "peer_taken", "peer_found", "peer_asked", "peer_opened", "peer_written", "peer_answers",
    "peer_answered", "peer_sealed", "peer_stored"))]


@contextlib.contextmanager
def site(count, files=4):
    with tempfile.TemporaryDirectory() as folder:
        names = cluster_nodes.files(folder, files, 2000)
        with cluster_nodes.Site(count, folder, names) as some:
            some.up()
            yield some


class Run:
    """One job on each node of @some, or @each; what they delivered and counted."""

    def __init__(self, some, *options, each=1, across="nodes", library=None, meanwhile=None, **more):
        self.site, self.group, self.each = some, some.group(), each
        with meeting.of(some.count * each) as where:
            env = support.plain_environment(
                LD_PRELOAD=library or support.LIBRARY, TSSHIM_GROUP=self.group, TSSHIM_ALIGN="7",
                TSSHIM_RING="64M", TSSHIM_CLUSTER=some.cluster, TSSHIM_ACROSS=across,
                # Part of every name: what an earlier run left with servers is of no use.
                TSSHIM_VERIFY="0", NPY_OF_RUN=self.group, **where, **more)
            command = [support.torch_python(), JOB, "--seed", "1", *map(str, options)]
            started = [some.nodes.start(number, command, env)
                       for number in range(some.count) for _ in range(each)]
            if meanwhile:
                meanwhile(self, where, started)
            self.outcomes = [support.finish(process) for process in started]
        for outcome in self.outcomes:
            assert outcome.status == 0, outcome.errors[-2000:]
        self.delivered = [support.facts(outcome.output) for outcome in self.outcomes]
        self.statistics = [some.stats(number, self.group) for number in range(some.count)]

    def expect(self, other):
        """Each delivered what all of @other did, losses to the last bit."""
        for delivered in self.delivered:
            assert delivered == other.delivered[0]

    def count(self, name):
        return sum(row.get("kinds", row)["sample"][name] for statistics in self.statistics
                   for row in statistics.get("datasets", []))

    def reason(self, name):
        return sum(statistics["passed"].get(name, 0) for statistics in self.statistics)

    def distinct(self):
        return len({line for line in self.delivered[0] if line.startswith("epoch")})

    def expect_excuses(self):
        """All that was made or taken was delivered; what was made twice says why."""
        given = sum(line.startswith("epoch") for lines in self.delivered for line in lines)
        assert self.count("produced") + self.count("shared") == given, self.statistics
        twice = self.count("produced") - self.distinct()
        # Where jobs of one node take the right to make something from each other, nobody counts that.
        excuses = {name: self.reason(name) for name in EXCUSES}
        assert self.each > 1 or twice <= sum(excuses.values()), (twice, excuses)
        print("# made %d of %d distinct samples, %.3f" % (
            self.count("produced"), self.distinct(), self.count("produced") / self.distinct()), flush=True)


def test_two_nodes_make_each_sample_once():
    with site(2) as some:
        without = Run(some, across="off")
        both = Run(some)
        both.expect(without)
        both.expect_excuses()
        assert without.count("shared") == 0 and both.count("shared") > 0


@support.whole
def test_four_nodes_with_two_jobs_each():
    options = ("--items", 128, "--workers", 2, "--batch", 24, "--floats", 150000)
    with site(4) as some:
        without = Run(some, *options, across="off", each=2)
        run = Run(some, *options, each=2)
        run.expect(without)
        run.expect_excuses()
        assert run.count("shared") > without.count("shared")


def test_files_are_known_by_all_but_their_device():
    """Each node has a mount of its own, with a number of its own."""
    with site(2, files=400) as some:
        devices = [some.nodes.run(number, ["stat", "-c", "%d", some.mount]).output
                   for number in range(2)]
        assert devices[0] != devices[1]
        options = ("--files", os.path.join(some.mount, "00"), "--epochs", 3, "--batch", 3)
        without = Run(some, *options, across="off")
        both = Run(some, *options)
        both.expect(without)
        assert both.count("shared") > 0, both.statistics
        assert both.reason("torch_changed") == 0


# ---- what goes wrong -----------------------------------------------------------------------


def servers(some, number):
    """Process numbers of the server of that node."""
    found = []
    for process in some.nodes.processes(number):
        with contextlib.suppress(OSError), open("/proc/%d/comm" % process, encoding="utf-8") as file:
            if file.read().strip() == "memcached":
                found.append(process)
    return found


def in_the_second_epoch(do):
    """@do(run) when all jobs have gone through the first one."""
    def meanwhile(run, where, started):
        support.wait_until(lambda: all(meeting.has_come(where, process, 1) for process in started),
                           "the second epoch")
        do(run)
    return meanwhile


@contextlib.contextmanager
def liar(some, number):
    """In the place of the server of node @number one that answers nonsense."""
    script = r"""
import socket, threading, random
server = socket.create_server((%r, %d))
print("ready", flush=True)
def lie(link):
    try:
        while link.recv(65536):
            link.sendall(random.randbytes(random.randrange(1, 5000)) + b"\r\nVA 9 f0\r\n\r\n\r\n")
    except OSError:
        pass
while True:
    threading.Thread(target=lie, args=[server.accept()[0]], daemon=True).start()
""" % (some.nodes.addresses[number], some.port)
    for process in servers(some, number):
        os.kill(process, signal.SIGKILL)
    support.wait_until(lambda: not servers(some, number), "the server has gone")
    process = some.nodes.start(number, ["python3", "-c", script])
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def test_a_server_that_is_killed_or_stopped_changes_nothing():
    with site(2) as some:
        without = Run(some, across="off")

        def to_server(number):
            def do(_):
                for process in servers(some, 1):
                    os.kill(process, number)
            return in_the_second_epoch(do)

        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL):
            run = Run(some, meanwhile=to_server(number))
            run.expect(without)
            run.expect_excuses()


def test_a_server_that_lies_changes_nothing():
    with site(2) as some:
        without = Run(some, across="off")
        with liar(some, 1):
            run = Run(some)
            run.expect(without)
            run.expect_excuses()


@contextlib.contextmanager
def library_with(some, point, times):
    """A library whose first helper on each node is killed when it comes to @point that often."""
    folder = os.path.join(some.folder, "library-" + point)
    os.mkdir(folder)
    for name in ("libtsshim.so", "tsshim-stager"):
        shutil.copy(os.path.join(support.BUILD, name), folder)
    os.symlink(os.path.join(support.BUILD, "python"), os.path.join(folder, "python"))
    program = os.path.join(folder, "tsshim-peer")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n/bin/mkdir /run/%s 2>/dev/null && export TSSHIM_TEST_KILL=%s:%d\n"
                   'exec %s "$@"\n' % (point, point, times, os.path.join(
                       support.BUILD, "tsshim-peer-test")))
    os.chmod(program, 0o755)
    yield os.path.join(folder, "libtsshim.so")


def test_a_helper_that_is_killed_changes_nothing():
    """At each step; jobs go on without, and start another one when it is time to."""
    with site(2) as some:
        without = Run(some, across="off")
        for point, times in STEPS:
            with library_with(some, point, times) as library:
                run = Run(some, library=library)
                run.expect(without)
                run.expect_excuses()
                assert run.reason("across_alone") > 0, point  # it was killed


support.main(support.functions(globals()))
