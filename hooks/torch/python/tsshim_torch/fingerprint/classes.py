# SPDX-License-Identifier: MIT
"""Classes, and objects of classes written in Python: what a fingerprint says of each."""

import sys
import types
from collections import OrderedDict

from . import bags, drawing, handles, library, locks, scratch, shared, states, traced
from .arrays import BASES
from .code import makes_others
from .library import HEAP_TYPE
from .walk import LONG, NODES, OTHERS, add_dict, add_ordered, add_set, ending, inline

_flags = type.__dict__["__flags__"].__get__
_size = type.__dict__["__basicsize__"].__get__
_item_size = type.__dict__["__itemsize__"].__get__
_base = type.__dict__["__base__"].__get__
_qualname = type.__dict__["__qualname__"].__get__

# What a class holds besides what its author wrote, or what only documents it.
CLASS_NOISE = frozenset((
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__",
    "__annotations_cache__", "__annotate__", "__annotate_func__", "__abstractmethods__",
    "__conditional_annotations__",
    "_abc_impl", "__orig_bases__", "__parameters__", "__type_params__", "__firstlineno__",
    "__static_attributes__", "__classdictcell__", "__dataclass_params__",
    "__slotnames__",  # appears when an instance is pickled
    # What pydantic has made of the fields of a class, with addresses in it.
    "__pydantic_core_schema__", "__pydantic_serializer__", "__pydantic_validator__",
    "__pydantic_parent_namespace__"))

CONSTRUCTORS = "__init__", "__post_init__"

# Classes whose instances, and those of their subclasses, cannot be told.
REFUSED = {
    "_io._IOBase": "handle", "_socket.socket": "handle", "mmap.mmap": "handle",
    "zipfile.ZipFile": "handle", "tarfile.TarFile": "handle", "sqlite3.Connection": "handle",
    "fsspec.spec.AbstractFileSystem": "handle", "sqlite3.Cursor": "handle",
    "selectors.BaseSelector": "handle",
    "builtins.Environment": "handle", "builtins.Transaction": "handle",  # lmdb's
    "threading.Thread": "process", "multiprocessing.process.BaseProcess": "process",
    "subprocess.Popen": "process", "concurrent.futures._base.Executor": "process",
    "_thread.lock": "lock", "_thread.RLock": "lock", "_thread._local": "lock",
    "threading.Condition": "lock", "threading.Event": "lock", "threading.Semaphore": "lock",
    "threading.Barrier": "lock", "multiprocessing.synchronize.SemLock": "lock",
    "queue.Queue": "lock", "_queue.SimpleQueue": "lock",
    "_random.Random": "generator", "torch._C.Generator": "generator",
    "numpy.random.mtrand.RandomState": "generator",
    "numpy.random._generator.Generator": "generator",
    "numpy.random.bit_generator.BitGenerator": "generator",
    "weakref.ReferenceType": "weakref", "builtins.weakref": "weakref",
    "weakref.CallableProxyType": "weakref", "weakref.ProxyType": "weakref",
    "_weakrefset.WeakSet": "weakref", "weakref.WeakValueDictionary": "weakref",
    "weakref.WeakKeyDictionary": "weakref", "weakref.finalize": "weakref",
}
# What is no data set with items by number, and needs the caller's seeds to give the same ones.
ITERABLE = "torch.utils.data.dataset.IterableDataset"
REFUSED_PACKAGES = {
    "_ctypes": "shared_memory", "multiprocessing": "shared_memory", "h5py": "handle",
    "lmdb": "handle", "tables": "handle", "netCDF4": "handle", "rocksdb": "handle",
    "decord": "handle",
}


def _class(walker, kind):
    """A class of a library by name and module, another by all that its body left."""
    if not _flags(kind) & HEAP_TYPE:
        walker.put(b"T", library.class_name(kind))
        return
    if library.is_library_class(kind):
        walker.put(b"T", library.class_name(kind))
        walker.add(sys.modules[library.class_module(kind)], " in " + library.class_module(kind))
        for base in library.mro(kind):
            if library.is_library_class(base):
                _constants(walker, base)
        return
    # Not the module: __main__ has another name in a process made by spawning.
    walker.put(b"t", _qualname(kind))
    walker.put(b"t", type.__dict__["__name__"].__get__(kind))
    walker.add(type(kind), ".__class__")
    for base in library.mro(kind)[1:]:
        walker.add(base, ".__mro__", as_kind=True)
    parts = {n: v for n, v in library.class_dict(kind).items()
             if type(n) is str and n not in CLASS_NOISE}
    constructors = [(name, parts.pop(name)) for name in CONSTRUCTORS if name in parts]
    bags.note_methods(walker, parts)
    if constructors:
        walker.memory.setdefault(_class, []).append((kind, constructors))
    if not bags.add_class(walker, kind, parts):
        walker.add_pairs(parts.items())


@ending
def _constructors(walker):
    """
    What a constructor has read is in the object already: one counts where code that was met may make
    another object.  Such code names the class, or asks an object for it.
    """
    waiting = walker.memory.pop(_class, ())
    for kind, constructors in waiting:
        if walker.is_but_kind(kind) and makes_others not in walker.memory:
            walker.memory.setdefault(_class, []).append((kind, constructors))
        else:
            walker.put(b"X")
            walker.add_pairs(constructors)


def _constants(walker, kind):
    """What class @kind of a library keeps; lists and tables only where a program may edit them."""
    pairs = [(name, value) for name, value in library.class_dict(kind).items()
             if type(name) is str and name not in CLASS_NOISE]
    walker.add_pairs(pair for pair in pairs if inline(pair[1]) is not None
                     or drawing.is_generator(pair[1]))
    if library.class_module(kind).startswith("torchvision.transforms."):
        walker.add_pairs(pair for pair in pairs if type(pair[1]) in (list, tuple, dict)
                         and inline(pair[1]) is None and not pair[0].startswith("__"))


def _refusal(kind):
    """Why instances of @kind cannot be told, or None."""
    classes = library.mro(kind)
    reasons = [REFUSED.get(library.class_name(base)) for base in classes]
    reasons += [REFUSED_PACKAGES.get(library.class_module(base).partition(".")[0])
                for base in classes]
    for reason in filter(None, reasons):
        return reason
    own = library.class_dict(kind)
    if not _flags(kind) & HEAP_TYPE and ("__next__" in own or "send" in own):
        return "iterator"
    return None


def _is_open(kind):
    """
    Whether instances of @kind hold nothing but a dict, slots and what a known base holds: a
    class made in C may have fields that no descriptor shows, which its size tells.
    """
    while _flags(kind) & HEAP_TYPE:
        base, own = _base(kind), library.class_dict(kind)
        fields = sum(type(value) is types.MemberDescriptorType for value in own.values())
        fields += ("__dict__" in own) + ("__weakref__" in own)
        if _size(kind) - _size(base) > 8 * fields or _item_size(kind) != _item_size(base):
            return False
        kind = base
    return kind in BASES


ALL = slice(None)
BASES.update({
    object: None,
    int: lambda walker, value: walker.add(int.__index__(value)),
    float: lambda walker, value: walker.add(float.__pos__(value)),
    complex: lambda walker, value: walker.add(complex.__pos__(value)),
    str: lambda walker, value: walker.add(str.__str__(value)),
    bytes: lambda walker, value: walker.add(bytes.__getitem__(value, ALL)),
    tuple: lambda walker, value: walker.add_sequence(tuple.__getitem__(value, ALL)),
    list: lambda walker, value: walker.add_sequence(list.__getitem__(value, ALL)),
    dict: lambda walker, value: add_dict(walker, value),
    set: lambda walker, value: add_set(walker, set.__iter__(value)),
    frozenset: lambda walker, value: add_set(walker, frozenset.__iter__(value)),
    OrderedDict: add_ordered,
    types.SimpleNamespace: lambda walker, value: walker.add(tuple(vars(value))),
})


def instance_dict(value):
    """The attributes of @value, or None; asks no descriptor of the user's."""
    for kind in library.mro(type(value)):
        descriptor = library.class_dict(kind).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            return descriptor.__get__(value)
        if kind is types.SimpleNamespace:
            return types.SimpleNamespace.__dict__["__dict__"].__get__(value)
    return None


# By the reason to refuse: what knows some of them all the same.
_ADDERS = {"generator": drawing.add_generator, "handle": handles.add_handle,
           "lock": locks.add_lock, "shared_memory": shared.add, "weakref": states.add_weak}


class _Judgement:
    """What the class @kind says of its instances."""

    def __init__(self, kind):
        classes = library.mro(kind)
        self.kind = kind  # kept, so that its id stays its own
        self.is_class = library.inherits(kind, type)
        self.is_module = library.inherits(kind, types.ModuleType)
        self.reason = None if self.is_class else _refusal(kind)
        self.is_iterable = any(library.class_name(base) == ITERABLE for base in classes)
        self.number = scratch.shared_number(kind) if self.is_iterable else None
        self.is_open = _is_open(kind)
        self.is_traced = traced.kind() in classes
        self.is_bag = self.is_open and bags.is_bag(kind)
        self.state = states.row(kind)
        self.scratch = scratch.names(kind)
        self.base = next(base for base in classes if not _flags(base) & HEAP_TYPE)
        self.slots = [pair for base in classes if _flags(base) & HEAP_TYPE
                      for pair in sorted(library.class_dict(base).items(), key=lambda p: p[0])
                      if type(pair[1]) is types.MemberDescriptorType
                      and pair[0] not in self.scratch]


def _instance(walker, value):
    """An object of a class written in Python: its class, attributes and slots."""
    kind = type(value)
    judged = walker.memory.get(id(kind))
    if judged is None:
        judged = walker.memory[id(kind)] = _Judgement(kind)
    if judged.is_class:
        _class(walker, value)
        return True
    if judged.state is not None and states.add(walker, value, judged.state):
        return True
    if judged.reason is not None:
        add = _ADDERS.get(judged.reason)
        if add is None or not add(walker, value):
            if states.add_memory(walker, value):
                return True
            walker.fail(judged.reason)
        if library.inherits(kind, shared.OBJECT):
            _attributes_of(walker, value, judged, None)
        return True
    if judged.is_iterable and walker.notes.generators is None:
        walker.fail("iterable")
    if judged.is_module:
        return _strange_module(walker, value)
    if not judged.is_open:
        if _named(walker, value) or states.add_memory(walker, value):
            return True
        if not states.add(walker, value):
            return False
        _attributes_of(walker, value, judged, None)  # which a pickle may leave out
        return True
    walker.put(b"I")
    walker.add(kind, ".__class__", as_kind=True)
    if judged.is_traced:
        traced.note(walker, value)
    items = _options(value) if judged.is_bag and judged.base is dict else None
    if judged.base is not object:
        walker.put(b"b", judged.base.__name__)
        if items is None:
            BASES[judged.base](walker, value)
    _attributes_of(walker, value, judged, items)
    return True


def _options(value):
    """The items of @value, of a subclass of dict, if they may be options, or None."""
    if dict.__len__(value) > LONG or not set(map(type, dict.keys(value))) <= {str}:
        return None
    return dict(dict.items(value))


def _attributes_of(walker, value, judged, items):
    attributes = instance_dict(value)
    if attributes and judged.scratch:
        attributes = {name: part for name, part in attributes.items()
                      if name not in judged.scratch}
    if attributes and judged.number in attributes:
        attributes = {**attributes, judged.number: int(attributes[judged.number])}
    if attributes is not None:
        if library.class_name(type(value)) == "argparse.Namespace":  # which prints them in order
            walker.add(tuple(attributes))
        if not set(map(id, map(type, attributes))) <= {id(str)}:
            add_dict(walker, attributes)
        elif judged.is_bag and (judged.base is not dict or items is not None):
            bags.add(walker, value, attributes, items)
            items = None
        else:
            walker.add_pairs(list(attributes.items()))
    if items is not None:
        bags.add(walker, value, {}, items)
    for name, member in judged.slots:
        try:
            content = member.__get__(value)
        except AttributeError:
            walker.put(b"-")
            continue
        walker.add(content, "." + name)


def _strange_module(walker, module):
    """A module of a class of its own, loading its parts when asked: only a library's."""
    name = library.module_name(module)
    if not library.is_library_name(name):
        walker.fail("object")
    walker.put(b"L", name)
    walker.put(b"h", library.module_content(module))
    return True


def _is_cython(kind):
    """Whether @kind is that of functions that Cython made, which no module has."""
    return _qualname(kind) == "cython_function_or_method" and not _flags(type(kind)) & HEAP_TYPE \
        or _qualname(type(kind)) == "_common_types_metatype" and not any(
            type(part) is types.FunctionType for part in library.class_dict(kind).values())


def _named(walker, value):
    """An object made in C, such as a ufunc: known when a library keeps it under its name."""
    kind = type(value)
    if _flags(kind) & HEAP_TYPE and not library.is_library_class(kind) and not _is_cython(kind):
        return False
    try:
        module, name = value.__module__, value.__name__
    except AttributeError:
        module, name = library.class_module(type(value)), getattr(value, "__name__", None)
    if library.bound(module, name) is not value:
        return False
    walker.put(b"N", "%s.%s" % (module, name))
    walker.add(sys.modules[module])
    return True


NODES[id(type)] = _class
OTHERS.append(_instance)
