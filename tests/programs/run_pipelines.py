# SPDX-License-Identifier: MIT
"""
Runs pipelines in three ways, two jobs at once, and says what came of it:

default  equal seeds: what each prints is what it prints without us, bit for bit;
aligned  other seeds, models and batch sizes: the same samples;
taken    how much of what one job can take from another was taken, aligned (1 is all).

A plain run tells what an item costs: from 1 ms on all of them are meant to be taken.

run_pipelines.py [--aligned] [--table FILE] [PIPELINE...]; without names all of them.  What each is
meant to share stands in its class; a test fails where it does not.  With --table the results are
kept beside this file, in place of earlier ones of the same pipelines, and the part of FILE between
the lines that begin with "<!-- pipelines" is written anew from all of them.
"""

import argparse
import collections
import importlib
import inspect
import itertools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import corpus_python  # noqa: E402
import holders  # noqa: E402
import meeting  # noqa: E402 -- of the tests beside
import result_rows  # noqa: E402
import support  # noqa: E402
from support import Group, finish, start  # noqa: E402

MODULES = ("vision", "tables", "drawing", "albu", "medical", "arrays", "kinds", "hub", "streams",
           "resumable", "loaders", "others")
DATA = os.path.join(support.BUILD, "tests", "programs", "data")
EPOCHS = 4  # aligned: until two jobs know of each other some samples have been made twice
GOOD = .75  # of the ideal; this is a test, and how much it is exactly a table says
RESULTS = os.path.join(HERE, "results.json")
OPTIONS = os.path.join(HERE, "options.json")  # of data sets that hold options
BEGIN, END = "<!-- pipelines: made by tests/programs/run_pipelines.py -->", "<!-- pipelines end -->"

COSTLY = 1  # ms
# cost: ms of CPU time of an item, None where torch does not fetch them.
Result = collections.namedtuple("Result", "name about default aligned taken notes wanted cost",
                                defaults=(None,))


def command(name, *words, **options):
    """The command line of a trainer."""
    words = [corpus_python.PYTHON, os.path.join(HERE, "trainer.py"), name, "--data", DATA, *words]
    for key, value in options.items():
        words += ["--" + key, str(value)]
    return words


def together(commands, group):
    """Outcomes of these, started at once."""
    with meeting.of(len(commands)) as where:
        started = [start(words, group.environment(**where)) for words in commands]
        return [finish(process) for process in started]


def group_of(**settings):
    """For the jobs of one way; the test build also shares samples of young files."""
    return Group(support.TEST_LIBRARY, TSSHIM_TEST_YOUNG_INPUTS="1", TSSHIM_VERIFY="0",
                 TSSHIM_RING="512M", **settings)


def delivered(outcome):
    """The samples of each epoch and loader, in any order."""
    return sorted(line for line in outcome.output.splitlines() if line.startswith("sample"))


def counted(found):
    """(made, taken) of all samples in the statistics @found."""
    each = [dataset["sample"] for dataset in found.get("datasets", [])]
    return sum(one["produced"] for one in each), sum(one["shared"] for one in each)


def notes_of(outcomes, found):
    """What the jobs said, each once, and for which reasons samples were not shared."""
    said = {line[len("tsshim: "):] for outcome in outcomes
            for line in outcome.errors.splitlines()
            if line.startswith("tsshim: ") and "aligned data, seed" not in line}
    reasons = ["%s %d" % pair for pair in found.get("passed", {}).items()
               if pair[0].startswith("torch_") and pair[1]]
    return sorted(said) + reasons


def without_us(name):
    """(outcome of a plain run, ms of an item)."""
    plain = support.run(command(name, "--cost"), support.plain_environment())
    assert plain.status == 0, plain.errors[-2000:]
    said = next(line for line in plain.output.splitlines() if line.startswith("~ items"))
    return plain, int(said.split()[2]) / 1e6 / max(1, len(delivered(plain))) or None


def first_difference(wanted, found):
    """The first of the facts @found that is not that of @wanted, for who looks for the cause."""
    pairs = itertools.zip_longest(wanted, found)
    return next(pair for pair in pairs if pair[0] != pair[1])


def in_default_mode(name, plain, *words):
    """(Whether two jobs of equal seeds print what one does without us, which was @plain, which part
    of the samples was taken); with these @words if there are any, and runs of other numbers."""
    with group_of() as group:
        outcomes = together([command(name, *words, run=run) for run in (1, 2 if words else 1)], group)
        made, taken = counted(group.statistics())
    wanted = support.facts(plain.output)
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
        found = support.facts(outcome.output)
        if found != wanted:
            print("# %s: plain, default: %s" % (name, first_difference(wanted, found)))
            return False, 0
    return True, min(1, 2 * taken / max(1, made + taken))


def when_aligned(name, pipeline, *words):
    """(whether the samples are the same, which part was taken, notes); @words for both."""
    batch = 8 if getattr(pipeline, "BY_BATCH", False) else 12
    settings = getattr(pipeline, "SETTINGS", {})
    with group_of(TSSHIM_ALIGN="7", TSSHIM_DEBUG="debug", **settings) as group:
        epochs = getattr(pipeline, "EPOCHS", EPOCHS)
        outcomes = together([command(name, *words, seed=1, batch=8, epochs=epochs),
                             command(name, *words, seed=2, batch=batch, epochs=epochs, model="b")], group)
        found = group.statistics()
    for outcome in outcomes:
        assert outcome.status == 0, outcome.errors[-2000:]
    first, second = map(delivered, outcomes)
    made, taken = counted(found)
    # Who looks ahead takes what it has made itself, too; behind the last item that is delivered
    # there is an end, but for streams that have none, whose workers go on until they are stopped.
    if not getattr(pipeline, "ENDLESS", False):
        taken = min(taken, len(first) + len(second) - made)
    taken = max(0, min(taken, len(first))) / max(1, len(first))
    return first == second, taken, notes_of(outcomes, found)


def with_options(names, known):
    """Two aligned jobs of each pipeline of which the data sets hold other options, in one of the
    ways of holders.py, by turns.  Prints what was taken, beside what is without, and keeps it
    (OPTIONS); whether all were the same samples, and in default mode, equal seeds, those of a plain
    run."""
    without = result_rows.read(RESULTS)
    kinds, rows, good = itertools.cycle(holders.HOLDERS), [], True
    for name in names:
        kind = next(kinds)
        words = "--holder", kind
        as_plain = taken_so = None
        if getattr(known[name], "REPEATS", True):
            plain = support.run(command(name, *words, run=1), support.plain_environment())
            as_plain, taken_so = in_default_mode(name, plain, *words)
            good &= as_plain
        same, taken, notes = when_aligned(name, known[name], *words)
        before = without.get(name, {})
        rows.append({"name": name, "holder": kind, "default": as_plain,
                     "default_taken": taken_so, "aligned": same, "taken": taken, "without": before.get("taken")})
        good &= same or not before.get("aligned", True)
        print("# %s %s: default %s, %s taken, aligned %s, taken %.2f (without %s); %s" % (
            name, kind, {None: "does not repeat", True: "as plain", False: "NOT AS PLAIN"}[as_plain],
            "none" if taken_so is None else "%.2f" % taken_so, "the same" if same else "OTHER SAMPLES", taken, before.get("taken"), "; ".join(notes)), flush=True)
    if len(rows) == len(known):
        result_rows.write(OPTIONS, rows)
    shared = [row for row in rows if (row["without"] or 0) >= .5]
    print("# of %d that share without them: at least 90 %% taken in %d" % (
        len(shared), sum(row["taken"] >= .9 for row in shared)))
    return good


def judge(name, pipeline, default=True):
    """The Result of one pipeline."""
    repeats = getattr(pipeline, "REPEATS", True)  # else two plain runs differ
    plain, cost = without_us(name)
    same_as_plain = in_default_mode(name, plain)[0] if default and repeats else None
    same, taken, notes = when_aligned(name, pipeline)
    about = " ".join((pipeline.__doc__ or "").split())
    return Result(name, about, same_as_plain, same, taken, notes,
                  getattr(pipeline, "SHARES", "all"), cost)


def pipelines():
    """{module.class: class} of all that there are."""
    found = {}
    for module in MODULES:
        names = importlib.import_module("pipelines." + module)
        for name, kind in vars(names).items():
            if inspect.isclass(kind) and kind.__module__ == names.__name__ and \
                    hasattr(kind, "make"):
                found["%s.%s" % (module, name)] = kind
    return found


def check(result, good=GOOD):
    """Raise AssertionError unless @result is what is wanted of its pipeline, @good where all is."""
    assert result.default is not False, "default mode differs from plain"
    if result.wanted == "not aligned":
        assert any("not aligned" in note for note in result.notes), result.notes
        return
    assert result.aligned, "aligned jobs got different samples"
    if result.wanted == "all":
        assert result.taken >= good, (result.taken, result.notes)
    else:
        assert any(result.wanted in note for note in result.notes), result.notes


def table(results):
    """Lines of a table of the @results."""
    lines = ["| pipeline | what it is | an item | aligned, other seeds | taken | what was said |",
             "|---|---|---|---|---|---|"]
    for one in results:
        notes = "; ".join(note.replace("|", "/") for note in one.notes
                          if not note.startswith("torch_inputs"))
        lines.append("| `%s` | %s | %s | %s | %d %% | %s |" % (
            one.name, one.about, "" if one.cost is None else "%.1f ms" % one.cost, "the same samples" if one.aligned else "**other samples**",
            round(100 * one.taken), notes))
    aligned = sum(one.aligned for one in results)
    costly = [one for one in results if one.cost is None or one.cost >= COSTLY]
    return lines + ["", "Aligned to the same samples: %d of %d. At least 90 %% taken of what can be "
                    "taken: %d; of the %d whose items take %d ms and more, or are not known: %d. "
                    "Default mode, equal seeds, equal to plain: %d of %d." % (
                        aligned, len(results), sum(one.taken >= .9 for one in results),
                        len(costly), COSTLY, sum(one.taken >= .9 for one in costly),
                        sum(one.default is True for one in results),
                        sum(one.default is not None for one in results))]


def keep(results):
    """Put @results among those that are kept; all of these, in order of the pipelines."""
    rows = {**result_rows.read(RESULTS), **{one.name: one._asdict() for one in results}}
    rows = {name: rows[name] for name in pipelines() if name in rows}
    result_rows.write(RESULTS, rows)
    return [Result(**one) for one in rows.values()]


def write_table(path, results):
    """Put the table of @results into the document at @path."""
    text = support.read(path)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    support.write(path, "%s%s\n\n%s\n\n%s%s" % (before, BEGIN, "\n".join(table(results)), END, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="PIPELINE")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--aligned", action="store_true", help="not in default mode")
    parser.add_argument("--options", action="store_true", help="data sets that hold options, aligned only")
    options = parser.parse_args()
    known = pipelines()
    unknown = set(options.names) - set(known)
    if unknown:
        parser.error("no pipelines: " + " ".join(sorted(unknown)))
    names = options.names or list(known)
    import data
    data.make(DATA)
    if options.options:
        return 0 if with_options(names, known) else 1
    print("1..%d" % len(names))
    results, failed = [], 0
    for number, name in enumerate(names, 1):
        word = "ok"
        try:
            results.append(judge(name, known[name], not options.aligned))
            check(results[-1], getattr(known[name], "TAKEN", GOOD))
        except AssertionError as error:
            word, failed = "not ok", failed + 1
            print("# " + str(error).replace("\n", "\n# "))
        print("%s %d - %s" % (word, number, name))
        if results and results[-1].name == name:
            print("# taken %.2f; %.2f ms; %s" % (results[-1].taken, results[-1].cost or 0,
                                                 "; ".join(results[-1].notes)))
        sys.stdout.flush()
    if options.table:
        write_table(options.table, keep(results))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        corpus_python.enter()
    except support.Elsewhere as there:
        os.execv(there.python, [there.python, *sys.argv])
    except support.Skip as skip:
        print("1..0 # SKIP %s" % skip)
        sys.exit(support.MUST)
    sys.exit(main())
