# SPDX-License-Identifier: MIT
"""A node with a slurmd that is not there: runs scripts/slurm as the real one does.

What it does is read from Slurm's own sources, src/slurmd/slurmstepd/task.c and
src/plugins/prep/script/prep_script_slurmd.c of 26.05, and task.c of 22.05, which still closed
the standard error of a task prolog and read its output in pieces.
"""

import contextlib
import fnmatch
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import support

ALICE, BOB = 61001, 61002  # users that have no name, no home and no process
PIECE = 4094  # bytes that Slurm before 23.02 took for a line
BOUND_S = 60  # none of the scripts may take longer, whatever hangs


class Slurm:
    """What of the protocol on standard output Slurm understands."""

    def __init__(self, environment):
        self.environment, self.printed = dict(environment), []

    def line(self, text):
        """One line, or what Slurm takes for one."""
        word, _, rest = text.partition(" ")
        if word == "print":
            self.printed.append(rest.lstrip())
        elif word == "export" and "=" in rest:
            name, _, value = rest.lstrip().partition("=")
            self.environment[name.rstrip()] = value
        elif word == "unset" and rest.strip():
            self.environment.pop(rest.strip(), None)
        else:
            raise AssertionError("nothing that Slurm understands: %r" % text)

    def read(self, output):
        """All of it, by lines and in pieces: both must be the same to Slurm."""
        assert output == "" or output.endswith("\n"), output
        for line in output.split("\n")[:-1]:
            assert len(os.fsencode(line)) < PIECE, len(line)
            self.line(line)
        return self


class Job:
    """One job of one user; @array is the number of the job array it belongs to."""

    numbers = itertools.count(1000)

    def __init__(self, user=ALICE, array=None, **environment):
        self.user, self.number = user, next(Job.numbers)
        self.ids = {"SLURM_JOB_ID": str(self.number), "SLURM_JOBID": str(self.number),
                    "SLURM_JOB_UID": str(user), "SLURM_JOB_GID": str(user)}
        self.own = {**self.ids, **environment}
        if array:
            self.own["SLURM_ARRAY_JOB_ID"] = str(array)


class Node:
    """A copy of the installation, wherever it lies, with users' files; removed at the end."""

    installed = None  # by the first one

    def __init__(self, name="node"):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"]).returncode != 0:
            raise support.Skip("unshare", "needs root, for other users and for mounts")
        if not Node.installed:
            self.install()
        self.root = tempfile.mkdtemp(prefix="tsshim-slurm-")
        os.chmod(self.root, 0o755)
        self.prefix = os.path.join(self.root, name)
        shutil.copytree(Node.installed, self.prefix, symlinks=True)
        self.settings = os.path.join(self.root, "settings", "slurm.conf")
        os.mkdir(os.path.dirname(self.settings), 0o755)
        self.library = self.find("libtsshim.so")
        self.tsrun = self.find("tsrun")

    @staticmethod
    def install():
        """What `meson install` makes, without the directories above the prefix."""
        stage = support.lasting(prefix="tsshim-slurm-")
        tsrun = support.install(stage)
        Node.installed = os.path.join(stage, "prefix")
        os.rename(os.path.dirname(os.path.dirname(tsrun)), Node.installed)

    def __enter__(self):
        support.wait_until(lambda: not living(ALICE) + living(BOB), "the end of an earlier test's processes")
        return self

    def __exit__(self, *_):
        for user in (ALICE, BOB):
            for name in self.shared(user):
                with contextlib.suppress(FileNotFoundError):  # a process of that user's was faster
                    os.unlink("/dev/shm/" + name)
            shutil.rmtree("/tmp/tsshim.%d" % user, ignore_errors=True)  # of `tsrun cluster`
        shutil.rmtree(self.root)

    def find(self, name):
        """A file of the installation."""
        return next(os.path.join(d, name) for d, _, files in os.walk(self.prefix)
                    if name in files and "share" not in d)

    def write_settings(self, text, mode=0o644):
        """The administrator's file, from now on."""
        support.write(self.settings, text, mode)

    def command(self, script):
        """With the settings of this node instead of those in /etc."""
        return [self.find(script), self.settings]

    @staticmethod
    def wait(process):
        """Its output and messages; it must end in time and with status 0."""
        begin = time.monotonic()
        try:
            output, errors = process.communicate(timeout=BOUND_S)
            # As slurmstepd does: what hung stays behind.
            assert time.monotonic() - begin < BOUND_S
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, (process.args, process.returncode, output, errors)
        return output, errors

    def administer(self, script, job, prefix=(), **environment):
        """Prolog or epilog: root's, without a search path."""
        process = subprocess.Popen([*prefix, *self.command(script)], cwd="/", text=True,
                                   env={**job.ids, "SLURM_SCRIPT_CONTEXT": script + "_slurmd",
                                        **environment},
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        assert self.wait(process) == ("", "")

    def raw(self, job, environment, old=False, prefix=()):
        """What the task prolog writes.  Slurm since 23.02 reads its messages as well: there are
        none, but for those of ld.so and of bash about what the user has set for them."""
        def close_as_before_23_02():
            os.close(0)
            os.close(2)
        process = subprocess.Popen(
            [*prefix, *self.command("taskprolog")], cwd="/", env=environment, text=True,
            errors="surrogateescape", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=close_as_before_23_02 if old else None, **become(job.user, prefix))
        output, errors = self.wait(process)
        if "LD_PRELOAD" in environment:
            errors = ""
        assert re.fullmatch("(/bin/bash: warning: setlocale: .*\n)?", errors), errors
        return output

    def task(self, job, prefix=(), **more):
        """A Slurm that has read what the task prolog wrote, which has the task's environment."""
        environment = {**job.own, **more}
        output = self.raw(job, environment, False, prefix)
        before = self.raw(job, environment, True, prefix)
        assert output == before, (output, before)
        return Slurm(environment).read(output)

    def start(self, job, command, prefix=(), **more):
        """Start a task of @job as Slurm does."""
        environment = self.task(job, prefix, **more).environment
        return support.start([*prefix, *command], environment, **become(job.user, prefix))

    @contextlib.contextmanager
    def hanging(self, name):
        """The mount that lets that program hang, within which something has to."""
        stuck = os.path.join(self.root, "stuck")
        support.write(stuck, "#!/bin/sh\ntrap '' TERM\nwhile :; do /bin/sleep 1; done\n", 0o755)
        begin = time.monotonic()
        yield "mount --bind %s %s" % (stuck, os.path.realpath(shutil.which(name)))
        assert time.monotonic() - begin > 4, "nothing hung"

    def hand_over(self, paths):
        """Copies of files and programs that users can reach."""
        place = os.path.join(self.root, "files")
        os.makedirs(place, exist_ok=True)
        os.chmod(place, 0o755)
        return [shutil.copy(path, place) for path in paths]

    def decoder(self, repeat=40):
        """A job that has something to share."""
        pictures = self.hand_over(support.pictures("s_4"))
        return [*self.hand_over([support.victim("decode")]), "--repeat", str(repeat), *pictures]

    def statistics(self, user):
        """Sums over all datasets of what that user's group did with pixels."""
        done = subprocess.run([self.tsrun, "stats", "--json", "--group", "slurm"], text=True,
                              env={}, stdout=subprocess.PIPE, timeout=60, **become(user))
        found = json.loads(done.stdout)["datasets"]
        return {name: sum(d["pixels"][name] for d in found) for name in ("produced", "shared")}

    @staticmethod
    def shared(user, group="*", kind="*"):
        """Names in /dev/shm of that user, whatever its namespaces."""
        return sorted(name for name in os.listdir("/dev/shm")
                      if fnmatch.fnmatch(name, "tsshim.%d.*-*.%s.%s" % (user, group, kind)))


def state_of(process):
    """Of the first thread of the process with that number; 'R', 'S' or 'Z' as ps shows it."""
    with open("/proc/%s/stat" % process, errors="replace") as file:
        return file.read().rpartition(") ")[2][0]


def living(user):
    """Numbers of that user's processes, without those that only have to be waited for."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if os.stat("/proc/" + process).st_uid == user and state_of(process) not in "ZX":
                found.append(process)
    return found


def become(user, prefix=()):
    """Arguments of Popen; what needs root first (@prefix) has to change the user itself."""
    return {} if prefix else {"user": user, "group": user, "extra_groups": []}


def mounted(script, user=None):
    """A command before another: mounts of its own, made by @script, then that user."""
    then = "" if user is None else (
        "setpriv --reuid %d --regid %d --clear-groups -- " % (user, user))
    return ["/usr/bin/unshare", "-m", "/bin/sh", "-c",
            "PATH=/usr/bin:/bin:/usr/sbin; %s && exec %s\"$@\"" % (script, then), "sh"]
