#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rooms of the source: who includes whom, read from the files themselves.  TAP.

A unit is what one name stands for: x.c, x.h and x_private.h, or a Python module.  There are no
circles between units, neither of who includes whom nor of who uses what another one's .c defines,
whichever header declares it.  Arrows go one way, hooks -> leader -> shim, and the command
(shim/tsrun) stands above leader.
"""
import ast
import pathlib
import re
import sys
import tempfile

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = pathlib.PurePath("hooks/torch/python")
OLDEST = (3, 8)

# The floors, by the beginnings of their paths, the ground last: nobody includes what stands above.
FLOORS = ["hooks/", "shim/tsrun/", "leader/", "shim/"]

# {room: rooms of leader/ that it may not know}, by the beginnings of their paths; see also the hooks
# below.  leader/peer talks to other nodes, needs OpenSSL, and is in no process of a job's.
ABOVE = "ring slots files journal events line peer"
FORBIDDEN = {"leader/group/": ABOVE, "leader/object/": "group " + ABOVE,
             "leader/ring/": "journal events line peer", "leader/files/": "peer", "leader/slots/": "peer",
             "leader/journal/": "peer", "leader/events/": "peer", "hooks/": "peer"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# At the start of a line, as the style has it: a function's definition, or a variable's.
DEFINED = re.compile(
    r"^(?!static|typedef|extern|#)[a-zA-Z_][\w \t*]*?\b(ts_\w+)\s*(?:\([^;{]*\)\s*\{|\[|=|;)",
    re.MULTILINE,
)
USED = re.compile(r"(?<!struct )(?<!enum )\bts_\w+")


def c_files(root):
    for room in ("shim", "leader", "hooks"):
        yield from sorted((root / room).rglob("*.[ch]"))


def c_uses(root):
    """(.c file, .c file that defines what it uses), both below @root."""
    texts = {
        str(path.relative_to(root)): NO_CODE.sub("", path.read_text(encoding="utf-8"))
        for path in c_files(root)
        if path.suffix == ".c"
    }
    defined = {}
    for file, text in texts.items():
        for name in DEFINED.findall(text):
            defined.setdefault(name, set()).add(file)
    for file, text in texts.items():
        for name in set(USED.findall(text)):
            for other in defined.get(name, set()) - {file}:
                yield file, other


def c_arrows(root):
    """(file, file that it includes), both below @root."""
    for path in c_files(root):
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            # By its path from the top, as everywhere; or from where the file lies.
            for target in (root / name, (path.parent / name).resolve()):
                if target.is_file():
                    yield str(path.relative_to(root)), str(target.relative_to(root))
                    break


def module_file(base, names):
    """The file of the module @names below @base, or None."""
    path = base.joinpath(*names)
    for file in (path.with_name(path.name + ".py") if names else None, path / "__init__.py"):
        if file and file.is_file():
            return file
    return None


def imported(base, path, node):
    """The files that the statement @node of @path imports, wherever in it that stands."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield module_file(base, alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        start = []
        if node.level:
            package = list(path.parent.relative_to(base).parts)
            start = package[: len(package) - (node.level - 1)]
        start += node.module.split(".") if node.module else []
        for alias in node.names:
            yield module_file(base, [*start, alias.name]) or module_file(base, start)


def python_arrows(root):
    base = root / PYTHON
    for path in sorted(base.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for file in imported(base, path, node):
                if file:
                    yield str(path.relative_to(root)), str(file.relative_to(root))


def unit(file):
    return file if file.endswith(".py") else re.sub(r"(_private)?\.[ch]$", "", file)


def circles(arrows):
    """Sets of at least two units, each of which leads to all others of its set."""
    graph = {}
    for source, target in arrows:
        graph.setdefault(unit(source), set()).add(unit(target))

    def reached(start):
        found, todo = set(), [start]
        while todo:
            new = graph.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    leads_to = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in leads_to[name] if name in leads_to.get(other, ()))
        for name in graph
        if name in leads_to[name]
    } - {frozenset([name]) for name in graph}


def hook(file):
    parts = file.split("/")
    return parts[1] if parts[0] == "hooks" and len(parts) > 2 else None


def floor(file):
    """How high it stands; the command and the hooks know nothing of each other."""
    return len(FLOORS) - next((i for i, name in enumerate(FLOORS) if file.startswith(name)), len(FLOORS))


def is_wrong(source, target):
    if floor(source) < floor(target) or source.startswith("hooks/") and target.startswith("shim/tsrun/"):
        return True
    if hook(source) and hook(target) and hook(source) != hook(target):
        return True
    return any(source.startswith(room) and target.startswith(f"leader/{other}/")
               for room, others in FORBIDDEN.items() for other in others.split())


def check(root):
    """(what is checked, what is wrong with it) for each of the questions."""
    arrows = sorted(set(c_arrows(root)) | set(python_arrows(root)))
    return [
        ("no circle", [f"circle {sorted(c)}" for c in circles(arrows)]),
        ("no circle of uses", [f"circle {sorted(c)}" for c in circles(c_uses(root))]),
        ("no arrow against hooks -> leader -> shim, nor between hooks",
         [f"{source} includes {target}" for source, target in arrows if is_wrong(source, target)]),
    ]


# ---- that all of this is noticed, in a tree made for it ---------------------------------------

MADE_UP = {
    "shim/base.h": "",
    "shim/bad.c": '#include "leader/ring/ring.h"\n',
    "shim/tsrun/view.c": '#include "leader/ring/ring.h"\n#include "shim/base.h"\n#include "hooks/one/a.h"\n',
    "shim/tsrun/view.h": "",
    "hooks/begin.c": '#include "hooks/one/a.h"\n#include "hooks/two/deep/e.h"\n#include "shim/tsrun/view.h"\n',
    "hooks/two/deep/e.h": "",
    "leader/object/object.c": '#include "leader/group/group.h"\n',
    "leader/group/group.h": "",
    "leader/group/group.c": '#include "leader/group/group.h"\n#include "leader/ring/ring.h"\n',
    "leader/ring/ring.h": '#include "shim/base.h"\n',
    "leader/ring/ring.c": ' # include "hooks/one/a.h"\n',
    "hooks/one/a.h": '#include "hooks/one/b_private.h"\n',
    "hooks/one/b.c": '#include "hooks/one/c.h"\n',
    "hooks/one/b_private.h": "",
    "hooks/one/c.h": "",
    "hooks/one/c.c": '#include "hooks/one/a.h"\n#include "hooks/one/c.h"\n',
    "hooks/two/deep/d.c": '#include "hooks/one/a.h"\n/* #include "hooks/one/b.h" */\n',
    "shim/use.c": "int ts_use(void)\n{\n\treturn ts_used ? ts_used_late(1) : 0;\n}\n",
    "shim/used.c": "_Atomic int ts_used;\nstatic int ts_use2(void);\n/* ts_other() */\n",
    "shim/used_late.c": "bool ts_used_late(\n\tint a)\n{\n\treturn ts_use();\n}\n",
    "shim/other.c": "void ts_other(void)\n{\n\tts_used = 1;\n}\n",
    f"{PYTHON}/pack/__init__.py": "",
    f"{PYTHON}/pack/one.py": "from . import two\nfrom os import path\n",
    f"{PYTHON}/pack/two.py": "from .room import three\n",
    f"{PYTHON}/pack/room/__init__.py": "",
    f"{PYTHON}/pack/room/three.py": "def late():\n    from ..one import name\n",
    f"{PYTHON}/pack/room/four.py": "import pack.room.three\n",
}
MADE_UP_C = {"hooks/one/a", "hooks/one/b", "hooks/one/c"}
MADE_UP_PYTHON = {f"{PYTHON}/pack/{name}.py" for name in ("one", "two", "room/three")}
MADE_UP_USES = {"shim/use", "shim/used_late"}
MADE_UP_ARROWS = {
    "shim/bad.c includes leader/ring/ring.h",
    "shim/tsrun/view.c includes hooks/one/a.h",
    "hooks/begin.c includes shim/tsrun/view.h",
    "leader/object/object.c includes leader/group/group.h",
    "leader/group/group.c includes leader/ring/ring.h",
    "leader/ring/ring.c includes hooks/one/a.h",
    "hooks/two/deep/d.c includes hooks/one/a.h",
}


def check_oneself():
    """Yields (what, wrong) as check() gives them."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        for file, text in MADE_UP.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
        (_, new), (_, uses), (_, arrows) = check(root)
    questions = [
        ("a circle is noticed", sorted(new), sorted(f"circle {sorted(c)}" for c in (MADE_UP_C, MADE_UP_PYTHON))),
        ("a circle of uses is noticed", uses, [f"circle {sorted(MADE_UP_USES)}"]),
        ("an arrow is noticed", sorted(arrows), sorted(MADE_UP_ARROWS)),
    ]
    for what, is_so, should_be in questions:
        yield what, [] if is_so == should_be else [f"{is_so}, not {should_be}"]


def too_new(root):
    """Python files of the hooks that the oldest Python which they may meet could not even read."""
    for file in sorted((root / PYTHON).rglob("*.py")):
        try:
            ast.parse(file.read_text(encoding="utf-8"), feature_version=OLDEST)
        except SyntaxError as error:
            yield f"{file.relative_to(root)}:{error.lineno}: {error.msg}"


def check_grammar():
    """Yields (what, wrong) as check() gives them."""
    with tempfile.TemporaryDirectory() as name:
        file = pathlib.Path(name) / PYTHON / "new.py"
        file.parent.mkdir(parents=True)
        file.write_text("match x:\n    case 1:\n        pass\n", encoding="utf-8")
        found = list(too_new(pathlib.Path(name)))
    yield "grammar that is too new is noticed", [] if found else ["it is not"]
    yield "Python %d.%d reads the hooks" % OLDEST, list(too_new(ROOT))


def main():
    return tap.report([*check_oneself(), *check(ROOT), *check_grammar()])


if __name__ == "__main__":
    sys.exit(main())
