# SPDX-License-Identifier: MIT
"""Listings of directories (--stage-metadata) are never outdated for longer than they may be."""

import os
import time

import pytest

from listings_common import PROLOGUE, READ, files_of, lists, outcome, served, storage_and_group
from support import equal


def test_young_directories_are_not_shared():
    """One that has just changed may change again before its times show it."""
    with storage_and_group(age_s=-3600) as (storage, group):
        for _ in range(2):
            storage.reset()
            equal(outcome(READ, storage.path), outcome(READ, storage.path, group), "young")
        assert lists(storage) > 0 and files_of(group) == []


def test_changes_of_others_are_seen_at_once():
    """Where the storage keeps times of directories; also what takes the place of another."""
    body = "names('class1'); names('.')"
    with storage_and_group() as (storage, group):
        source = storage.source
        served_once = outcome(body, storage.path, group)
        assert served_once.status == 0
        changes = [
            lambda: open(os.path.join(source, "class1", "new"), "wb").close(),
            lambda: os.unlink(os.path.join(source, "class1", "new")),
            lambda: os.rename(os.path.join(source, "class1"), os.path.join(source, "other")),
            lambda: os.rename(os.path.join(source, "class2"), os.path.join(source, "class1")),
            lambda: os.mkdir(os.path.join(source, "class1", "more")),
        ]
        for number, change in enumerate(changes):
            change()
            reference = outcome(body, storage.path)
            for turn in range(2):
                equal(reference, outcome(body, storage.path, group), (number, turn))


def test_seconds():
    """Where it keeps none, which a test can make so, they are seen after so many seconds."""
    for seconds in (600, 3):
        with storage_and_group(seconds=seconds, still=1) as (storage, group):
            body = "names('class1')"
            place = os.path.join(storage.source, "class1")
            before = outcome(body, storage.path)
            equal(before, outcome(body, storage.path, group), "before")
            with open(os.path.join(place, "new"), "wb"):
                pass
            after = outcome(body, storage.path)
            assert after.output != before.output
            if seconds == 600:
                equal(before, outcome(body, storage.path, group), "within ten minutes")
                continue
            time.sleep(seconds + 2)
            equal(after, outcome(body, storage.path, group), "after three seconds")
            equal(after, served(storage, body, group, TSSHIM_STAGE_METADATA="600"),
                  "and again from the new one")
            assert len(files_of(group)) == 1, files_of(group)


# Ways to make a file in class1, which the user has promised that no job does: the same process and others see
# it at once all the same.
CHANGES = {
    "create": "open(path('class1', 'new'), 'xb').close()",
    "os_open": "os.close(os.open(path('class1', 'new'), os.O_CREAT | os.O_RDONLY))",
    "touch": "import subprocess; subprocess.run(['touch', path('class1', 'new')], check=True)",
    "relative": "os.chdir(path('class1')); open('new', 'xb').close()",
    "and_then": "open(path('class1', 'new'), 'xb').close(); os.mkdir(path('class1', 'more'));"
                "os.rename(path('class0', 'pipe'), path('class1', 'pipe')); os.rmdir(path('class0', 'below'))",
    "while_open": "s = opendir(path('class1')); c.readdir(s); open(path('class1', 'new'), 'xb').close();"
                  "c.rewinddir(s); say(sorted(e[4] for e in rest(s)))",
    "between": "s = opendir(path('class1')); open(path('class1', 'new'), 'xb').close();"
               "say(sorted(e[4] for e in rest(s)))",
}
LOOK = "\nnames('class0'); names('class1'); names('.')\n"


OTHER = "import subprocess; subprocess.run([sys.executable, '-c', %r, root], check=True)" % (
    PROLOGUE + LOOK)


@pytest.mark.parametrize("what", CHANGES)
def test_own_change(what):
    """On storage that keeps no times of directories, so that these do not help."""
    seen = {}
    for kind in ("plain", "known"):
        with storage_and_group(still=1) as (storage, group):
            who = group if kind == "known" else None
            if who:
                outcome(LOOK, storage.path, who)
                served(storage, LOOK, who)
            # The other one looks first: it has no change of its own to go by.
            seen[kind] = outcome("\n".join((LOOK, CHANGES[what], OTHER, LOOK)), storage.path, who)
    assert seen["plain"].status == 0, seen["plain"].errors
    equal(seen["plain"], seen["known"], what)
