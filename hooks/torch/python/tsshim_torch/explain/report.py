# SPDX-License-Identifier: MIT
"""What was found out about a program, in words for people."""

import os

_MODES = (("default", "default mode"), ("aligned", "--align"))
_MOST = 8  # statements that are named


def safe(text):
    """@text without what could command a terminal."""
    return "".join(char if char.isprintable() else char.encode(
        "unicode_escape").decode() for char in str(text))


def _place(file, line):
    if not file:
        return "line %s" % line
    here = os.getcwd() + "/"
    file = file[len(here):] if file.startswith(here) else file
    return "%s:%s" % (file, line) if line else file


def _checks(found, say):
    for check in found["checks"]:
        say("%-4s  %s", check["state"], check["found"])
        if check["fix"]:
            say("      fix: %s", check["fix"])


def _imports(found, say):
    done = found["imports"]
    say("")
    say("Executed: %s imports, definitions and constants; left out: %s statements.",
        done["executed"], done["not_executed_count"])
    for failure in done["failed"]:
        say("FAILED  %s (%s)", failure["statement"], _place(found["script"], failure["line"]))
        say("        %s, at %s", failure["error"], _place(failure["file"], failure["at"]))


def _verdict(verdict, label, is_map, say):
    if verdict["shared"] == "samples":
        more = ", by loaders with workers" if not is_map else ""
        more += ", between jobs of equal seeds" if verdict.get("draws") else ""
        say("    %-14s whole samples can be shared%s", label + ":", more)
        return
    if verdict["shared"] == "unknown":
        say("    %-14s not known: %s", label + ":", verdict["detail"])
        return
    say("    %-14s no samples: %s: %s", label + ":", verdict["reason"], verdict["text"])
    if verdict["detail"]:
        say("    %-14s namely: %s", "", verdict["detail"])
    if verdict["fix"]:
        say("    %-14s fix: %s", "", verdict["fix"])


def _datasets(found, say):
    say("")
    if not found["hooked"]:
        say("As it is started no samples are shared at all, see above; of what it would be otherwise:")
    if not found["datasets"]:
        say("No data sets of PyTorch were found in the script or in modules beside it.")
    for row in found["datasets"]:
        say("Data set %s (%s), %s", row["class"], _place(row["file"], row["line"]), row["kind"])
        for mode, label in _MODES:
            _verdict(row[mode], label, row["kind"] == "map", say)
        for held in row["held"]:
            if held["condition"]:
                say("    self.%s is taken under --align: %s", held["attribute"], held["condition"])
        if row["attributes"]:
            say("    What these hold decides as well: %s", ", ".join(
                "self." + name for name in row["attributes"]))


def _loaders(found, say):
    say("")
    if not found["loaders"]:
        say("No call of DataLoader() was found.")
    for call in found["loaders"]:
        say("DataLoader at %s: %s", _place(call["file"], call["line"]), ", ".join(
            "%s=%s" % pair for pair in call["arguments"].items()))
        for note in call["notes"]:
            say("    %s", note)


def _packages(found, say):
    say("")
    packages = found["packages"]
    say("Versions: %s", ", ".join("%s %s%s" % (
        row["name"], row["version"], "" if row["judged"] else " (%s)" % row["text"])
        for row in packages["judged"]))
    for row in packages["others"]:
        say("%s %s: %s", row["name"], row["version"] or "", row["text"])
    decoders = packages["decoders"]
    for path in decoders["libjpeg"] or ():
        say("libjpeg: %s: pictures decoded by it are shared", path)
    for path in decoders["static"] or ():
        say("libjpeg inside %s: pictures decoded by it are not shared", path)


def _unknown(found, say):
    done = found["imports"]
    say("")
    say("Not known before it runs: how long an item takes (below 0.4 ms none is shared), whether files "
        "have just been changed, what attributes hold.")
    for one in done["not_executed"][:_MOST]:
        say("    line %s was not executed: %s", one["line"], one["statement"])
    if done["not_executed_count"] > _MOST:
        say("    and %s more; --json names them", done["not_executed_count"] - _MOST)


def write(found, out):
    """Print what was @found to @out."""
    def say(text, *values):
        out.write(text % tuple(map(safe, values)) + "\n")

    _checks(found, say)
    if "error" in found:
        say("")
        say("Nothing more is known: %s", found["error"])
        return
    for part in (_imports, _datasets, _loaders, _packages, _unknown):
        part(found, say)
