# SPDX-License-Identifier: MIT
"""
The commands of docs/questions.md, run one after another beside the two jobs at its head: each
ends with status 0 and prints lines like those that are shown.
"""

import contextlib
import os
import re
import subprocess
import tempfile

import support
import tables

ROOT = os.path.dirname(os.path.dirname(support.HERE))
PAGE = os.path.join(ROOT, "docs", "questions.md")
OMITTED = "…"
QUESTIONS = [
    "Is it working?",
    "How much did it save?",
    "Why is this not shared?",
    "How big is the ring?",
    "Who leads, and who is in front?",
    "How do I switch it off?",
    "Does it change my results?",
    "Is it safe on a shared node?",
    "How do I run it under Slurm?",
    "How do I remove it?",
]
ELSEWHERE = "python -m pip uninstall -y tsshim"  # package.py runs it where pip has installed tsshim

PICTURES = """
import os, random, sys
from PIL import Image
for number in range(80):
    random.seed(number)
    image = Image.frombytes("RGB", (64, 48), bytes(random.randrange(256) for _ in range(9216)))
    image.resize((640, 480)).save(sys.argv[1] + "/%02d.jpg" % number, quality=90)
"""

# What stands for Slurm: a job runs at once, and what it prints goes into a file.
SBATCH = '#!/bin/sh\nSLURM_ARRAY_TASK_ID=1 exec bash "$1" >slurm.out\n'
SRUN = '#!/bin/sh\nexec "$@"\n'


def page():
    return support.read(PAGE)


def headings(text):
    return re.findall(r"^## (.*)$", text, re.M)


def steps(text):
    """[(command, the lines that are shown of its output)] of all blocks."""
    found = []
    for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def reasons():
    """{id: text} of all reasons not to share."""
    return {identity: text for identity, (text, _) in tables.reasons().items()}


def shape(line):
    """@line without what is another one on each machine and each time."""
    check = re.match(r"(?:ok|warn|n/a) +(\d+)  \S", line)
    if check:
        return "check " + check.group(1)
    reason = re.match(r" {4}(\w+) +[\d ]*\d  (.*)$", line)
    if reason and reasons().get(reason.group(1)) == reason.group(2):
        return "reason"
    line = re.sub(r"\b\d+ h \d+ min|\b\d+ min \d+ s|\b\d+(\.\d+)? s\b", "TIME", line)
    line = re.sub(r"\b\d+(\.\d)? (bytes|[KMGT]iB)", "SIZE", line)
    line = re.sub(r"\b(\d{1,3}( \d{3})+|\d+(\.\d+)?)\b", "N", line)
    line = re.sub(r"\b(job|process)(es|s)?\b", r"\1", line)
    line = re.sub(r"\b[A-Z][a-z]{2} +N +N(:N)?\b", "WHEN", line)  # of ls(1)
    line = re.sub(r"(?:[a-z ]+: N made, N taken;)+", " KINDS;", line)
    line = re.sub(r"(-rw-{7} +N) \S+ \S+", r"\1 USER GROUP", line)
    return re.sub(r" +", " ", line).strip()


def shapes(lines):
    """Those of all lines; how many reasons there are is another number each time."""
    found = []
    for line in map(shape, lines):
        if line != "reason" or found[-1:] != [line]:
            found.append(line)
    return found


def fits(shown, printed):
    """Whether each shape is the same, with any of them where some were left out."""
    if not shown:
        return not printed
    if shown[0] == OMITTED:
        return any(fits(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return printed != [] and shown[0] == printed[0] and fits(shown[1:], printed[1:])


def alike(shown, printed):
    return fits(shapes(shown), shapes(printed))


def make_pictures(path):
    done = support.run([support.PYTHON, "-c", PICTURES, path])
    assert done.status == 0, done.errors


def pictures():
    """Where they are, once they are old enough."""
    path = support.make_data("questions-data", make_pictures)
    support.settle(path)
    return path


class Node:
    """A directory with what the page speaks of, and an environment in which bash finds it."""

    def __init__(self, path, group):
        self.path, self.group = path, group
        programs = {"tsrun": support.TSRUN, "python": support.PYTHON}
        os.makedirs(path + "/bin")
        for name, target in programs.items():
            os.symlink(target, os.path.join(path, "bin", name))
        os.symlink(os.path.join(support.HERE, "questions_job.py"), path + "/train.py")
        os.symlink(pictures(), path + "/pictures")
        for name, text in (("sbatch", SBATCH), ("srun", SRUN)):
            support.write(os.path.join(path, "bin", name), text)
            os.chmod(os.path.join(path, "bin", name), 0o755)
        # One sample of 100 is made again to compare, and its image is shared: by chance.
        self.environment = support.plain_environment(
            TSSHIM_GROUP=group.name, TSSHIM_VERIFY="0", PATH=path + "/bin:/usr/bin:/bin",
            LC_ALL="C.UTF-8")
        del self.environment["TSSHIM_QUIET"]  # the page shows what a user sees

    def words(self, command):
        """For the page's group stands the one of this test; gc is kept from all others."""
        command = command.replace(".default.", ".%s." % self.group.name)
        return ["bash", "-c", re.sub(r"\btsrun gc$", "tsrun gc --group " + self.group.name,
                                     command)]

    def run(self, command):
        """What it prints; it has to succeed."""
        done = support.run(self.words("exec 2>&1\n" + command), self.environment, cwd=self.path)
        assert done.status == 0, (command, done.status, done.output, done.errors)
        # Where a group is named, the line at the end of a job names it as well.
        output = done.output.replace("`tsrun stats --group %s`" % self.group.name, "`tsrun stats`")
        return output.replace(self.group.name, "default")

    def start(self, command, epochs):
        """One of the jobs in the background, which stays when it has made its epochs."""
        job = subprocess.Popen(self.words("exec %s --stay --epochs %d" % (command, epochs)),
                               env=self.environment, cwd=self.path, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for epoch in range(epochs):
            line = job.stdout.readline()
            assert line.startswith("epoch %d: " % epoch), line
        return job


def needs_torch():
    if not support.has_modules(support.PYTHON, "torch", "PIL"):
        raise support.Skip("torch", "not installed for " + support.PYTHON)


@contextlib.contextmanager
def jobs(node, commands):
    """The page's jobs while they run; the first is an epoch ahead of the second."""
    running = []
    try:
        for epochs, command in zip((2, 1), commands):
            running.append(node.start(command, epochs))
        support.wait_until(lambda: "behind by 1.00" in node.run("tsrun stats"), "an epoch behind")
        yield
        for job in running:
            job.communicate("\n")
            assert job.returncode == 0, job.args
    finally:
        for job in running:
            job.kill()
            job.communicate()


def answer(node, command, shown):
    """Run it and compare; the lines of a script that is shown are that script."""
    script = re.fullmatch(r"cat (\w+\.sh)", command)
    if script:
        support.write(os.path.join(node.path, script.group(1)), "\n".join(shown) + "\n")
    printed = node.run(command).splitlines()
    assert alike(shown, printed), (command, "shown", shapes(shown), "printed", shapes(printed))


def test_the_ten_questions():
    assert headings(page()) == QUESTIONS
    for heading, section in zip(QUESTIONS, page().split("\n## ")[1:]):
        assert steps(section), heading


def test_every_command_prints_what_is_shown():
    needs_torch()
    head, *sections = page().split("\n## ")
    background = [command[:-2] for command, _ in steps(head) if command.endswith(" &")]
    assert len(background) == 2, background
    removal = steps(sections.pop())
    assert ELSEWHERE in [command for command, _ in removal]
    with support.Group() as group, tempfile.TemporaryDirectory() as directory:
        node = Node(directory, group)
        with jobs(node, background):
            for command, shown in [step for section in sections for step in steps(section)]:
                answer(node, command, shown)
        assert group.leftovers("ledger")
        for command, shown in removal:
            if command != ELSEWHERE:
                answer(node, command, shown)
        assert not group.leftovers("*")


def test_what_is_the_same_line():
    """Numbers, times and sizes may differ, words and the number of lines may not."""
    assert alike(["  taken 1 281 (12.5 %)"], ["  taken   7  (100.0 %)"])
    assert alike(["Ring: 1.5 MiB of 2.0 GiB in use"], ["Ring: 12 bytes of 1.0 TiB in use"])
    assert alike(["saved 3 min 2 s"], ["saved 0.10 s"])
    assert alike(["a", OMITTED, "d"], ["a", "b", "c", "d"]) and alike([OMITTED], [])
    assert not alike(["  taken 1"], ["  made 1"])
    assert not alike(["a"], ["a", "b"]) and not alike(["a", "b"], ["a"]) and not alike(["a"], [])
    assert not alike(["ok    1  x"], ["fail  1  x"]) and not alike(["ok    1  x"], ["ok    2  x"])
    assert alike(["ok    1  x"], ["warn  1  y"])
    name, text = list(reasons().items())[0]
    line = "    %s   1 234  %s" % (name, text)
    assert alike([line], [line, line]) and not alike([line], [line, line[:-1]])
