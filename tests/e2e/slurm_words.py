# SPDX-License-Identifier: MIT
"""What Slurm's scripts tell users (TSSHIM_SLURM=explain) and administrators (syslog), and where they do not."""

import os

import scenes
import support
from slurm_admin import Home
from slurm_node import ALICE, BOB, Job, mounted

SEVERAL = {"SLURM_JOB_NODELIST": "here,[there]"}


class Logs:
    """What a stand-in for logger(1) writes."""

    def __init__(self, node):
        self.node, self.path = node, os.path.join(node.root, "log")
        stand_in = os.path.join(node.root, "logger")
        support.write(stand_in, "#!/bin/sh\nfor last; do :; done\nprintf '%%s\\n' \"$last\" >> %s\n" % self.path, 0o755)
        self.mount = "mount --bind %s /usr/bin/logger" % stand_in

    def of(self, script, job=None, settings="", mounts="true", **environment):
        """The lines that prolog or epilog log."""
        self.node.write_settings(settings)
        open(self.path, "w").close()
        self.node.administer(script, job or Job(), mounted("%s && %s" % (self.mount, mounts)), **environment)
        lines = support.read(self.path)
        scenes.note(lines)
        return lines.splitlines()


def explained(node, settings="", mode=0o644, **more):
    node.write_settings(settings, mode)
    line, = node.task(Job(), TSSHIM_SLURM="explain", **more).printed
    return line


def test_why_a_task_is_left_alone(node):
    on = "tsshim: on, group slurm"
    assert explained(node) == on
    assert explained(node, TSSHIM_DISABLE="1") == "tsshim: off, TSSHIM_DISABLE is 1"
    assert explained(node, TSSHIM_DISABLE="0") == on
    assert explained(node, "enable = off\n") == "tsshim: off, the administrator says so"
    assert explained(node, "enable = ask\n") == on + ", but off in jobs without TSSHIM_SLURM"
    assert explained(node, SLURM_CONTAINER="/image") == "tsshim: off, the task runs in a container"
    assert explained(node, "containers = share\n", SLURM_CONTAINER="/image") == on
    # The administrator is told to the user beside it, for nothing of the file holds.
    for settings, mode in (("enable = maybe\n", 0o644), ("enable = on\n", 0o666)):
        node.write_settings(settings, mode)
        assert node.task(Job(), TSSHIM_SLURM="explain").printed == [
            "tsshim: the settings are not used: wrong owner, mode or line",
            "tsshim: off, the administrator says so"], settings


def test_what_the_prolog_logs(node):
    logs = Logs(node)
    assert logs.of("prolog", settings="enable = maybe\n") == [
        "the settings of the Slurm scripts are not used: wrong owner, mode or line"]
    stage = os.path.join(node.root, "stage")
    wanted = "stage = %s\n" % stage
    assert logs.of("prolog", settings=wanted) == ["cannot make a directory for user %d in %s" % (ALICE, stage)]
    os.mkdir(stage, 0o755)
    assert logs.of("prolog", settings=wanted) == []
    job = Job(BOB)  # without a home
    assert logs.of("prolog", job, "nodes = auto\n", **SEVERAL) == [
        "cannot start the server of user %d, job %d" % (BOB, job.number)]
    assert logs.of("prolog", job, "nodes = auto\n", SLURM_JOB_NODELIST="here") == []


def test_what_the_epilog_logs(node):
    logs = Logs(node)
    assert logs.of("epilog") == []
    assert logs.of("epilog", settings="enable = maybe\n") == [
        "the settings of the Slurm scripts are not used: wrong owner, mode or line"]
    # Something that is not the user's, where copies of files were.
    stage = os.path.join(node.root, "stage")
    os.makedirs(os.path.join(stage, str(ALICE), "of-root", "file"))
    os.chmod(stage, 0o755)
    os.chown(os.path.join(stage, str(ALICE)), ALICE, ALICE)
    assert logs.of("epilog", settings="stage = %s\n" % stage) == ["cannot clean %s/%d" % (stage, ALICE)]
    left = "mount -t tmpfs -o mode=%s none /dev/shm && touch /dev/shm/tsshim.%d.1-2.g.ring && chown %d /dev/shm/*%s"
    alien = left % ("1777", ALICE, ALICE, "")
    assert logs.of("epilog", mounts=alien) == []
    alien = left % ("0755", ALICE, ALICE, "")
    assert "cannot remove what containers of user %d left" % ALICE in logs.of("epilog", mounts=alien)
    os.unlink(node.tsrun)
    assert logs.of("epilog") == ["cannot clean the shared memory of user %d" % ALICE]


def test_a_server_that_cannot_be_ended_is_logged(node):
    home, logs, job = Home(node), Logs(node), Job()
    assert logs.of("epilog", job, "nodes = auto\n", home.mounts, **SEVERAL) == [], open(logs.path).read()
    os.unlink(node.tsrun)
    assert "cannot end the server of user %d, job %d" % (ALICE, job.number) in logs.of(
        "epilog", job, "nodes = auto\n", home.mounts, **SEVERAL)
