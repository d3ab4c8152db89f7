# SPDX-License-Identifier: MIT
"""
The commands of docs/cluster.md, section "Many nodes", run on four nodes: each of them ends with
status 0 and prints lines like those that are shown.
"""

import json
import os
import re
import subprocess
import sys

import questions
import support
from cluster_tier import WARM, site, wait

PAGE = os.path.join(questions.ROOT, "docs", "cluster.md")
EACH = "on each node"
COUNT = 4
ADDRESS, DATA = "10.1.0.1%d", "/data/imagenet"

# Reads a file, which starts the helper of its node, waits until all of them are at work, reads all
# files, as an epoch does, and goes on until it is told to end.
TRAIN = r"""
import hashlib, os, time
place, warm, begins, ends = PLACES
found = {}
with open(os.path.join(place, warm), "rb") as file:
    file.read()
while not os.path.exists(begins):
    time.sleep(0.01)
for folder, _, names in os.walk(place):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.blake2b(file.read()).hexdigest()
with open(ends + ".%d" % os.getpid(), "w") as file:
    print(len(found), hashlib.blake2b(repr(sorted(found.items())).encode()).hexdigest(), file=file)
while not os.path.exists(ends):
    time.sleep(0.01)
"""


def section():
    return re.search(r"^## Many nodes$(.*?)^## ", support.read(PAGE), re.M | re.S).group(1)


def steps():
    """[(command, where it is run, the lines that are shown)]"""
    found = []
    for command, shown in questions.steps(section()):
        command, _, remark = command.partition("   #")
        found.append((command.strip(), EACH in remark, shown))
    return found


class Shells:
    """A shell in each node, in a home directory that all of them have."""

    def __init__(self, one):
        self.one = one
        self.home = os.path.join(one.folder, "home")
        env = support.plain_environment(
            HOME=self.home, PATH=os.path.dirname(support.TSRUN) + ":" + self.tools() + ":" + os.environ["PATH"])
        env.pop("XDG_RUNTIME_DIR", None)
        self.shells = [subprocess.Popen(one.nodes.inside(number, "sh"), env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                       for number in range(COUNT)]
        for number in range(COUNT):
            assert self.run(number, "cd") == (0, [])

    def tools(self):
        """`python` of the page."""
        folder = os.path.join(self.home, "bin")
        os.mkdir(folder)
        os.symlink(sys.executable, os.path.join(folder, "python"))
        return folder

    def begin(self, number, command):
        # A file: what it starts in the background reads nothing of the shell's.
        self.shells[number].stdin.write("{ %s\n} </dev/null\necho \"::$?\"\n" % command)
        self.shells[number].stdin.flush()

    def end(self, number):
        lines = []
        for line in self.shells[number].stdout:
            if line.startswith("::"):
                return int(line[2:]), lines
            lines.append(line.rstrip("\n"))
        raise AssertionError("the shell has ended: %s" % lines)

    def run(self, number, command):
        self.begin(number, command)
        return self.end(number)

    def close(self):
        for shell in self.shells:
            shell.stdin.close()
            assert shell.wait(support.TIMEOUT) == 0
            shell.stdout.close()

    def run_all(self, command):
        for number in range(COUNT):
            self.begin(number, command)
        return [self.end(number) for number in range(COUNT)]


def here(one, text):
    """Addresses and paths of the page as they are on our nodes."""
    for i in range(COUNT):
        text = text.replace(ADDRESS % (i + 1), one.nodes.addresses[i])
    return text.replace(DATA, one.mount)


def place_files(one, home):
    """What the page shows of files is what is in them."""
    for command, _, shown in steps():
        if command.startswith("cat "):
            support.write(os.path.join(home, command[4:]), here(one, "\n".join(shown) + "\n"))
    places = one.mount, WARM, *(os.path.join(home, name) for name in ("begins", "ends"))
    support.write(os.path.join(home, "train.py"), TRAIN.replace("PLACES", repr(places)))


def results(home):
    return [support.read(os.path.join(home, name)) for name in os.listdir(home) if name.startswith("ends.")]


def nodes_of(status, lines):
    """What `tsrun stats --json` says of other nodes; nothing where nobody has asked yet."""
    return (json.loads("".join(lines)).get("nodes") if status == 0 else None) or {}


def have_helpers(shells):
    """Whether on each node somebody asks the others, and has read who they are.  What is read
    before that comes from the storage: no more is promised."""
    found = [nodes_of(*done) for done in shells.run_all("tsrun stats --group sweep --json")]
    return all(nodes.get("helper") and len(nodes["list"]) == COUNT for nodes in found)


def alike(one, shown, printed):
    """For any node: which it is shows in the first line."""
    return questions.alike([re.sub(r"[0-9.]+:\d+", "NODE", here(one, line)) for line in shown],
                           [re.sub(r"[0-9.]+:\d+", "NODE", line) for line in printed])


def test_a_sweep_on_four_nodes():
    with site(COUNT, files=80, up=False) as one:
        shells = Shells(one)
        place_files(one, shells.home)
        jobs = 2 * COUNT
        for command, each, shown in steps():
            if command.startswith("tsrun stats"):
                # While they run, and have read.
                wait(lambda: have_helpers(shells), "helpers on all nodes")
                support.write(os.path.join(shells.home, "begins"), "")
                wait(lambda: len(list(filter(None, results(shells.home)))) == jobs, "all have read")
                one_epoch = one.fetched()
            if command == "wait":
                support.write(os.path.join(shells.home, "ends"), "")
            done = shells.run_all(command) if each else [shells.run(0, command)]
            for status, printed in done:
                assert status == 0, (command, printed)
                assert alike(one, shown, printed), (command, shown, printed)
        found = results(shells.home)
        assert len(found) == jobs and len(set(found)) == 1, found
        assert found[0].startswith("%d " % len(one.sums))
        assert one_epoch < COUNT * sum(one.sizes.values()), "other nodes gave something"
        for number, shell in enumerate(shells.shells):
            stays = {shell.pid, one.storages[number].process.pid}
            wait(lambda number=number, stays=stays: set(one.nodes.processes(number)) == stays,
                 "servers and helpers have gone")
        shells.close()
