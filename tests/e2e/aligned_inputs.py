# SPDX-License-Identifier: MIT
"""What aligned samples were made of: files that others may have changed, or may not read."""

import mmap
import os
import signal
import tempfile

import meeting
import support
from aligned_common import counter, job, samples, together, without_ring
from support import Group, finish, run, start

support.search("tests", "storage")
import mounted  # noqa: E402

FILES = 48


class Inputs:
    """A directory of files, jobs that read them, and one of these that keeps the ring.  With a @storage the
    files are there: jobs read them at its mount, the test changes them behind it."""

    def __init__(self, storage=None, **settings):
        # The test build also takes files that are younger than a minute.
        self.group = Group(support.TEST_LIBRARY, TSSHIM_ALIGN="7", TSSHIM_VERIFY="0",
                           TSSHIM_TEST_YOUNG_INPUTS="1", **settings)
        self.directory = tempfile.TemporaryDirectory()
        self.name, self.source = (storage.path, storage.source) if storage else [self.directory.name] * 2
        self.jobs = []

    def __enter__(self):
        for number in range(FILES):
            self.write(number, "first")
        return self

    def __exit__(self, *_):
        for process in self.jobs:
            support.signal_job(process, signal.SIGKILL)
            process.communicate()
        self.group.__exit__()
        self.directory.cleanup()

    def path(self, number):
        return os.path.join(self.source, "%03d" % number)

    def write(self, number, text):
        support.write(self.path(number), "%s %d" % (text, number))

    def command(self, *options):
        return job("--files", self.name, "--epochs", 1, *options)

    def two_jobs_that_stay(self):
        """Two jobs that have shared all files and keep the ring."""
        for _ in range(2):
            self.jobs.append(start(self.command("--linger", 600), self.group.environment()))
        for process in self.jobs:
            while not process.stdout.readline().startswith("~"):
                assert process.poll() is None, process.stderr.read()

    def another(self, prefix=()):
        """The samples of one more job, and those it should have got."""
        outcome = run([*prefix, *self.command()], self.group.environment())
        if not prefix:
            return samples(outcome), samples(without_ring(self.command()))
        with Group(TSSHIM_ALIGN="7", TSSHIM_RING="0") as none:
            return samples(outcome), samples(run([*prefix, *self.command()],
                                                 none.environment()))

    def another_takes_all(self):
        """One more job is given what the others have shared."""
        before = counter(self.group, "shared")
        got, wanted = self.another()
        assert got == wanted
        assert counter(self.group, "shared") - before >= FILES - 4
        assert self.passed("torch_changed") == 0

    def passed(self, reason):
        return self.group.statistics()["passed"][reason]


def test_files_read_from_copies_are_listed_as_what_they_are_copies_of():
    """With known paths a copy is opened without the original; a hit looks at the original."""
    with Inputs(TSSHIM_STAGE="shm", TSSHIM_STAGE_METADATA="600") as inputs:
        directory = inputs.name
        inputs.group.settings["TSSHIM_DATASET"] = "files=" + directory
        reader = start([support.PYTHON, "-c", "import os, sys, time\n"
                        "for name in sorted(os.listdir(sys.argv[1])):\n"
                        "    open(os.path.join(sys.argv[1], name)).read()\n"
                        "print('read', flush=True), print('~', flush=True); time.sleep(600)",
                        directory], inputs.group.environment())
        inputs.jobs.append(reader)
        assert reader.stdout.readline() == "read\n", reader.stderr.read()
        inputs.two_jobs_that_stay()
        inputs.another_takes_all()
        bytes_shared = sum(dataset.get("kinds", dataset)["bytes"]["shared"]
                           for dataset in inputs.group.statistics()["datasets"])
        assert bytes_shared >= FILES, bytes_shared


def rewrite(path):
    with open(path, "r+b") as file:
        file.write(b"FIRST")


def replace(path):
    support.write(path + ".new", b"other")
    os.rename(path + ".new", path)


def store(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:5] = b"mmaps"


def link(path):
    os.unlink(path)
    os.symlink("/etc/hostname", path)


def remove(path):
    os.unlink(path)
    os.mkdir(path)  # so that the list of files stays the same


# Ways to change a file after its sample was published.
CHANGES = rewrite, replace, store, lambda path: os.truncate(path, 3), link, remove


def test_a_changed_file_is_read_again():
    """Every second one is changed, in each of the ways as many."""
    with Inputs() as inputs:
        inputs.two_jobs_that_stay()
        for victim in range(0, FILES, 2):
            CHANGES[victim // 2 % len(CHANGES)](inputs.path(victim))
        got, wanted = inputs.another()
        assert got == wanted
        assert inputs.passed("torch_changed") >= FILES // 2 - 4, inputs.passed("torch_changed")


def test_a_changed_file_is_read_again_though_the_kernel_keeps_its_attributes():
    """On FUSE an open asks for none, so a job that takes a sample has to."""
    kept = {"attr_timeout_ms": 600000, "entry_timeout_ms": 600000, "readdirplus": 0}
    with mounted.Mounted(**kept) as storage, Inputs(storage) as inputs:
        inputs.two_jobs_that_stay()
        inputs.another_takes_all()
        for victim in range(0, FILES, 2):
            path = os.path.join(storage.path, os.path.basename(inputs.path(victim)))
            before = os.stat(path)
            rewrite(inputs.path(victim))
            assert os.stat(path).st_mtime_ns == before.st_mtime_ns, "not kept"
        got, wanted = inputs.another()
        assert got == wanted
        assert inputs.passed("torch_changed") >= FILES // 2 - 4, inputs.passed("torch_changed")


def test_a_file_one_may_not_read_is_not_given():
    """The second job lacks what lets root read everything."""
    unprivileged = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search",
                    "--inh-caps", "-dac_override,-dac_read_search"]
    if os.getuid() != 0 or run([*unprivileged, "true"]).status != 0:
        raise support.Skip("root", "needs root and setpriv")
    with Inputs() as inputs:
        inputs.two_jobs_that_stay()
        for victim in range(0, FILES, 2):
            os.chmod(inputs.path(victim), 0)
        got, wanted = inputs.another(unprivileged)
        # chmod changes ctime, too, so look at what the job says, not only at the counter.
        assert got == wanted
        assert len({tuple(digests) for key, digests in got.items() if key[1] % 2 == 0}) == 1


def test_young_files_are_not_published():
    with Inputs() as inputs:
        # However busy the machine is: nobody can set the time of a change.
        inputs.group.settings.update(TSSHIM_TEST_YOUNG_INPUTS="0")
        outcomes = together([inputs.command()] * 2, inputs.group)
        assert samples(outcomes[0]) == samples(outcomes[1])
        assert counter(inputs.group, "shared") == 0 < inputs.passed("torch_young")


def test_files_that_were_just_made_are_shared():
    """By the library itself, which asks for two seconds on a local file system; all of them."""
    with Inputs() as inputs:
        inputs.group.settings.update(LD_PRELOAD=support.LIBRARY)
        del inputs.group.settings["TSSHIM_TEST_YOUNG_INPUTS"]
        for number in range(FILES):
            support.settle(inputs.path(number))
        inputs.two_jobs_that_stay()
        inputs.another_takes_all()
        assert inputs.passed("torch_young") == 0


@support.whole
def test_a_relative_name_that_is_read_once_leads_where_each_job_is():
    """Nothing but the first item opens the file, so no hit would notice that it is another."""
    command, expected, got = job("--kept", "--epochs", 3), [], []
    settings = {"TSSHIM_ALIGN": "7", "TSSHIM_VERIFY": "0", "TSSHIM_TEST_YOUNG_INPUTS": "1"}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for number, directory in enumerate((one, other)):
            support.write(os.path.join(directory, "offset"), str(number))
            with Group(support.TEST_LIBRARY, **settings) as group:
                expected.append(samples(run(command, group.environment(), cwd=directory)))
        with Group(support.TEST_LIBRARY, **settings) as group:
            with meeting.of(3) as where:
                started = [start(command, group.environment(**where), cwd=directory)
                           for directory in (one, other, one)]
                got = [samples(finish(process)) for process in started]
            assert counter(group, "shared") > 0  # by the two in one directory
    assert got == [*expected, expected[0]] and expected[0] != expected[1]


def test_the_same_path_in_another_mount_namespace_is_another_file():
    """Two containers, one /dev/shm: the same names, other bytes."""
    other = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             'mount -t tmpfs none "$0" && for i in $(seq 0 47); do '
             'printf "first %d" $i >"$0/$(printf %03d $i)"; printf x >>"$0/$(printf %03d $i)"; '
             'done; exec "$@"']
    if os.getuid() != 0 or run(["unshare", "--mount", "true"]).status != 0:
        raise support.Skip("namespaces", "needs root and unshare")
    with Inputs() as inputs:
        inputs.two_jobs_that_stay()
        got, wanted = inputs.another([*other, inputs.name])
        assert got == wanted
        assert inputs.passed("torch_changed") >= FILES - 4
