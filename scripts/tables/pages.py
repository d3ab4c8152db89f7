# SPDX-License-Identifier: MIT
"""Pages of docs/ that are made from tables, in Markdown."""

import rows

MADE = "<!-- Made from %s; edit that, then: meson compile -C build-test docs -->\n"


def code(text):
    return "`%s`" % text


def listed(option):
    """What the words of an option mean, as a list."""
    return "\n".join("- `%s`: %s" % pair for pair in option.words if pair[1])


def overview(settings):
    lines = ["| option | what it does | default |", "|---|---|---|"]
    for option in rows.only_options(settings):
        name = option.usage or option.variable
        anchor = "".join(c for c in name.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")
        lines.append("| [`%s`](#%s) | %s | `%s` |" % (name, anchor, option.brief, option.standard))
    return "\n".join(lines)


def setting(option):
    parts = ["### %s" % code(option.usage or option.variable)]
    facts = "" if not option.option else "*Variable:* `%s`. " % option.variable
    facts += "*Default:* `%s`. *Value:* %s." % (option.standard, option.expect)
    if option.implied:
        facts += " *Without one:* `%s`." % option.implied
    if not option.argument and option.option:
        facts += " The option has no value, and means 1."
    return "\n\n".join([*parts, facts, *filter(None, [option.text, listed(option)])])


def heading(item):
    return "\n\n".join(filter(None, ["#" * item.level + " " + item.title, item.text]))


def own_options(command):
    """Those that are no settings, as a list."""
    lines = []
    for option in command.options:
        if not option.variable and option.option not in ("--help", "--version"):
            names = code(option.usage) if not option.letter else "`%s`, `%s`" % (option.letter, option.usage)
            text = option.text or option.brief[0].upper() + option.brief[1:] + "."
            lines.append("- %s: %s" % (names, text.replace("\n", "\n  ")))
    return "\n".join(lines)


def checks():
    return "Its checks, by number and id:\n\n" + "\n".join(
        "%d. `%s`: %s" % (number, identity, text.replace("\n", "\n   ")) for number, identity, _, text in rows.checks())


def command(item):
    usage = "```\n%s\n```" % "\n".join("%s %s" % (item.label, usage) for usage in item.usages)
    examples = "```\n%s```" % "".join(line[2:] for line in item.examples.splitlines(True))
    status = "*Exit status:* %s." % item.status
    more = checks() if item.name == "DOCTOR" else ""
    return "\n\n".join(filter(None, ["## " + code(item.label), usage, item.text, own_options(item), more, examples, status]))


def options():
    """docs/options.md"""
    settings = rows.settings()
    parts = [MADE % "shim/options.def and shim/tsrun/commands.def"]
    for item in settings:
        if isinstance(item, rows.Heading):
            parts.append(heading(item))
            parts += [overview(settings)] if item.level == 1 else []
        else:
            parts.append(setting(item))
    for item in rows.table("shim", "tsrun", "commands.def"):
        parts += [heading(item)] if isinstance(item, rows.Heading) else []
    parts.append("\n".join("- %s: %s" % pair for pair in rows.exits()))
    parts += [command(item) for item in rows.commands() if item.word]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def reasons():
    """docs/reasons.md"""
    parts = [MADE.strip() % "shim/reasons.def"]
    parts += [heading(item) for item in rows.table("shim", "reasons.def") if isinstance(item, rows.Heading)]
    for identity, _, fix, text in rows.reasons():
        parts.append("### `%s`\n%s%s" % (identity, text, "\n*In short:* " + fix if fix else ""))
    return "\n\n".join(parts) + "\n"


PAGES = {"docs/options.md": options, "docs/reasons.md": reasons}
