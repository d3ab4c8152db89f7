# SPDX-License-Identifier: MIT
"""The documents and completions say what the tables say, no more and no less."""

import json
import os
import re
import shutil
import subprocess

from tsrun_common import SOURCE, Skip, clean_environment, expect, main, tsrun

COMMANDS = ["stats", "gc", "doctor", "top", "config", "report", "explain", "cluster"]


def read(*parts):
    with open(os.path.join(SOURCE, *parts), encoding="utf-8") as f:
        return f.read()


def help_options(*words):
    """Long options in the help text, which tsrun makes from its tables."""
    result = tsrun(*words, "--help")
    expect(result, 0)
    return set(re.findall(r"^ {2}(?:-\w, )?(--[a-z-]+)", result.stdout, re.M))


def all_options():
    return set().union(*(help_options(*words) for words in ([], *([c] for c in COMMANDS))))


def roff(text):
    return text.replace("\\-", "-").replace("\\fR", "").replace("\\fP", "")


def table(path, name):
    """Rows of an X-macro table, as lists of their string literals."""
    body = re.search(r"#define %s\(X\)(.*?)\n\n" % name, read(*path), re.S).group(1)
    rows = re.split(r"\bX\(", body)[1:]
    return [re.findall(r'"((?:[^"\\]|\\.)*)"', row) for row in rows]


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
    text = tsrun("--help").stdout
    rows = table(["shim", "options.h"], "TS_OPTIONS")
    assert len(rows) >= 7
    for environment, option, standard, *rest in rows:
        assert (option or environment) in text, (option, environment)
    assert len(help_options()) >= 7, help_options()


def test_reasons_of_the_table_are_documented(directory):
    documented = re.findall(r"^### `([a-z0-9_]+)`$", read("docs", "reasons.md"), re.M)
    result = tsrun("stats", "--json", "--group", "clitest-docs")
    counted = list(json.loads(result.stdout)["passed"])
    declared = [row[0] for row in table(["shim", "reasons.h"], "TS_REASONS")]
    assert counted == declared
    assert documented == declared, set(documented) ^ set(declared)


def test_every_reason_has_a_remedy(directory):
    sections = re.split(r"^### ", read("docs", "reasons.md"), flags=re.M)[1:]
    for section in sections:
        assert section.count("*Remedy:*") == 1, section


def test_what_helps_is_the_same_in_the_page(directory):
    """What the line at the end of a job says."""
    body = re.search(r"#define TS_REASONS\(X\)(.*?)\n\n", read("shim", "reasons.h"), re.S).group(1)
    rows = re.split(r"\bX\(", body)[1:]
    sections = re.split(r"^### ", read("docs", "reasons.md"), flags=re.M)[1:]
    assert len(rows) == len(sections)
    for row, section in zip(rows, sections):
        identity, text, *helps = re.findall(r'"((?:[^"\\]|\\.)*)"', row)
        assert len(helps) == 1 or (helps == [] and "TS_NOT_LOST" in row), row
        short = re.findall(r"^\*In short:\* (.*)$", section, re.M)
        assert short == [words for words in helps if words], (identity, short)
        assert all(len(words) <= 80 for words in helps), helps


def test_man_page_has_every_option(directory):
    page = roff(read("docs", "man", "tsrun.1"))
    tagged = set(re.findall(r"^\.TP\n\.\w+ [^\n]*?(--[a-z-]+)", page, re.M))
    assert tagged == all_options(), tagged ^ all_options()


def test_man_pages_have_every_variable(directory):
    rows = table(["shim", "options.h"], "TS_OPTIONS")
    declared = {row[0] for row in rows}
    run, overview = (roff(read("docs", "man", p)) for p in ("tsrun.1", "tsshim.7"))
    assert set(re.findall(r"TSSHIM_[A-Z_]+", run)) == declared
    assert set(re.findall(r"^\.TP\n\.B (TSSHIM_[A-Z_]+)", overview, re.M)) == declared
    for environment, option, standard, *rest in rows:
        part = overview.split(".B %s\n" % environment, 1)[1].split(".TP", 1)[0]
        assert "(%s)" % standard in part, (environment, standard)


def test_man_page_has_the_defaults(directory):
    page = roff(read("docs", "man", "tsrun.1"))
    for environment, option, standard, *rest in table(["shim", "options.h"], "TS_OPTIONS"):
        if not option:
            part = page.split(".SH ENVIRONMENT")[1].split(".B %s\n" % environment, 1)[1].split(".TP")[0]
        else:
            match = re.search(r"^\.TP\n\.\w+ [^\n]*%s.*?(?=^\.TP)" % option, page, re.M | re.S)
            part = match.group(0)
            assert environment in part, environment
        if option != "--summary":
            assert ".BR %s ." % standard in part, (option or environment, standard)


def test_man_page_describes_the_json(directory):
    page = roff(read("docs", "man", "tsrun.1")).split(".SH STATISTICS")[1].split(".SH")[0]
    data = json.loads(tsrun("stats", "--json", "--group", "clitest-docs").stdout)
    for key in data:
        assert re.search(r"\b%s\b" % key, page), key


def test_man_page_has_every_check(directory):
    page = roff(read("docs", "man", "tsrun.1")).split(".SH CHECKS")[1].split(".SH")[0]
    listed = re.findall(r"^\.IP \"(\d+ \w+)\"", page, re.M)
    rows = table(["shim", "tsrun", "check.h"], "TS_CHECKS")
    assert listed == ["%d %s" % (n, row[0]) for n, row in enumerate(rows, 1)], listed


def test_man_pages_are_sound(directory):
    groff = shutil.which("groff")
    if not groff:
        raise Skip("needs groff")
    for page in ("tsrun.1", "tsshim.7"):
        made = subprocess.run([groff, "-man", "-ww", "-z", os.path.join(SOURCE, "docs/man", page)],
                              stderr=subprocess.PIPE, text=True)
        assert made.returncode == 0 and made.stderr == "", made.stderr


def complete(*words):
    """What bash would offer for the last of @words."""
    script = read("scripts", "completions", "tsrun.bash") + """
COMP_WORDS=(tsrun "$@")
COMP_CWORD=$#
_tsrun
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""
    bash = shutil.which("bash")
    if not bash:
        raise Skip("needs bash")
    done = subprocess.run([bash, "--norc", "-c", script, "bash", *words], env=clean_environment(),
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
    shares = {row[0] for row in table(["shim", "config.h"], "TS_SHARES")}
    stages = {row[0] for row in table(["shim", "config.h"], "TS_STAGES")}
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
    text = read("scripts", "completions", "_tsrun")
    for name in ("TS_SHARES", "TS_STAGES"):
        words = [row[0] for row in table(["shim", "config.h"], name)]
        assert ":(%s)'" % " ".join(words) in text, words
    assert "'--align=-[" in text, "a seed is joined"


def test_bash_completes_commands(directory):
    for command in COMMANDS:
        assert command in complete(command[:2]), command
        assert command in read("scripts", "completions", "_tsrun"), command
    assert "printf" in complete("doctor", "--", "print")
    assert "printf" in complete("doctor", "--json", "print")
    assert "printf" in complete("--", "print")
    assert "printf" in complete("--group", "g", "print")
    assert "printf" in complete("--align", "print")
    assert "printf" in complete("--align", "=", "1", "print")
    assert "printf" in complete("--ring", "=", "1G", "print")
    assert "printf" in complete("--dataset", "n", "=", "d", "--align", "--", "print")
    assert "printf" in complete("print")


def test_bash_knows_which_options_take_values(directory):
    usage = tsrun("--help").stdout
    with_value = set(re.findall(r"^ {2}(?:-\w, )?(--[a-z-]+) [A-Z]", usage, re.M))
    listed = re.search(r"^\s+(--[a-z| -]+)\) \(\(i \+= 2\)\)", read(
        "scripts", "completions", "tsrun.bash"), re.M).group(1)
    assert set(listed.split(" | ")) == with_value


def test_zsh_completion_has_every_option(directory):
    text = read("scripts", "completions", "_tsrun")
    named = set(re.findall(r"(--[a-z][a-z-]+)(?==-?\[|\[|\}|')", text))
    assert named == all_options(), named ^ all_options()


def test_shell_scripts_are_sound(directory):
    shellcheck = shutil.which("shellcheck")
    if not shellcheck:
        raise Skip("needs shellcheck")
    made = subprocess.run([shellcheck, "-s", "bash",
                           os.path.join(SOURCE, "scripts/completions/tsrun.bash")],
                          stdout=subprocess.PIPE, text=True)
    assert made.returncode == 0, made.stdout


if __name__ == "__main__":
    main(dict(globals()))
