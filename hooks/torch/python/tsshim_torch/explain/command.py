# SPDX-License-Identifier: MIT
"""From the words of a command to what is said of it."""

import importlib.util
import json
import os
import sys

from . import calls, datasets, definitions, packages, report


class Target:
    """What an interpreter is told to run."""

    def __init__(self, path=None, module=None, code=None, words=(), launcher=None):
        self.path, self.module, self.code = path, module, code
        self.words = list(words)  # of the program
        self.launcher = launcher  # the name of the program that starts it, or None

    def argv(self):
        return [self.path or ("-m" if self.module else "-c"), *self.words]


def parse(words):
    """The Target of an interpreter's @words from the script, -c or -m on; None: it has none."""
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        letters = words[0][1:]
        kind = next((letter for letter in letters if letter in "cm"), None)
        if kind is None:
            return None
        value, rest = letters.partition(kind)[2], words[1:]
        if not value:
            value, rest = (rest[0], rest[1:]) if rest else (None, [])
        if value is None:
            return None
        return Target(module=value, words=rest) if kind == "m" else Target(code=value, words=rest)
    words = words[1:] if words[:1] == ["--"] else words
    if not words or words[0] == "-":
        return None
    return Target(path=words[0], words=words[1:])


# ---- programs that start others ----

def _of_torchrun(words):
    from torch.distributed.run import get_args_parser
    found = get_args_parser().parse_args(words)
    return found.training_script, found.training_script_args, found.module


def _of_accelerate(words):
    from accelerate.commands.launch import launch_command_parser
    found = launch_command_parser().parse_args(words)
    return found.training_script, found.training_script_args, found.module


_LAUNCHERS = {"torchrun": _of_torchrun, "torch.distributed.run": _of_torchrun,
              "torch.distributed.launch": _of_torchrun, "accelerate": _of_accelerate}


def behind_launcher(target):
    """The Target that @target starts, where it is a launcher that we know; else @target."""
    name = target.module or os.path.basename(target.path or "")
    words = target.words
    if name not in _LAUNCHERS or name == "accelerate" and words[:1] != ["launch"]:
        return target
    try:
        script, rest, is_module = _LAUNCHERS[name](words[name == "accelerate":])
    except (Exception, SystemExit):  # words that it does not understand, or another version of it
        at = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
        if at is None:
            return target
        script, rest, is_module = words[at], words[at + 1:], False
    if is_module:
        return Target(module=script, words=rest, launcher=name)
    return Target(path=script, words=rest, launcher=name)


# ---- the whole ----

def _search_first(directory):
    """As an interpreter does with where its script is, unless it was told not to."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path.insert(0, directory)


def _source(target):
    """(source, file, package) of @target.  Raises OSError or ImportError where it cannot be read."""
    if target.code is not None:
        _search_first("")
        return target.code.encode(), "<string>", None
    if target.module is not None:
        _search_first(os.getcwd())
        spec = importlib.util.find_spec(target.module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(target.module + ".__main__")
        if spec is None or not spec.origin or not os.path.isfile(spec.origin):
            raise ImportError("No module named %s with a source" % target.module)
        with open(spec.origin, "rb") as file:
            return file.read(), spec.origin, spec.parent
    path = target.path
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    _search_first(os.path.dirname(os.path.realpath(path)))
    with open(path, "rb") as file:
        return file.read(), os.path.abspath(path), None


def _look_at(target, facts):
    """What is found out about @target, as report.py takes it."""
    try:
        source, file, package = _source(target)
    except (OSError, ImportError) as error:
        return {"error": str(error)}
    sys.argv = target.argv()
    loaded = definitions.load(source, file, package)
    modules = datasets.local_modules(loaded)
    return {
        "script": None if target.code is not None else file, "launcher": target.launcher,
        "imports": loaded.summary(),
        "datasets": datasets.explain(loaded, modules, facts["reasons"]),
        "loaders": calls.explain(loaded, modules),
        "packages": packages.explain(),
    }


def explain(is_json, number, facts, words):
    """Print to descriptor @number what can be said of the command's @words; the exit status."""
    facts = json.loads(facts)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # an import that asks would wait for ever
    target = parse(words)
    found = {"error": "it runs no script, module or code that could be read"}
    if target is not None:
        found = _look_at(behind_launcher(target), facts)
    hooked = "tsshim_torch.native" in sys.modules and not (
        sys.flags.isolated or sys.flags.ignore_environment or sys.flags.no_site)
    found = {"program": sys.executable, "python": True, "hooked": hooked, "checks": facts["checks"],
             **found}
    try:
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as out:
            if is_json:
                json.dump(found, out, indent=2)
                out.write("\n")
            else:
                report.write(found, out)
    except OSError as error:
        sys.stderr.write("tsrun: cannot write to standard output: %s\n" % error.strerror)
        return 125
    return 125 if "error" in found and target is not None else 0
