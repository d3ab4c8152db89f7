# SPDX-License-Identifier: MIT
"""What the end-to-end tests share: running programs without and with the library."""

import atexit
import contextlib
import glob
import itertools
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import paths

HERE = os.path.dirname(os.path.abspath(__file__))
# Children of this process are told the same name.
BUILD = os.environ["TSSHIM_TEST_BUILD"] = paths.sayable(os.environ.get(
    "TSSHIM_TEST_BUILD", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build-test")))
LIBRARY = os.path.join(BUILD, "libtsshim.so")
TEST_LIBRARY = os.path.join(BUILD, "libtsshim-test.so")
TSRUN = os.path.join(BUILD, "shim", "tsrun", "tsrun")
PYTHON = "/usr/bin/python3"  # the one that has Debian's Pillow, torch and OpenCV
LONG = os.environ.get("TSSHIM_TEST_LONG") == "1"
WHOLE = LONG or os.environ.get("TSSHIM_TEST_WHOLE") == "1"
MUST = os.environ.get("TSSHIM_TEST_MUST", "0") not in ("", "0")
MAY_SKIP = set(filter(None, os.environ.get("TSSHIM_TEST_MAY_SKIP", "").split(",")))
KEPT_UNTIL = 392  # struct ts_ring_header, kept_until_ns
TIMEOUT = 300  # seconds: nothing here takes a tenth of it; more means that it hangs


def search(*folder):
    """Find modules in this folder of the repository, too; its path."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(HERE)), *folder))
    return sys.path[0]


class Skip(Exception):
    """This cannot be tested here; @feature is the word that TSSHIM_TEST_MAY_SKIP knows."""

    def __init__(self, feature, why):
        super().__init__("%s: %s" % (feature, why))
        self.feature = feature


def wait_until(condition, what, guard=120):
    """Return when @condition() holds, and its value; @what, or what it tells then, fails when that never comes."""
    end = time.monotonic() + guard
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, "never: %s" % (what() if callable(what) else what,)
        time.sleep(0.01)


# Where a file has to be two seconds old, as leader/inputs/age.c has it; elsewhere a minute.
NEAR = {"ef53", "58465342", "9123683e", "1021994", "794c7630"}


def make_data(name, make):
    """The directory @name of the build directory, kept; @make(path) fills it where it is not there.

    Any number of tests may ask for it at once.
    """
    path = os.path.join(BUILD, "tests", "e2e", name)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as place:
            fresh = os.path.join(place, "data")
            os.mkdir(fresh)
            make(fresh)
            try:
                os.rename(fresh, path)
            except OSError:  # another test was faster
                assert os.path.exists(path)
    return path


def lasting(**more):
    """A directory that goes with this process."""
    path = tempfile.mkdtemp(**more)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


class Data:
    """What make_data() keeps under that name."""

    def __init__(self, name, fill):
        self.name, self.fill, self.path = name, fill, os.path.join(BUILD, "tests", "e2e", name)

    def make(self):
        make_data(self.name, self.fill)

    def settle(self):
        """Wait until the library takes the files for finished."""
        settle(self.path)


def photographs(paths):
    """JPEG pictures of noise, each a few hundred pixels wide, the same in each run."""
    import numpy
    import PIL.Image
    generator = numpy.random.RandomState(0)
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        small = generator.randint(0, 256, (30, 40, 3)).astype(numpy.uint8)
        PIL.Image.fromarray(small).resize((500, 375), PIL.Image.BICUBIC).save(path, quality=90)
    return generator


def read(path, mode="r"):
    """What is in a file: text, or bytes with the @mode "rb"."""
    with open(path, mode, encoding=None if "b" in mode else "utf-8") as file:
        return file.read()


def write(path, content, mode=None):
    """A file with this @content, text or bytes, and perhaps this @mode."""
    with open(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        os.chmod(path, mode)


def overwrite(path, at, data):
    """Other bytes in a file from @at on."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def settle(path):
    """Wait until the library takes the files of @path, which was made last, for finished."""
    kind = subprocess.run(["stat", "-f", "-c", "%t", path], stdout=subprocess.PIPE, check=True)
    age = 2 if kind.stdout.decode().strip() in NEAR else 60
    wait_until(lambda: time.time() - os.stat(path).st_ctime > age, "old files")


def install(stage):
    """`meson install` below @stage: the path of tsrun there, the only one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TSSHIM_", "LD_"))}
    done = run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", stage], env)
    assert done.status == 0, done.output + done.errors
    program, = [os.path.join(top, "tsrun") for top, _, names in os.walk(stage)
                if "tsrun" in names and os.path.basename(top) == "bin"]
    return program


def free_port():
    """A port that nobody has, and that the kernel gives nobody meanwhile who asks for any."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    while True:
        port = random.SystemRandom().randrange(end // 2, end)
        with contextlib.suppress(OSError), socket.socket() as one:
            one.bind(("", port))
            return port


def installed(feature, variable, *parts):
    """What scripts/deps has installed, to which that variable leads; Skip of this @feature where it has not."""
    path = os.path.join(os.environ.get("TSSHIM_TEST_" + variable, ""), *parts)
    if not os.path.isabs(path) or not os.path.exists(path):
        raise Skip(feature, "%s is not installed (scripts/deps)" % (path or variable))
    return path


def pypi_python():
    """The interpreter with PyPI's torch."""
    return installed("pypi", "PYPI_PYTHON")


def torch_python():
    """The interpreter whose torch is tested: Debian's, or with TSSHIM_TEST_TORCH=pypi PyPI's."""
    return PYTHON if os.environ.get("TSSHIM_TEST_TORCH", "debian") == "debian" else pypi_python()


def has_modules(python, *names):
    """Whether that interpreter finds all of these packages; to import torch only for this costs seconds."""
    code = "import sys\nfrom importlib.util import find_spec\nsys.exit(not all(map(find_spec, sys.argv[1:])))"
    return run([python, "-c", code, *names]).status == 0


def victim(name):
    """Path of a C victim; a build without libjpeg has none."""
    path = os.path.join(BUILD, "tests", "victims", "victim-" + name)
    if name == "plugin":
        path = os.path.join(BUILD, "tests", "victims", "libvictim-plugin.so")
    if not os.path.exists(path):
        raise Skip("victims", name + " was not built")
    return path


def pictures(prefix=""):
    """The corpus, made when it is not there yet."""
    import corpus  # and with it NumPy and Pillow
    paths = corpus.make(os.path.join(BUILD, "tests", "e2e", "corpus"))
    return [path for path in paths if os.path.basename(path).startswith(prefix)]


def own_scope():
    """What names our namespaces in names of shared memory (leader/group/attach.h)."""
    return "-".join(str(os.stat("/proc/self/ns/" + kind).st_ino) for kind in ("user", "pid"))


def shared_name(group, suffix, user=None):
    """The name of a group's object in /dev/shm."""
    return "tsshim.%d.%s.%s.%s" % (os.getuid() if user is None else user, own_scope(), group,
                                   suffix)


def plain_environment(**more):
    """The environment without anything of ours or of other preloads, and without our words."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TSSHIM_", "LD_"))}
    # OpenCV returns memory that it never wrote when a picture is cut: let it be the same.
    env.update(PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", MALLOC_PERTURB_="85")
    # What programs say is compared: the line that tsrun has the library print is left to line.py.
    env["TSSHIM_QUIET"] = "1"
    env.update(more)
    return env


class Group:
    """A group of its own for one test; removes what it left in /dev/shm."""

    numbers = itertools.count(1)  # for any thread

    def __init__(self, library=LIBRARY, **settings):
        self.keeper = None
        self.name = "e2e-%d-%d" % (os.getpid(), next(Group.numbers))
        self.settings = {"LD_PRELOAD": library, "TSSHIM_GROUP": self.name,
                         "TSSHIM_RING": "256M", **settings}

    def __enter__(self):
        return self

    def keep(self):
        """Keep the ring: it goes with the last member, so jobs that come one after another would
        share nothing.  The keeper is a stopped job; a stopped job is no obstacle."""
        picture = pictures("s_baseline")
        self.keeper = subprocess.Popen([victim("decode"), "--repeat", "1000000", *picture],
                                       env=self.environment(), stdout=subprocess.DEVNULL)
        # The ring comes first; stopped before it has joined it would keep the group's lock.
        wait_until(lambda: self.keeper.poll() is not None
                   or self.leftovers("ring") and self.pixels("produced"), "a ring")
        assert self.keeper.poll() is None, "the keeper has ended"
        self.keeper.send_signal(signal.SIGSTOP)
        return self

    def release(self):
        """End the keeper, as a crash would."""
        if self.keeper:
            self.keeper.kill()
            self.keeper.wait()
            self.keeper = None

    def __exit__(self, *_):
        self.release()
        if self.leftovers("stage"):
            self.gc()  # a killed keeper leaves the copies of files as well
        for path in self.leftovers() + self.leftovers("ledger"):
            with contextlib.suppress(FileNotFoundError):  # a job of another test was faster
                os.unlink(path) if not os.path.isdir(path) else os.rmdir(path)
        # A job that went on as another user has left that one's; as root we may.
        others = "/dev/shm/tsshim.*.%s.%s.*" % (own_scope(), self.name)
        for path in glob.glob(others) if os.getuid() == 0 else []:
            if not os.path.basename(path).startswith(shared_name(self.name, "")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    def environment(self, **more):
        """For a process of this group."""
        return plain_environment(**{**self.settings, **more})

    def leftovers(self, kind=None):
        """In /dev/shm: the ring, the tables of GPUs and of loaders, the journal, half-made objects;
        or those of a @kind, such as the ledger."""
        return [path for one in ([kind] if kind else ["[rndj]*", "loaders"])
                for path in glob.glob("/dev/shm/" + shared_name(self.name, one))]

    def keep_until(self, time):
        """The ring is kept until that @time of the boot's clock, in ns; returns until when it was."""
        path = self.leftovers("ring")[0]
        with open(path, "rb") as ring:
            ring.seek(KEPT_UNTIL)
            before, = struct.unpack("<Q", ring.read(8))
        overwrite(path, KEPT_UNTIL, struct.pack("<Q", time))
        return before

    def expire(self):
        """As if the ring, which is kept, had been kept until long ago."""
        assert self.keep_until(1) > 1, "kept_until_ns is elsewhere"

    def leave_to_gc(self):
        """What the group leaves stays until `tsrun gc`: jobs of other tests start and end
        meanwhile, and take along what nobody uses or keeps."""
        self.keep_until(1 << 63)

    def assert_clean(self, after_kill=False):
        """No ring is left: the last one out took it along; after a kill gc may have to."""
        done = self.gc() if after_kill else None
        assert self.leftovers() == [], (self.leftovers(), done)

    def statistics(self):
        """What `tsrun stats --json` says."""
        done = subprocess.run([TSRUN, "stats", "--json", "--group", self.name], text=True,
                              env=plain_environment(), stdout=subprocess.PIPE, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def report(self):
        """What `tsrun stats` says to people."""
        return subprocess.run([TSRUN, "stats", "--group", self.name], text=True, check=True,
                              env=plain_environment(), stdout=subprocess.PIPE, timeout=60).stdout

    def pixels(self, counter):
        """Sum of a counter of the pixels of all datasets: produced, shared, ..."""
        return sum(dataset["pixels"][counter] if "pixels" in dataset
                   else dataset["kinds"]["pixels"][counter]
                   for dataset in self.statistics().get("datasets", []))

    def staged(self):
        """(files fetched, opens that were given a copy, {why files were not staged: how often})"""
        said = self.statistics()
        rows = [row.get("kinds", row)["bytes"] for row in said.get("datasets", [])]
        return (sum(row["produced"] for row in rows), sum(row["shared"] for row in rows),
                {k: v for k, v in said.get("passed", {}).items() if k.startswith("stage") and v})

    def gc(self):
        """What a user does after a crash."""
        return subprocess.run([TSRUN, "gc", "--group", self.name], env=plain_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=60)


class Outcome:
    """Exit status and output of a process, for comparing."""

    def __init__(self, status, output, errors):
        self.status, self.output, self.errors = status, output, errors

    def __eq__(self, other):
        return (self.status, facts(self.output), self.errors) == (
            other.status, facts(other.output), other.errors)


def facts(output):
    """@output without the lines that may legally differ."""
    return [line for line in output.splitlines() if not line.startswith("~")]


def process_id(process):
    """As ts_process_id() has it."""
    return int(read("/proc/%d/stat" % process).rpartition(") ")[2].split()[19]) << 24 | process


def start(command, env, **more):
    """Start a program whose output will be collected by finish()."""
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, text=True,
                            errors="surrogateescape", stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True, **more)


def finish(process, timeout=TIMEOUT):
    """Its Outcome; kills its session and fails when it hangs."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        signal_job(process, signal.SIGKILL)
        process.communicate()
        raise AssertionError("hangs: %s" % process.args)
    return Outcome(process.returncode, output, errors)


def signal_job(process, number):
    """Send a signal to a process of start() and to its workers.  torch's workers end when their
    parent does, but for one that did not yet ask who that is: it takes init for it, and stays for
    ever."""
    os.killpg(process.pid, number)


def run(command, env=None, **more):
    """Run to the end; the plain environment unless told otherwise."""
    return finish(start(command, plain_environment() if env is None else env, **more))


def blocks(output):
    """{picture: [its lines, once per decode]}; blocks begin in column one."""
    found = {}
    for line in facts(output):
        if not line.startswith(" "):
            name, current = line, []
            found.setdefault(name, []).append(current)
        elif line.startswith(" end: short"):
            # The input ended while libjpeg was suspended, which it may be sooner or later:
            # only what was consumed must agree (Pillow reports it).
            current[:] = [line, "short"]
        elif current[1:] != ["short"]:
            current.append(line)
    return found


def same_pictures(reference, outcome, what):
    """Every decode in @outcome must have said what the (one) decode in @reference said."""
    assert outcome.status == reference.status, (what, outcome.status, outcome.errors[-2000:])
    # Pictures come in another order, and so do messages about them.
    assert (sorted(outcome.errors.splitlines()) == sorted(reference.errors.splitlines())), (
        what, outcome.errors[-2000:], reference.errors[-2000:])
    wanted, got = blocks(reference.output), blocks(outcome.output)
    assert wanted.keys() == got.keys(), (what, wanted.keys() ^ got.keys())
    for name, turns in got.items():
        for turn, lines in enumerate(turns):
            if lines != wanted[name][0]:
                differing = [(a, b) for a, b in zip(wanted[name][0], lines) if a != b]
                raise AssertionError("%s: %s, decode %d differs: %s" % (
                    what, name, turn, differing or (wanted[name][0], lines)))


def equal(reference, outcome, what):
    """Exactly the same status, output and messages."""
    if reference != outcome:
        raise AssertionError("%s: plain %d %r %r, with %d %r %r" % (
            what, reference.status, reference.output[-1500:], reference.errors[-1500:],
            outcome.status, outcome.output[-1500:], outcome.errors[-1500:]))


def clocks():
    """Seconds: of a clock, and of CPU time, our own and that of all children waited for."""
    spent = os.times()
    return time.monotonic(), sum(spent[:4])


def whole(function):
    """Mark a test that is left to `scripts/test --whole`: it says of another setting, program or
    version what a test that always runs says of one, or costs half a minute of a core and more."""
    import pytest  # jobs are started by Pythons that have none
    return pytest.mark.whole(function)


def left_unless(always, *values):
    """For pytest.mark.parametrize(): @values with which a test is left to --whole unless it @always runs."""
    import pytest
    return pytest.param(*values, marks=() if always else pytest.mark.whole)


class Elsewhere(Exception):
    """The tests of the file that is imported run by the interpreter @python, in an environment with
    the library and with these @settings, or in the one that is if they are None."""

    def __init__(self, python, settings=None):
        super().__init__(python)
        self.python, self.settings = python, settings

    @contextlib.contextmanager
    def environment(self):
        if self.settings is None:
            yield os.environ
            return
        ours = {k: v for k, v in os.environ.items() if k.startswith("TSSHIM_TEST_")}
        with Group() as group:
            yield group.environment(**ours, **self.settings)


def in_the_library(python=sys.executable, **settings):
    """The tests of the file that calls this, when it is imported, see the library in their own process."""
    if os.environ.get("LD_PRELOAD") != LIBRARY:
        raise Elsewhere(python, settings)


def become_the_chosen_interpreter():
    """With TSSHIM_TEST_TORCH=pypi the tests of the file that calls this run with PyPI's torch."""
    if os.environ.get("TSSHIM_TEST_TORCH") == "pypi" and sys.executable != torch_python():
        raise Elsewhere(torch_python())


def in_child(work):
    """What @work does in a forked process; whether it did not raise."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == 0
