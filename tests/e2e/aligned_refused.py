# SPDX-License-Identifier: MIT
"""
Aligned is never below default: where samples cannot be shared, decoded pictures are, from the next
batch on.
"""

import support
from aligned_common import counter
from messages import pictures, two

COUNT = 24  # more than aligned jobs make before they share pictures of samples that nobody asks for


def pixels_taken(first, second=None, **settings):
    """Pictures that the second of two aligned jobs took; its samples were for nobody."""
    with pictures(COUNT) as path:
        with two(path, first, first if second is None else second, TSSHIM_ALIGN="7",
                 **settings) as (group, one, other):
            one.end()
            other.end()
            assert counter(group, "shared") == 0, settings
            return group.pixels("shared")


def test_files_too_young():
    assert pixels_taken([], library=support.TEST_LIBRARY, TSSHIM_TEST_YOUNG_INPUTS="0") > 0


@support.whole
def test_samples_too_large():
    assert pixels_taken(["size=9000000"], TSSHIM_RING="64M") > 0


@support.whole
def test_samples_of_a_type_that_is_not_shared():
    assert pixels_taken(["odd=1"]) > 0


@support.whole
def test_a_data_set_that_has_no_name():
    assert pixels_taken(["lock=1"]) > 0


def test_data_sets_that_are_named_apart():
    assert pixels_taken(["held=1"], ["held=2"]) > 0


support.main(support.functions(globals()))
