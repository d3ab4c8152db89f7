# SPDX-License-Identifier: MIT
"""
What is a library, and what it is like in this process.

Code under the interpreter's library directories is not walked like the user's: there is too much
of it.  A module of a library is told by its name, the content of its file, and by what its names
are bound to now, because programs replace functions of libraries.  The latter is compared with
what it was at the last look, by identity and at the speed of C; only changes are looked at again.
What a module imports from others is followed inside of the same package and into packages that
prepare samples, not into PyTorch, NumPy, the standard library and packages that fetch or lock
files, of which only the modules right at the border are looked at, and the version.
"""

import enum
import functools
import hashlib
import importlib.machinery
import marshal
import operator
import os
import re
import site
import sys
import sysconfig
import types
import zipimport
from itertools import chain
from operator import is_

from . import still, walk
from .code import code_bytes

# Packages of which only the modules that somebody else names are looked at.
BORDERS = frozenset((
    "torch", "numpy", "scipy", "pandas", "matplotlib", "sympy", "sklearn",
    "pydantic",  # checks arguments and settings
    # What follows fetches, locks or counts; with what it uses it would be most of what a library
    # that can do so leads to.
    "aiohttp", "anyio", "filelock", "httpcore", "httpx", "httpx2", "huggingface_hub", "requests",
    "tqdm", "urllib3"))
# Modules of the standard library that matter when others name them.
STANDARD = frozenset(("random", "math", "colorsys", "bisect"))
# Classes of functions made in C.
NAMED = frozenset(("numpy.ufunc", "numpy._ArrayFunctionDispatcher"))
WHOLE = 4 << 20  # files of up to this size are hashed as a whole
PIECE = 256 << 10  # of larger ones (shared objects) only both ends, where the build id is

# What uuid4() gives: libraries name a session or a key so when they are imported.
MADE_UP = re.compile(
    r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[4][0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}")

CACHED = type(functools.lru_cache(maxsize=None)(len))
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
PYBIND = "pybind11_builtins"  # where its metaclass says it is from
DESCRIPTOR_IDS = frozenset(map(id, (
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType)))

_flags = type.__dict__["__flags__"].__get__
_mro = type.__dict__["__mro__"].__get__
_dict = type.__dict__["__dict__"].__get__
qualified_name = type.__dict__["__qualname__"].__get__
_is_subclass = type.__subclasscheck__  # type's own, which asks no metaclass
_code_of = operator.attrgetter("__code__", "__defaults__", "__kwdefaults__")
_looks = {}  # id(module) -> Look


def mro(kind):
    """The classes of @kind, whatever its metaclass says; old types of C have a broken list."""
    return _mro(kind) or (kind, object)


def class_dict(kind):
    """The (read-only) dict of class @kind, whatever its metaclass says."""
    return _dict(kind) or {}


def in_class(kind, name):
    """What class @kind has under @name, or None."""
    return next((class_dict(base)[name] for base in mro(kind) if name in class_dict(base)), None)


def inherits(kind, base):
    """Whether @kind is @base or a subclass of it, whatever its metaclass says."""
    return _is_subclass(base, kind)


def is_in_c(kind):
    """Whether class @kind is written in C."""
    return not _flags(kind) & _HEAP_TYPE


def class_module(kind):
    """Name of the module of class @kind, or "" when it is not a name."""
    name = class_dict(kind).get("__module__")
    if type(name) is not str:
        name = type.__dict__["__module__"].__get__(kind)
    return name if type(name) is str else ""


def class_name(kind):
    """module.qualified_name of class @kind."""
    return "%s.%s" % (class_module(kind), qualified_name(kind))


def _directories(names):
    names = {name for name in names if name}
    names |= {os.path.realpath(name) for name in names}
    return tuple(sorted(name.rstrip("/") + "/" for name in names))


_paths = sysconfig.get_paths()
STANDARD_ROOTS = _directories(_paths.get(key) for key in ("stdlib", "platstdlib"))
ROOTS = STANDARD_ROOTS + _directories(
    [_paths.get("purelib"), _paths.get("platlib"), getattr(site, "USER_SITE", None),
     os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    + getattr(site, "getsitepackages", list)())


# ---- packages installed outside of the interpreter's directories ----

# By `pip install --target`, as an egg, in an archive.  What an installer put there is listed by the
# installer itself: RECORD of a *.dist-info, or installed-files.txt of an *.egg-info.  A file that is
# in such a list is a library's, in whatever directory the list lies.  All others are the program's
# own: a tree in PYTHONPATH, what an editable installation leads to, a vendored copy.  People edit
# these between jobs, and set what their modules hold, so they are told by what an item can reach of
# them and never by a name and a version.
#
# Asks no directory that the interpreter has not listed itself while it imported from there.

# Files of code, each on a line of its own: "name,hash,size" or, from an *.egg-info, "../name".
_LISTED = re.compile(rb'(?m)^"?(?:\.\./)?([^",\r\n]+\.(?:py|so))(?=[",\r\n]|\Z)')
_LISTS = (".dist-info/RECORD", ".egg-info/installed-files.txt")
_EGG = "EGG-INFO"  # its whole directory or archive is one package's


def _parents(path):
    """The directories above @path, the nearest first."""
    while "/" in path.rstrip("/"):
        path = path.rstrip("/").rpartition("/")[0]
        yield path


def _finders():
    """{directory or archive: its finder}, of all that modules were looked for in."""
    return _finders_of(len(sys.path_importer_cache))


@functools.lru_cache(maxsize=1)
def _finders_of(_):
    found = {}
    for finder in list(sys.path_importer_cache.values()):
        if type(finder) is importlib.machinery.FileFinder:
            found[finder.path.rstrip("/")] = finder
        elif type(finder) is zipimport.zipimporter and not finder.prefix:
            found[finder.archive] = finder
    return found


@functools.lru_cache(maxsize=None)
def _listed(place):
    """Files of code below @place that installers have listed, and their directories; None: all."""
    finder, found = _finders()[place], set()
    if type(finder) is zipimport.zipimporter:
        names = {name.partition("/")[0] for name in zipimport._zip_directory_cache.get(place, ())}
    else:
        names = getattr(finder, "_path_cache", ())
    if _EGG in names:
        return None
    for name in names:
        for ending in _LISTS:
            if name.endswith(ending.partition("/")[0]):
                listing = name + "/" + ending.partition("/")[2]
                found.update(_LISTED.findall(_read(finder, place, listing)))
    files = {name.decode("utf-8", "surrogateescape") for name in found}
    return frozenset(files.union(*map(_parents, files)))


def _read(finder, place, name):
    try:
        if type(finder) is zipimport.zipimporter:
            return finder.get_data(place + "/" + name)
        with open(place + "/" + name, "rb") as file:
            return file.read()
    except OSError:  # it has none, as that of a source tree
        return b""


def _is_installed(path):
    """Whether the file or directory @path is an installed package's; runs no code of the user's."""
    finders, wanted = _finders(), path.rstrip("/")
    for place in _parents(path):
        if place in finders:
            listed = _listed(place)
            if listed is None or wanted[len(place) + 1:] in listed:
                return True
    return False


def _archive(path):
    """The archive on the search path that @path lies in, or None."""
    finders = _finders()
    return next((place for place in _parents(path) if place in finders
                 and type(finders[place]) is zipimport.zipimporter), None)


# ---- what is a library's ----

@functools.lru_cache(maxsize=None)
def is_library_path(path):
    """Whether the file @path belongs to the interpreter or an installed package."""
    return (path.startswith(ROOTS) or path.startswith("<frozen ")
            or "/site-packages/" in path or "/dist-packages/" in path or _is_installed(path))


def module_dict(module):
    """The namespace of @module, without asking its class."""
    return types.ModuleType.__dict__["__dict__"].__get__(module)


def module_name(module):
    """Name of @module, or ""."""
    name = module_dict(module).get("__name__")
    return name if type(name) is str else ""


def module_path(module):
    """The file of @module, or None."""
    path = module_dict(module).get("__file__")
    return path if type(path) is str else None


def is_library_name(name):
    """Whether the loaded module called @name is a library's."""
    if name == "__main__":
        return False
    module = sys.modules.get(name)
    if module is None or not inherits(type(module), types.ModuleType):
        return False
    path = module_path(module)
    if path is not None:
        return is_library_path(path)
    if name in sys.builtin_module_names:
        return True
    spec = module_dict(module).get("__spec__")
    if type(spec) is not importlib.machinery.ModuleSpec:
        # Made by an extension module for its own names, as torch._C._nn: as that one.
        return "." in name and is_library_name(name.rpartition(".")[0])
    if spec.origin in ("built-in", "frozen"):
        return True
    places = getattr(spec.submodule_search_locations, "_path", None)
    return bool(places) and all(is_library_path(place + "/") for place in places)


def is_library_function(function):
    """Whether the code of @function, a plain Python function, comes from a library."""
    path = function.__code__.co_filename
    if is_library_path(path):
        return True
    if not path.startswith("<"):
        return False
    name = function.__globals__.get("__name__")
    if type(name) is not str:
        return path == "<__array_function__ internals>"
    return name.startswith("namedtuple_") or is_library_name(name)


def bound(module_name, qualified):
    """What @qualified means in a loaded library module, or None; asks no descriptor."""
    if not (type(module_name) is str and type(qualified) is str
            and is_library_name(module_name)):
        return None
    names = qualified.split(".")
    value = module_dict(sys.modules[module_name]).get(names[0])
    for name in names[1:]:
        if not inherits(type(value), type):
            return None
        value = class_dict(value).get(name)
    return value


def is_library_class(kind):
    """Whether @kind is a class of a library that is still found under its name there."""
    return bound(class_module(kind), qualified_name(kind)) is kind


def is_user_class(kind):
    """Whether class @kind says that it comes from a module of the user's."""
    name = class_module(kind)
    # Cython 3.0 and SWIG make the classes of all that is theirs in a module that has no file.
    is_made = name.startswith("_cython_") and is_in_c(kind) or \
        name.startswith("swig_runtime_data") and module_path(sys.modules.get(name, os)) is None
    return name in sys.modules and not is_library_name(name) and not is_made


@functools.lru_cache(maxsize=None)
def content(path):
    """
    Digest of the file @path; of a large one its size, time and both ends (of an archive that it
    lies in: the end has the checksums).  As it was when first asked for in this process.
    """
    path = _archive(path) or path
    hasher = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if status.st_size <= WHOLE:
                hasher.update(file.read())
            else:
                hasher.update(b"%d %d" % (status.st_size, status.st_mtime_ns))
                hasher.update(os.pread(file.fileno(), PIECE, 0))
                hasher.update(os.pread(file.fileno(), PIECE, status.st_size - PIECE))
    except OSError:
        raise walk.Unknown("import", path)
    return hasher.digest()


def module_content(module):
    """Digest of the file of library @module; of one without a file nothing but its name."""
    path = module_path(module)
    return b"" if path is None or path.startswith("<") else content(path)


def unloaded(name):
    """
    Digest of the file of module @name that is not loaded yet, b"" when there is none, None where
    it has no file.  One of the user's is walked as soon as it is loaded: the code that does so is
    not reached by an item, or the next look finds it.
    """
    if name in sys.builtin_module_names:
        return name.encode()
    places, full = None, ""
    for part in name.split("."):
        full = full + "." + part if full else part
        spec = importlib.machinery.PathFinder.find_spec(full, places)
        if spec is None:
            return b""
        places = spec.submodule_search_locations
    return None if spec.origin is None else content(spec.origin)


# A set of texts as text: a message of a library's, say, that it has made when it was imported.
_ORDERED = re.compile(r"\{'[^'{}]*'(?:, '[^'{}]*')+\}")


def _without_order(found):
    """The text that was @found without the order of its elements, which is another one in each process."""
    return ", ".join(sorted(found.group()[1:-1].split(", ")))


class Look:
    """
    What a library module was bound to when it was looked at.

    .data   bytes that stand for it
    .foreign  [(name, value)] that do not come from a library: to be walked
    .modules  library modules that belong to it
    """

    def __init__(self, module):
        self.module = module
        self.data = []
        self.foreign = []
        self.modules = []
        self.names = module_dict(module)
        self.users = {}  # name of a module -> whether it is the user's
        self.classes = []
        self.functions = []
        self._all(self.names.items(), "")
        self.data = hashlib.blake2b(walk.joined(self.data), digest_size=16).digest()
        tables = [self.names] + [class_dict(kind) for kind in self.classes]
        self.tables = [(table, list(table.keys()), list(table.values())) for table in tables]
        self.codes = list(self._codes())
        self.still, self.was_same = still.Still(tables, self.functions), True

    def is_same(self):
        """Whether all names are still bound to the same objects with the same code."""
        if not self.still.holds():
            self.was_same = self._is_bound_as_before()
        return self.was_same

    def _is_bound_as_before(self):
        for table, names, values in self.tables:
            if list(table) != names or not all(map(is_, table.values(), values)):
                return False
        return all(map(is_, self._codes(), self.codes))

    def _codes(self):
        return chain.from_iterable(map(_code_of, self.functions))

    def _all(self, items, prefix):
        pairs = [pair for pair in items if type(pair[0]) is str]
        for name, value in sorted(pairs, key=operator.itemgetter(0)):
            self._one(prefix + name, name, value)

    def _one(self, path, name, value):
        kind = type(value)
        if kind is types.FunctionType:
            self._function(path, value)
        elif id(kind) in DESCRIPTOR_IDS:
            pass  # what C defines stays, or something else has taken its place
        elif kind is types.BuiltinFunctionType:
            self._note(path, value.__name__)
        elif kind is staticmethod or kind is classmethod or kind is types.MethodType:
            self._one(path, name, value.__func__)
        elif kind is property:
            for accessor in (value.fget, value.fset, value.fdel):
                if accessor is not None:
                    self._one(path, name, accessor)
        elif kind is types.ModuleType:
            self._module(path, value)
        elif name.startswith("__"):
            pass
        elif inherits(kind, type):
            self._class(path, value)
        elif id(kind) in walk.ATOM_IDS:
            if not name.startswith("_"):  # others are counters, or set when first needed
                if kind is str:
                    value = MADE_UP.sub("", _ORDERED.sub(_without_order, value))
                self.data += (path.encode(), marshal.dumps(value, walk.MARSHAL))
        elif kind is CACHED:
            self._one(path, name, value.__dict__.get("__wrapped__"))
        elif kind is functools.partial or self._is_users(kind):
            self.foreign.append((path, value))
        elif class_name(kind) in NAMED:
            self._note(path, value.__name__)
        elif not name.startswith("_"):
            self._note(path, class_name(kind))

    def _is_users(self, kind):
        name = class_module(kind)
        if name not in self.users:
            self.users[name] = is_user_class(kind)
        return self.users[name]

    def _note(self, path, text):
        self.data += (path.encode(), str.encode(text, "utf-8", "surrogatepass"))

    def _function(self, path, value):
        self.functions.append(value)
        if not is_library_function(value):
            self.foreign.append((path, value))
            return
        self.data += (path.encode(), code_bytes(value.__code__))
        self._defaults(path, value)
        self._decorated(path, value.__closure__ or ())
        self._follow(value.__globals__.get("__name__"))

    def _defaults(self, path, function):
        values = list(function.__defaults__ or ()) + list((function.__kwdefaults__ or {}).values())
        for number, value in enumerate(values):
            if id(type(value)) in walk.ATOM_IDS:
                self.data += (path.encode(), marshal.dumps((number, value), walk.MARSHAL))
            elif inherits(type(value), enum.Enum):
                self._note(path, str(value))

    def _decorated(self, path, cells):
        """A decorator of a library holds what it decorates, perhaps the user's, in its cells."""
        for cell in cells:
            try:
                value = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            if type(value) is types.FunctionType and value not in self.functions:
                self._function(path, value)
            elif self._is_users(type(value)):
                self.foreign.append((path, value))

    def _class(self, path, value):
        home = class_module(value)
        self._note(path, class_name(value))
        if home == self.names.get("__name__"):
            # Others are made in C, and can only be changed from there.
            is_open = not is_in_c(value) and class_module(type(value)) != PYBIND
            if is_open and not any(value is known for known in self.classes):
                self.classes.append(value)
                self._all(class_dict(value).items(), path + ".")
        elif not self._is_users(value):
            self._follow(home)
        else:
            self.foreign.append((path, value))

    def _module(self, path, value):
        name = module_dict(value).get("__name__")
        # Libraries keep the program itself to write its objects, not to call what is in it.
        if type(name) is str and name != "__main__" and sys.modules.get(name) is value and \
                not is_library_name(name):
            self.foreign.append((path, value))
        # Importing a part of a package binds it in the package, whoever imported it.
        if type(name) is str and name != "%s.%s" % (self.names.get("__name__"), path):
            self._note(path, name)
            self._follow(name)

    def _follow(self, name):
        """The module @name is used by this one."""
        here = self.names.get("__name__")
        if type(name) is not str or type(here) is not str or name == here:
            return
        if here.partition(".")[0] in BORDERS or is_standard(here):
            return
        if is_standard(name) and name not in STANDARD:
            return
        module = sys.modules.get(name)
        if (type(module) is types.ModuleType and is_library_name(name)
                and not any(module is known for known in self.modules)):
            self.modules.append(module)
            self._version(name.partition(".")[0])

    def _version(self, package):
        """What is behind a border is told by the version of its @package."""
        if package in BORDERS and type(sys.modules.get(package)) is types.ModuleType:
            version = module_dict(sys.modules[package]).get("__version__")
            self._note(package, version if inherits(type(version), str) else "")


def is_standard(name):
    """Whether module @name comes with the interpreter."""
    path = module_path(sys.modules[name]) if name in sys.modules else None
    return path is None or ("/site-packages/" not in path and "/dist-packages/" not in path
                            and path.startswith(STANDARD_ROOTS))


def look(module, once=False):
    """
    The Look at library @module; a new one when something was bound anew.  Comparing writes to a
    count in every object of it: in a process that was just forked, to most of its memory.  Not
    where @once will do.
    """
    known = _looks.get(id(module))
    if known is None or known.module is not module or not (once or known.is_same()):
        known = _looks[id(module)] = Look(module)
    return known


# ---- modules with all that they use ----

# What a walk has met of them is written at its end, as one.  A data set of Hugging Face's leads to a
# hundred modules, and a walk is made for every worker of every epoch.  While nothing in them was
# bound anew, what they come to is known already.

CLOSURES = 64  # that are remembered; a program has few sets of modules that data sets lead to

_closures = {}  # ids of modules -> Closure


class Closure:
    """
    Library modules and all others that these use.

    .digest   bytes that stand for what they are and what their names are bound to
    .foreign  [(label, value)] that do not come from a library: to be walked
    """

    def __init__(self, modules, once):
        self.looks, met, waiting = [], set(), list(modules)
        for module in waiting:
            if id(module) not in met:
                met.add(id(module))
                self.looks.append(look(module, once))
                waiting += self.looks[-1].modules
        self.looks.sort(key=lambda each: module_name(each.module))
        parts, self.foreign = [], []
        for each in self.looks:
            name = module_name(each.module)
            parts += (walk.encoded(name), module_content(each.module), each.data)
            self.foreign += [(":%s.%s" % (name, path), value) for path, value in each.foreign]
        self.digest = hashlib.blake2b(walk.joined(parts), digest_size=16).digest()
        self._modules = [each.module for each in self.looks]

    def is_same(self, once):
        """Whether these modules are as they were; with @once, whether another look saw them so."""
        return all(map(is_, [look(module, once) for module in self._modules], self.looks))


def _closure_of(modules, once):
    key = tuple(map(id, modules))
    known = _closures.get(key)
    if known is None or not known.is_same(once):
        if len(_closures) >= CLOSURES:
            _closures.clear()
        known = _closures[key] = Closure(modules, once)
    return known


def note_module(walker, module):
    """The current object of @walker, or what it belongs to, is library @module."""
    walker.memory.setdefault(note_module, {})[id(module)] = module


@walk.ending
def _finish(walker):
    """Write what was noted since the last time; what it leads to of the user's is walked."""
    modules = walker.memory.pop(note_module, None)
    if modules:
        modules = sorted(modules.values(), key=module_name)
        closure = _closure_of(modules, walker.notes.has_looked)
        walker.put(b"h", closure.digest)
        for label, value in closure.foreign:
            walker.add(value, label)
