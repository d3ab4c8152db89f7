# SPDX-License-Identifier: MIT
"""Functions, methods and modules: what a fingerprint says of each."""

import _socket
import dataclasses
import functools
import logging
import operator
import os
import re
import sys
import types
from collections import namedtuple

from . import bags, drawing, library
from .code import code_bytes, makes_others, said
from .walk import NODES, OTHERS, ending, inline, node

MISSING = object()
CAPSULE = type(_socket.CAPI)  # functions made by pybind11 belong to one


@node(types.FunctionType)
def _function(walker, function):
    walker.put(b"f", function.__qualname__)
    walker.put(b"c", code_bytes(function.__code__))
    if library.is_library_function(function):
        name = function.__globals__.get("__name__")
        if type(name) is str and library.is_library_name(name):
            walker.add(sys.modules[name], " in " + name)
        if library.bound(function.__module__, function.__qualname__) is function:
            return
    else:
        found = said(function.__code__)
        bags.mention(walker, function, found.names)
        _look_up(walker, found, function.__globals__)
    for table in filter(None, (function.__kwdefaults__, function.__dict__)):
        bags.deny(walker, table)
    walker.add(function.__defaults__, ".__defaults__")
    walker.add(function.__kwdefaults__, ".__kwdefaults__")
    if function.__dict__:
        walker.add(function.__dict__, ".__dict__")
    else:  # of most functions
        walker.put(b"{0")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            walker.put(b"-")
            continue
        # Of super(): other uses of the class are among those of makes_others().
        walker.add(content, ".<locals>." + name, as_kind=name == "__class__")


def _by_name(walker, found, names):
    """What code of this Said may look up by a name in its texts: modules, and with eval() its own globals, @names."""
    mentioned = found.names
    if "globals" in mentioned:
        module = sys.modules.get(names.get("__name__"))
        walker.add(module if module is not None else names, ":globals()")
    is_code = any("eval" in use.names or "exec" in use.names for use in found.uses)
    if is_code or "__import__" in mentioned or "import_module" in mentioned or {"sys", "modules"} <= mentioned:
        for word in sorted(set(re.findall(r"[^\W\d]\w*", "\n".join(mentioned)))):
            module = sys.modules.get(word)
            if type(module) is types.ModuleType and not library.is_library_name(word):
                walker.add(module, ":" + word)
            if is_code and word in names:
                walker.add(names[word], ":" + word)


def _look_up(walker, found, names):
    """What the user's code of the Said @found looks up outside of itself, its globals being @names."""
    if found.makes_others:
        walker.memory[makes_others] = True
    if found.asks_types:
        bags.asks_types(walker)
    for use in found.uses:
        _use(walker, names, use)
    if found.looks_by_name:
        _by_name(walker, found, names)


def _code(walker, code):
    """Code that has no globals of its own: eval() gives it those of a function that is walked as well, or a dict."""
    if type(code) is not types.CodeType or walker.notes.generators is None:
        return False
    walker.put(b"c", code_bytes(code))
    bags.mention(walker, types.SimpleNamespace(__code__=code, __globals__=None, __qualname__=code.co_name),
                 said(code).names)
    return True


OTHERS.append(_code)


@ending
def _codes_end(walker):
    """Each such code with the globals of each such function."""
    known = walker.memory.setdefault(_codes_end, set())
    met = walker.memory.get(bags.mention, ())
    codes = [function.__code__ for function, _ in met if function.__globals__ is None]
    spaces = {id(function.__globals__): function.__globals__ for function, _ in met if codes}
    for code in codes:
        for place, names in spaces.items():
            if names is not None and (id(code), place) not in known:
                known.add((id(code), place))
                _look_up(walker, said(code), names)


def _use(walker, names, use):
    walker.put(b"u", "\0".join((use.kind,) + use.names))
    if use.kind == "import":
        _imported(walker, names, use)
        return
    root = names.get(use.names[0], MISSING)
    if root is MISSING:
        builtin = sys.modules["builtins"].__dict__.get(use.names[0], MISSING)
        if builtin is MISSING:
            walker.put(b"-")
        else:
            walker.add(builtin, ":" + use.names[0])
        return
    _attributes(walker, root, use.names[0], use.names[1:], use.key, names, use.is_test)


def _without_order(text, names):
    """The global @text without the order of the sets of texts among these @names that it shows."""
    for part in list(names.values()):
        if type(part) in (set, frozenset) and len(part) > 1 and set(map(type, part)) == {str}:
            text = text.replace(repr(part), repr(sorted(part)))
    return text


def _attributes(walker, value, path, names, key, where=None, is_test=False):
    """
    Go through modules as the code does; what is found in one is walked, not the module.  @where are the
    globals that @value is one of, if that is known; where it is but compared with, it @is_test.
    """
    for name in names:
        if type(value) is not types.ModuleType:
            break
        module, value = value, library.module_dict(value).get(name, MISSING)
        where = library.module_dict(module)
        path += "." + name
        if value is MISSING:
            if name.startswith("__"):  # its __dict__, say: any of what it has may be read
                walker.add(module, ":" + path)
                return
            walker.put(b"-")  # it is a part imported later, or an error
            maker = library.module_dict(module).get("__getattr__")
            walker.add(None if library.is_library_name(library.module_name(module)) else maker)
            return
        if library.is_library_name(library.module_name(module)):
            if not is_walked_in_library(value):
                walker.put(b"l", library.class_name(type(value)))
                walker.add(module, ":" + path)
                return
    if type(value) is str and "{'" in value and where is not None:
        value = _without_order(value, where)
    if value is os.environ or value is os.getenv:
        _environment(walker, key)
    else:
        walker.add(value, ":" + path, as_kind=is_test)


def _environment(walker, key):
    """The variable @key or, when code may ask for any, all."""
    if key is None:
        walker.put(b"e", repr(sorted(os.environ._data.items())))
    else:
        walker.put(b"e", repr(os.environ._data.get(os.environ.encodekey(key))))


def is_walked_in_library(value):
    """Whether @value, of a library module's, can be walked: objects of libraries may not."""
    kind = type(value)
    if value is os.environ or inline(value) is not None:
        return True
    if kind is list or kind is dict:
        return value is sys.argv
    return id(kind) in NODES or library.inherits(kind, type) or not library.is_library_name(
        library.class_module(kind))


def _imported(walker, names, use):
    name = use.names[0]
    if use.level:
        package = names.get("__package__") or names.get("__name__")
        if type(package) is not str:
            walker.fail("import", ":" + name)
        package = package.rsplit(".", use.level - 1)[0]
        name = package + "." + name if name else package
    module = sys.modules.get(name)
    if module is None:
        later = library.unloaded(name)
        if later is None:
            walker.fail("import", ":" + name)
        walker.put(b"i", later)
        return
    if len(use.names) == 1 or not library.inherits(type(module), types.ModuleType):
        walker.add(module, ":" + name)
        return
    for wanted in use.names[1:]:
        part = sys.modules.get(name + "." + wanted)
        if part is not None and wanted not in library.module_dict(module):
            walker.add(part, ":%s.%s" % (name, wanted))
        else:
            _attributes(walker, module, ":" + name, (wanted,), None)


@node(types.MethodType)
def _method(walker, method):
    walker.put(b"M")
    function, owner = method.__func__, method.__self__
    if not drawing.is_global(owner):
        walker.add(owner, ".__self__")
        walker.add(function, ".__func__")
        return
    walker.put(b"g", library.class_name(type(owner)))
    names = [name for name, value in library.class_dict(type(owner)).items() if value is function]
    if type(function) is types.FunctionType or not names:
        walker.add(function, ".__func__")
    else:  # made by Cython: its name will do
        walker.put(b"n", names[0])


@node(types.BuiltinFunctionType, type(re.compile("").sub))
def _builtin(walker, function):
    owner = function.__self__
    walker.put(b"B", function.__qualname__)
    if owner is None or type(owner) in (types.ModuleType, CAPSULE):
        name = function.__module__
        walker.put(b"n", name if type(name) is str else "")
    elif drawing.is_global(owner):
        walker.put(b"g")
    else:
        walker.add(owner, ".__self__")


# What is told by some of its attributes: by class (tag, the one that is written in place, others).
_TOLD = {
    **dict.fromkeys((type(str.join), type(str.__len__), type(dict.__dict__["fromkeys"])),
                    (b"W", "__name__", ("__objclass__",))),
    type("".__len__): (b"W", "__name__", ("__self__",)),
    types.GetSetDescriptorType: (b"D", "__name__", ()),
    types.MemberDescriptorType: (b"D", "__name__", ()),
    logging.Logger: (b"L", "name", ()),  # its handlers hold locks and files, and decide about messages only
    logging.RootLogger: (b"L", "name", ()),
    staticmethod: (b"Ss", None, ("__func__",)),
    classmethod: (b"Sc", None, ("__func__",)),
    property: (b"P", None, ("fget", "fset", "fdel")),
    functools.partial: (b"p", None, ("func", "args", "keywords", "__dict__")),
    library.CACHED: (b"C", None, ("__dict__",)),
    functools.cached_property: (b"Y", None, ("func",)),  # it also has a lock
    dataclasses.Field: (b"Z", None, ("name", "default", "default_factory", "init", "metadata")),
}


@node(*_TOLD)
def _told(walker, value):
    kind = type(value)
    tag, text, names = _TOLD[kind]
    walker.put(tag, str(getattr(value, text)) if text else b"")
    if kind is classmethod:
        walker.memory[makes_others] = True  # it is handed its class
    elif kind is library.CACHED:
        inner = value.__dict__.get("__wrapped__")
        of_user = type(inner) is not types.FunctionType or not library.is_library_function(inner)
        walker.notes.has_cache |= of_user and value.cache_info().currsize > 0
    for name in names:
        part = getattr(value, name)
        if name in ("keywords", "__dict__"):
            bags.deny(walker, part)
        walker.add(part, "." + name)


@node(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def _getter(walker, value):
    walker.put(b"G", type(value).__name__)
    for part in value.__reduce__()[1:]:
        walker.add(part)


@node(type(namedtuple("_Pair", "a").a))
def _tuple_field(walker, value):
    walker.put(b"G", repr(value.__reduce__()[1][0]))


@node(type(os.environ))
def _environ(walker, _):
    _environment(walker, None)


@node(types.ModuleType)
def _module(walker, module):
    name = library.module_name(module)
    if library.is_library_name(name):
        walker.put(b"L", name)
        library.note_module(walker, module)
        return
    walker.put(b"U")
    walker.add_pairs((key, value) for key, value in library.module_dict(module).items()
                     if type(key) is str and not key.startswith("__"))
