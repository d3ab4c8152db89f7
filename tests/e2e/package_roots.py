# SPDX-License-Identifier: MIT
"""
The wheel on other releases: in a root of Debian 11 to 14, as debootstrap makes them, pip puts it
into a fresh environment, and two training jobs do there what they do plain, and share.  The
roots come from `scripts/deps roots`; a test sees them read-only and with a directory of its own.
"""

import json
import os
import shutil
import subprocess
import tempfile

import package
import pytest
import support
import sweeps
import sweeps_train
from support import finish, plain_environment

ROOTS = os.environ.get("TSSHIM_TEST_ROOTS", "")
RELEASES = {"bullseye": "11.", "bookworm": "12.", "trixie": "13.", "forky": "forky/"}
JUDGED = {"bookworm", "trixie", "forky"}  # with a Python whose code default mode judges
# torch 1.7 aborts at the end of each program that has gone backward, with us and without.
FORWARD_ONLY = {"bullseye"}

# A mount namespace in which the root $1 is read-only but for /mnt, which is $2, and /srv, where
# the photographs $3 are; then the command behind.
ENTER = """set -eu
root=$1 mine=$2 pictures=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$mine" "$root/mnt"
mount --bind "$pictures" "$root/srv"
mount -o remount,ro,bind "$root"
exec chroot "$root" env -C /mnt "$@"
"""


class Place:
    """A root with a fresh environment in it, which the wheel is installed in."""

    def __init__(self, release):
        self.root = os.path.dirname(support.installed("roots", "ROOTS", release, "complete"))
        if os.geteuid() != 0:
            raise support.Skip("root", "only root changes its root")
        self.group = "roots-%s-%d" % (release, os.getpid())
        self.place = tempfile.TemporaryDirectory()
        sweeps.Data.make()
        for name in ("sweeps_train.py", "programs_model.py"):
            shutil.copy(os.path.join(support.HERE, name), self.place.name)
        wheel = shutil.copy(package.wheel(), self.place.name)
        self.run("/usr/bin/python3", "-m", "venv", "--system-site-packages", "/mnt/fresh")
        self.run("/mnt/fresh/bin/python", "-m", "pip", "--disable-pip-version-check", "install",
                 "-q", "--no-index", "/mnt/" + os.path.basename(wheel))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tsrun("gc", "--group", self.group)
        self.place.cleanup()

    def start(self, *command, **variables):
        environment = plain_environment(HOME="/mnt", LC_ALL="C.UTF-8", TMPDIR="/mnt",
                                        PATH="/mnt/fresh/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                        PYTHONWARNINGS="ignore", **variables)
        return subprocess.Popen(["unshare", "--mount", "sh", "-c", ENTER, "sh", self.root,
                                 self.place.name, sweeps.Data.path, *command], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ended(self, process):
        outcome = finish(process, sweeps.GUARD)
        assert outcome.status == 0, (outcome.output[-1000:], outcome.errors[-3000:])
        return outcome.output

    def run(self, *command):
        return self.ended(self.start(*command))

    def tsrun(self, *words):
        return self.run("/mnt/fresh/bin/tsrun", *words)

    def train(self, prefix, seeds):
        """What two jobs print that meet at each epoch."""
        meeting = "meeting-%d" % len(os.listdir(self.place.name))
        os.mkdir(os.path.join(self.place.name, meeting))
        variables = dict(SWEEP_MEET="2:/mnt/" + meeting, SWEEP_SEEDS=seeds)
        if os.path.basename(self.root) in FORWARD_ONLY:
            variables["SWEEP_FORWARD_ONLY"] = "1"
        started = [self.start(*prefix, "python", "/mnt/sweeps_train.py", "/srv", "--number",
                              str(number), "--lr", str(rate), **variables)
                   for number, rate in enumerate(sweeps.RATES)]
        return [self.ended(process) for process in started]

    def shared(self, *options, jobs=2, seeds="one"):
        """The same under the environment's tsrun, where so many @jobs take samples from others."""
        printed = self.train(["tsrun", "--group", self.group, *options, "--"], seeds)
        counts = sweeps.Counts(json.loads(
            self.tsrun("stats", "--json", "--group", self.group)))
        counts.expect(jobs, sweeps.ENOUGH if jobs else 0)
        self.tsrun("gc", "--group", self.group)
        return printed


@support.whole
@pytest.mark.parametrize("release", RELEASES)
def test_release(release):
    with Place(release) as place:
        assert support.read(place.root + "/etc/debian_version").startswith(RELEASES[release])
        wanted = place.train([], "one")
        sweeps.Data.settle()
        assert place.shared(jobs=2 if release in JUDGED else 0) == wanted
        printed = place.shared("--align=7", seeds="own")
        assert len(printed[0].splitlines()) == sweeps_train.EPOCHS and printed != wanted, printed
