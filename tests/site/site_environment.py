# SPDX-License-Identifier: MIT
"""The variables that scripts/slurm read are those that Slurm passes, by the table environment.tsv."""

import os
import re

import support

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts", "slurm")
READ = re.compile(r"\$\{?(SLURM_\w+|SLURMD_\w+)")
FALLBACK = re.compile(r"\$\{(SLURM_\w+):-\$\{(SLURM_\w+)-\}\}")
NAMES = ("prolog", "epilog", "taskprolog")
RELEASES = ("22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11", "26.05")


def rows(path=os.path.join(HERE, "environment.tsv")):
    """[(script, variable, since, when, source)]"""
    return [tuple(line.split("\t")) for line in support.read(path).splitlines() if not line.startswith("#")]


def functions(text):
    """{name: text of it} of bash functions, as our scripts write them."""
    return dict(re.findall(r"^(\w+)\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL))


def text_of(script):
    """Of a script, with those functions of common.bash that it may come to."""
    found = support.read(os.path.join(SCRIPTS, script))
    common = functions(support.read(os.path.join(SCRIPTS, "common.bash")))
    taken = set()
    while True:
        more = {name for name in common if name not in taken and re.search(r"\b%s\b" % name, found)}
        if not more:
            return found
        taken |= more
        found += "".join(common[name] for name in more)


def wrong(texts, table):
    """What is read and not in the table, what a release does not pass, and rows that nobody needs."""
    known = {(script, name): (since, when) for script, name, since, when, _ in table}
    for script, text in texts.items():
        fallbacks = dict(FALLBACK.findall(text))
        for name in sorted(set(READ.findall(text))):
            since, when = known.pop((script, name), (None, None))
            if since is None:
                yield "%s reads %s, which is not in the table" % (script, name)
            elif since not in RELEASES:
                yield "%s: no release %s" % (name, since)
            elif since > RELEASES[0] and when == "always" and (script, fallbacks.get(name)) not in {row[:2] for row in table}:
                yield "%s reads %s, which Slurm before %s does not pass" % (script, name, since)
    yield from ("%s does not read %s" % key for key in sorted(known))


def test_scripts_read_what_slurm_passes():
    assert list(wrong({name: text_of(name) for name in NAMES}, rows())) == []


def test_what_slurm_does_not_pass_is_noticed():
    """As in the fault that was: the newer name alone."""
    texts = {name: text_of(name) for name in NAMES}
    texts["prolog"] = texts["prolog"].replace("${SLURM_JOB_NODELIST:-${SLURM_NODELIST-}}", "${SLURM_JOB_NODELIST-}")
    assert sorted(wrong(texts, rows())) == ["prolog does not read SLURM_NODELIST",
                                            "prolog reads SLURM_JOB_NODELIST, which Slurm before 23.11 does not pass"]
    texts = {**texts, "epilog": "echo $SLURM_JOB_CONSTRAINTS"}
    assert "epilog reads SLURM_JOB_CONSTRAINTS, which is not in the table" in wrong(texts, rows())
