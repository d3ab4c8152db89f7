# SPDX-License-Identifier: MIT
"""The calls of DataLoader() in a program, found in its text, and which of their arguments matter."""

import ast
import sys

from . import definitions

_PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn",
           "pin_memory", "drop_last", "timeout", "worker_init_fn")
_TOLD = frozenset(("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers",
                   "collate_fn", "worker_init_fn", "generator", "persistent_workers",
                   "multiprocessing_context"))
_NAMES = frozenset(("DataLoader", "StatefulDataLoader"))


def resolve(node, names):
    """
    What a name, or one of a module's or class's, leads to, without asking objects of others for
    attributes; None: it is not known.
    """
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value, names)
        if isinstance(owner, (type(sys), type)):
            return vars(owner).get(node.attr)
    return None


def is_loader(node, names):
    """Whether @node, a call, makes a loader; by @names, or by the name alone."""
    found = resolve(node.func, names)
    data = sys.modules.get("torch.utils.data")
    if isinstance(found, type):
        return data is not None and issubclass(found, data.DataLoader)
    return found is None and definitions.last_name(node) in _NAMES


def _arguments(call):
    """({argument: its node}, whether there may be more that cannot be seen)."""
    found, hidden = {}, False
    for place, node in enumerate(call.args):
        if isinstance(node, ast.Starred):
            hidden = True
            break
        if place < len(_PLACES):
            found[_PLACES[place]] = node
    for keyword in call.keywords:
        if keyword.arg is None:
            hidden = True
        else:
            found[keyword.arg] = keyword.value
    return found, hidden


def _is_none(node):
    return node is None or isinstance(node, ast.Constant) and node.value is None


def _is_zero(node):
    return node is None or isinstance(node, ast.Constant) and node.value == 0


def _notes(found, hidden):
    """What of the arguments decides about sharing."""
    if hidden:
        yield "arguments come out of *args or **kwargs, which are not known here"
    if _is_zero(found.get("num_workers")) and not (hidden and "num_workers" not in found):
        yield ("no workers: the program itself makes the samples; iterable data sets share nothing then, "
               "and the data set is looked at before each batch")
    if not _is_none(found.get("collate_fn")):
        yield ("a collate function of its own: in default mode no samples are shared of a data set with "
               "code of your own, as it might change what that holds; --align shares them")
    if not _is_none(found.get("generator")):
        yield "the order comes from a generator of its own: --align-orders takes it from the data seed"
    for name in ("sampler", "batch_sampler"):
        if not _is_none(found.get(name)):
            yield ("%s: its order is aligned if it draws from the global generators; one that has a seed "
                   "or generator of its own, as DistributedSampler, needs --align-orders" % name)
    shuffle = found.get("shuffle")
    if isinstance(shuffle, ast.Constant) and shuffle.value:
        yield "shuffled: in default mode jobs of other seeds meet by chance; --align gives all one order"
    if "batch_size" in found and _is_none(found["batch_size"]) and "batch_sampler" not in found:
        yield "no batches: items are asked for one at a time"


def _calls(tree, names, file):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not is_loader(node, names):
            continue
        found, hidden = _arguments(node)
        yield {"file": file, "line": node.lineno,
               "arguments": {name: ast.unparse(value)[:100] for name, value in found.items()
                             if name in _TOLD},
               "notes": list(_notes(found, hidden))}


def explain(loaded, modules):
    """What is said of the calls in the script and in the @modules beside it."""
    found = list(_calls(loaded.tree, loaded.names, loaded.file))
    for module in modules:
        tree = definitions.tree_of(module)
        if tree is not None:
            found += _calls(tree, vars(module), module.__file__)
    return sorted(found, key=lambda call: (call["file"] != loaded.file, call["file"], call["line"]))
