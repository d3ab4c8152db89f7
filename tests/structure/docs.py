#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What documents and comments name is there: links, headings, files of this repository.  TAP.

Read are README.md and docs/**/*.md; of the source the paths from the root that it names.
In documents a name is a path from the root where it begins like one (leader/x.h), else the end
of one (x.py, sharing/x.py).  What belongs to other programs is in ELSEWHERE.
"""
import pathlib
import re
import sys
import tempfile

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("shim", "leader", "hooks", "tests", "bench", "scripts")

# Files of users and of other programs, which the documents speak of.
ELSEWHERE = set("""
    train.py train.sh sweep.sh sweep.py work.py dataloader.py task.c cuda.h src/slurmd/slurmstepd/task.c
    internal/pkg/util/env/clean.go docs/reference/run.md tsshim_launch.py src/resmom/prolog.c
    test/tests/functional/pbs_hook_set_jobenv.py src/modules/python/pbs/v1/_base_types.py scripts/imagenet/main.py scripts/timm/train.py
""".split())

LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w/.…~<>*$-])((?:[\w.-]+/)*[\w-]+\.(?:c|h|def|py|sh|pml|tsv|map))(?![\w*])")
PATH = re.compile(r"(?<![\w/.-])((?:%s|docs)/[\w./-]*\.(?:c|h|def|py|sh|pml|tsv|map|md))(?!\w)" %
                  "|".join(SOURCES))


def anchors(text):
    """What GitHub makes of the headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def documents(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def files(root):
    """{last part: paths} of the files that are sources."""
    found = {}
    for top in (*SOURCES, "docs"):
        for path in (root / top).rglob("*.*"):
            if "__pycache__" not in path.parts:
                found.setdefault(path.name, []).append(path.relative_to(root).as_posix())
    return found


def wrong_link(document, target):
    if re.match(r"\w+:", target):
        return None
    name, _, anchor = target.partition("#")
    path = document.parent / name if name else document
    if not path.exists():
        return f"no file {name}"
    if anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"no heading #{anchor} in {path.name}"
    return None


def wrong_file(root, known, name):
    if name in ELSEWHERE or (root / name).is_file():
        return None
    there = known.get(name.rsplit("/", 1)[-1], [])
    is_whole = name.split("/")[0] in (*SOURCES, "docs")
    if not is_whole and any(f"/{x}".endswith(f"/{name}") for x in there):
        return None
    return f"no file {name}" + (f"; there is {' '.join(there)}" if there else "")


def wrong_in_documents(root):
    known = files(root)
    for document in documents(root):
        for number, line in enumerate(document.read_text(encoding="utf-8").split("\n"), 1):
            said = [wrong_link(document, target) for target in LINK.findall(line)]
            rest = LINK.sub("]", line)
            said += [wrong_file(root, known, name) for name in FILE.findall(rest)]
            for what in filter(None, said):
                yield f"{document.relative_to(root)}:{number}: {what}"


def wrong_in_sources(root):
    made_up = root / "tests" / "structure"  # these tests name what is not there
    for top in SOURCES:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".c", ".h", ".def", ".py", ".pml", ".sh") or made_up in path.parents:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for number, line in enumerate(text.split("\n"), 1):
                for name in PATH.findall(line):
                    if name not in ELSEWHERE and not (root / name).is_file():
                        yield f"{path.relative_to(root)}:{number}: no file {name}"


def finds_what_is_wrong():
    """A made-up tree: each line of `wrong` is found, none of `right`."""
    right = ["# A head: of `two` words",
             "[a](docs/b.md) [c](docs/b.md#it-is-b) [d](#a-head-of-two-words)",
             "`shim/a.c`, a.c, shim/*.c and https://example.org/x.c [e](https://example.org/y.md)"]
    wrong = ["[a](docs/c.md)", "[a](docs/b.md#it)", "`shim/b.c`", "b.py"]
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        for name in (*SOURCES, "docs"):
            (root / name).mkdir()
        (root / "docs" / "b.md").write_text("# It is B\n[up](../README.md)\n", encoding="utf-8")
        (root / "shim" / "a.c").write_text(
            "/* docs/b.md, shim/a.c */\n/* docs/x.md */\n/* hooks/x.h */\n", encoding="utf-8")
        (root / "README.md").write_text("\n".join(right + wrong), encoding="utf-8")
        found = [line.split(": ")[0] for line in wrong_in_documents(root)]
        first = len(right) + 1
        expected = [f"README.md:{first + i}" for i in range(len(wrong))]
        in_sources = [line.split(": ")[0] for line in wrong_in_sources(root)]
        if found == expected and in_sources == ["shim/a.c:2", "shim/a.c:3"]:
            return []
        return [f"found {found} and {in_sources}, expected {expected} and two in shim/a.c"]


def main():
    checks = (
        ("finds what is wrong in a made-up tree", finds_what_is_wrong()),
        ("what the documents name is there", list(wrong_in_documents(ROOT))),
        ("what the source names is there", list(wrong_in_sources(ROOT))),
    )
    return tap.report(checks)


if __name__ == "__main__":
    sys.exit(main())
