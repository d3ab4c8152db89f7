# SPDX-License-Identifier: MIT
"""Parts of the manual pages that are made from tables: Markdown becomes roff."""

import re

import rows

INLINE = re.compile(r"`(?P<code>[^`]+)`|\*\*?(?P<slanted>[^*]+)\*\*?|\[(?P<link>[^\]]+)\]\((?P<page>[^)#]*)[^)]*\)|(?P<plain>.)", re.S)


# Headings of shim/options.def that have a section of their own.
FILES, ENVIRONMENT = "Files of settings", "Only in the environment"
APART = (FILES, ENVIRONMENT)


def escape(text):
    return text.replace("\\", "\\e")


def bold(text):
    return "\\fB%s\\fP" % escape(text).replace("-", "\\-")


def inline(text):
    found = []
    for match in INLINE.finditer(" ".join(text.split())):
        kind = "link" if match.group("link") else match.lastgroup
        inner = match.group(kind)
        found.append(bold(inner) if kind == "code" else "\\fI%s\\fP" % escape(inner) if kind == "slanted" else
                     "%s (\\fIdocs/%s\\fP)" % (inline(inner), match.group("page")) if kind == "link" else escape(inner))
    return "".join(found)


def lines(text):
    """Sentences begin lines; none begins like a request of roff's."""
    broken = re.sub(r"(?<=[.;:]) (?=\\f|[A-Z])", "\n", inline(text))
    return "\n".join("\\&" + line if line[:1] in ".'" else line for line in broken.split("\n"))


def blocks(text, again):
    """Paragraphs and lists of @text; @again begins all paragraphs but the first."""
    found = []
    for part in re.split(r"\n\s*\n", text):
        if part.startswith("```"):
            found.append(".PP\n.nf\n%s\n.fi" % escape(part.strip("`\n")))
        elif part.startswith("- "):
            items = re.split(r"^- ", part, flags=re.M)[1:]
            found.append("\n".join([".RS", *(".IP \\(bu 2\n" + lines(item) for item in items), ".RE"]))
        else:
            found.append((again + "\n" if found else "") + lines(part))
    return "\n".join(found)


def usage(text):
    """Options are bold, arguments slanted."""
    def mark(match):
        word = match.group()
        return "\\fI%s\\fP" % word if word[0].isupper() or word.startswith(("command", "argument", "option")) else bold(word)
    return re.sub(r"-{1,2}[a-z]+(?:-[a-z]+)*|--(?=\])|[A-Za-z][\w.]*", mark, text)


def synopsis():
    return "\n.br\n".join("%s %s" % (bold(command.label), usage(line))
                          for command in rows.commands() for line in command.usages)


def names(option):
    letter = bold(option.letter) + ", " if option.letter else ""
    argument = option.argument or ""
    return letter + bold(option.option) + ("" if option.is_joined or not argument else " ") + usage(argument)


def facts(option):
    """What the table says of a setting."""
    said = [] if option.words and option.words[0][1] else ["It takes %s." % option.expect]
    said = said if option.argument else []
    said += ["Sets %s." % bold(option.variable), "The default is %s." % bold(option.standard)]
    return "\n".join(said)


def setting(option):
    words = "\n".join("- `%s`: %s" % pair for pair in option.words if pair[1])
    text = blocks("\n\n".join(filter(None, [option.text, words])), ".IP")
    return "\n".join([".TP", names(option), text, ".IP", facts(option)])


def files():
    """The section on files of settings."""
    return next(blocks(item.text, ".PP") for item in rows.settings() if isinstance(item, rows.Heading) and item.title == FILES)


def options():
    found = []
    for item in rows.settings():
        if isinstance(item, rows.Heading):
            if item.level == 2 and item.title not in APART:
                found += [".SS " + item.title, *filter(None, [blocks(item.text, ".PP")])]
        elif item.option:
            found.append(setting(item))
    general = [option for option in rows.commands()[0].options if not option.variable]
    return "\n".join([*found, ".SS General", *(own(option) for option in general)])


def own(option):
    brief = option.brief[0].upper() + option.brief[1:] + "."
    return "\n".join([".TP", names(option), blocks(option.text or brief, ".IP")])


def commands():
    found = []
    for command in rows.commands():
        if command.word:
            found += [".SS " + command.label, blocks(command.text, ".PP")]
            found += [own(option) for option in command.options if not option.variable and option.option != "--help"]
    return "\n".join(found)


def checks():
    return "\n".join('.IP "%d %s" 4\n%s' % (number, identity, blocks(text, ".IP"))
                     for number, identity, _, text in rows.checks())


def environment():
    """Variables without an option."""
    found = []
    for option in rows.only_options(rows.settings()):
        if not option.option:
            brief = option.brief[0].upper() + option.brief[1:] + "."
            found.append("\n".join([".TP", bold(option.variable), lines(brief), blocks(option.text, ".IP")] if option.text else
                                   [".TP", bold(option.variable), lines(brief)]))
            found.append("The default is %s." % bold(option.standard))
    return "\n".join(found)


def variables():
    """All of them, briefly."""
    return "\n".join(".TP\n%s\n%s (%s)." % (bold(option.variable), lines(option.brief[0].upper() + option.brief[1:]), option.standard)
                     for option in rows.only_options(rows.settings()))


def status():
    return "\n".join(".TP\n%s\n%s." % (bold(command.label), lines(command.status[0].upper() + command.status[1:]))
                     for command in rows.commands() if command.word)


def exits():
    return "\n".join(".TP\n%s\n%s" % (bold(number), lines(text)) for number, text in rows.exits())


def examples():
    return ".nf\n%s\n.fi" % "\n".join(escape(re.split(r" {3,}", line.strip())[0]).replace("-", "\\-")
                                      for command in rows.commands() for line in command.examples.splitlines())


PARTS = {"SYNOPSIS": synopsis, "OPTIONS": options, "COMMANDS": commands, "ENVIRONMENT": environment,
         "CHECKS": checks, "EXITS": exits, "FILES": files, "VARIABLES": variables, "STATUS": status, "EXAMPLES": examples}
