# SPDX-License-Identifier: MIT
"""
The walk behind a fingerprint: a stream of tokens over the graph of objects reachable from one.

Nothing of the user's runs: no method, operator, hash, descriptor or metaclass of a class that is
not built in.  Types are told apart by identity, and what a class or an object holds is read with
the interpreter's own descriptors.  The walk is breadth first without recursion; an object is
numbered when it is met, so cycles end and sharing between objects is part of the digest.  What is
a plain value (a number, a string, a tuple of such) is written in place and never numbered, because
two processes may differ in which equal constants they keep only once.
"""

import enum
import gc
import hashlib
import marshal
import math
import sys
import types
import zlib
from collections import OrderedDict, defaultdict, deque
from itertools import chain
from operator import is_

from .. import clock

# Version 2 writes values only: later ones also write which strings are interned and which
# objects are referred to twice.  Floats are written as their eight bytes.
MARSHAL = 2
ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
LEVELS = 8  # of containers inside containers that are still looked at as one plain value
ELEMENTS = 1 << 26  # at one level; more are walked one by one, and meet LIMIT
CHUNK = 1 << 13  # elements turned into bytes at once: they stay in the cache
LONG = 1 << 6  # elements from which a chunk is written as its digest
SMALL = 1 << 9  # bytes of an element, on average, up to which a walk's caller may hold on to it
HELD = 1 << 22  # elements that one walk's caller may hold on to; 32 MiB in each worker
LIMIT = 1 << 21  # objects in one walk; it would take more than ten seconds
PATIENCE = 0.5  # seconds of CPU time for code, and what it leads to: more is not the program's own
GLANCE = 1 << 13  # objects in one walk of data only, and elements of one of its lists
VISITS = 32  # of such objects, between two looks at the clock,
UNTIMED = 1 << 8  # and before the first one: most walks meet no more

ATOM_IDS = frozenset(map(id, ATOMS))
CODE_IDS = frozenset(map(id, (types.FunctionType, types.ModuleType)))
CLASS = 1 << 31  # Py_TPFLAGS_TYPE_SUBCLASS, of the class of a class
CONTAINER_IDS = frozenset(map(id, (list, tuple, dict)))
TUPLE_ID = frozenset([id(tuple)])

# id(type) -> function(value) -> bytes or None: immutable, written in place.
VALUES = {}
# id(type) -> function(walker, value): numbered, adds what it holds.
NODES = {}
# Functions (walker, value) -> True when they wrote it, for types that are not in NODES.
OTHERS = []
# Functions (module of a library), called once, when it is loaded; by its name.
_LIBRARIES = {}
# Functions (walker), called when all that was added was followed; they may add more.
ENDINGS = []

# Reasons for not knowing; stable, for counters and documentation.
REASONS = {
    "generator": "a random number generator of the dataset's own",
    "handle": "an open file, socket, archive or data base",
    "import": "a module of the user's that is imported later",
    "internal": "the fingerprint itself failed",
    "iterable": "not a map-style dataset",
    "iterator": "a generator, coroutine or iterator, which has a position",
    "large": "more objects or bytes than can be looked at",
    "lock": "a lock, condition, event or thread-local",
    "memmap": "a mapped file that cannot be told, or may be written through this mapping",
    "object": "an object that shows nothing of what it holds",
    "process": "a process or thread",
    "resolver": "a value that a function works out each time when it is read",
    "set": "a set whose elements have no order of their own",
    "slow": "there is more code than can be looked at in %.1f s of CPU time" % PATIENCE,
    "shared_memory": "memory or values shared between processes",
    "shared_tensor": "a tensor in shared memory",
    "tensor": "a tensor not in plain memory of the CPU, or of a subclass",
    "weakref": "a weak reference",
}


class Unknown(Exception):
    """
    The dataset cannot be fingerprinted: .reason is one of REASONS, .where a dotted path, .kind the
    name of the class of what is there or None.
    """

    def __init__(self, reason, where="", found=None):
        kind = None if found is None else _class_name(type(found))
        super().__init__(reason, where, kind)
        self.reason = reason
        self.where = where
        self.kind = kind

    def __str__(self):
        what = " (%s)" % self.kind if self.kind else ""
        return "%s%s: %s" % (self.where, what, REASONS.get(self.reason, self.reason))


_flags = type.__dict__["__flags__"].__get__
_module = type.__dict__["__module__"].__get__
_qualname = type.__dict__["__qualname__"].__get__


def _class_name(kind):
    module = _module(kind)  # which asks no metaclass
    return "%s.%s" % (module, _qualname(kind)) if type(module) is str else _qualname(kind)


def is_plain(value, containers=CONTAINER_IDS):
    """
    Whether marshal writes the exact built-in @value, all the way down, as a function of values
    only; of the @containers, that is.  Looks at a level of them at a time, at the speed of C,
    because lists of millions of (path, class) are what image datasets consist of.
    """
    level = (value,)
    for _ in range(LEVELS):
        kinds = set(map(id, map(type, level)))
        if kinds <= ATOM_IDS:
            return True
        if not kinds <= ATOM_IDS | containers:
            return False
        inner = level
        if not kinds <= containers:
            inner = [part for part in level if id(type(part)) in containers]
        if sum(map(len, inner)) > ELEMENTS:
            return False
        if id(dict) in kinds:
            tables = [part for part in inner if type(part) is dict]
            inner = [part for part in inner if type(part) is not dict]
            inner += [table.values() for table in tables] + [list(table) for table in tables]
        level = list(chain.from_iterable(inner))
    return False


def inline(value):
    """The bytes of a plain immutable @value, or None when it must be walked."""
    kind = id(type(value))
    if kind in ATOM_IDS:
        return b"a" + marshal.dumps(value, MARSHAL)
    make = VALUES.get(kind)
    return None if make is None else make(value)


def plain_bytes(part):
    """The bytes of a plain @part, or None."""
    return marshal.dumps(part, MARSHAL) if is_plain(part) else None


def encoded(text):
    """The @text in UTF-8, with whatever else a str may hold."""
    return text.encode("utf-8", "surrogatepass")


def summed(*parts):
    """16 bytes for @parts."""
    return hashlib.blake2b(joined(parts), digest_size=16).digest()


def joined(parts):
    """@parts, each with its length in front, as one bytes."""
    return b"".join(b"%d:%s" % (len(part), part) for part in parts)


class Notes:
    """What a walk sees besides; the caller's, who may hand it in again."""

    def __init__(self, seeds=False, read=None):
        # Names of leaves of bags that an item was seen to read; None: all leaves count.  What was left
        # out: [(bag, names)], and 16 bytes for everything with it; for what counts but for .cells; and
        # for all but leaves and cells, and for these where they count.
        self.read, self.left, self.whole, self.still, self.apart = read, [], None, None, (b"", b"")
        self.out = {}  # name -> [bytes], of the leaves in .left
        self.ignored = frozenset()  # names of leaves that never count
        self.parts = None  # a list to be filled with those of parts.py, or None
        # [(path, object)] of generators of random numbers where the caller @seeds them; they are
        # Unknown where it does not.
        self.generators = [] if seeds else None
        self.cells = [] if seeds else None  # (object of ctypes, bytes) of shared.py, or None: Unknown
        self.traced = [] if seeds else None  # transforms of traced.py, in the order in which they are met
        self.digests = {}  # of large arrays, by where they are: these are not read again
        self.has_looked = False  # at all: what libraries hold is not compared again either
        self.is_cut = False  # something was left out that would have taken too long
        self.has_cache = False  # a function remembers what it gave before, which nobody can see


class Walker:
    """
    One walk; add() what to look at, then digest() does the looking.

    @constants is what .constants was after the last walk over the same, or empty.  Where a list
    still holds the very objects that it held then, and these cannot change, what was written
    then is written again: an image dataset's list is all that takes time in its fingerprint.
    @room is how many bytes of arrays may be read.  In @notes, Notes, it leaves what else was seen.
    Of @data_only no code is followed, and the walk is short: only what it finds is of use, not the
    digest.
    """

    def __init__(self, where, constants=(), room=math.inf, notes=None, data_only=False):
        self.room = room
        self.notes = notes or Notes()
        self.hash = hashlib.blake2b(digest_size=16)
        self.memory = {}  # what a kind of node wants to remember during one walk
        # Where parts are wanted: number -> sum of what was written for that object, and the plain
        # values in it, [(number, label, bytes)].
        self.sums, self.values = None if self.notes.parts is None else defaultdict(int), []
        self.constants = []  # for each long chunk, in order: (its elements, its digest)
        self._constants = constants
        self._held = 0
        self._where = where
        self._numbers = {}  # id -> number
        self._objects = []  # by number; also keeps ids from being used again
        self._labels = []  # by number: (number of the parent, how it was reached)
        self._made = set()  # numbers of objects made for this walk, or met through one
        self._kinds = set()  # numbers of classes that only objects, or classes derived from them, led to
        self._of_code = bytearray()  # by number: whether it is code, or code led to it
        self._codes = 0  # such that were followed
        self._data_only = data_only
        self._is_in_code = False  # the current object is
        self._spent, self._since = 0.0, None  # CPU time for such; since when, of those in a row
        self._current = -1
        self._failure = None  # which is raised, where the walk goes on in search of generators

    def put(self, tag, payload=b""):
        """Write one token; a str payload is written as UTF-8."""
        if type(payload) is str:
            payload = encoded(payload)
        self.hash.update(b"%s%d:" % (tag, len(payload)))
        self.hash.update(payload)
        if self.sums is not None and tag != b"r":  # a number is another one behind what differs
            self.tell(payload)

    def tell(self, data):
        """Count @data, of the current object, among what people are told of; no part of the digest."""
        if self.sums is not None:
            self.sums[self._current] = zlib.crc32(data, self.sums[self._current])

    def _put_alone(self, data, label):
        """Write a plain value that is a part by itself."""
        sums, self.sums = self.sums, None
        self.put(b"v", data)
        self.sums = sums
        self.values.append((self._current, label, data))

    def add(self, value, label="", as_kind=False):
        """
        Write @value in place, or a reference to it, which will be followed later; where it is a class,
        @as_kind of what was met.
        """
        data = inline(value)
        if data is not None:
            if self.sums is None:
                self.put(b"v", data)
            else:
                self._put_alone(data, label)
            return
        number = self._numbers.get(id(value))
        if number is None:
            kind = type(value)
            of_code = self._is_in_code or id(kind) in CODE_IDS or _flags(kind) & CLASS != 0
            number = len(self._objects)
            if self._data_only and (of_code or number >= GLANCE):
                return
            if number >= LIMIT:
                self.notes.is_cut = True
                self.fail("large", label)
            self._numbers[id(value)] = number
            self._objects.append(value)
            self._labels.append((self._current, label))
            self._of_code.append(of_code)
            if as_kind:
                self._kinds.add(number)
            if self._made and self._current in self._made:
                self._made.add(number)
        if not as_kind and self._kinds:
            self._kinds.discard(number)
        self.put(b"r", b"%d" % number)

    def is_but_kind(self, value):
        """Whether @value, a class that was added, was always added as one of objects."""
        return self.number(value) in self._kinds

    def number(self, value):
        """That of @value, which was added."""
        return self._numbers[id(value)]

    def is_of_code(self, number):
        """Whether the object @number is code, or code led to it."""
        return self._of_code[number] != 0

    def number_at(self, address):
        """That of the object at this @address, or None where none was added."""
        return self._numbers.get(address)

    def make_up(self):
        """What the current object leads to is made for this walk, and gone after it."""
        self._made.add(self._current)

    def is_made_up(self):
        """Whether the current object is, or was met through one."""
        return self._current in self._made

    def parents(self):
        """For each number that of the object which led to it first."""
        return [parent for parent, _ in self._labels]

    def add_pairs(self, pairs):
        """Write (name, value) pairs, sorted by name; names are exact str."""
        for name, value in sorted(pairs, key=lambda pair: pair[0]):
            self.put(b"k", name)
            self.add(value, "." + name)

    def add_sequence(self, values):
        """Write the list or tuple @values: plain chunks at once, others element by element."""
        if self._data_only:
            values = values[:GLANCE]
        self.put(b"n", b"%d" % len(values))
        for begin in range(0, len(values), CHUNK):
            part = values[begin:begin + CHUNK]
            data = self._long(part) if len(part) >= LONG else plain_bytes(part)
            if data is not None:
                self.put(b"m", data)
                continue
            for position, value in enumerate(part, begin):
                self.add(value, position)

    def at_once(self, function, *arguments):
        """What the @function gives, which reads data at the speed of C: no time for code."""
        if self._since is None:
            return function(*arguments)
        start = clock.thread()
        try:
            return function(*arguments)
        finally:
            self._since += clock.thread() - start

    def _long(self, part):
        """The digest of the bytes of a plain @part, or None when it must be walked."""
        place = len(self.constants)
        held, digest = self._constants[place] if place < len(self._constants) else ((), None)
        if len(held) != len(part) or not all(map(is_, held, part)):
            held = tuple(part)
            data = plain_bytes(held)  # of the tuple: what kind of list they are in is known
            digest = data and hashlib.blake2b(data, digest_size=16).digest()
            if data is None or len(data) > SMALL * len(part) or \
                    self._held + len(held) > HELD or not is_plain(held, TUPLE_ID):
                held = ()
        self._held += len(held)
        self.constants.append((held, digest))
        return digest

    def fail(self, reason, label="", number=None):
        """Raise Unknown for the current object, or that of @number, or what @label leads to from it."""
        number = self._current if number is None else number
        raise Unknown(reason, self.where(number) + _text(label),
                      self._objects[number] if number >= 0 else None)

    def adopt(self, generator):
        """
        Note that the current object draws by @generator, which will be seeded before each item:
        what it would draw next is no part of the digest.
        """
        self.notes.generators.append((self.where(self._current), generator))

    def where(self, number):
        """Path to the object @number, from the root; cut in the middle when it is long."""
        labels = []
        while number > 0:
            number, label = self._labels[number]
            labels.append(_text(label))
        path = self._where + "".join(reversed(labels))
        return path if len(path) < 400 else path[:200] + " ... " + path[-180:]

    def digest(self):
        """
        Follow everything that was added; return the 16 bytes.  Where generators are noted the walk
        goes on behind what is Unknown, which is raised at the end.
        """
        followed = 0
        while followed < len(self._objects):
            for self._current in range(followed, len(self._objects)):
                self._is_in_code = self._of_code[self._current] != 0
                self._codes += self._is_in_code
                if self._codes > UNTIMED and (
                        self._is_in_code != (self._since is not None) or
                        self._is_in_code and self._codes % VISITS == 0):
                    self._look_at_clock(self._is_in_code)
                self._try(self._visit, self._objects[self._current])
            followed = self._current + 1
            if followed == len(self._objects):
                if self._since is not None:
                    self._look_at_clock(False)
                self._current, self._is_in_code = 0, True
                for ending in ENDINGS:
                    self._try(ending, self)
        if self._failure is not None:
            raise self._failure
        return self.hash.digest()

    def _look_at_clock(self, is_in_code):
        """Add the time since the last look, where it was code's; it is now, or is not."""
        now = clock.thread()
        if self._since is not None:
            self._spent += now - self._since
        self._since = now if is_in_code else None
        if self._spent > PATIENCE:
            self.notes.is_cut = True
            if self._failure is not None:
                raise self._failure
            self.fail("slow")

    def _try(self, function, value):
        try:
            function(value)
        except Unknown as unknown:
            if self.notes.generators is None or unknown.reason in ("large", "slow"):
                raise
            # What draws in its own way is more to the caller than what has no name.
            if self._failure is None or unknown.reason == "generator" != self._failure.reason:
                self._failure = unknown

    def _visit(self, value):
        handler = NODES.get(id(type(value)))
        if id(type(value)) in CONTAINER_IDS and len(value) >= LONG:
            self._is_in_code = False  # what is in it is data
            self.at_once(handler, self, value)
            return
        if handler is not None:
            handler(self, value)
            return
        for handler in OTHERS:
            if handler(self, value):
                return
        self.fail("object")


def _text(label):
    return label if type(label) is str else "[%d]" % label


def node(*kinds):
    """Decorator: the function writes objects of exactly these @kinds."""
    def register(function):
        NODES.update(dict.fromkeys(map(id, kinds), function))
        return function
    return register


def ending(function):
    """Decorator: the @function is called when all that was added was followed."""
    ENDINGS.append(function)
    return function


def of_library(*names):
    """Decorator: the function registers the types of the library whose module has one of these @names."""
    def add(function):
        _LIBRARIES.update(dict.fromkeys(names, function))
        return function
    return add


def register():
    """Register the types of the libraries that were loaded since the last call."""
    for name, function in list(_LIBRARIES.items()):
        if sys.modules.get(name) is not None:
            try:
                function(sys.modules[name])
            except AttributeError:  # half imported in another thread: next time
                continue
            _LIBRARIES.pop(name, None)


def value(*kinds):
    """Decorator: the function gives the bytes of immutable objects of exactly these @kinds."""
    def register(function):
        VALUES.update(dict.fromkeys(map(id, kinds), function))
        return function
    return register


@value(tuple)
def _tuple_in_place(value):
    return b"(" + marshal.dumps(value, MARSHAL) if is_plain(value) else None


@value(frozenset)
def _frozenset_in_place(value):
    parts = list(map(inline, value))
    return None if None in parts else b"{" + joined(sorted(parts))


@value(range)
def _range_in_place(value):
    return b"R" + marshal.dumps((value.start, value.stop, value.step), MARSHAL)


@node(list, tuple)
def _sequence(walker, value):
    walker.put(b"[" if type(value) is list else b"(")
    walker.add_sequence(value)


def add_dict(walker, value):
    """A dict in its order, which a loop over it would see."""
    walker.put(b"{")
    keys, values = list(dict.keys(value)), list(dict.values(value))
    walker.add_sequence(keys)
    if set(map(id, map(type, keys))) == {id(str)} and not is_plain(values):
        for key, part in zip(keys, values):
            walker.add(part, "[%r]" % key)
    else:
        walker.add_sequence(values)


@node(OrderedDict)
def add_ordered(walker, value):
    """An OrderedDict in its order."""
    walker.put(b"O")
    # Looking its keys up would ask them for their hash; a plain dict keeps another order.
    values = {id(key): part for key, part in dict.items(value)}
    keys = list(OrderedDict.__iter__(value))
    walker.add_sequence(keys)
    walker.add_sequence([values[id(key)] for key in keys])


@node(defaultdict)
def _default(walker, value):
    walker.put(b"F")
    walker.add(value.default_factory, ".default_factory")
    add_dict(walker, value)


@node(deque)
def _deque(walker, value):
    walker.put(b"Q", repr(value.maxlen))
    walker.add_sequence(list(value))


@node(types.MappingProxyType)
def _proxy(walker, value):
    # The proxy itself would ask what is behind it, which may be of a class of the user's.
    behind = gc.get_referents(value)
    add = {dict: add_dict, OrderedDict: add_ordered}.get(type(behind[0])) if len(behind) == 1 else None
    if add is None:
        walker.fail("object")
    add(walker, behind[0])


@node(bytearray)
def _bytearray(walker, value):
    walker.put(b"b", bytes(value))


@node(slice)
def _slice(walker, value):
    walker.put(b"/")
    walker.add_sequence((value.start, value.stop, value.step))


@node(set, frozenset)
def _set(walker, value):
    walker.put(b"s", type(value).__name__)
    add_set(walker, value)


def add_set(walker, elements):
    """Sorted by bytes or, for classes, functions and members of enums, by name; else there is no order."""
    parts, named = [], {}
    for element in elements:
        data = inline(element)
        if data is not None:
            parts.append(data)
            continue
        name = _set_order(element)
        if name is None or name in named:
            walker.fail("set")
        named[name] = element
    walker.put(b"s", joined(sorted(parts)))
    walker.add_pairs(named.items())


def _set_order(element):
    """A name to sort @element of a set by, or None: that of a class, function or member of an enum."""
    kind, names = type(element), ()
    if kind is type or kind is types.FunctionType:
        names = (element.__module__, element.__qualname__)
    elif type(kind) is enum.EnumMeta:
        names = (_module(kind), _qualname(kind), object.__getattribute__(element, "_name_"))
    if names:
        if set(map(type, names)) == {str}:
            return ".".join(names)
    return None
