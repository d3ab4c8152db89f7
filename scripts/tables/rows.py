# SPDX-License-Identifier: MIT
"""The tables that C includes (*.def, and the words in shim/config.h), as Python has them."""

import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

STRING = r'"((?:[^"\\]|\\.)*)"'
TOKEN = re.compile(r'/\*\*\n(?P<text>.*?)\*/|/\*.*?\*/|^(?P<macro>TS_\w+)\((?P<row>(?:%s|[^"()])*)\)' % STRING, re.S | re.M)
PART = re.compile(r'%s|[^\s",]+|,' % STRING)


class Row:
    """One row of a table: its macro, its columns (None for NULL), and the Markdown that follows it."""

    def __init__(self, macro, columns):
        self.macro, self.columns, self.text = macro, columns, ""


class Heading:
    """Markdown between two rows: a line that begins with #, and what stands below."""

    def __init__(self, text):
        title, _, self.text = text.partition("\n")
        self.level = title.index(" ")
        self.title, self.text = title[self.level + 1:], self.text.strip()


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def columns(row):
    """The columns of what stands between the parentheses; strings beside one another are one."""
    found, parts = [], []
    for match in PART.finditer(row + ","):
        if match.group() != ",":
            text = match.group(1)
            parts.append(match.group() if text is None else text.replace("\\n", "\n").replace('\\"', '"'))
            continue
        found.append(None if parts == ["NULL"] else "".join(parts))
        parts = []
    return found


def table(*path):
    """Rows and headings of a file, in order.  Text that belongs to nothing is an error."""
    found = []
    for match in TOKEN.finditer(read(*path)):
        text = match.group("text")
        if match.group("macro"):
            found.append(Row(match.group("macro"), columns(match.group("row"))))
        elif text and text.startswith("#"):
            found.append(Heading(text.strip()))
        elif text:
            assert isinstance(found[-1], Row) and not found[-1].text, text
            found[-1].text = text.strip()
    return found


def rows(macro, *path):
    return [item for item in table(*path) if isinstance(item, Row) and item.macro == macro]


def words(name):
    """[(word, what it means)] of a list of words in shim/config.h."""
    if name is None:
        return []
    if name in ("offs", "autos"):
        return [(name[:-1], "")]
    body = re.search(r"#define TS_%s\(X\)(.*?)\n\n" % name.upper(), read("shim", "config.h"), re.S).group(1)
    found = re.findall(r"\bX\(((?:%s|[^\"()])*)\)" % STRING, body.replace("\\\n", "\n"))
    return [tuple(columns(row[0])[1:]) for row in found]


class Option:
    """A setting (shim/options.def), or an option of tsrun's own (shim/tsrun/commands.def)."""

    def __init__(self, option, argument, brief, text):
        self.option, self.argument, self.brief, self.text = option, argument, brief, text
        self.letter = self.variable = self.standard = self.expect = self.implied = None
        self.words, self.commands = [], []

    @property
    def is_joined(self):
        """Its argument may be left out."""
        return bool(self.argument) and self.argument.startswith("[")

    @property
    def usage(self):
        """As it is typed: --ring SIZE, --align[=SEED]."""
        return self.option + (("" if self.is_joined else " ") + self.argument if self.argument else "")


class Command:
    """What tsrun does: the word "" is for a command of the user's."""

    def __init__(self, row):
        self.name, self.word, usage, self.summary, self.about, self.remarks, self.examples, self.status = row.columns
        self.usages, self.text = usage.split("\n"), row.text
        self.takes_command = "command" in usage
        self.options = []

    @property
    def label(self):
        return ("tsrun " + self.word).rstrip()


def settings():
    """[Option or Heading] of shim/options.def."""
    found = []
    forms = {row.columns[0]: row.columns[1:] for row in rows("TS_FORM", "shim", "options.def")}
    for item in table("shim", "options.def"):
        if isinstance(item, Heading):
            found.append(item)
        elif item.macro == "TS_OPTION":
            name, option, argument, implied, form, _, standard, brief = item.columns
            setting = Option(option, argument, brief, item.text)
            setting.variable, setting.standard, setting.implied = "TSSHIM_" + name, standard, implied
            setting.words, setting.expect = words(forms[form][0]), forms[form][1]
            assert all(re.search(r"\b%s\b" % word, setting.expect) for word, _ in setting.words), name
            found.append(setting)
    return found


def only_options(items):
    return [item for item in items if isinstance(item, Option)]


def commands():
    """[Command], each with its options: settings first, as the parser has them."""
    found = [Command(row) for row in rows("TS_COMMAND", "shim", "tsrun", "commands.def")]
    for setting in only_options(settings()):
        for command in found:
            if setting.option and (command.name in ("RUN", "CONFIG") or
                                   (setting.variable == "TSSHIM_GROUP" and any("--group" in usage for usage in command.usages))):
                command.options.append(setting)
    for row in rows("TS_FLAG", "shim", "tsrun", "commands.def"):
        _, name, letter, argument, where, brief = row.columns
        option = Option(name, argument, brief, row.text)
        option.letter, modes = letter, re.findall(r"TS_MODE_(\w+)", where)
        for command in found:
            if command.name in modes or modes == ["ALL"]:
                command.options.append(option)
    return found


def exits():
    """[(status, what it means)]"""
    return [tuple(row.columns[1:]) for row in rows("TS_EXIT", "shim", "tsrun", "commands.def")]


def checks():
    """[(number, id, title, Markdown)] of `tsrun doctor`."""
    found = enumerate(rows("TS_CHECK", "shim", "tsrun", "checks.def"), 1)
    return [(number, row.columns[0], row.columns[1], row.text) for number, row in found]


def reasons():
    """[(id, line for people, what helps or "" or None where nothing was lost, Markdown)]"""
    return [(row.columns[1], row.columns[2], None if row.columns[3] == "TS_NOT_LOST" else row.columns[3], row.text)
            for row in rows("TS_REASON", "shim", "reasons.def")]
