# SPDX-License-Identifier: MIT
"""
Attacks on default mode by whole programs: what they change around a data set that is shared, what
its samples consist of, how they end.  Two jobs at once compute what each does alone.
"""

import os
import tempfile

import exact
import support
from support import HERE

JOB = os.path.join(HERE, "attacks_job.py")
FILES = ("rewritten_in_place", "replaced_by_another", "link_that_leads_elsewhere",
         "other_working_directory")
SETTINGS = ("small_numbers_are_zero", "other_type_of_numbers", "errors_of_arithmetic",
            "other_digits", "half_a_picture", "large_picture", "other_precision", "inference")
ERRORS = ("errors_that_the_program_takes", "end_in_the_middle")
SAMPLES = ("kinds_of_values", "views_of_what_it_holds", "kinds_of_indices", "one_tensor_twice", "one_list_twice")
LEFT_ALONE = ("ordered",)  # a class that is not encoded
OPENCV = ("file_that_comes_and_goes",)  # by what OpenCV gives, and no exception
WORKERS = ("worker_that_changes_the_data", "memory_of_batches")


def counted(*cases):
    """{case: what was counted} when two jobs meet in each of @cases, one after the other."""
    with tempfile.TemporaryDirectory() as place:
        scenes = [[[support.torch_python(), JOB, "--case", case, "--who", str(who),
                    "--place", place] for who in (0, 1)] for case in cases]
        # Nothing is compared by the library itself: a wrong sample has to show.
        counts = exact.in_turn(*scenes, verify=0)
    return dict(zip(cases, counts))


def check(*cases):
    """Jobs with @cases compute what they do alone, and share samples in each; what was counted."""
    found = counted(*cases)
    for case, counts in found.items():
        assert counts["shared"] > 0 or case in LEFT_ALONE, (case, counts)
    return found


def test_files_and_settings_that_change_between_epochs():
    check(*FILES, *SETTINGS)


def test_a_file_that_comes_and_goes():
    if support.run([support.torch_python(), "-c", "import cv2"]).status != 0:
        raise support.Skip("opencv", "not installed for " + support.torch_python())
    check(*OPENCV)


@support.whole
def test_errors_and_samples_of_all_kinds():
    found = check(*ERRORS, *SAMPLES, *LEFT_ALONE, *WORKERS)
    for case in LEFT_ALONE:
        counts = found[case]
        assert counts["shared"] == 0 and counts["passed"]["torch_sample"] > 0, (case, counts)
