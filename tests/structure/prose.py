#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Sentences of README.md and docs/**/*.md that are too long or have no named subject.  TAP.

style(1) of GNU diction finds the sentences; markdown-it tells it what is prose.  Code, tables, headings,
targets of links, and what a program wrote between two marks do not count.  A colon and a semicolon end a
sentence.  In .def files the texts of docs/options.md and docs/reasons.md are mended.

    prose.py [FILE...]      only these files
"""
import pathlib
import re
import subprocess
import sys

from markdown_it import MarkdownIt

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The configuration: the most words of a sentence, and how one without a named subject begins.
WORDS = 30
UNNAMED = re.compile(r"((And|But|So|Then|Also|Here) )?([Ww]ho(ever)?|[Ww]hat(ever)?|[Tt]hose (who|which)|"
                     r"[Tt]hat (which|what))\b(?!.*\?$)")

MADE = re.compile(r"^<!-- (?=[^\n]*made by).*?^<!--[^\n]*end[^\n]*-->$", re.M | re.S)
CODE = re.compile(r"\W*(Code\W*)?")
FOUND = re.compile(r"^(\S+:\d+): (.+)$", re.M)


def sentence_ends(text):
    """@text as style(1) wants it, which takes a sentence to begin with a capital."""
    text = re.sub(r"\b(e\.g|i\.e)\.", "namely", text)
    text = re.sub(r";(?=\s)", ".", text)
    # A word that the page begins small is no subject of a sentence: it is written large.
    text = re.sub(r"([.:!?]['\")\]]*\s+['\"(\[]*)([a-z]\S*)", lambda m: m[1] + m[2].upper(), text)
    text = re.sub(r"^(\W*)([a-z]\S*)", lambda m: m[1] + m[2].upper(), text)
    return text if re.search(r"[.:!?]\W*$", text) else text + "."


def inline(token):
    """The words of a paragraph, its lines kept; code is the word Code, which does not count."""
    words = {"text": lambda t: t.content, "code_inline": lambda t: "Code", "softbreak": lambda t: "\n",
             "hardbreak": lambda t: "\n"}
    return "".join(words.get(child.type, lambda t: "")(child) for child in token.children)


def prose(name, text):
    """The prose of a document, with its lines as cpp(1) gives them."""
    text = MADE.sub(lambda m: "\n" * m[0].count("\n"), text)
    aside = 0
    for token in MarkdownIt().enable("table").parse(text):
        if token.type.startswith(("table_", "heading_")):
            aside += token.nesting
        elif token.type == "inline" and not aside and inline(token).strip():
            yield f'#line {token.map[0] + 1} "{name}"\n{sentence_ends(inline(token))}\n\n'


def sentences(text, words):
    """[(place, sentence)] of more than @words words."""
    done = subprocess.run(["style", "-L", "en", "-l", str(words)], input=text, stdout=subprocess.PIPE,
                          encoding="utf-8", errors="replace", check=True)
    return FOUND.findall(done.stdout)


def wrong(name, text):
    text = "".join(prose(name, text))
    for place, sentence in sentences(text, WORDS):
        words = sum(not CODE.fullmatch(word) for word in sentence.split())
        if words > WORDS:
            yield f"{place}: {words} words: {sentence}"
    for place, sentence in sentences(text, 1):
        if UNNAMED.match(sentence):
            yield f"{place}: who or what? {sentence}"


def finds_what_is_wrong():
    """Of a made-up page each line of `faults` is found, and none of `rest`."""
    many = "word " * (WORDS - 2)
    rest = [f"A {many}[one](a/long/link.md).", "", f"- item {many}", "", f"`{many}` is code: what `a.b` has.", "",
            "# What is shared", "", "What is it? Nobody knows who asks.", "", f"| {many}a b c |", "|---|",
            f"| Who is here {many} |", "", "```", f"Who is here {many}", "```", "",
            "<!-- a: made by b -->", f"Who is here {many}", "<!-- a end -->", ""]
    faults = ["Who asks is told.", f"It is {many}one.", "So what is `left` goes.", f"tsshim is {many}one."]
    found = [line.split(": ")[0] for line in wrong("x.md", "\n".join(rest + faults))]
    expected = [f"x.md:{len(rest) + i}" for i in (2, 4, 1, 3)]
    return [] if found == expected else [f"found {found}, expected {expected}"]


def main(words):
    pages = [pathlib.Path(word).resolve() for word in words] or \
        [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    checks = [("finds what is wrong in a made-up page", finds_what_is_wrong())]
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        checks.append((name, list(wrong(name, page.read_text(encoding="utf-8")))))
    return tap.report(checks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
