# SPDX-License-Identifier: MIT
"""
python3 scripts/tables --write: make the pages of docs/ that come from tables.
python3 scripts/tables --check: say which of them is not what the tables say.
python3 scripts/tables TEMPLATE OUTPUT: replace each line @PART@ of a manual page or a completion.
"""

import os
import re
import sys

sys.dont_write_bytecode = True  # the sources may belong to somebody else

import completions  # noqa: E402
import manual  # noqa: E402
import pages  # noqa: E402
import rows  # noqa: E402

REFRESH = "meson compile -C build-test docs"


def check():
    stale = [name for name, make in pages.PAGES.items()
             if not os.path.exists(os.path.join(rows.ROOT, name)) or rows.read(name) != make()]
    for name in stale:
        print("%s is not what the tables say; `%s` makes it, without Meson `python3 scripts/tables --write`" % (name, REFRESH))
    return 1 if stale else 0


def write():
    for name, make in pages.PAGES.items():
        with open(os.path.join(rows.ROOT, name), "w", encoding="utf-8") as file:
            file.write(make())
    return 0


def fill(template, output):
    parts = {**manual.PARTS, **completions.PARTS}
    with open(template, encoding="utf-8") as file:
        text = re.sub(r"^@(\w+)@$", lambda match: parts[match.group(1)](), file.read(), flags=re.M)
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


def main(words):
    if words == ["--check"]:
        return check()
    if words == ["--write"]:
        return write()
    if len(words) == 2:
        return fill(*words)
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
