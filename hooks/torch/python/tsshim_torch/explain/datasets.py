# SPDX-License-Identifier: MIT
"""
What the judge and the fingerprint say of the data sets of a program, by their classes alone: their
code, and what their __init__() is seen to put into attributes.  None is made.
"""

import ast
import os
import re
import sys
import types

from ..fingerprint import classes, library, walk
from ..fingerprint import datasets as fingerprints
from ..judge import judgement, tables, unmade, versions
from . import calls, definitions

SAMPLES, NOTHING, UNKNOWN = "samples", "no", "unknown"
_NAME = re.compile(r"name (\w+) in ")
_LIKE = ("__getitem__", "__len__")

# Functions that give what their name does not tell -> the class of that.
_MAKERS = {
    "builtins.open": "_io.TextIOWrapper", "io.open": "_io.TextIOWrapper", "_io.open": "_io.TextIOWrapper",
    "tarfile.open": "tarfile.TarFile", "gzip.open": "gzip.GzipFile", "lmdb.open": "lmdb.Environment",
    "sqlite3.connect": "sqlite3.Connection", "_sqlite3.connect": "sqlite3.Connection",
    "_thread.allocate_lock": "_thread.lock", "_thread.lock": "_thread.lock", "_thread.RLock": "_thread.RLock",
    "numpy.random._generator.default_rng": "numpy.random._generator.Generator",
    "numpy.random.default_rng": "numpy.random._generator.Generator",
    "pandas.io.parsers.readers.read_csv": "pandas.DataFrame", "pandas.io.parquet.read_parquet": "pandas.DataFrame",
}
# What the fingerprint can tell, under --align, though its class is in one of the lists of refused
# ones: while nobody holds them, and for reading only.
_TOLD = {"generator": "it is seeded for each item", "lock": "while nobody holds it",
         "handle": "where it is open for reading only"}
_REFUSED = {"_thread.lock": "lock", "_thread.RLock": "lock", "sqlite3.Connection": "handle"}
_HELD = frozenset(("_thread.lock", "_thread.RLock"))  # of the locks, those that can be told


# ---- which classes there are ----

def local_modules(loaded):
    """The modules beside the script, or below, that it has imported."""
    root = os.path.dirname(os.path.abspath(loaded.file)) + "/"
    found = []
    for module in list(sys.modules.values()):
        if type(module) is not types.ModuleType or module is loaded.module:
            continue
        path = library.module_path(module)
        if path and path.endswith(".py") and not library.is_library_path(path) and \
                (os.path.abspath(path) + "/").startswith(root):
            found.append(module)
    return sorted(found, key=library.module_path)


def _kind_of(kind, data, made):
    """
    "map", "iterable" or "pipe": how torch would take @kind; None: as no data set.  Of a class that
    is only like one objects must be @made where loaders are.
    """
    if issubclass(kind, (data.MapDataPipe, data.IterDataPipe)):
        return "pipe"
    if issubclass(kind, data.IterableDataset):
        return "iterable"
    if issubclass(kind, data.Dataset):
        return "map"
    if not any(kind is each for each in made):
        return None
    torch = sys.modules["torch"]
    others = (data.Sampler, torch.nn.Module, list, tuple, dict, str, torch.Tensor)
    is_like = all(any(name in library.class_dict(base) for base in library.mro(kind)
                      if library.is_user_class(base)) for name in _LIKE)
    return "map" if is_like and not issubclass(kind, others) else None


def _nodes_of(tree):
    """{qualified name: its node} of the classes in @tree that are not inside of functions."""
    found, waiting = {}, [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found[prefix + child.name] = child
                waiting.append((prefix + child.name + ".", child))
            elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.expr)):
                waiting.append((prefix, child))
    return found


def _made(places, file):
    """The classes of which the script, @file, makes objects, or a module that makes a loader."""
    found = []  # no set: a metaclass may forbid that they are hashed
    for names, _, tree, its_file in places:
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else ()
        if its_file == file or any(calls.is_loader(node, names) for node in nodes):
            found += [kind for kind in (calls.resolve(node.func, names) for node in nodes)
                      if isinstance(kind, type)]
    return found


def _classes(names, module, tree, file, data, made):
    """(class, kind, its node or None, file) of the data sets that @module defines."""
    nodes = _nodes_of(tree) if tree is not None else {}
    for value in list(names.values()):
        if isinstance(value, type) and value.__module__ == module:
            kind = _kind_of(value, data, made)
            if kind is not None:
                yield value, kind, nodes.get(value.__qualname__), file


# ---- verdicts ----

def _verdict(shared, reason=None, detail=None, fix=None):
    return {"shared": shared, "reason": reason, "detail": detail, "fix": fix}


def _refused(error, loaded):
    """The verdict when judging raised @error."""
    if isinstance(error, versions.Unjudged):
        return _verdict(NOTHING, "torch_versions", str(error))
    match = _NAME.match(str(error))
    if match and match[1] in loaded.unknown:
        return _verdict(UNKNOWN, None, "%s, which is not known before line %d is run" % (
            match[1], loaded.unknown[match[1]]))
    return _verdict(NOTHING, "torch_dataset", str(error))


def _default(kind, how, loaded):
    """(verdict in default mode, names of attributes that decide as well)."""
    if how != "map":
        return _verdict(NOTHING, "torch_iterable", "an iterable data set, without --align"), []
    if callable(getattr(kind, "__getitems__", None)) and not hasattr(kind, "__getattr__"):
        return _verdict(NOTHING, "torch_getitems"), []
    try:
        found, names = unmade.judge_class(kind)
        versions.check()
    except judgement.Refused as error:
        return _refused(error, loaded), []
    except Exception as error:
        return _verdict(UNKNOWN, None, "the check failed: %s" % error), []
    return {**_verdict(SAMPLES), "draws": sorted(found.generators)}, names


def _aligned(kind, how):
    if how == "pipe":
        return _verdict(NOTHING, "torch_iterable", "not aligned: a DataPipe")
    try:
        fingerprints.fingerprint(kind, notes=fingerprints.Notes(seeds=True))
    except fingerprints.Unknown as error:
        return _verdict(NOTHING, "torch_dataset", str(error).replace("dataset", kind.__name__, 1),
                        "keep what is named here out of the data set")
    return _verdict(SAMPLES)


# ---- what __init__() puts into attributes ----

def _class_made(call, names):
    """The name of the class of what @call makes, and the class if it is one; (None, None)."""
    made = calls.resolve(call.func, names)
    if made is None and isinstance(call.func, ast.Name):
        made = vars(sys.modules["builtins"]).get(call.func.id)
    if isinstance(made, type):
        return library.class_name(made), made
    name = "%s.%s" % (getattr(made, "__module__", ""), getattr(made, "__name__", ""))
    return _MAKERS.get(name), None


def _reason_of(name, kind):
    """Why the fingerprint refuses, or tells, what is of class @kind with this @name; or None."""
    if name in _REFUSED:
        return _REFUSED[name]
    if name in classes.REFUSED:
        return classes.REFUSED[name]
    if name.startswith("_io.") or name in ("zipfile.ZipFile", "tarfile.TarFile", "gzip.GzipFile"):
        return "handle"
    for base in library.mro(kind) if kind is not None else ():
        reason = classes.REFUSED.get(library.class_name(base))
        if reason is not None:
            return reason
    return classes.REFUSED_PACKAGES.get(name.partition(".")[0])


def _is_allowed(name, kind):
    """Whether the judge takes an object of that class as it is."""
    module, _, last = name.rpartition(".")
    return (module, last) in judgement.ROWS or (module, last) in tables.VALUES or \
        kind is not None and (not library.is_library_class(kind) or kind in (
            int, float, bool, str, bytes, complex, list, dict, tuple, range, set, frozenset))


def _held(node, names):
    """What is assigned to attributes of self in the __init__() of the class @node."""
    for function in node.body if node is not None else ():
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or \
                not function.args.args:
            continue
        own = function.args.args[0].arg
        for part in ast.walk(function):
            if not isinstance(part, ast.Assign) or not isinstance(part.value, ast.Call):
                continue
            for target in part.targets:
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and \
                        target.value.id == own:
                    name, kind = _class_made(part.value, names)
                    if name is not None:
                        yield target.attr, part.lineno, name, kind


def _look_at_held(node, names, default, aligned):
    """(the verdicts, each worse where an attribute makes it so; what is told of attributes)."""
    told = []
    for attribute, line, name, kind in _held(node, names):
        reason = _reason_of(name, kind)
        good = _is_allowed(name, kind) and reason is None
        spared = reason in _TOLD and (reason != "lock" or name in _HELD)
        if good:
            continue
        what = "self.%s (line %d), %s" % (attribute, line, name)
        if reason is not None:
            what += ": " + walk.REASONS[reason]
        told.append({"attribute": attribute, "line": line, "class": name, "default": False,
                     "aligned": reason is None or spared,
                     "text": walk.REASONS.get(reason), "condition": _TOLD.get(reason) if spared else None})
        if default["shared"] == SAMPLES:
            default = _verdict(NOTHING, "torch_dataset", what)
        if reason is not None and not spared and aligned["shared"] == SAMPLES:
            aligned = _verdict(NOTHING, "torch_dataset", what,
                               "keep what is named here out of the data set")
    return default, aligned, told


# ---- the whole ----

def _with_words(verdict, reasons):
    """@verdict with the words of its reason, and what helps unless it has a better one."""
    words = reasons.get(verdict["reason"], {})
    fix = verdict["fix"] or words.get("fix") or None
    return {**verdict, "text": words.get("text"), "fix": fix}


def _explain_class(found, names, loaded, reasons):
    kind, how, node, file = found
    default, attributes = _default(kind, how, loaded)
    aligned = _aligned(kind, how)
    default, aligned, held = _look_at_held(node, names, default, aligned)
    return {"class": "%s.%s" % (kind.__module__, kind.__qualname__), "file": file,
            "line": node.lineno if node is not None else None, "kind": how,
            "default": _with_words(default, reasons), "aligned": _with_words(aligned, reasons),
            "attributes": attributes, "held": held}


def _library_rows(tree, names, file, data):
    """What is said of data sets of libraries that a program makes."""
    for node in ast.walk(tree):
        kind = calls.resolve(node.func, names) if isinstance(node, ast.Call) else None
        if not isinstance(kind, type) or not issubclass(kind, data.Dataset) or \
                library.is_user_class(kind):
            continue
        how = _kind_of(kind, data, ())
        name = library.class_name(kind)
        known = how == "map" and tuple(name.rpartition(".")[::2]) in judgement.ROWS
        default = _verdict(SAMPLES) if known else _verdict(
            NOTHING, "torch_iterable" if how != "map" else "torch_dataset", name)
        aligned = _verdict(SAMPLES) if how != "pipe" else _verdict(NOTHING, "torch_iterable")
        yield {"class": name, "file": file, "line": node.lineno, "kind": how, "default": default,
               "aligned": aligned, "attributes": [], "held": []}


def explain(loaded, modules, reasons):
    """What is said of the data sets of a program; [] where it has not imported torch."""
    data = sys.modules.get("torch.utils.data")
    if data is None:
        return []
    rows = []
    places = [(loaded.names, "__main__", loaded.tree, loaded.file)]
    places += [(vars(module), module.__name__, definitions.tree_of(module), module.__file__)
               for module in modules]
    made = _made(places, loaded.file)
    for names, module, tree, file in places:
        for found in _classes(names, module, tree, file, data, made):
            rows.append(_explain_class(found, names, loaded, reasons))
        for row in _library_rows(tree, names, file, data) if tree is not None else ():
            rows.append({**row, "default": _with_words(row["default"], reasons),
                         "aligned": _with_words(row["aligned"], reasons)})
    return rows
