# SPDX-License-Identifier: MIT
"""What shells offer for the words of tsrun's command line."""

import re

import rows

# What is offered for an argument of that name; "@..." is for the shell to find.
VALUES = {"NAME": "@group", "FILE": "@file", "LOG": "@file", "DIR": "@directory", "PID": "@process", "HOST": "@host",
          "SIZE": "512M 1G 2G 4G 16G 64G 0", "TIME": "10min 2h 1d 0", "SEC": "0 60 600 3600", "SECONDS": "1 2 10 60",
          "PERCENT": "0 0.1 1 100", "[=SEED]": "0 off", "WHERE": "@directory", "[=FILE]": "@file"}
ZSH = {"@group": "_tsrun_groups", "@file": "_files", "@directory": "_files -/", "@process": "_pids", "@host": "_hosts"}


def values(option):
    """Words, and what begins with @."""
    offered = [word for word, text in option.words if text]
    for argument in (option.argument or "").split("|"):
        offered += VALUES.get(argument, "" if argument.isupper() or not argument.islower() else argument).split()
    return offered


def positional(command):
    """What may stand behind the options of a sub-command, as for an option."""
    usage = " ".join(command.usages)
    if "LOG" in usage:
        return ["@file"]
    return [line.split()[0] for line in command.usages if line[0].islower()]


def all_options(commands):
    return {option.option: option for command in commands for option in command.options}


def bash_array(name, pairs):
    return "declare -gA %s=(\n%s)" % (name, "".join('\t[%s]="%s"\n' % pair for pair in pairs))


def bash():
    """The tables of the script."""
    commands = rows.commands()
    known = all_options(commands).values()
    return "\n".join([
        bash_array("_tsrun_options", [(c.word or "run", " ".join(o.option for o in c.options)) for c in commands]),
        "# What stands behind an option that needs a value, and behind --option=.",
        bash_array("_tsrun_values", [(o.option, " ".join(values(o))) for o in known if o.argument and not o.is_joined]),
        bash_array("_tsrun_joined", [(o.option, " ".join(values(o))) for o in known if o.is_joined]),
        bash_array("_tsrun_others", [(c.word, " ".join(positional(c))) for c in commands if positional(c)]),
        '_tsrun_commands="%s"' % " ".join(c.word for c in commands if c.word),
        "# After the options of these stands a command of the user's.",
        '_tsrun_takers=" %s "' % " ".join(c.word or "run" for c in commands if c.takes_command)])


def quote(text):
    return "'%s'" % text.replace("'", "'\\''")


def excluded(command, option):
    """What an option of "[-v | --json]" excludes."""
    own = {option.option, option.letter}
    for group in re.findall(r"\[([^\]]*\|[^\]]*)\]", " ".join(command.usages)):
        named = set(re.findall(r"(?<!\S)-{1,2}[a-z-]+", group))
        if own & named:
            others = named | {o.option for o in command.options if o.letter in named}
            return sorted(others - own - {None})
    return []


def zsh_option(command, option):
    """A line for _arguments."""
    text = "[%s]" % re.sub(r"([\[\]\\])", r"\\\1", option.brief)
    offered = values(option)
    sought = "@file" if "@file" in offered else offered[0] if offered else ""
    action = ZSH.get(sought) or (offered and "(%s)" % " ".join(word for word in offered if word[0] != "@")) or ""
    argument = re.sub(r"\W+", " ", option.argument or "").strip().lower()
    behind = "" if not option.argument else ("::" if option.is_joined else ":") + "%s:%s" % (argument, action)
    if option.option in ("--help", "--version"):
        exclusive = "(- *)"
    else:
        own = [option.letter, option.option] if option.letter else []
        exclusive = "(%s)" % " ".join(own + excluded(command, option)) if own + excluded(command, option) else ""
    if option.letter:
        return "%s{%s,%s}%s" % (quote(exclusive), option.letter, option.option, quote(text + behind))
    join = "" if not option.argument else "=-" if option.is_joined else "="
    return quote(exclusive + option.option + join + text + behind)


def zsh_case(command):
    """What _arguments is given for a command."""
    lines = [zsh_option(command, option) for option in command.options]
    place, first = (2, "_command_names -e") if command.word else (1, "_tsrun_first")
    lines += ["'1:sub-command:'"] if command.word else []
    others = positional(command)
    if command.takes_command:
        lines += ["'(-)%d:command:%s'" % (place, first), "'*::arguments: _normal'"]
    elif others:
        lines.append("'*:file:_files'" if others == ["@file"] else "'2:what:(%s)'" % " ".join(others))
    return "\t%s)\n\t\t_arguments %s\\\n\t\t\t%s\n\t\t;;" % (
        command.word or "*", "-S " if command.takes_command else "", " \\\n\t\t\t".join(lines))


def zsh_cases():
    commands = rows.commands()
    return "\n".join(zsh_case(command) for command in [*commands[1:], commands[0]])


def zsh_commands():
    return "\n".join("\t\t" + quote("%s:%s" % (command.word, command.summary)) for command in rows.commands()[1:])


PARTS = {"BASH": bash, "ZSH_CASES": zsh_cases, "ZSH_COMMANDS": zsh_commands}
