# SPDX-License-Identifier: MIT
"""
What tsrun starts in the place of the program: with the interpreter, environment and options of the
command, so that imports find what they would find.

The words are: "json" or "text", the descriptor to print to, what tsrun has found out (JSON), and the
command's own from the script, -c or -m on.
"""

import os
import sys

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    sys.dont_write_bytecode = True
    # Where a script lies is searched first, and a program means other modules by our names.
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    # An interpreter with -I, -E or -S has not gone through our sitecustomize.
    sys.path.insert(0, HERE)
    try:
        from tsshim_torch.explain import command
    finally:
        sys.path.remove(HERE)
    form, number, facts, *words = sys.argv[1:]
    try:
        status = command.explain(form == "json", int(number), facts, words)
    except KeyboardInterrupt:
        status = 130
    # Nothing that an import has left to do at the end is done: no exit function, no thread.
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
