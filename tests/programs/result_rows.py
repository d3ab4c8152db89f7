# SPDX-License-Identifier: MIT
"""Results that are kept beside the programs: JSON with a line for each row."""

import json
import os


def read(path):
    """The rows at @path, a list or a dict; an empty dict where there are none yet."""
    if not os.path.exists(path):
        return {}
    with open(path) as file:
        return json.load(file)


def write(path, rows):
    """Keep @rows, a list or a dict, at @path."""
    if isinstance(rows, dict):
        lines = ["%s: %s" % (json.dumps(key), json.dumps(row)) for key, row in rows.items()]
    else:
        lines = list(map(json.dumps, rows))
    with open(path, "w") as file:
        file.write("%s\n%s\n%s\n" % ("{" if isinstance(rows, dict) else "[", ",\n".join(lines),
                                     "}" if isinstance(rows, dict) else "]"))
