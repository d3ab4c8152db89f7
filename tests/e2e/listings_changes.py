# SPDX-License-Identifier: MIT
"""Listings of directories (--stage-metadata) are never outdated for longer than they may be."""

import os
import time

import support
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


# Ways to change class1 whose effect the same process and others have to see at once.
CHANGES = {
    "create": "open(path('class1', 'new'), 'xb').close()",
    "os_open": "os.close(os.open(path('class1', 'new'), os.O_CREAT | os.O_RDONLY))",
    "mkdir": "os.mkdir(path('class1', 'new'))",
    "mkdir_at": "d = os.open(path('class1'), os.O_RDONLY); os.mkdir('new', dir_fd=d)",
    "rmdir": "os.rmdir(path('class0', 'below'))",
    "symlink": "os.symlink('a', path('class1', 'new'))",
    "symlink_at": "d = os.open(path('class1'), os.O_RDONLY); os.symlink('a', 'new', dir_fd=d)",
    "link": "os.link(path('class1', 'picture-1-000.jpg'), path('class1', 'new'))",
    "mkfifo": "os.mkfifo(path('class1', 'new'))",
    "mknod": "os.mknod(path('class1', 'new'))",
    "unlink": "os.unlink(path('class1', 'picture-1-000.jpg'))",
    "rename": "os.rename(path('class1', 'picture-1-000.jpg'), path('class1', 'new'))",
    "rename_in": "os.rename(path('class0', 'pipe'), path('class1', 'new'))",
    "rename_directory": "os.rename(path('class1'), path('class9'))",
    "replace_directory": "os.rename(path('class1'), path('class9'));"
                         "os.rename(path('class2'), path('class1'))",
    "touch": "import subprocess; subprocess.run(['touch', path('class1', 'new')], check=True)",
    "shell": "import subprocess; subprocess.run('mv pipe ../class1', shell=True, check=True,"
             " cwd=path('class0'))",
    "relative": "os.chdir(path('class1')); open('new', 'xb').close()",
    "while_open": "s = opendir(path('class1')); c.readdir(s); os.mkdir(path('class1', 'new'));"
                  "c.rewinddir(s); say(sorted(e[4] for e in rest(s)))",
    "between": "s = opendir(path('class1')); os.mkdir(path('class1', 'new'));"
               "say(sorted(e[4] for e in rest(s)))",
}
LOOK = "\nnames('class0'); names('class1'); names('.'); names('class9')\n"


OTHER = "import subprocess; subprocess.run([sys.executable, '-c', %r, root], check=True)" % (
    PROLOGUE + LOOK)


def changes():
    """Each on storage that keeps no times of directories, so that these do not help."""
    for what, change in CHANGES.items():
        def check(what=what, change=change):
            seen = {}
            for kind in ("plain", "known"):
                with storage_and_group(still=1) as (storage, group):
                    who = group if kind == "known" else None
                    if who:
                        outcome(LOOK, storage.path, who)
                        served(storage, LOOK, who)
                    # The other one looks first: it has no change of its own to go by.
                    seen[kind] = outcome("\n".join((LOOK, change, OTHER, LOOK)), storage.path,
                                         who)
            assert seen["plain"].status == 0, seen["plain"].errors
            equal(seen["plain"], seen["known"], what)
        yield "own_change_" + what, check


if __name__ == "__main__":
    support.main(support.functions(globals()) + list(changes()))
