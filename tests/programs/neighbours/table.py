# SPDX-License-Identifier: MIT
"""The table of neighbours: which programs are run, plain and under the library, and how."""
import collections

# The columns of a row:
#   kind      a heading of docs/programs.md
#   name      unique; names the test
#   programs  what is tried, for people, in the order of the commands
#   needs     commands, or patterns of files, that have to be there
#   packages  of Debian that bring them, beyond those of `scripts/deps test`
#   script    for `sh -e`, in an empty directory that is the same for each run; standard output and
#             error, exit status and the files that are left are compared.  What may differ it leaves out
#   status    the script's exit status, or less than nothing for a signal
#   core      runs in everyday CI, with what `scripts/deps test` installs; else with --whole only
#   tsrun     also under `tsrun --`
#   jobs      how many run at once under the library
#   may       words of a plain run's messages that say that it cannot work here: a skip
Program = collections.namedtuple(
    "Program", "kind name programs needs packages script status core tsrun jobs may")


def program(kind, name, programs, script, status=0, needs=(), packages=(), core=False,
            tsrun=False, jobs=1, may=()):
    """A row; what it needs is the commands of that name where nothing else is said."""
    return Program(kind, name, programs, tuple(needs) or (name,), tuple(packages), script.strip(),
                   status, core, tsrun, jobs, tuple(may))


def rows():
    """The whole table, in the order of the page."""
    import builds
    import image_programs
    import languages
    import preloads
    import sandboxes
    import servers
    import shells

    found = [row for module in (shells, languages, preloads, image_programs, servers, sandboxes,
                                builds) for row in module.ROWS]
    names = [row.name for row in found]
    assert len(names) == len(set(names)), "a name is there twice"
    return found
