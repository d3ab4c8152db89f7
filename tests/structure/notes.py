#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each line that the glue says to the user of a job has a scene in which it is said, and a look-alike
in which it is not.  TAP.

NOTES names both, by the test; the reasons and the line at the end of a job have a table of their own
(tests/unit/shim/test_line_scenes.c).
"""
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GLUE = ROOT / "hooks" / "torch" / "python" / "tsshim_torch"
SAYS = {"say", "_say", "_say_once"}

# Several loaders, some of which are told of.
LOADERS = "wrappers:torchs_warnings_name_the_line_that_they_name_without_us"

# The beginning of a line: (the test in which it is said, the one in which it must not be).
NOTES = {
    "aligned data, seed": (
        "aligned_others:what_keras_makes_as_the_loader_asks_is_aligned", LOADERS),
    "an error of tsshim's own": (
        "wrappers:errors_of_ours_in_aligned_jobs", "wrappers:releases_of_webdataset"),
    "samples are not shared: ": (
        "aligned_zoo:what_cannot_be_seeded_is_told", "aligned_zoo:locks_that_nobody_holds_say_nothing"),
    "not aligned: loaders of": (
        "aligned_others:programs_without_torch_are_told_at_the_end",
        "aligned_others:a_module_of_that_name_is_none_of_them"),
    "not aligned: batches that Keras makes ahead": (
        "aligned_others:what_keras_makes_ahead_stays_the_jobs_own",
        "aligned_others:what_keras_makes_as_the_loader_asks_is_aligned"),
    "not aligned: loader over": (LOADERS, LOADERS),
    "not aligned: iteration of": (
        "aligned_streams:what_has_an_order_of_its_own_is_told", "aligned_streams:jobs_walk_the_same_items"),
    "not aligned: ": (
        "aligned_zoo:what_cannot_be_seeded_is_told",
        "aligned_zoo:generators_of_its_own_are_seeded_for_each_item"),
    "order not aligned: loader over": ("pipelines/loaders:FastaiOnce", "pipelines/loaders:Fastai"),
    "order not aligned: ": (  # with and without --align-orders
        "aligned_zoo:a_sampler_with_a_seed_of_its_own_is_told_or_aligned",
        "aligned_zoo:a_sampler_with_a_seed_of_its_own_is_told_or_aligned"),
    ": generators of its own are aligned only where": (
        "walks:an_aligned_job_walks_once", "walks:a_job_in_default_mode_walks_in_the_first_epoch_alone"),
    "strict order for a loader of": (
        "free:where_order_means_something_it_stays", "free:who_is_alone_has_the_strict_order"),
    "not recorded: a loader that delivers in any order": (LOADERS, LOADERS),
    "the recording '": (
        "recording:an_error_ends_the_recording_with_a_line", "recording:what_was_written_is_read"),
    "locality: ": (
        "locality_ranks:epochs_behind_the_first_are_shared_out",
        "locality_ranks:one_node_and_one_rank_have_nothing_to_share_out"),
    "no locality: ": (
        "locality_ranks:a_rank_that_has_not_told", "locality_ranks:epochs_behind_the_first_are_shared_out"),
}

# Arguments that are no texts, of functions that say something themselves.
OBJECTS = {"loader", "epoch"}


def beginnings():
    """(file, line, the text that a call says first) of all calls; None where that is not seen."""
    for path in sorted(GLUE.rglob("*.py")):
        if "explain" in path.relative_to(GLUE).parts:
            continue  # prints a report
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inner = {id(call) for node in ast.walk(tree)
                 if isinstance(node, ast.FunctionDef) and node.name in SAYS for call in ast.walk(node)}
        for call in ast.walk(tree):
            name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
            text = call.args[0] if name in SAYS and call.args else None
            while isinstance(text, ast.BinOp):
                text = text.left
            if isinstance(text, ast.Constant):
                yield path, call.lineno, text.value.removeprefix("%s")
            elif text is not None and id(call) not in inner and ast.unparse(text) not in OBJECTS:
                yield path, call.lineno, None


def note_of(text):
    """The key of NOTES that fits best, or None."""
    return max((key for key in NOTES if text.startswith(key)), key=len, default=None)


def without_scenes(notes):
    """What calls say that has no row, and rows whose tests are not there or that nobody says."""
    said = set()
    for path, line, text in notes:
        key = None if text is None else note_of(text)
        said.add(key)
        if key is None:
            yield f"{path.relative_to(ROOT)}:{line}: {text!r} has no row in NOTES"
    for key, tests in NOTES.items():
        if key not in said:
            yield f"nothing says {key!r}"
        for test in tests:
            file, _, name = test.partition(":")
            path = ROOT / "tests" / ("programs" if "/" in file else "e2e") / (file + ".py")
            if not path.is_file() or not re.search(
                    rf"^(def test_|class ){name}\b", path.read_text(encoding="utf-8"), re.M):
                yield f"{key!r}: there is no {test}"


def main():
    found = list(beginnings())
    checks = (
        ("an unknown line is noticed", [] if len(list(without_scenes([*found, (GLUE, 1, "news")]))) == 1 + len(
            list(without_scenes(found))) else ["it is not"]),
        (f"{len(NOTES)} lines for users have two scenes each", list(without_scenes(found))),
    )
    print(f"1..{len(checks)}")
    for number, (name, lines) in enumerate(checks, 1):
        print(f"{'not ok' if lines else 'ok'} {number} - {name}")
        for line in lines:
            print(f"# {line}")
    return 1 if any(lines for _, lines in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
