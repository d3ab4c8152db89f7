# SPDX-License-Identifier: MIT
"""
Runs programs that do not load their data with PyTorch, and says what came of it:

default  two jobs with seed 1, and at once, under the same load, two without us with seeds 1 and 2;
aligned  two jobs with seeds 1 and 2;
staged   a job after another on storage far away: what the second one asks it for.

run_beyond.py [--table FILE] [PROGRAM...]; a program is MODULE.CLASS or MODULE.CLASS:BACKEND, without
any all of them.  By hand: it wants libraries of 2.2 GB (scripts/deps beyond), and no test waits for
what it measures; but it fails where a job gets other data than without us.  With --table the results
are kept beside this file, in place of earlier ones of the same programs, and the part of FILE
between the lines that begin with "<!-- beyond" is written anew from all of them.
"""

import argparse
import collections
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "e2e"),
                os.path.join(HERE, "..", "..", "storage")]
import common  # noqa: E402
import meeting  # noqa: E402 -- of the tests beside
import mounted  # noqa: E402
import result_rows  # noqa: E402
import support  # noqa: E402
from support import Group, finish, start  # noqa: E402

PYTHON = os.environ.get("TSSHIM_TEST_BEYOND_PYTHON", "")
DATA = os.path.join(support.BUILD, "tests", "programs", "beyond")
EPOCHS = 3
LONG = {"with_grain.Threads": 12, "with_grain.Processes": 12}  # as they count from their beginning
RING = "512M"  # all pictures fit: from the second epoch on nothing needs to be decoded
RESULTS = os.path.join(HERE, "results.json")
BEGIN, END = "<!-- beyond: made by tests/programs/beyond/run_beyond.py -->", "<!-- beyond end -->"

# A row each: the program, and what Keras runs on.
PROGRAMS = (
    "with_grain.Loader", "with_grain.LoaderWorkers", "with_grain.LoaderOpenCv",
    "with_grain.LoaderOpenCvWorkers", "with_grain.Threads", "with_grain.Processes",
    "with_keras.Fit:jax", "with_keras.LoadImg:jax", "with_keras.Threads:jax",
    "with_keras.Processes:jax", "with_keras.Threads:tensorflow", "with_keras.Processes:tensorflow",
    "with_keras.Fit:torch", "with_keras.Threads:torch", "with_keras.Processes:torch",
    "with_tensorflow.Decode", "with_tensorflow.Records", "with_tensorflow.Pillow",
    "with_tensorflow.Directory", "with_jax.TorchLoader")

# Those that are also run on storage far away: one of each kind of reader.
STAGED = {"with_grain.Loader", "with_grain.LoaderWorkers", "with_keras.Processes:jax",
          "with_tensorflow.Decode", "with_tensorflow.Records", "with_tensorflow.Directory"}

Run = collections.namedtuple("Run", "digests rate cpu found said")
Row = collections.namedtuple("Row", "name plain equal aligned staged")


def command(program, seed, epochs=0, data=DATA):
    """The command line of a job."""
    epochs = epochs or LONG.get(program, EPOCHS)
    return [PYTHON, os.path.join(HERE, "job.py"), program.partition(":")[0], "--data", data,
            "--seed", str(seed), "--epochs", str(epochs)]


def environment(program, base):
    """What the libraries are told: which backend, no GPU, and to be quiet."""
    return {**base, "KERAS_BACKEND": program.partition(":")[2] or "jax", "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}


# What one job has printed: of what came behind its first batch, how many samples, in which time and
# for how much CPU time.
Job = collections.namedtuple("Job", "digest count seconds cpu")


def numbers(outcome):
    """The Job of an @outcome."""
    assert outcome.status == 0, outcome.errors[-3000:]
    found = {words[0]: words[1:] for words in map(str.split, outcome.output.splitlines())}
    return Job(found["digest"][0], int(found["digest"][1]), *map(float, found["~times"]))


def said(outcomes):
    """What we said to the jobs: {line: how often}."""
    return collections.Counter(line for outcome in outcomes for line in outcome.errors.splitlines()
                               if line.startswith("tsshim: "))


def together(program, pairs):
    """The Runs of @pairs (seeds, group or None), all jobs at once."""
    with meeting.of(sum(len(seeds) for seeds, _ in pairs)) as where:
        jobs = []
        for seeds, group in pairs:
            base = group.environment() if group else support.plain_environment()
            jobs.append([start(command(program, seed), environment(program, {**base, **where}))
                         for seed in seeds])
        outcomes = [[finish(job) for job in started] for started in jobs]
    found = [[numbers(outcome) for outcome in ended] for ended in outcomes]
    return [Run([job.digest for job in jobs], sum(job.count / job.seconds for job in jobs),
                1000 * sum(job.cpu for job in jobs) / sum(job.count for job in jobs),
                group.statistics() if group else {}, said(ended))
            for (_, group), jobs, ended in zip(pairs, found, outcomes)]


def group_of(**settings):
    """For the jobs of one way."""
    return Group(TSSHIM_RING=RING, **settings)


def staged(program):
    """(bytes that each of two jobs on far storage asks it for, statistics); as plain, or it fails."""
    with mounted.Mounted(age_s=3600) as storage:
        shutil.copytree(DATA, storage.source, dirs_exist_ok=True)
        words = command(program, 1, 1, storage.path)
        plain = finish(start(words, environment(program, support.plain_environment())))
        with Group(TSSHIM_STAGE="shm", TSSHIM_DATASET="files=" + storage.path).keep() as group:
            asked, outcomes = [], []
            for _ in range(2):
                storage.reset()
                outcomes.append(finish(start(words, environment(program, group.environment()))))
                asked.append(storage.counts()["bytes_read"])
            found = group.statistics()
            group.release()
            group.gc()
    assert len({numbers(outcome).digest for outcome in (plain, *outcomes)}) == 1, "staged: other data"
    return asked, found


def judge(program):
    """The Row of one program; AssertionError where a job got other data than without us."""
    with group_of() as group:
        plain, equal = together(program, [((1, 2), None), ((1, 1), group)])
    with group_of(TSSHIM_ALIGN="7") as group:
        aligned, = together(program, [((1, 2), group)])
    assert equal.digests == plain.digests[:1] * 2, "default mode: other data"
    return Row(program, plain, equal, aligned, staged(program) if program in STAGED else None)


def counted(run, kind):
    """(made, taken) of the pictures or samples of a Run."""
    found = [one[kind] for one in run.found.get("datasets", []) if kind in one]
    return sum(one["produced"] for one in found), sum(one["shared"] for one in found)


def reasons(found):
    """Why not, in words, of statistics."""
    passed = found.get("passed", {})
    return ", ".join("%s %d" % pair for pair in passed.items() if pair[1])


def what_aligned(row):
    """What data aligned jobs got."""
    if row.aligned.digests == row.plain.digests:
        return "as without us"
    return "the same" if len(set(row.aligned.digests)) == 1 else "**neither**"


def share(run):
    """Of all decodes or samples asked for, which part was taken."""
    words = []
    for kind, name in (("pixels", "pictures"), ("sample", "samples")):
        made, taken = counted(run, kind)
        if taken:
            words.append("%s %d %%" % (name, round(100 * taken / (made + taken))))
    return ", ".join(words) or "nothing"


def cells(row):
    """The words of a row of the table."""
    return ("`%s`" % row.name, share(row.equal), "%.2f" % (row.equal.rate / row.plain.rate),
            "%.2f" % (row.equal.cpu / row.plain.cpu), what_aligned(row), share(row.aligned),
            "%.1f of %.1f MB" % (row.staged[0][1] / 1e6, row.staged[0][0] / 1e6) if row.staged else "")


def table(rows):
    """Lines of the table of @rows: {program: its cells}."""
    lines = ["| program | default mode: taken | pictures | CPU | aligned: data | taken "
             "| staged: read again |", "|---|" + "---|" * 6]
    return lines + ["| " + " | ".join(rows[name]) + " |" for name in PROGRAMS if name in rows]


def tell(row):
    """What was found, for who reads the output."""
    for name in ("plain", "equal", "aligned"):
        run = getattr(row, name)
        print("# %-8s %6.1f pictures/s, %6.3f ms of CPU each; pictures %s, samples %s; %s" % (
            name, run.rate, run.cpu, counted(run, "pixels"), counted(run, "sample"), reasons(run.found)))
        for line, times in run.said.items():
            print("#   said %d times: %s" % (times, line))
    if row.staged:
        print("# staged: %s bytes; %s" % (row.staged[0], reasons(row.staged[1])))
    print("# " + " | ".join(cells(row)))


def keep(rows):
    """Put @rows among those that are kept; all of these."""
    found = {**result_rows.read(RESULTS), **{row.name: cells(row) for row in rows}}
    result_rows.write(RESULTS, dict(sorted(found.items())))
    return found


def write_table(path, rows):
    """Put the table of @rows into the document at @path."""
    before, _, rest = support.read(path).partition(BEGIN)
    _, _, after = rest.partition(END)
    support.write(path, "%s%s\n\n%s\n\n%s%s" % (before, BEGIN, "\n".join(table(rows)), END, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    parser.add_argument("--table", metavar="FILE")
    options = parser.parse_args()
    if set(options.names) - set(PROGRAMS):
        parser.error("programs are: " + " ".join(PROGRAMS))
    common.make(DATA)
    finish(start([PYTHON, "-c", "import sys; sys.path[:0] = sys.argv[2:]; import with_tensorflow; "
                  "with_tensorflow.write_records(sys.argv[1])", DATA, HERE],
                 environment("", support.plain_environment())))
    rows, failed = [], 0
    for number, name in enumerate(options.names or PROGRAMS, 1):
        try:
            rows.append(judge(name))
            print("ok %d - %s" % (number, name))
            tell(rows[-1])
        except AssertionError as error:
            failed += 1
            print("not ok %d - %s\n# %s" % (number, name, str(error).replace("\n", "\n# ")))
        sys.stdout.flush()
    if options.table:
        write_table(options.table, keep(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    if not os.path.exists(PYTHON):
        sys.exit("no environment (scripts/deps beyond)")
    if os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
        os.execv(PYTHON, [PYTHON, *sys.argv])
    sys.exit(main())
