# SPDX-License-Identifier: MIT
"""What users can be told, as it stands in the source: the messages of all rooms, by file."""
import ast
import pathlib
import re

import scenes

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER, GLUE = "leader/peer/", "hooks/torch/python/tsshim_torch/"

# What prints a text, or hands it to what does; and files with such calls, or with tables of texts.
C_CALLS = {"ts_message_say", "ts_message_hint", "ts_check_find", "ts_check_advise", "reject"}
BEFORE = {"ts_message_say": "tsrun: ", "ts_message_hint": "hint: "}
C_MORE = {PEER + "secret_main.c": "fprintf", PEER + "look.h": "X", "shim/options.def": "TS_FORM"}
C_FILES = ("shim/tsrun/*.[ch]", PEER + "cluster.c", *C_MORE)
# They print what they were asked for, or look for a text.
NOT_TOLD = ("shim/tsrun/explain_report.c", "shim/tsrun/nodes.h", "shim/tsrun/report.c")


SHELL_FILES = ("scripts/slurm/[!.]*", "scripts/demo")
SHELL_CALL = re.compile(r"\b(?:log|explain|echo|say)\s+(?:\"((?:\\.|[^\"\\])*)\"|'([^']*)')|servers\+?=\"(, [^\"$]*)")
EXPANSION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|\$\w+")

PYTHON_FILES = ("bench/demo.py", "bench/tsbench/trial.py")
NOT_SAID = {"add_argument", "ArgumentParser", "Progress", "fullmatch"}
GLUE_CALLS = {"say", "_say", "_say_once"}
GLUE_OBJECTS = {"loader", "epoch"}  # arguments that are no texts, of functions that say something themselves

WORDS = re.compile(r"[\w%'`,;:&)] [\w%'`(]")  # a text, not a name or a path

TOKEN = re.compile(r'#error[^\n]*|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|\w+|\s+|[^\w\s]', re.DOTALL)


def literals(text):
    """(calls around it, what the innermost writes in front of it, string with its neighbours) of C's @text."""
    around, word, run = [], "", None
    for token in TOKEN.findall(text):
        if token[0] == '"':
            run = (run or "") + token[1:-1]
        elif token.isspace() or token.startswith(("/*", "//", "\\", "#")):
            pass
        elif run is not None and (token.isupper() or token.startswith("PRI")):  # a macro between strings
            run += "s" if run.endswith("%") else "%s"
        else:
            if run is not None:
                name, is_first = around[-1] if around else ("", False)
                yield {call for call, _ in around} - {""}, BEFORE.get(name, "") if is_first else "", run
            run = None
            if token in "([{":
                around.append((word if token == "(" and word.isidentifier() else "", True))
            elif token in ")]}" and around:
                around.pop()
            elif token == "," and around:
                around[-1] = around[-1][0], False
            word = token


def is_text(literal):
    """Whether it says something by itself, unlike a path, a name or the place of one."""
    own = scenes.CONVERSION.sub("", literal.replace("tsrun: ", ""))
    return WORDS.search(literal) and re.search("[A-Za-z]{3}", own)


def of_c(name, text):
    """Texts that are said, and those that stand in tables or are returned."""
    calls = C_CALLS | {C_MORE.get(name)}
    for around, before, literal in literals(text):
        if is_text(literal) and (around & calls or not around):
            yield before + literal


def of_shell(_, text):
    for found in SHELL_CALL.findall(text):
        literal = EXPANSION.sub("%s", "".join(found))
        if is_text(literal):
            yield literal


def joined(node):
    """The text of an expression of Python, with %s for what is not seen; None where it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(joined(part) or "%s" for part in node.values)
    if isinstance(node, ast.BinOp):
        left = joined(node.left)
        return left if left is None or isinstance(node.op, ast.Mod) else left + (joined(node.right) or "%s")
    return None


def texts(node):
    """The texts in an expression or a program, but for those of documentation and options."""
    literal = joined(node)
    if literal is not None:
        yield literal
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
              or isinstance(node, ast.Call) and name_of(node) in NOT_SAID):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def name_of(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def of_python(_, text):
    for literal in texts(ast.parse(text)):
        if is_text(literal):
            yield literal.replace("\n", "\\n")


def of_glue(_, text):
    """What is handed to say(): all of it but for what such a function hands on."""
    tree = ast.parse(text)
    inner = {id(call) for node in ast.walk(tree)
             if isinstance(node, ast.FunctionDef) and node.name in GLUE_CALLS for call in ast.walk(node)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and name_of(call) in GLUE_CALLS and call.args:
            literal = joined(call.args[0])
            if literal is not None:
                yield literal.replace("\n", "\\n")
            elif id(call) not in inner and ast.unparse(call.args[0]) not in GLUE_OBJECTS:
                yield "?" + ast.unparse(call.args[0])


READERS = (
    (C_FILES, of_c),
    (SHELL_FILES, of_shell),
    (PYTHON_FILES, of_python),
    ((GLUE + "**/*.py",), of_glue),
)


def messages(root=ROOT):
    """{(file, message)} of all that users can be told."""
    found = set()
    for patterns, read in READERS:
        for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
            name = path.relative_to(root).as_posix()
            if not name.startswith(NOT_TOLD):
                found.update((name, text) for text in read(name, path.read_text(encoding="utf-8")))
    return found
