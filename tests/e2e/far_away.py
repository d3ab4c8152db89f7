# SPDX-License-Identifier: MIT
"""Jobs on files far away, as the tests of --stage-metadata have them."""

import contextlib

import support
from support import PYTHON, Group, start

support.search("tests", "storage")
import mounted  # noqa: E402

# An answer counts as one of the storage only if it reached it: the kernel keeps nothing.
FORGETFUL = {"attr_timeout_ms": 0, "entry_timeout_ms": 0, "age_s": 3600}


class FarAway:
    """What jobs find and what they can do there: fill(root) makes the files, @prologue is Python
    that comes before what a job does, with sys.argv[1] the root and @words behind it."""

    def __init__(self, fill, prologue, *words):
        self.fill, self.prologue, self.words = fill, prologue, words

    def job(self, body, root, group=None, **settings):
        """A process that does @body in @root, plain unless there is a @group."""
        command = [PYTHON, "-c", self.prologue + body, root, *self.words]
        if group is None:
            return start(command, support.plain_environment())
        return start(command, group.environment(TSSHIM_DATASET="files=" + root, **settings))

    def outcome(self, body, root, group=None, **settings):
        """The same, when it has ended."""
        return support.finish(self.job(body, root, group, **settings))

    @contextlib.contextmanager
    def storage_and_group(self, seconds=600, library=support.TEST_LIBRARY, **settings):
        """Files far away that are an hour old, and a group that stays."""
        with mounted.Mounted(**{**FORGETFUL, **settings}) as storage, \
                Group(library, TSSHIM_STAGE="auto",
                      TSSHIM_STAGE_METADATA=str(seconds)) as group:
            self.fill(storage.source)
            group.keep()
            yield storage, group
            group.release()
            group.gc()
            assert group.leftovers("f.*") == [] and group.leftovers("stage") == []
