# SPDX-License-Identifier: MIT
"""
Whether a message is shown in the test that its row of tests/structure/scenes.tsv names as its scene,
and not in the look-alike.  tests/structure/notes.py reads the messages from the source, and fails
for one without a row.
"""

import contextlib
import functools
import os
import re
import subprocess

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "structure", "scenes.tsv")
SHOWN = []
CONVERSION = re.compile(r"%[-+ #0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z]")


def rows(path=TABLE):
    """(file of the source, message, scene, look-alike) of all rows."""
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]


@functools.lru_cache(maxsize=None)
def parts(message):
    """What stands between the conversions of a @message, in order."""
    text = CONVERSION.sub("\0", message.replace("%%", "\1").replace("\\n", "\n").replace('\\"', '"'))
    return [part.replace("\1", "%") for part in text.strip().split("\0") if part]


def shows(text, message):
    """Whether a @message stands in a @text, whatever its conversions became on a line."""
    first, *others = parts(message)
    begin = text.find(first)
    while begin >= 0:
        end = begin + len(first)
        for part in others:
            line = text.find("\n", end)
            at = text.find(part, end, len(text) if line < 0 else line + len(part))
            if at < 0:
                break
            end = at + len(part)
        else:
            return True
        begin = text.find(first, begin + 1)
    return False


def note(text):
    """What was shown elsewhere, to the test that runs."""
    SHOWN[-1].append(text)


@contextlib.contextmanager
def watched():
    """A list of what the processes print that the caller meanwhile runs to their ends, of each by itself."""
    shown = []
    SHOWN.append(shown)
    real = subprocess.Popen.communicate

    @functools.wraps(real)
    def communicate(process, *words, **more):
        found = real(process, *words, **more)
        texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in found if text is not None]
        if texts:
            shown.append("\n".join(texts))
        return found

    subprocess.Popen.communicate = communicate
    try:
        yield shown
    finally:
        subprocess.Popen.communicate = real
        SHOWN.pop()


def check(test, shown):
    """AssertionError unless what was @shown in a @test, FILE:NAME, is what its rows say."""
    for file, message, scene, look_alike in rows():
        if test not in (scene, look_alike) or not shown:  # it has run no process
            continue
        found = [shows(text, message) for text in shown]
        if test == scene:
            assert any(found), "nothing shows '%s' (%s)" % (message, file)
        if test == look_alike:
            assert not all(found) and (test == scene or not any(found)), (
                "'%s' (%s) is shown" % (message, file))


@contextlib.contextmanager
def of(file, name):
    """Around the test of that @name in the file of that name."""
    with watched() as shown:
        yield
    check("%s:%s" % (file, name), shown)
