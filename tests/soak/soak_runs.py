# SPDX-License-Identifier: MIT
"""
The jobs of the soak (soak.py): what each does, where it runs, what it has to deliver, and whether it did.
"""

import collections
import contextlib
import fcntl
import glob
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from concurrent import futures

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "storage")]
import cluster_nodes  # noqa: E402
import nodes  # noqa: E402
import support  # noqa: E402

JOB = os.path.join(HERE, "soak_job.py")
FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "tsshim")
READERS = os.path.dirname(os.environ.get("TSSHIM_TEST_READERS", CACHE + "/readers/bin/python"))
# A release of WebDataset, and where the readers' interpreter has what it needs.
STREAMS = ":".join([os.path.join(os.environ.get("TSSHIM_TEST_STREAMS", CACHE + "/webdataset"), "0.2.86"),
                    *glob.glob(READERS + "/../lib/python3*/site-packages")])
CORPUS = os.environ.get("TSSHIM_TEST_CORPUS_PYTHON", CACHE + "/corpus/bin/python")
PICTURES, CHANGING, FILES, VERSIONS, EPOCHS, PART = 160, 48, 120, 3, 3, 16
ALIGN = {"TSSHIM_ALIGN": "7"}
GUARD = 600  # seconds for a run that takes one minute; more means that it hangs

# What jobs do.  @words: of soak_job.py, or a program in C; @settings: of tsshim; @workers: whether batches come
# from workers, which PyTorch itself cannot do without room in /dev/shm; @check: how lines are compared.
Recipe = collections.namedtuple("Recipe", "words settings workers check data", defaults=({}, True, "ordered", "pictures"))
FREE = {**ALIGN, "TSSHIM_ORDER": "free"}
ACROSS = {**ALIGN, "TSSHIM_ACROSS": "nodes"}
RECIPES = {
    "strict": Recipe(["map", "--workers", 1, "--batch", 16, "--pause", 1], ACROSS),
    "wide": Recipe(["map", "--workers", 2, "--batch", 20, "--pause", 1.2], ACROSS),
    "free": Recipe(["map", "--workers", 1, "--batch", 16, "--pause", .8], FREE, check="free"),
    "slow": Recipe(["map", "--workers", 0, "--batch", 8, "--pause", .8], FREE, False, "free"),
    "default": Recipe(["map", "--workers", 1, "--batch", 16, "--pause", 1]),
    "changing": Recipe(["map", "--workers", 1, "--batch", 4, "--pause", .8], ALIGN, check="versions", data="changing"),
    "stream": Recipe(["stream", "--workers", 2, "--batch", 16, "--pause", 1], ALIGN, data="shards"),
    "hf": Recipe(["hf", "--workers", 1, "--batch", 16, "--pause", 1], data="table"),
    "pixels": Recipe(["decode", "--repeat", 40], workers=False),
    "staged": Recipe(["reader", "pread"], workers=False),
    "elder": Recipe(["map", "--workers", 1, "--batch", 8, "--pause", 1, "--fixed"], check="elder"),
}
IN_C = ("pixels", "staged")
# (node, group, recipes in turn, with libfaketime) of each job.
SLOTS = [(0, "a", ["strict", "changing"], True), (1, "a", ["wide", "staged"], False),
         (0, "a", ["free", "staged"], False), (0, "a", ["slow", "changing", "default"], True),
         (0, "b", ["stream", "default"], False), (0, "b", ["stream", "hf"], False),
         (0, "b", ["hf", "pixels"], False), (0, "b", ["pixels"], True),
         (0, "a", ["elder"], False)]  # the last one as long as all goes on


def drawn(lines):
    """The samples in these, without their epochs."""
    return {line.split(" ", 2)[2] for line in lines if line.startswith("epoch ")}


class History:
    """Which version each of the changing files had, and when."""

    def __init__(self, place):
        self.place = place
        self.times = {name: [(0.0, 0)] for name in sorted(os.listdir(place + "/changing"))}
        self.names = list(self.times)

    def change(self, name):
        """The next version takes the place of this one, which some may see from now on, and all from then on."""
        version = (self.times[name][-1][1] + 1) % VERSIONS
        shutil.copyfile("%s/version%d/%s" % (self.place, version, name), self.place + "/new")
        self.times[name].append((time.monotonic(), version))
        os.rename(self.place + "/new", self.place + "/changing/" + name)
        self.times[name][-1] += (time.monotonic(),)

    def allows(self, index, versions, begin, end):
        """Whether one of @versions of the file was there at some time from @begin to @end."""
        times = self.times[self.names[index]]
        for one, later in zip(times, times[1:] + [None]):
            over = later[2] if later and len(later) > 2 else float("inf")
            if one[1] in versions and one[0] <= end and begin <= over:
                return True
        return False


class Place:
    """Data, an installation that jobs use, two nodes, and what jobs have to deliver."""

    def __init__(self, folder, random):
        self.folder, self.random = folder, random
        self.install, self.clock = folder + "/install", folder + "/clock"
        has_hf = os.path.exists(os.path.dirname(CORPUS) + "/../complete")
        self.expected, self.kinds = {}, [kind for kind in RECIPES if kind != "hf" or has_hf]
        self.name = "soak-%d" % os.getpid()
        self.free, self.given = 0, set()  # runs in free order, and the samples that they were given

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_data(self):
        """Pictures in files, in versions, in shards and in a table; other files."""
        import numpy
        import PIL.Image
        draw = numpy.random.RandomState(0)

        def picture():
            out = io.BytesIO()
            small = PIL.Image.fromarray(draw.randint(0, 256, (20, 20, 3)).astype(numpy.uint8))
            small.resize((160, 160), PIL.Image.BICUBIC).save(out, "JPEG", quality=90)
            return out.getvalue()

        for name in ("pictures", "changing", "shards", *("version%d" % one for one in range(VERSIONS))):
            os.makedirs(self.path("data/" + name))
        for number in range(PICTURES):
            support.write(self.path("data/pictures/%03d.jpg" % number), picture())
        for version in range(VERSIONS):
            for number in range(CHANGING):
                support.write(self.path("data/version%d/%03d.jpg" % (version, number)), picture())
        for number in range(CHANGING):
            shutil.copyfile(self.path("data/version0/%03d.jpg" % number), self.path("data/changing/%03d.jpg" % number))
        for shard in range(8):
            with tarfile.open(self.path("data/shards/%d.tar" % shard), "w") as archive:
                for number in range(shard, PICTURES, 8):
                    for kind, data in (("jpg", picture()), ("cls", b"%d" % number)):
                        member = tarfile.TarInfo("%03d.%s" % (number, kind))
                        member.size = len(data)
                        archive.addfile(member, io.BytesIO(data))
        cluster_nodes.files(self.path("data"), FILES, 30000)
        self.history = History(self.path("data"))
        if "hf" in self.kinds:
            support.run([CORPUS, JOB, "make", "--data", self.path("data/table"), "--pictures", self.path("data/pictures")])

    def command(self, kind, mount=None, data=None, epochs=EPOCHS):
        """The command line of a recipe; files of slow storage are below @mount."""
        recipe, mount = RECIPES[kind], mount or self.path("data")
        program, *words = map(str, recipe.words)
        if kind == "pixels":
            small = [path for path in support.pictures("s_") if os.path.getsize(path) < 60000]
            return [support.victim(program), *words, *small]
        if kind == "staged":
            names = sorted(os.path.join(mount, "%02d" % one, name) for one in range(20)
                           for name in os.listdir(self.path("data/%02d" % one)))
            return [support.victim(program), *words, *names * 12]
        data = data or (mount + "/pictures" if kind == "default" else self.path("data/" + recipe.data))
        until = ["--until", self.path("until")] if kind == "elder" and epochs == EPOCHS else []
        python = CORPUS if program == "hf" else support.PYTHON
        return [python, JOB, program, "--data", data, "--epochs", str(epochs), *words, *until]

    def alone(self, kind, data=None, first=0, epochs=EPOCHS):
        """What the recipe delivers alone: without us, or aligned without a ring, from epoch @first on."""
        recipe = RECIPES[kind]
        env = support.plain_environment(PYTHONPATH=STREAMS if kind == "stream" else "")
        if recipe.settings:
            env.update(LD_PRELOAD=support.LIBRARY, TSSHIM_RING="0", TSSHIM_GROUP=self.name, TSSHIM_EPOCH=str(first), **ALIGN)
        words = self.command(kind, data=data, epochs=1 if kind == "elder" else epochs)
        if "--pause" in words:
            words[words.index("--pause") + 1] = "0"
        outcome = support.run(words, env)
        assert outcome.status == 0, (kind, outcome.errors[-2000:])
        return support.facts(outcome.output)

    def expect(self):
        """.expected has the lines of each recipe, for each version of the files that change."""
        versions = [self.path("data/version%d" % one) for one in range(VERSIONS)]
        with futures.ThreadPoolExecutor(4) as pool:
            self.expected = {kind: [pool.submit(self.alone, kind, data) for data in (
                versions if RECIPES[kind].check == "versions" else [None])] for kind in self.kinds}
        self.expected = {kind: [one.result() for one in found] for kind, found in self.expected.items()}
        self.draws, self.drawn = drawn(self.expected["slow"][0]), EPOCHS

    def search(self):
        """Of the samples that jobs in free order were given, those that are no draw, once it has ended.  A new job
        begins where the job in front is, so there may be as many draws as all of them together had epochs."""
        while self.given - self.draws and self.drawn < EPOCHS * (1 + self.free):
            self.draws |= drawn(self.alone("slow", first=self.drawn, epochs=PART))
            self.drawn += PART
        return self.given - self.draws

    def environment(self, node, group, kind, fake):
        """Of a job; each group decides on its memory, its copies and its log by itself."""
        settings = {"TSSHIM_GROUP": self.name + group, "TSSHIM_EVENTS": "on", "TSSHIM_VERIFY": "1",
                    "PYTHONPATH": STREAMS if kind == "stream" else "", "XDG_STATE_HOME": self.path("state"),
                    **RECIPES[kind].settings}
        if group == "a":
            settings.update(TSSHIM_KEEP="1h", TSSHIM_RING="64M", TSSHIM_STAGE="shm", TSSHIM_CLUSTER=self.site.cluster,
                            TSSHIM_DATASET="data=" + self.site.mount)
        else:
            settings.update(TSSHIM_RING="24M")
        if fake and os.path.exists(FAKETIME):
            settings.update(LD_PRELOAD=FAKETIME, FAKETIME_TIMESTAMP_FILE=self.clock, FAKETIME_CACHE_DURATION="1",
                            NO_FAKE_STAT="1", FAKETIME_DONT_FAKE_MONOTONIC="1", DONT_FAKE_MONOTONIC="1")
        env = support.plain_environment(**settings)
        env.pop("XDG_RUNTIME_DIR", None)
        return env

    @contextlib.contextmanager
    def stand(self):
        """Everything that jobs need, for a block."""
        site = cluster_nodes.Site(2, self.path("data"), [])  # or there is no way to have one
        self.make_data()
        support.write(self.clock, "+0\n")
        os.mkdir(self.path("state"))
        os.mkdir(self.path("logs"))
        self.tsrun = support.install(self.install)
        self.expect()
        with site as self.site:
            for number in range(2):
                self.resize(number)
            self.site.up()
            yield self

    def shm(self, number):
        """/dev/shm of that node, as seen from here."""
        return "/proc/%d/root/dev/shm" % self.site.nodes.holders[number].pid

    def resize(self, number, size="384M", inodes=1000000):
        nodes.quiet(*self.site.nodes.inside(number, "mount", "-o", "remount,size=%s,nr_inodes=%d" % (size, inodes), "/dev/shm"))

    def members(self, session):
        """Processes of that session, the first one left out."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = support.read("/proc/%s/stat" % name).rpartition(") ")[2].split()
                if int(words[3]) == session and int(name) != session and words[0] not in "ZX":
                    found.append(int(name))
        return found


class Run:
    """One run of one job.  @hurt: the faults after which it may end early; not with another sample."""

    serial = 0

    def __init__(self, place, slot, kind, hurt):
        self.place, self.slot, self.kind, self.recipe = place, slot, kind, RECIPES[kind]
        self.node, self.group, _, fake = SLOTS[slot]
        self.hurt, self.lines, self.wrong, self.hung, self.gone = set(hurt), [], "", "", None
        Run.serial += 1
        self.log = place.path("logs/%04d-%s" % (Run.serial, kind))
        words = place.site.nodes.inside(self.node, place.tsrun, "--", *place.command(kind, place.site.mount))
        with open(self.log, "wb") as errors:
            self.process = subprocess.Popen(
                words, env=place.environment(self.node, self.group, kind, fake), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        if kind in IN_C:
            fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        self.pid, self.began = self.process.pid, time.monotonic()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """All that the job says.  Programs in C do not pause: they wait until their pipe has room."""
        rest, size = b"", {"pixels": 2048, "staged": 400}.get(self.kind, 65536)
        while part := os.read(self.process.stdout.fileno(), size):
            *lines, rest = (rest + part).split(b"\n")
            self.lines += [line.decode("utf-8", "surrogateescape") for line in lines]
            if self.kind in IN_C:
                time.sleep(.1)
        self.process.stdout.close()

    def signal(self, number, everybody=False):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if everybody else os.kill)(self.pid, number)

    def is_young(self):
        """Whether libfaketime may still be on its way to its shared memory, without which it ends a program."""
        return SLOTS[self.slot][3] and not self.lines

    def is_over(self):
        """Whether it has ended, with all of its workers.  Workers that their job did not live to tell stay for ever."""
        now = time.monotonic()
        if self.process.poll() is None:
            if now - self.began > GUARD and not self.hung and self.kind != "elder":
                self.hung = self.stacks()
                self.signal(signal.SIGKILL, everybody=True)
            return False
        self.gone = self.gone or now
        if self.reader.is_alive():
            if now - self.gone > 15:
                self.signal(signal.SIGKILL, everybody=True)
            return False
        return True

    def stacks(self):
        """Where its processes are, for people."""
        found = []
        for process in [self.pid, *self.place.members(self.pid)]:
            with contextlib.suppress(OSError):
                found.append("%d %s" % (process, support.read("/proc/%d/cmdline" % process).replace("\0", " ")))
                found += [support.read("/proc/%d/%s" % (process, name))[:200] for name in ("wchan", "status")]
            if shutil.which("gdb"):
                found.append(subprocess.run(["gdb", "-p", str(process), "-batch", "-ex", "thread apply all bt 25"], text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60).stdout)
        return "\n".join(found)

    def check(self):
        """Lines that were compared; .wrong tells the first fault that was found."""
        expected, check = self.place.expected[self.kind], self.recipe.check
        lines = support.facts("\n".join(self.lines))
        status = self.process.returncode
        if self.hung:
            self.wrong = "hangs\n" + self.hung
        elif status != 0 and not self.hurt:
            self.wrong = "ends with %d" % status
        compare = {"ordered": self.in_order, "versions": self.of_versions, "free": self.in_any_order, "elder": self.again}
        return compare[check](expected, lines, status == 0)

    def fail(self, what):
        self.wrong = self.wrong or what

    def in_order(self, expected, lines, whole):
        wanted = expected[0]
        for number, line in enumerate(lines):
            if number >= len(wanted) or line != wanted[number]:
                self.fail("line %d is %r, not %r" % (number, line, wanted[number:number + 1]))
                break
        if whole and len(lines) != len(wanted):
            self.fail("%d of %d lines" % (len(lines), len(wanted)))
        return len(lines)

    def of_versions(self, expected, lines, whole):
        """Each sample is that of a version that its file had since the epoch began."""
        number, begin, last = 0, None, None
        for line in self.lines:
            if line.startswith("~ at "):
                last = float(line.split()[2])
                if number % CHANGING == 0 and (begin is None or number != begin[1]):
                    begin = (last, number)
            elif line.startswith("epoch "):
                versions = {one for one, wanted in enumerate(expected) if wanted[number] == line}
                index = int(line.split()[2])
                if not versions or not self.place.history.allows(index, versions, begin[0], last):
                    self.fail("sample %d is %r, versions %s" % (number, line, sorted(versions)))
                number += 1
        if whole and number != EPOCHS * CHANGING:
            self.fail("%d samples" % number)
        return number

    def in_any_order(self, expected, lines, whole):
        """Every index once an epoch; every sample that of a draw, see Place.search(), and none twice."""
        had, count = set(), 0
        self.place.free += 1
        for line in lines:
            word, epoch, sample = (line + "  ").split(" ", 2)
            if word != "epoch":
                continue
            sample, place = sample.strip(), (epoch, sample.split()[0])
            if sample in had or place in had:
                self.fail("%r is there twice" % line)
            had |= {sample, place}
            self.place.given.add(sample)
            count += 1
        if whole and count != EPOCHS * PICTURES:
            self.fail("%d samples" % count)
        return count

    def again(self, expected, lines, whole):
        """The same in every epoch."""
        wanted = [line.split(" ", 2)[2] for line in expected[0] if line.startswith("epoch ")]
        samples = [line.split(" ", 2)[2] for line in lines if line.startswith("epoch ")]
        for number, sample in enumerate(samples):
            if sample != wanted[number % len(wanted)]:
                self.fail("sample %d is %r" % (number, sample))
                break
        return len(samples)

    def said(self):
        """What is worth to be shown of its messages."""
        text = support.read(self.log)[-3000:]
        return "\n".join(line for line in text.splitlines() if not re.match(r"tsshim: aligned data", line))


def temporary():
    return tempfile.mkdtemp(prefix="tsshim-soak-", dir=os.environ.get("TMPDIR", "/var/tmp"))
