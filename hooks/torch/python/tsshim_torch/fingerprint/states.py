# SPDX-License-Identifier: MIT
"""
Objects that libraries made in C, named by their state; only where the caller seeds what items draw
(under --align).

A table says of some classes what tells their state.  Any other object of a library's class is what
its library writes when it is pickled: the call that makes it again, with arguments and state, which
the walk follows as it follows all else.  So two objects of one name are made by one call of one
library from equal arguments.  What a pickle leaves out is lost in each worker that is spawned; a
library whose objects may go to workers keeps nothing there that decides an item.

- Classes of the program's own are never asked: their methods may be anything.  What of them is in a
  state is walked as data.
- A state with an address, a time or a count of the process in it gives a name that nobody else has.
- An iterator has a position that items move, and is refused; so is an object that is made of the
  path of a file, for it may have another file open than the path leads to by now; so is memory that
  processes share; and so is one with a pickle in its pickle, which may name code of the program's.
"""

import _thread
import copyreg
import ctypes
import io
import math
import mmap
import os
import pathlib
import re
import sys
import types
import weakref
import zipfile

from . import arrays, bags, handles, library
from .library import is_in_c
from .walk import add_dict, ending, is_plain

PROTOCOL = 4  # of pickles; with 5 arrays would come as buffers
ELEMENTS = 1 << 20  # of the tensors in a file that are read at each look
NAMES = 64  # arguments of a call that may be paths
_LISTS = frozenset(map(id, (list, tuple)))
_POSITIONS = frozenset(("__next__", "__anext__", "send"))
_SHARED = frozenset(("torch._C.StorageBase", "torch.StorageBase"))


class _Draws(Exception):
    """The object draws random numbers that nobody seeds."""


# ---- what tells a state, by class: functions (value) -> [(label, part)] ----

def _told(*names):
    """A function for what is told by attributes of these @names, read as its class defines them."""
    def parts(value):
        table = library.class_dict(type(value))
        return [("." + name, table[name].__get__(value)) for name in names]
    return parts


def _rest(value, left=("this",)):
    """What has been set in Python of @value, without the names that are @left out."""
    return {name: part for name, part in vars(value).items() if name not in left}


def _asked(value):
    """What is told by methods that begin with get."""
    return [("." + name, getattr(value, name)()) for name in sorted(library.class_dict(type(value)))
            if name.startswith("get")]


def _bytes(value):
    """What is in a file in memory; where it is read next is no more part of the name than of a file's."""
    return [(".getvalue()", value.getvalue())]


def _regex_match(value):
    return _told("string", "re", "pos", "endpos", "regs", "lastindex", "partial",
                 "fuzzy_counts")(value) + [(".spans", list(map(value.spans, range(len(value.regs)))))]


def _tokenizer(value):
    if getattr(value.model, "dropout", None):
        raise _Draws
    return [(".to_str()", value.to_str()),
            (".encode_special_tokens", getattr(value, "encode_special_tokens", None))]


# Pieces at both ends and out of order show the options that are added to what is encoded.
_TEXT = "a b c"


def _pieces(value):
    """sentencepiece's model, what is set beside it, and which pieces of it are in use."""
    rest = _rest(value, ("this", "_processor"))
    if rest.get("_enable_sampling"):
        raise _Draws
    count = value.GetPieceSize()
    return [(".serialized_model_proto()", value.serialized_model_proto()), (".__dict__", rest),
            (".IsUnused()", bytes(map(value.IsUnused, range(count)))),
            (".Encode()", (value.EncodeAsIds(_TEXT), value.DecodeIds(list(range(count))[-3:])))]


# Constants of a class in a script, which come in the order of a set.
_CONSTANTS = re.compile(br"(?:^  \w+ : Final\[.*\n)+", re.MULTILINE)


def _sorted(found):
    return b"".join(sorted(found.group().splitlines(True)))


def _script(value):
    """What torch writes of a script; without the places in files that its code is from."""
    with zipfile.ZipFile(io.BytesIO(value.save_to_buffer({}))) as archive:
        return [(".save()", [(name, _CONSTANTS.sub(_sorted, archive.read(name))
                              if name.endswith(".py") else archive.read(name))
                             for name in archive.namelist()
                             if not name.endswith((".debug_pkl", "/.data/serialization_id"))])]


_OF_SCRIPTS = frozenset(("_c", "_concrete_type", "_parameters", "_buffers", "_modules",
                         "_actual_script_module"))


def _script_module(value):
    """The same of a module, and what the program has set in Python besides."""
    rest = {name: part for name, part in _rest(value, _OF_SCRIPTS).items()
            if library.class_name(type(part)) != "torch.ScriptMethod"}
    return _script(value._c) + [(".__dict__", rest)]


def _font(value):
    """A font of Pillow's: its file and how it is opened.  Axes that a font may have cannot be told."""
    try:
        value.font.getvaraxes()
    except OSError:
        pass  # it has none
    else:
        return None
    found = _rest(value, ("font",))
    path, identity = found["path"], None  # what else than a file it was read from is walked
    if isinstance(path, (str, bytes, pathlib.PurePath)):
        identity = handles.identity(os.stat(path))
    elif "font_bytes" not in found:
        return None
    return [(".__dict__", found), (".path", identity)]


def _remade(value):
    """What is pickled of an object in Python that has all that it holds in C."""
    return [(".__reduce__()", value.__reduce_ex__(PROTOCOL)), (".__dict__", _rest(value))]


def _on_cpu(value):
    """A picture of OpenCV's, where no GPU computes with it; filters see what lies around a part of one."""
    is_on_gpu, split = library.bound("cv2.ocl", "useOpenCL"), library.bound("cv2", "split")
    if {type(is_on_gpu), type(split)} != {types.BuiltinFunctionType} or is_on_gpu() or value.isSubmatrix():
        return None
    return [(".get()", value.get()), ("split()", len(split(value)))]  # many rows, or channels?


def _set(value):
    """
    A filter of SimpleITK's: all that can be set.  Not one with something that cannot be asked for, as what
    was added, or functions that it calls.
    """
    names = {name for base in library.mro(type(value)) for name in library.class_dict(base)}
    asked = sorted("Get" + name[3:] for name in names
                   if name.startswith("Set") and name != "SetReferenceImage")  # which sets others
    events = [number for name, number in library.module_dict(sys.modules[type(value).__module__]).items()
              if name.startswith("sitk") and name.endswith("Event")]
    if any(map(value.HasCommand, events)) or any(
            name.startswith("Add") and name != "AddCommand" for name in names):
        return None
    return [("." + name + "()", getattr(value, name)()) for name in asked] + [(".__dict__", _rest(value))]


def _opened(value):
    """A file that safetensors has open: all that it gives, where that is little.  It does not say which file."""
    names = list(value.keys())
    if sum(math.prod(value.get_slice(name).get_shape()) for name in names) > ELEMENTS:
        return None
    return [(".metadata()", value.metadata()), (".offset_keys()", list(value.offset_keys())),
            (".get_tensor()", {name: value.get_tensor(name) for name in names})]


# By the name that a class has; the name that it is found under if that is another one.
_TABLE = {
    "re.Match": (_told("string", "re", "pos", "endpos", "regs", "lastindex"), None),
    "_regex.Match": (_regex_match, None),
    # Its code lies in an order that follows from the seed of hashes.
    "_regex.Pattern": (_told("pattern", "flags", "named_lists"), None),
    "_struct.Struct": (_told("format"), None),
    "types.GenericAlias": (_told("__origin__", "__args__"), None),
    "_io.BytesIO": (_bytes, None),
    "_io.StringIO": (_bytes, None),
    "cv2.CLAHE": (_asked, None),
    "cv2.ORB": (_asked, None),
    "cv2.UMat": (_on_cpu, None),
    "tokenizers.Tokenizer": (_tokenizer, None),
    "sentencepiece.SentencePieceProcessor": (_pieces, None),
    "PIL.ImageFont.FreeTypeFont": (_font, None),
    "builtins.safe_open": (_opened, "safetensors._safetensors_rust.safe_open"),
    "SimpleITK.SimpleITK.Image": (_remade, None),
    "SimpleITK.SimpleITK.Transform": (_remade, None),
    "SimpleITK.SimpleITK.ImageFilter": (_set, None),
    "_json.Scanner": (_told("strict", "object_hook", "object_pairs_hook", "parse_float", "parse_int",
                            "parse_constant"), "_json.make_scanner"),
    "torch.jit._script.RecursiveScriptModule": (_script_module, None),
    "torch.jit._trace.TopLevelTracedModule": (_script_module, None),
    "torch.jit.torch.jit.ScriptFunction": (_script, "torch._C.ScriptFunction"),
}


def row(kind):
    """The function of the table for objects of the class @kind, or None."""
    for base in library.mro(kind)[:-1]:
        name = library.class_name(base)
        function, place = _TABLE.get(name, (None, None))
        if function is None:
            continue
        if is_in_c(kind):  # no program makes such a class
            return function
        module, _, name = (place or name).rpartition(".")
        is_known = base is kind or library.is_library_class(kind) and \
            library.class_module(kind) == library.class_module(base)
        return function if is_known and library.bound(module, name) is base else None
    return None


# ---- any other: its pickle ----

def _is_of_a_library(kind):
    if library.is_library_class(kind):
        return True
    return is_in_c(kind) and (
        library.class_module(kind) != "builtins" and library.is_library_name(
            library.class_module(kind)) or _registered(kind) is not None)


def _registered(kind):
    """The function that a library has registered to pickle objects of @kind, or None."""
    make = copyreg.dispatch_table.get(kind)
    if type(make) is types.FunctionType:
        return make if library.is_library_function(make) else None
    if make is None or library.bound(make.__module__, make.__name__) is not make:
        return None
    return make


def _pickled(value):
    """The parts of the call that makes @value again; None where there is none, or it names a file."""
    kind = type(value)
    classes = library.mro(kind)
    if any(_POSITIONS & library.class_dict(base).keys() or library.class_name(base) in _SHARED
           for base in classes):
        return None
    if kind in copyreg.dispatch_table:
        make = _registered(kind)
        call = None if make is None else make(value)
    else:
        call = value.__reduce_ex__(PROTOCOL)
    if type(call) is not tuple or any(map(_hides_more, _arguments(call))):
        return None
    items = [part if number < 3 or part is None else list(part) for number, part in enumerate(call)]
    return [(".__reduce__()[%d]" % number, part) for number, part in enumerate(items)]


def _arguments(call):
    """The first of what a @call, or a state, is given."""
    found = []
    for part in call[1:3]:
        part = list(part.values()) if type(part) is dict else part
        found += part[:NAMES] if type(part) in (tuple, list) else [part]
    return found


def _hides_more(part):
    """Whether @part is a pickle, or may be the path of a file."""
    if type(part) is bytes and part[:1] == b"\x80" and part[-1:] == b".":
        return True
    if type(part) not in (str, bytes, type(pathlib.Path())) or len(os.fsencode(part)) > 4096:
        return False
    try:
        return os.path.isfile(part) or os.path.isabs(part) and os.path.exists(part)
    except ValueError:  # with a zero in it
        return False


# ---- into the walk ----

def _deny(walker, part):
    """
    Dicts in @part are no bags of options: C reads them, and some were made for this walk, which
    nobody would notice a read of.
    """
    waiting, seen = [part], set()
    while waiting:
        found = waiting.pop()
        if id(found) in seen or type(found) not in (dict, list, tuple) or is_plain(found, _LISTS):
            continue
        seen.add(id(found))
        if type(found) is dict:
            bags.deny(walker, found)
        waiting += found.values() if type(found) is dict else found
    walker.memory.setdefault(_deny, []).append(part)  # so that ids stay its own


def add(walker, value, function=None):
    """
    Write the state of the current object @value, as the @function of its row gives it, or as it is
    pickled; gives False where it cannot be told.  Runs code of libraries, none of the program's.
    """
    kind = type(value)
    if walker.notes.generators is None or function is None and not _is_of_a_library(kind):
        return False
    try:
        parts = walker.at_once(function or _pickled, value)
    except _Draws:
        walker.fail("generator")
    except Exception:  # of a library: it cannot be pickled, or is closed
        return False
    if parts is None:
        return False
    walker.make_up()
    walker.put(b"=", library.class_name(kind))
    if library.is_library_class(kind):
        walker.add(kind, ".__class__", as_kind=True)
    if library.is_library_name(library.class_module(kind)):
        walker.add(sys.modules[library.class_module(kind)])
    for label, part in parts:
        _deny(walker, part)
        walker.add(part, label)
    return True


# ---- memory ----

def add_memory(walker, value):
    """
    Write what lies in the current object @value, a memoryview or what the process has mapped; gives
    False where that cannot be told.
    """
    if walker.notes.generators is None or type(value) not in (memoryview, mmap.mmap):
        return False
    if type(value) is mmap.mmap and value.closed:
        walker.put(b"h", b"closed")
        return True
    view = memoryview(value)
    if not view.c_contiguous or set(view.format) & set("OPX&"):  # which are addresses
        return False
    walker.put(b"=", repr((type(value).__name__, view.format, view.shape, view.strides, view.readonly)))
    held = (ctypes.c_char * 256)()  # more than a Py_buffer, which begins with the address
    if ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), held, 0) != 0:
        return False
    try:
        if view.nbytes:
            arrays.add_memory(walker, ctypes.c_void_p.from_buffer(held).value, view.nbytes)
    finally:
        ctypes.pythonapi.PyBuffer_Release(held)
    return True


# ---- weak references ----

_REFERENCES = weakref.ref, weakref.KeyedRef
_PROXIES = weakref.ProxyType, weakref.CallableProxyType
_TABLES = weakref.WeakValueDictionary, weakref.WeakKeyDictionary
_ADDRESS = re.compile(r" to '?(\S+?)'? at (0x[0-9a-f]+)>$")


def add_weak(walker, value):
    """
    Write what the weak reference @value leads to, which something else that is walked must hold: so
    it is there for as long as the data set.  Gives False where that is no plain reference.
    """
    kind = type(value)
    if walker.notes.generators is None:
        return False
    if kind in _TABLES:
        walker.put(b"&", kind.__name__)
        add_dict(walker, vars(value)["data"])
        return True
    if kind in _REFERENCES:
        behind = weakref.ref.__call__(value)
        address = None if behind is None else id(behind)
    elif kind in _PROXIES:  # which would pass on any other question
        name, text = _ADDRESS.search(kind.__repr__(value)).groups()
        address = None if name == "NoneType" else int(text, 16)
    else:
        return False
    walker.put(b"&", kind.__name__)
    if address is None:
        walker.put(b"-")
    else:
        walker.memory.setdefault(add_weak, []).append((walker.number(value), address))
    return True


@ending
def _weak_ends(walker):
    """Each weak reference by the numbers of itself and what it leads to."""
    for number, address in walker.memory.pop(add_weak, ()):
        behind = walker.number_at(address)
        if behind is None:
            walker.fail("weakref", number=number)
        walker.put(b"r", b"%d %d" % (number, behind))


# ---- locks ----

_LOCK, _RLOCK = type(_thread.allocate_lock()), _thread.RLock


def add_lock(walker, value):
    """
    Write that @value is a lock that nobody holds: then that is all it says.  Gives False where it may
    be more: an item could ask a lock whether another thread has it just then, which no name tells.
    What counts, wakes or waits besides (conditions, events, semaphores, queues) stays unknown.
    """
    kind = type(value)
    if walker.notes.generators is None or kind not in (_LOCK, _RLOCK):
        return False
    # Old ones of the second kind tell it in their text only, whoever asks.
    is_held = value.locked() if kind is _LOCK else not repr(value).startswith("<unlocked ")
    if is_held:
        return False
    walker.put(b"%", kind.__name__)
    return True
