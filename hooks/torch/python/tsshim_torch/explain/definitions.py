# SPDX-License-Identifier: MIT
"""
The imports, definitions and constants of a script, and nothing else of it.

Executed are, statement by statement: imports; functions and classes, without decorators that are
not known to be harmless; assignments of constants to names, where a constant is what needs no call
and no loop; what of these stands in an `if` whose condition is such a constant, or in a `try`.  All
else of the script is left out, and named.  The modules that it imports are executed as they are.
"""

import __future__
import ast
import os
import sys
import traceback
import types

# Decorators that only mark or wrap what they are given, by their last name.
_HARMLESS = frozenset((
    "staticmethod", "classmethod", "property", "setter", "getter", "deleter", "abstractmethod",
    "cached_property", "lru_cache", "cache", "wraps", "dataclass", "total_ordering", "no_grad",
    "inference_mode", "enable_grad", "overload", "override", "final", "contextmanager",
    "runtime_checkable", "typechecked", "jaxtyped", "unique"))
_SAFE = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.unaryop, ast.BinOp,
         ast.operator, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.IfExp, ast.Name, ast.Attribute,
         ast.Subscript, ast.Slice, ast.JoinedStr, ast.FormattedValue, ast.Starred, ast.expr_context)
_CLASS_MAKERS = frozenset(("namedtuple", "NewType", "TypeVar"))  # calls that only make a class
_MOST = 200  # statements that are named as left out


def last_name(node):
    """The last name of a dotted one, of a call's function: "no_grad" of torch.no_grad()."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _parts(node):
    """@node and all below that is worked out with it: not what is inside of a lambda."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.Lambda) and child is node.body:
            continue
        yield from _parts(child)


def is_constant(node):
    """Whether @node needs no call and no loop to be worked out."""
    return all(isinstance(part, (*_SAFE, ast.Lambda, ast.arguments, ast.arg))
               or isinstance(part, ast.Call) and last_name(part) in _CLASS_MAKERS
               or isinstance(part, ast.keyword) for part in _parts(node))


def _targets(node):
    """The names that an assignment binds; None where it does more."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, (ast.Tuple, ast.List)):
        found = [_targets(part) for part in node.elts]
        return None if None in found else sum(found, [])
    return None


def _bound(node):
    """All names that the statement @node may bind at its own level."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in part.names)
        elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(part.name)
    return names


class Loaded:
    """A script as far as it was executed."""

    def __init__(self, module, tree, file):
        self.module, self.tree, self.file = module, tree, file
        self.names = module.__dict__
        self.done = 0  # statements
        self.failed = []  # {"line", "statement", "error", "file", "at"}
        self.left_out = []  # {"line", "statement"}
        self.unknown = {}  # name -> the line that would have bound it

    def leave_out(self, node, what):
        self.left_out.append({"line": node.lineno, "statement": what})
        for name in _bound(node):
            self.unknown.setdefault(name, node.lineno)

    def summary(self):
        return {"executed": self.done, "failed": self.failed,
                "not_executed": self.left_out[:_MOST], "not_executed_count": len(self.left_out)}


class _Filter:
    """Makes of the statements of a script those that are executed."""

    def __init__(self, loaded):
        self.loaded = loaded

    def _out(self, node, what=None):
        self.loaded.leave_out(node, what or ast.unparse(node).partition("\n")[0][:80])

    def body(self, statements):
        """What is executed of @statements."""
        kept = []
        for node in statements:
            one = self.statement(node)
            if one is not None:
                kept.append(one)
        return kept

    def statement(self, node):
        """What is executed of @node, or None."""
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass)):
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self.function(node)
        if isinstance(node, ast.ClassDef):
            return self.class_(node)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return self.assignment(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return node  # a text, or ...
        if isinstance(node, ast.If) and is_constant(node.test):
            node.body = self.body(node.body) or [ast.copy_location(ast.Pass(), node)]
            node.orelse = self.body(node.orelse)
            return node
        if isinstance(node, ast.Try):
            return self.attempt(node)
        self._out(node)
        return None

    def attempt(self, node):
        if not all(handler.type is None or is_constant(handler.type) for handler in node.handlers):
            self._out(node)
            return None
        node.body = self.body(node.body) or [ast.copy_location(ast.Pass(), node)]
        for handler in node.handlers:
            handler.body = self.body(handler.body) or [ast.copy_location(ast.Pass(), handler)]
        node.orelse, node.finalbody = self.body(node.orelse), self.body(node.finalbody)
        if not node.handlers and not node.finalbody:
            node.finalbody = [ast.copy_location(ast.Pass(), node)]
        return node

    def assignment(self, node):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = all(_targets(target) is not None for target in targets)
        value = node.value
        if isinstance(node, ast.AnnAssign):
            plain = plain and is_constant(node.annotation)
        if plain and (value is None or is_constant(value)):
            return node
        self._out(node)
        return None

    def _decorators(self, node):
        kept = []
        for decorator in node.decorator_list:
            arguments = ([*decorator.args, *[each.value for each in decorator.keywords]]
                         if isinstance(decorator, ast.Call) else [])
            if last_name(decorator) in _HARMLESS and all(map(is_constant, arguments)):
                kept.append(decorator)
            else:
                self.loaded.left_out.append({"line": decorator.lineno,
                                             "statement": "@" + ast.unparse(decorator)[:80]})
        node.decorator_list = kept

    def function(self, node):
        """A definition; a default that is no constant becomes None."""
        self._decorators(node)
        arguments = node.args
        for values in (arguments.defaults, arguments.kw_defaults):
            for place, value in enumerate(values):
                if value is not None and not is_constant(value):
                    self._out_default(node, value)
                    values[place] = ast.copy_location(ast.Constant(None), value)
        for part in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
                     arguments.vararg, arguments.kwarg]:
            if part is not None:
                part.annotation = None
        node.returns = None
        return node

    def _out_default(self, node, value):
        self.loaded.left_out.append({"line": value.lineno, "statement": "a default of %s(): %s" % (
            node.name, ast.unparse(value)[:60])})

    def class_(self, node):
        parts = [*node.bases, *[each.value for each in node.keywords]]
        if not all(map(is_constant, parts)):
            self._out(node, "class " + node.name)
            return None
        self._decorators(node)
        kept = self.body(node.body)
        node.body = kept or [ast.copy_location(ast.Pass(), node)]
        return node


def _failure(loaded, node, error):
    """What is told of the @error that @node has raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename != __file__]
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen ")] or frames
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    elif frames:
        file, line = frames[-1].filename, frames[-1].lineno
    else:
        file, line = loaded.file, node.lineno
    text = "%s: %s" % (type(error).__name__, error)
    return {"line": node.lineno, "statement": ast.unparse(node).partition("\n")[0][:80],
            "error": text[:400], "file": file, "at": line}


def _execute(loaded, node, flags):
    try:
        code = compile(ast.Module([node], []), loaded.file, "exec", flags, dont_inherit=True)
        exec(code, loaded.names)
        loaded.done += 1
    except (Exception, SystemExit) as error:
        names = _bound(node)
        if isinstance(error, NameError) and getattr(error, "name", None) in loaded.unknown:
            loaded.leave_out(node, "%s, for want of %s" % (
                ast.unparse(node).partition("\n")[0][:60], error.name))
            return
        loaded.failed.append(_failure(loaded, node, error))
        for name in names - set(loaded.names):
            loaded.unknown.setdefault(name, node.lineno)


def load(source, file, package=None):
    """The Loaded of a script's @source, bytes; it is the program's main module from now on."""
    module = types.ModuleType("__main__")
    module.__file__, module.__package__ = file, package
    module.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = module
    try:
        tree = ast.parse(source, file)
        whole = ast.parse(source, file)
    except (SyntaxError, ValueError) as error:  # a NUL byte
        loaded = Loaded(module, ast.Module([], []), file)
        node = ast.Pass(lineno=getattr(error, "lineno", None) or 1, col_offset=0)
        loaded.failed.append(_failure(loaded, node, error))
        return loaded
    loaded = Loaded(module, whole, file)
    annotations = any(isinstance(node, ast.ImportFrom) and node.module == "__future__"
                      and any(alias.name == "annotations" for alias in node.names)
                      for node in tree.body)
    flags = __future__.annotations.compiler_flag if annotations else 0
    keep = _Filter(loaded)
    for node in tree.body:
        # A failure may leave names unbound that a later condition asks for.
        one = keep.statement(node)
        if one is not None:
            _execute(loaded, ast.fix_missing_locations(one), flags)
    return loaded


def tree_of(module):
    """The syntax tree of @module of the program's, or None."""
    try:
        with open(module.__file__, "rb") as file:
            return ast.parse(file.read(), os.path.abspath(module.__file__))
    except (OSError, SyntaxError, ValueError, TypeError):
        return None
