#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What stands in one table is told from there: the pages of docs/ in the tree are what scripts/tables makes.  TAP."""
import contextlib
import io
import pathlib
import re
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "scripts" / "tables"
sys.path.insert(0, str(TABLES))

import pages  # noqa: E402
import rows  # noqa: E402
import tap  # noqa: E402


def stale():
    """What --check says of the tree."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = runpy.run_path(str(TABLES / "__main__.py"))["main"](["--check"])
    lines = said.getvalue().splitlines()
    return lines or (["--check ends with %d" % status] if status else [])


def unnoticed():
    """A page that differs in a letter is named, with the command that makes it."""
    made = dict(pages.PAGES)
    for name, make in made.items():
        pages.PAGES[name] = lambda make=make: make() + "x"
        lines = stale()
        pages.PAGES[name] = make
        if not (len(lines) == 1 and lines[0].startswith(name) and "meson compile" in lines[0] and " docs`" in lines[0]):
            yield f"{name} with a letter more: {lines}"


def wrong_reasons():
    for identity, text, fix, more in rows.reasons():
        if more.count("*Remedy:*") != 1:
            yield f"{identity}: says a *Remedy:* once"
        if len(fix or "") > 80 or not text:
            yield f"{identity}: one line for people, and what helps in up to 80 characters"


def wrong_options():
    """The text of a row is not forgotten, and not told twice."""
    for option in rows.only_options(rows.settings()):
        if option.option and not option.text:
            yield f"{option.option}: has no text"
    for command in rows.commands():
        if command.word and not (command.text and command.summary and command.examples):
            yield f"{command.label}: has no text, no summary or no examples"
        if len(command.summary) > 28:
            yield f"{command.label}: up to 28 characters for `tsrun --help`"


    for _, identity, title, text in rows.checks():
        if not title or not text:
            yield f"check {identity}: has no title or no text"


def wrong_readme(text):
    """The ten options of README are some, each with the argument and the default that it has."""
    known = {option.usage.partition("[")[0].split()[0]: option for option in rows.only_options(rows.settings()) if option.option}
    named = re.findall(r"^\| `(--[^`]*)` \| (.*) \|$", text, re.M)
    for usage, about in named:
        option = known.get(re.match(r"--[a-z-]+", usage).group())
        written = re.sub(r"^--[a-z-]+", "", usage)
        if not option or written.strip() not in ("", (option.argument or ""), *(word for word, _ in option.words)):
            yield f"README.md: {usage} is no option of shim/options.def"
            continue
        defaults = re.findall(r"\(default `?(\w+)`?|`(\w+)` is the default|`(\w+)` \(default\)", about)
        for default in (word for found in defaults for word in found if word):
            if default not in (option.standard, option.implied):
                yield f"README.md: {default} is no default of {usage}, which is {option.standard}"
    if len(named) != 10:
        yield f"README.md: {len(named)} options in a table of ten"


def unnoticed_in_readme(text):
    for right, wrong in (("`--ring SIZE`", "`--ring BYTES`"), ("(default `auto`", "(default `4G`"), ("`--summary`", "`--summery`"),
                         ("\n| `--summary`", "\n`--summary`")):
        if right not in text or not list(wrong_readme(text.replace(right, wrong))):
            yield f"{wrong} in the place of {right}"


def main():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    checks = (("pages are what the tables say", list(stale())),
              ("a page that is not is noticed", list(unnoticed())),
              ("each reason says what to do", list(wrong_reasons())),
              ("options and commands have their texts", list(wrong_options())),
              ("README's options are options, with their defaults", list(wrong_readme(readme))),
              ("a wrong one in README is noticed", list(unnoticed_in_readme(readme))))
    return tap.report(checks)


if __name__ == "__main__":
    sys.exit(main())
