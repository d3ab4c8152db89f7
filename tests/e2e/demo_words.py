# SPDX-License-Identifier: MIT
"""The words of scripts/demo: each is said of jobs of which it is true.  The jobs are made up."""

import os
import tempfile

import support

BENCH = os.path.join(os.path.dirname(os.path.dirname(support.HERE)), "bench")
# What @more changes in a demonstration of two jobs with two samples each, in which all went well.
MADE_UP = """
import argparse, sys
sys.path.insert(0, %r)
import demo
from tsbench import trial
def outcome(**more):
    return trial.Outcome(**{**dict(rate=10.0, seconds=1.0, cpu=1.0, results=[["a"], ["b"]], samples=[["s"], ["s"]],
                                   sets=[["s"], ["s"]], kinds={"sample": (2, 2, 0.5)}, count=2, made=2), **more})
arguments = argparse.Namespace(command=[], epochs=1, jobs=2, speeds=False)
outcomes = {trial.PLAIN: outcome(kinds={}), trial.DEFAULT: outcome(), trial.ALIGNED: outcome()}
def speeds():
    arguments.speeds = True
    del outcomes[trial.DEFAULT]
    outcomes[trial.FREE] = outcome()
def command(**more):
    arguments.command = ["true"]
    for way in outcomes:
        outcomes[way] = outcome(rate=0, samples=[], sets=[], made=0, count=0, **more)
%s
wrong = [] if arguments.command else trial.complaints(outcomes, 1)
demo.report(outcomes, wrong, trial.needs_sharing(outcomes, arguments.jobs), arguments)
"""


def report(more=""):
    """What the demonstration ends with."""
    done = support.run(["/usr/bin/python3", "-B", "-c", MADE_UP % (BENCH, more)])
    assert (done.status, done.errors) == (0, ""), done.errors
    return done.output


def run(*words, status=1, env=None):
    """What bench/demo.py says to @words, in place of a demonstration."""
    environment = {**support.plain_environment(), **(env or {})}
    done = support.run(["/usr/bin/python3", "-B", os.path.join(BENCH, "demo.py"), *words], environment)
    assert done.status == status, (done.status, done.errors)
    return done.output + done.errors


def test_what_was_shared():
    text = report()
    assert "2 of 4 samples" in text and "made / given to the fastest" not in text, text
    assert "every job computed what it computes without it" in text and "DIFFERENT" not in text, text
    text = report("speeds()")
    assert "1.00" in text and "made / given to the fastest" in text, text
    assert "All aligned jobs were given the same samples" in text, text
    text = report("command(said=('tsshim: 2 of 4 samples',))")
    assert "2 of 2 commands printed" in text and "job 0 said:\n  tsshim: 2 of 4 samples" in text, text
    text = report("command()\noutcomes[trial.DEFAULT].results = [['a'], ['c']]")
    assert "1 of 2 commands printed" in text and "said" not in text, text


def test_nothing_was_shared():
    text = report("outcomes[trial.ALIGNED].kinds = {'sample': (4, 0, 0)}")
    assert "NOTHING WAS SHARED by `tsrun --align --`" in text and "nothing" in text, text
    # One job has nobody to share with.
    assert "NOTHING" not in report("arguments.jobs = 1\noutcomes[trial.ALIGNED].kinds = {'sample': (4, 0, 0)}")


def test_results_that_differ():
    for more, words in (
            ("outcomes[trial.DEFAULT].results = [['a'], ['c']]", "job 1 computed ['c'] with tsrun, ['b'] without"),
            ("outcomes[trial.DEFAULT].results = [['a'], []]", "job 1 of `tsrun --` did not finish its epochs"),
            ("outcomes[trial.ALIGNED].samples = [['s'], ['t']]", "aligned job 1 was given ['t'], job 0 ['s']"),
            ("speeds()\noutcomes[trial.FREE].sets = [['s'], ['t']]",
             "job 1 in free order was given ['t'], in strict order ['s']")):
        text = report(more)
        assert "DIFFERENT RESULTS:\n  " in text and words in text and "bit for bit" not in text, text
    # In free order it is the order that may differ.
    assert "DIFFERENT" not in report("speeds()\noutcomes[trial.FREE].samples = [['s'], ['t']]")


def test_what_is_about_to_run():
    with tempfile.TemporaryDirectory() as place:
        with open(place + "/a.jpg", "wb") as file:
            file.write(b"\xff\xd8\xff\xc0\0\x11\x08\0\x10\0\x10\3" + bytes(9) + b"\xff\xd9")
        prepare = ("arguments.images, arguments.workers, arguments.ring = %r, 1, '64M'\n"
                   "def train(*rest): return outcome()\ntrial.train = train\n"
                   "demo.photos.image_folder = lambda directory, place: directory\n"
                   "demo.train_in_all_ways(argparse.Namespace(directory=%r), arguments)" % (place, place))
        text = report(prepare)
        assert text.startswith("2 unmodified PyTorch jobs, 1 photographs") and "A step of training" not in text, text
        text = report("speeds()\n" + prepare)
        assert "A step of training takes the jobs 0, 4 ms an image" in text, text
    assert "unmodified" not in report("command()")


def test_wrong_words_cost_no_time(directory):
    for words, message in (
            (["--jobs", "0"], "must be at least 1"), (["--jobs", "57"], "must be at most 56"),
            (["--ring", "1GB"], "must be a size such as 512M or 4G"),
            (["--images", directory + "/none"], "none is not a directory"),
            (["--images", directory, "--", "true"], "--images is for our own training loop"),
            (["--speeds", "--", "true"], "--speeds is for our own training loop")):
        assert message in run("--check-options", *words, status=2), words
    for words in (["--jobs", "1"], ["--jobs", "56", "--ring", "1G"], ["--images", directory], ["--speeds"],
                  ["--", "true"]):
        assert run("--check-options", *words, status=0) == "", words


def test_what_is_missing_is_named(directory):
    missing = run("--build", directory)
    assert "error: %s/shim/tsrun/tsrun does not exist; run scripts/demo" % directory in missing, missing
    missing = run("--build", support.BUILD, "--", "no-such-command")
    assert missing == "error: no-such-command: there is no such command\n", missing
    missing = run("--build", support.BUILD, "--images", directory)
    assert missing.startswith("error: no JPEG files in %s" % directory), missing


def test_a_full_disk():
    """Where photographs are made, with a stand-in for what makes them."""
    code = ("import sys, errno; sys.path.insert(0, %r); import demo; sys.argv = ['demo', '--only-images', '--build', '/dev/null']\n"
            "def made_images(arguments): raise %s\n"
            "demo.made_images = made_images; sys.exit(demo.main())")
    for error, words in (("OSError(errno.ENOSPC, 'full')", "hint: the disk is full"), ("OSError(errno.EACCES, 'no')", ""),
                         ("KeyboardInterrupt()", "interrupted; the jobs and their shared memory are gone")):
        done = support.run(["/usr/bin/python3", "-B", "-c", code % (BENCH, error)])
        assert done.status == (130 if "Key" in error else 1) and words in done.errors, done.errors
        assert ("hint: " in done.errors) == ("ENOSPC" in error), done.errors


def test_commands_of_a_user():
    """Two jobs that print a line each, whose times differ."""
    text = run("--build", support.BUILD, "--jobs", "1", "--", "echo", "hello", status=0)
    assert text.startswith("1 x echo hello\n\n") and "1 of 1 commands printed" in text, text
