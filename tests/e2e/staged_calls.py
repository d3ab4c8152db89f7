# SPDX-License-Identifier: MIT
"""
Every call that takes a descriptor and depends on what file that is (docs/rooms/files.md has the
table): on a copy each gives what it gives on the original, errors included.
"""

import os
import shutil
import subprocess

import pytest

import staged
import support

CHILD = os.path.join(support.HERE, "staged_calls_child.py")


def prepare(root):
    """A program as well; and everything is on the disk, so that extents do not change."""
    shutil.copy("/bin/true", os.path.join(root, "program"))
    subprocess.run(["sync", "-f", root], check=True)


@pytest.mark.parametrize("recipe", """ranges clones pipes systems handles names changes advice syncs
    watches maps controls ioctls directories programs extended holes reads""".split())
def test_recipes_of_staged_calls_child(recipe):
    staged.alike(recipe, prepare=prepare, child=CHILD)
