# SPDX-License-Identifier: MIT
"""
Leaves of bags of options that are no part of a name: while items are made, a read of one is noticed.

They are taken out of the bag's dict, and the bag is of a class that differs in this: who asks for
one is given it, and that is noted; who asks for all of the bag (its dict, a copy, a pickle) is given
a bag as it was.  So a sample that was published under a name was made without them, and whoever
takes it would have made the same.  docs/rooms/options.md has the argument.
"""

import contextlib
import functools
import mmap
import os

from ...fingerprint import bags
from . import watched

NAMES = 4096  # bytes of names that workers tell each other

_armed = {}  # id(bag) -> _Armed
_read = set()  # names of leaves that were read while they were out
_counted = set()  # and those that were learnt
_noticed = 0  # how often that was, which only grows: a loader in an item may learn what both have read
_told = mmap.mmap(-1, NAMES)  # names, each with a zero behind it; shared with processes that are forked


def _note(names):
    global _noticed
    _read.update(names)
    _noticed += 1


class _Trip:
    """Stands in a class of settings for one of its values, and notices who asks for it."""

    __slots__ = ("armed", "name")

    def __init__(self, armed, name):
        self.armed, self.name = armed, name

    def __get__(self, value, kind):
        self.armed.notice(self.name)
        return self.armed.values[self.name]

    def __reduce_ex__(self, protocol):  # of who got the class's dict
        self.armed.notice(self.name)
        return super().__reduce_ex__(protocol)

    def __repr__(self):
        return repr(self.__get__(None, None))

    def __eq__(self, other):
        return self.__get__(None, None) == other

    def __hash__(self):
        return hash(self.__get__(None, None))


class _ArmedClass:
    """A class, @bag, of which the attributes of these @names have trips in their places."""

    def __init__(self, bag, names):
        self.bag, self.names, self.values, self.trips = bag, set(names), {}, {}

    @property
    def is_out(self):
        return bool(self.trips)

    def take_out(self):
        own = bags.library.class_dict(self.bag)
        self.values = {name: own[name] for name in self.names if name in own}
        self.trips = {name: _Trip(self, name) for name in self.values}
        for name, trip in self.trips.items():
            type.__setattr__(self.bag, name, trip)

    def notice(self, name):
        _note((name,))
        self.names.discard(name)
        self._restore(name)

    def notice_all(self):
        _note(self.trips)
        _armed.pop(id(self.bag), None)
        self.give_back()

    def give_back(self):
        for name in list(self.trips):
            self._restore(name)

    def _restore(self, name):
        trip = self.trips.pop(name, None)
        if trip is None:
            return
        if bags.library.class_dict(self.bag).get(name) is trip:
            type.__setattr__(self.bag, name, self.values[name])
        else:  # it was changed meanwhile
            _note((name,))


class _Armed:
    """A @bag of which the leaves of these @names are hidden, or watched where they are items."""

    def __init__(self, bag, names):
        self.bag, self.kind, self.names = bag, type(bag), set(names)
        self.attributes, self.whole, self.hidden, self.is_out = None, {}, {}, False

    def take_out(self):
        if not bags.has_its_dict_alone(self.bag) or \
                isinstance(self.bag, dict) and not watched.are_tables_seen():  # somebody reads it past us
            _note(self.names)
            return
        reads = bags.dict_of(self.kind)
        if reads is not None:
            self.attributes = reads.__get__(self.bag)
            self.whole = dict(self.attributes)
            self.hidden = {name: self.whole[name] for name in self.names & self.whole.keys()}
        both = frozenset(_of_class(self.kind) & self.hidden.keys())
        kind = watched.noticing(self.kind, both, _armed_of)
        watched.set_class(self.bag, watched.is_a_tree(kind) if self.kind is dict else kind)
        for name in self.hidden:
            del self.attributes[name]
        self.is_out = True

    def notice(self, name):
        """Somebody reads or changes the attribute @name."""
        if name in self.names and isinstance(self.bag, dict):
            self.notice_all()
        if name in self.hidden:
            _note((name,))
            self.names.discard(name)
            self.attributes[name] = self.hidden[name]
            del self.hidden[name]

    def notice_item(self, key):
        """Somebody reads or changes the item with this @key: who computes names may want them all."""
        if type(key) is not str or key in self.names:
            self.notice_all()

    def notice_all(self):
        """Somebody reads whatever is there."""
        if self.is_out:
            _note(self.names)
        _armed.pop(id(self.bag), None)
        self.give_back()

    def give_back(self):
        """Let the bag be as it was, but for what was changed meanwhile; nobody misses a leaf."""
        if not self.is_out:
            return
        if self.attributes is not None:
            self._put_back()
        watched.set_class(self.bag, self.kind)
        self.attributes, self.hidden, self.is_out = None, {}, False

    def _put_back(self):
        now, whole = self.attributes, self.whole
        if len(now) + len(self.hidden) != len(whole) or any(whole.get(name, now) is not now[name] for name in now):
            now = {**self.hidden, **now}  # it was changed; what is new comes behind
            whole = {**{name: now[name] for name in whole if name in now}, **now}
        self.hidden = whole  # for another thread, until all is there
        self.attributes.clear()
        self.attributes.update(whole)


_of_class = functools.lru_cache(256)(bags.of_class)  # of classes that are what they were when they got a name


def _armed_of(bag):
    return _armed.get(id(bag))


def arm(left):
    """
    Take the leaves out that a name was made without: @left, [(bag, names)].  Gives the bags that
    disarm() is for.  One thread at a time.
    """
    found = []
    for bag, names in left:
        armed = _armed.get(id(bag))
        if armed is None:
            found.append((_ArmedClass if isinstance(bag, type) else _Armed)(bag, names))
        elif not armed.names.issuperset(names):  # of a loader around this one, which knew more
            armed.give_back()
            armed.names.update(names)
            armed.take_out()
    for armed in found:
        _armed[id(armed.bag)] = armed
        armed.take_out()
    return found


def notice_all(found):
    """Count all that is hidden of the bags that arm() gave; whether there was anything."""
    found = [armed for armed in found if _armed.get(id(armed.bag)) is armed and armed.is_out and armed.names]
    for armed in found:
        armed.notice_all()
    return bool(found)


def disarm(found):
    """Let the bags that arm() gave be as they were."""
    for armed in found:
        if _armed.pop(id(armed.bag), None) is not None:
            armed.give_back()


@contextlib.contextmanager
def as_they_were():
    """All bags are, meanwhile."""
    found = list(_armed.values())
    for armed in found:
        armed.give_back()
    try:
        yield
    finally:
        for armed in found:
            armed.take_out()


def noticed():
    """A number that another one follows with each read; a name given before it may lack a leaf."""
    return _noticed


def learn():
    """Count what was read, in this process and those that share memory with it; gives the names."""
    read = set(_read)
    for name in _read - names():
        data, end = name.encode("utf-8", "surrogatepass") + b"\0", len(_told[:].rstrip(b"\0"))
        end += end > 0
        if end + len(data) < NAMES:
            _told[end:end + len(data)] = data
    _counted.update(read)
    _read.clear()
    return read


def names():
    """Of the leaves that this process and its workers have seen to be read."""
    return _counted | {name.decode("utf-8", "surrogatepass") for name in _told[:].split(b"\0") if name}


def _before_fork():
    """A child that is forked in the middle of an item reads what nobody here sees."""
    for armed in list(_armed.values()):
        armed.notice_all()


os.register_at_fork(before=_before_fork)
