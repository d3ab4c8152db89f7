# SPDX-License-Identifier: MIT
"""The documents and completions say what the tables say, no more and no less."""

import json
import os
import re
import shutil
import subprocess

import tables
import support
from tsrun_common import BUILD, SOURCE, Skip, clean_environment, expect, stats, tsrun

COMMANDS = [command.word for command in tables.commands() if command.word]


def read(*parts):
    return support.read(os.path.join(SOURCE, *parts))


def help_options(*words):
    """Long options in the help text, which tsrun makes from its tables."""
    return set(re.findall(r"^ {2}(?:-\w, )?(--[a-z-]+)", expect(tsrun(*words, "--help"), 0), re.M))


def all_options():
    return set().union(*(help_options(*words) for words in ([], *([c] for c in COMMANDS))))


def made(name):
    """What scripts/tables has made for an installation."""
    return os.path.join(BUILD, "scripts", name)


def contents(name):
    return support.read(made(name))


def needs(name):
    if not shutil.which(name):
        raise Skip("needs " + name)
    return name


def manual(name):
    return re.sub(r"\\f[BIRP]", "", contents(name).replace("\\-", "-"))


def version():
    """What the project is declared as; all else has to follow."""
    return re.search(r"^project\(.*?\bversion: '([^']+)'", read("meson.build"), re.M | re.S).group(1)


def test_tsrun_and_changes_have_the_version(directory):
    assert tsrun("--version").stdout == "tsrun (tsshim) %s\n" % version()
    assert re.search(r"^## (\S+)", read("docs", "changelog.md"), re.M).group(1) == version()


def test_version_stands_in_one_place(directory):
    """What else names it would be forgotten with the next one: manual pages, scripts, README."""
    named = re.compile(r"(?<![\d.])%s(?![\d.])" % re.escape(version()))
    paths = [os.path.join(SOURCE, "README.md")]
    for part in ("scripts", "docs/man", "shim/tsrun"):
        for top, _, names in os.walk(os.path.join(SOURCE, part)):
            paths += [os.path.join(top, name) for name in names if not name.endswith(".pyc")]
    assert len(paths) > 40, paths
    assert [path for path in paths if named.search(read(path))] == []


def test_help_has_every_setting(directory):
    lines = tsrun("--help").stdout.splitlines()
    for option in tables.options():
        name = option.usage or option.variable
        default = " [%s]" % option.standard if option.argument or not option.option else ""
        assert "  %-22s%s%s" % (name, option.brief, default) in lines, name
    assert len(help_options()) >= 7, help_options()


def test_help_is_one_screen(directory):
    for words in ([], *([command] for command in COMMANDS)):
        lines = tsrun(*words, "--help").stdout.splitlines()
        assert len(lines) <= 40 and all(len(line) <= 80 for line in lines), (words, len(lines), max(lines, key=len))
    text = tsrun("--help").stdout
    assert all("  %-9s%s" % (command.word, command.summary) in text for command in tables.commands() if command.word)


def test_the_page_has_every_option(directory):
    page = read("docs", "options.md")
    named = set(re.findall(r"^(?:### |- (?:`-\w`, )?)`(--[a-z-]+)", page, re.M))
    assert named == all_options() - {"--help", "--version"}, named ^ all_options()


def test_man_page_has_every_option(directory):
    page = manual("tsrun.1")
    tagged = set(re.findall(r"^\.TP\n(?:\S+, )?(--[a-z-]+)", page, re.M))
    assert tagged == all_options(), tagged ^ all_options()
    for option in tables.options():
        part = page.split(".TP\n" + (option.usage or option.variable) + "\n")[1].split(".TP")[0]
        assert "The default is %s." % option.standard in part and option.variable in page, option.variable
    assert set(re.findall(r"^\.SS tsrun (\w+)", page, re.M)) == set(COMMANDS)


def test_man_page_has_every_variable(directory):
    page = manual("tsshim.7")
    for option in tables.options():
        assert "(%s)." % option.standard in page.split(".TP\n%s\n" % option.variable)[1].split(".TP")[0], option.variable


def test_man_page_describes_the_json(directory):
    page = manual("tsrun.1").split(".SH STATISTICS")[1].split(".SH")[0]
    data = stats("clitest-docs")
    for key in data:
        assert re.search(r"\b%s\b" % key, page), key
    assert list(data["passed"]) == list(tables.reasons())


def test_man_page_has_every_check(directory):
    page = manual("tsrun.1").split(".SH CHECKS")[1].split(".SH")[0]
    listed = re.findall(r"^\.IP \"(\d+ \w+)\"", page, re.M)
    found = json.loads(tsrun("doctor", "--json").stdout)
    assert listed == ["%d %s" % (n, check["id"]) for n, check in enumerate(found, 1)], listed


def test_man_pages_are_sound(directory):
    for page in ("tsrun.1", "tsshim.7"):
        done = subprocess.run([needs("groff"), "-man", "-ww", "-z", made(page)], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0 and done.stderr == "", done.stderr


def complete(*words):
    """What bash would offer for the last of @words."""
    script = contents("tsrun") + """
COMP_WORDS=(tsrun "$@")
COMP_CWORD=$#
_tsrun
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run([needs("bash"), "--norc", "-c", script, "bash", *words], env=clean_environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "", done.stderr
    return set(done.stdout.split())


def test_bash_completes_the_options(directory):
    assert complete("--") == help_options()
    for command in COMMANDS:
        assert complete(command, "--") == help_options(command), command
    assert complete("--gr") == {"--group"}
    assert complete("--ring", "1G", "--sum") == {"--summary"}


def test_bash_completes_values(directory):
    shares, stages = ({word for word, _ in tables.words(name)} for name in ("shares", "stages"))
    assert len(shares) == 4 and len(stages) == 3, (shares, stages)
    assert complete("--stage", "") >= stages and complete("--stage", "=", "sh") >= {"shm"}
    # As bash hands it over: split at each '='.
    assert complete("--share", "") == complete("--share", "=") == shares
    assert complete("--share", "=", "pix") == {"pixels"}
    assert complete("--align", "=") == {"0", "off"}
    assert "1G" in complete("--ring", "=", "1")
    assert complete("--epoch", "") == set()
    for words in (["--ring", "=", "1G"], ["--align", "=", "1"], ["--align"],
                  ["--dataset", "=", "name", "=", "dir"]):
        assert complete(*words, "--sum") == {"--summary"}, words


def test_zsh_completes_values(directory):
    text = contents("_tsrun")
    for name in ("shares", "stages"):
        words = [word for word, _ in tables.words(name)]
        assert ":(%s)'" % " ".join(words) in text, words
    assert "'--align=-[" in text, "a seed is joined"


def test_bash_completes_commands(directory):
    for command in COMMANDS:
        assert command in complete(command[:2]), command
        assert command in contents("_tsrun"), command
    for words in ("doctor --", "doctor --json", "--", "--group g", "--align", "--align = 1", "--ring = 1G",
                  "--dataset n = d --align --", ""):
        assert "printf" in complete(*words.split(), "print"), words


def test_zsh_completion_has_every_option(directory):
    text = contents("_tsrun")
    named = set(re.findall(r"(--[a-z][a-z-]+)(?==-?\[|\[|\}|')", text))
    assert named == all_options(), named ^ all_options()


def test_shell_scripts_are_sound(directory):
    done = subprocess.run([needs("shellcheck"), "-s", "bash", made("tsrun")], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
