# SPDX-License-Identifier: MIT
"""Classes, and objects of classes written in Python: what a fingerprint says of each."""

import dis
import sys
import types
from collections import OrderedDict

from . import bags, drawing, handles, library, shared, states, traced
from .arrays import BASES
from .code import makes_others
from .library import is_in_c
from .walk import LONG, NODES, OTHERS, add_dict, add_ordered, add_set, ending, inline

_size = type.__dict__["__basicsize__"].__get__
_item_size = type.__dict__["__itemsize__"].__get__
_base = type.__dict__["__base__"].__get__

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
    if is_in_c(kind):
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
    walker.put(b"t", library.qualified_name(kind))
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
    if is_in_c(kind) and ("__next__" in own or "send" in own):
        return "iterator"
    return None


def _is_open(kind):
    """
    Whether instances of @kind hold nothing but a dict, slots and what a known base holds: a
    class made in C may have fields that no descriptor shows, which its size tells.
    """
    while not is_in_c(kind):
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
           "lock": states.add_lock, "shared_memory": shared.add, "weakref": states.add_weak}


# Attributes of libraries' transforms that each call writes before it reads them: what they hold is
# left from the item before, and no part of what the next one will be.
# What multiprocessing notes at an object of ctypes: where the memory is from that it lies in.
_OF_CTYPES = dict.fromkeys(("_ctypes.Array", "_ctypes.Structure", "_ctypes.Union", "_ctypes._SimpleCData"),
                           ("_wrapper",))
# By the class that has them, of a subclass as well: names of attributes.  A seed is what the
# generators beside it were made with, which are told apart from it; _key2func follows from the
# class and other attributes, in an order that differs from process to process.
_SCRATCH = {
    **_OF_CTYPES,
    "albumentations.core.transforms_interface.BasicTransform": (
        "params", "seed", "_key2func"),
    "albumentations.core.composition.BaseCompose": ("seed",),
    "beartype._conf.confmain.BeartypeConf": ("_hash",),  # of texts: another one in each process
    # Connections to the hub, by a token of this process.
    "datasets.iterable_dataset.IterableDataset": ("_IterableDataset__hffs_cache",),
    "kornia.augmentation.base._BasicAugmentationBase": (
        "_params", "_transform_matrix", "_transform_matrix_params",
        "_transform_matrix_params_snapshot", "_lazy_matrix_args"),
    "kornia.augmentation.container.base.BasicSequentialBase": ("_params",),
    "kornia.augmentation.container.base.TransformMatrixMinIn": (  # so it is spelt there
        "_transform_matrix", "_transform_matrices"),
    "kornia.core.mixin.image_module.ImageModuleMixIn": ("_output_image",),
    "kornia.core.module.ImageModuleMixIn": ("_output_image",),  # up to 0.8
    "monai.transforms.inverse.TraceableTransform": ("_tracing",),
    # What it has split words into, which follows from its merges.
    "open_clip.tokenizer.SimpleTokenizer": ("cache",),
    # What functions have worked out for values that name them; of these bags.py knows.
    "omegaconf.base.ContainerMetadata": ("resolver_cache",),
    "monai.transforms.transform.RandomizableTrait": ("_do_transform",),
}
# Methods that draw all anew, by the class that defines what they are for.
_DRAWING = {"monai.transforms.transform.Randomizable": "randomize",
            "fastai.vision.augment.RandTransform": "before_call"}
# Numbers that a process and its workers share: read once, when an iteration begins.
_SHARED = {"datasets.iterable_dataset.IterableDataset": "_epoch"}
_STORES = frozenset(("STORE_ATTR",))


def _stored(function):
    """Names of attributes that @function assigns."""
    if type(function) is not types.FunctionType:
        return set()
    return {step.argval for step in dis.get_instructions(function.__code__)
            if step.opname in _STORES}


def scratch_names(kind):
    """Attributes of objects of @kind that are left from the item before."""
    found = set()
    classes = [base for base in library.mro(kind) if library.is_library_class(base)]
    for base in classes:
        name = library.class_name(base)
        found.update(_SCRATCH.get(name, ()))
        if name in _DRAWING:
            for other in classes:
                found |= _stored(library.class_dict(other).get(_DRAWING[name]))
    return frozenset(found)


def _shared_number(kind):
    """The attribute of objects of @kind that is a number in shared memory, or None."""
    for base in library.mro(kind):
        if library.class_name(base) in _SHARED and library.is_library_class(base):
            return _SHARED[library.class_name(base)]
    return None


class _Kind:
    """What the class @kind says of its instances."""

    def __init__(self, kind):
        classes = library.mro(kind)
        self.kind = kind  # kept, so that its id stays its own
        self.is_class = library.inherits(kind, type)
        self.is_module = library.inherits(kind, types.ModuleType)
        self.reason = None if self.is_class else _refusal(kind)
        self.is_iterable = any(library.class_name(base) == ITERABLE for base in classes)
        self.number = _shared_number(kind) if self.is_iterable else None
        self.is_open = _is_open(kind)
        self.is_traced = id(traced.kind()) in map(id, classes)
        self.is_bag = self.is_open and bags.is_bag(kind)
        self.state = states.row(kind)
        self.scratch = scratch_names(kind)
        written = [base for base in classes if not is_in_c(base)]
        self.base = next(base for base in classes if is_in_c(base))
        self.slots = [pair for base in written
                      for pair in sorted(library.class_dict(base).items(), key=lambda p: p[0])
                      if type(pair[1]) is types.MemberDescriptorType
                      and pair[0] not in self.scratch]


def _instance(walker, value):
    """An object of a class written in Python: its class, attributes and slots."""
    kind = type(value)
    judged = walker.memory.get(id(kind))
    if judged is None:
        judged = walker.memory[id(kind)] = _Kind(kind)
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
    return library.qualified_name(kind) == "cython_function_or_method" and is_in_c(type(kind)) \
        or library.qualified_name(type(kind)) == "_common_types_metatype" and not any(
            type(part) is types.FunctionType for part in library.class_dict(kind).values())


def _named(walker, value):
    """An object made in C, such as a ufunc: known when a library keeps it under its name."""
    kind = type(value)
    if not is_in_c(kind) and not library.is_library_class(kind) and not _is_cython(kind):
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
