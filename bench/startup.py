# SPDX-License-Identifier: MIT
"""startup: what the start of a program takes longer, and what looking at 32 jobs costs.

Short programs run plain, with the library preloaded and through tsrun, in turn, hundreds of times.
Then 32 jobs share photographs: `tsrun stats` and `tsrun top -b -n 1` look at them while they rest
and while they work, and they work with and without a `tsrun top` beside them.
"""
import contextlib
import os
import statistics
import subprocess
import time

from tsbench import jobs as tsjobs
from tsbench import native
from tsbench.setup import ask_all, blocks, row

# What runs, how often, and the most that the library and tsrun may add, in ms; None: no promise.
PROGRAMS = {
    "/bin/true": (("/bin/true",), 400, .5, 1.5),
    "python -c pass": (("PYTHON", "-c", "pass"), 200, 1, None),
    "python -c 'import torch'": (("PYTHON", "-c", "import torch"), 12, None, None),
}
WAYS = ("plain", "library", "tsrun")
PART = 20  # runs that make a sample, their median

LIVE = 32
LOOK_MS = 50
LOOKS = {"tsrun stats": ("stats",), "tsrun top -b -n 1": ("top", "-b", "-n", "1")}
LOOKED = 60        # times each
BESIDE = "0.5"     # seconds between two looks of the `top` beside the jobs; its default is 2
PAIRS = 16         # of turns, one with it
TURN = 8           # blocks of photographs in a turn


# ---- starting --------------------------------------------------------------------------------

def _check_preload(library):
    """A library that the loader cannot find is no error to it, and costs nothing."""
    done = subprocess.run(["/bin/cat", "/proc/self/maps"], env={"LD_PRELOAD": library},
                          capture_output=True, text=True, check=False)
    if library not in done.stdout:
        raise tsjobs.JobError(f"startup: {library} is not preloaded: {done.stderr.strip()}")


def _spawn(setup, commands, rounds):
    """Run @commands in turn; for each its runs as (nanoseconds by the clock, of CPU time)."""
    listing = os.path.join(setup.place.directory, "commands")
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines("\t".join(command) + "\n" for command in commands)
    job = setup.place.start([native.program(setup.root, setup.native, "spawns"), listing,
                             str(rounds)])
    setup.place.end([job])
    found = [[] for _ in commands]
    for line in job.lines:
        number, clock, cpu = map(int, line.split())
        found[number].append((clock, cpu))
    return found


def _start_one(setup, words, rounds):
    library = os.path.join(setup.build, "libtsshim.so")
    _check_preload(library)
    command = [setup.python if word == "PYTHON" else word for word in words]
    group = setup.place.group("startup")
    found = _spawn(setup, [command, [f"LD_PRELOAD={library}", *command],
                           [setup.place.tsrun, "--group", group, "--", *command]], rounds + 1)
    setup.place.forget(group)
    # The first round reads what is not in the page cache yet.
    return dict(zip(WAYS, (runs[1:] for runs in found)))


def _row(name, label, bar, values):
    """The median of @values; its samples are the medians of parts of them, one after another."""
    parts = [values[first:first + PART] for first in range(0, len(values), PART)]
    return row(name, label, bar, [statistics.median(part) for part in parts], "ms",
               value=statistics.median(values))


def _added(runs, way, what):
    return [(run[what] - plain[what]) / 1e6 for run, plain in zip(runs[way], runs["plain"])]


def _start_rows(name, runs, bars):
    rows = [_row("startup", f"{name}, plain", None, [run[0] / 1e6 for run in runs["plain"]])]
    for way, bar in zip(WAYS[1:], bars):
        label = f"added to {name} " + ("by the library" if way == "library" else "through tsrun")
        rows += [_row(f"startup-{way}", label, bar, _added(runs, way, 0)),
                 _row(f"startup-{way}-cpu", "the same, CPU time", None, _added(runs, way, 1))]
    return rows


def _raw(runs):
    """All of @runs in a line: nanoseconds by the clock and of CPU time."""
    return " ".join(f"{clock}/{cpu}" for clock, cpu in runs)


# ---- looking ---------------------------------------------------------------------------------

class Crowd:
    """LIVE jobs that decode the same photographs, block by block."""

    def __init__(self, setup, many):
        self.group = setup.place.group("crowd")
        paths = setup.streams(120 if setup.quick else 4 * setup.ring_images())[1]
        listing = setup.list_of(paths)
        self.jobs = [setup.start_decoder("c", listing, self.group, options=("--verify", "0"))
                     for _ in range(many)]
        self.blocks = blocks(len(paths), setup.block_images())
        self.at = 0
        self.work(2)  # join, and touch memory for the first time

    def work(self, many):
        """Photographs a second of all jobs together in the next @many blocks."""
        begin, images = time.monotonic(), 0
        for _ in range(many):
            first, size = self.blocks[self.at % len(self.blocks)]
            self.at += 1
            answers = ask_all(self.jobs, f"decode {first} {size}")
            images += sum(answer["images"] for answer in answers)
            if len({answer["sum"] for answer in answers}) != 1:
                raise tsjobs.JobError("startup: different pixels")
        return images / (time.monotonic() - begin)


@contextlib.contextmanager
def _top(setup, group):
    """A `tsrun top` beside what happens meanwhile."""
    command = [setup.place.tsrun, "top", "-b", "-d", BESIDE, "--group", group]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
            if process.poll() is not None:
                raise tsjobs.JobError(f"startup: tsrun top ended with {process.returncode}")
        finally:
            process.kill()


def _check_live(setup, crowd):
    live = sum(job["alive"] for job in setup.place.stats(crowd.group)["jobs"])
    if live != len(crowd.jobs):
        raise tsjobs.JobError(f"startup: {live} live jobs, not {len(crowd.jobs)}")


def _look(setup, crowd):
    commands = [[setup.place.tsrun, *words, "--group", crowd.group] for words in LOOKS.values()]
    runs = _spawn(setup, commands, 3 if setup.quick else LOOKED)
    return dict(zip(LOOKS, runs))


def _rates(setup, crowd):
    """Photographs a second of pairs of turns, one of them with a `top` beside it."""
    found = []
    for number in range(2 if setup.quick else PAIRS):
        pair = {}
        for kind in ("without", "with")[::-1 if number % 2 else 1]:
            with _top(setup, crowd.group) if kind == "with" else contextlib.nullcontext():
                pair[kind] = crowd.work(2 if setup.quick else TURN)
        found.append(pair)
    return found


def _watch(setup):
    crowd = Crowd(setup, 4 if setup.quick else LIVE)
    _check_live(setup, crowd)
    raw = {"looks": _look(setup, crowd), "rates": _rates(setup, crowd)}
    setup.place.end(crowd.jobs)
    setup.place.forget(crowd.group)
    rows = []
    for name, runs in raw["looks"].items():
        rows += [_row("startup-look", f"{name}, {len(crowd.jobs)} live jobs", LOOK_MS,
                      [run[0] / 1e6 for run in runs]),
                 _row("startup-look-cpu", "the same, CPU time", None,
                      [run[1] / 1e6 for run in runs])]
        raw["looks"][name] = _raw(runs)
    ratios = [pair["with"] / pair["without"] for pair in raw["rates"]]
    rows.append(row("startup-beside", f"images/s of {len(crowd.jobs)} jobs with / without a "
                    "`tsrun top` beside them", .98, ratios, below=False))
    rate = statistics.median(pair["without"] for pair in raw["rates"])
    return raw, rows, f"The {len(crowd.jobs)} jobs took {rate:.0f} photographs a second together; " \
        f"that `top` looked every {BESIDE} s."


def measure(setup):
    raw, rows = {}, []
    for name, (words, rounds, *bars) in PROGRAMS.items():
        runs = _start_one(setup, words, 3 if setup.quick else rounds)
        raw[name] = {way: _raw(found) for way, found in runs.items()}
        rows += _start_rows(name, runs, bars)
    raw["watched"], more, note = _watch(setup)
    return {"title": "Start-up", "rows": rows + more, "raw": raw, "notes": [note],
            "settings": setup.settings(live=LIVE, beside=BESIDE)}
