# SPDX-License-Identifier: MIT
"""
Leaves of bags of options that are no part of a name: while items are made, a read of one is noticed.

They are taken out of the bag's dict, and the bag is of a class that differs in this: who asks for
one is given it, and that is noted; who asks for all of the bag (its dict, a copy, a pickle) is given
a bag as it was.  So a sample that was published under a name was made without them, and whoever
takes it would have made the same.  docs/rooms/options.md has the argument.
"""

import contextlib
import mmap
import os

from ..fingerprint import bags

NAMES = 4096  # bytes of names that workers tell each other

_class = object.__dict__["__class__"]
_kinds = {}  # class -> its class that notices
_armed = {}  # id(bag) -> _Armed
_read = set()  # names of leaves that were read while they were out
_counted = set()  # and those that were learnt
_noticed = 0  # how often that was, which only grows: a loader in an item may learn what both have read
_told = mmap.mmap(-1, NAMES)  # names, each with a zero behind it; shared with processes that are forked


def _note(names):
    global _noticed
    _read.update(names)
    _noticed += 1


class _Armed:
    """A @bag of which the leaves of these @names are hidden, while they are taken out."""

    def __init__(self, bag, names):
        self.bag, self.kind, self.names = bag, type(bag), set(names)
        self.attributes, self.order, self.hidden = None, [], {}

    def take_out(self):
        of_class = self.names & bags.of_class(self.kind)  # made since the walk
        if of_class or not bags.has_its_dict_alone(self.bag):  # somebody reads it past us
            _note(self.names)
            return
        self.attributes = bags.dict_of(self.kind).__get__(self.bag)
        self.order = list(self.attributes)
        self.hidden = {name: self.attributes[name] for name in self.order if name in self.names}
        _class.__set__(self.bag, _noticing(self.kind))
        for name in self.hidden:
            del self.attributes[name]

    def notice(self, name):
        """Somebody reads or changes the leaf @name."""
        if name in self.hidden:
            _note((name,))
            self.names.discard(name)
            self.attributes[name] = self.hidden[name]
            del self.hidden[name]

    def notice_all(self):
        """Somebody reads whatever is there."""
        _note(self.hidden)
        _armed.pop(id(self.bag), None)
        self.give_back()

    def give_back(self):
        """Let the bag be as it was, but for what was changed meanwhile; nobody misses a leaf."""
        if self.attributes is None:
            return
        self.attributes.update({**self.hidden, **self.attributes})
        now = dict(self.attributes)
        if list(now) != self.order:
            self.hidden = now
            self.attributes.clear()
            self.attributes.update({name: now[name] for name in self.order if name in now})
            self.attributes.update(now)
        _class.__set__(self.bag, self.kind)
        self.attributes, self.hidden = None, {}


def _noticing(kind):
    """A class as @kind, whose objects notice."""
    if kind in _kinds:
        return _kinds[kind]

    def notice(self, name):
        armed = _armed.get(id(self))
        if armed is not None:
            armed.notice(name)

    def whole(self):
        armed = _armed.get(id(self))
        if armed is not None:
            armed.notice_all()

    def __getattr__(self, name):  # one that is not in its dict
        notice(self, name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        notice(self, name)
        kind.__setattr__(self, name, value)

    def __delattr__(self, name):
        notice(self, name)
        kind.__delattr__(self, name)

    def get_dict(self):
        whole(self)
        return bags.dict_of(kind).__get__(self)

    def set_dict(self, attributes):
        whole(self)
        bags.dict_of(kind).__set__(self, attributes)

    def set_class(self, other):
        whole(self)
        _class.__set__(self, other)

    def __reduce_ex__(self, protocol):
        whole(self)
        return kind.__reduce_ex__(self, protocol)

    def __sizeof__(self):
        whole(self)
        return kind.__sizeof__(self)

    _kinds[kind] = type(kind)(kind.__name__, (kind,), {
        "__slots__": (), "__module__": kind.__module__, "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__, "__getattr__": __getattr__, "__setattr__": __setattr__,
        "__delattr__": __delattr__, "__dict__": property(get_dict, set_dict),
        "__class__": property(lambda _: kind, set_class),
        "__reduce_ex__": __reduce_ex__, "__sizeof__": __sizeof__})
    return _kinds[kind]


def arm(left):
    """
    Take the leaves out that a name was made without: @left, [(bag, names)].  Gives the bags that
    disarm() is for.  One thread at a time.
    """
    found = []
    for bag, names in left:
        armed = _armed.get(id(bag))
        if armed is None:
            found.append(_Armed(bag, names))
        elif not armed.names.issuperset(names):  # of a loader around this one, which knew more
            armed.give_back()
            armed.names.update(names)
            armed.take_out()
    for armed in found:
        _armed[id(armed.bag)] = armed
        armed.take_out()
    return found


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
    """Count what was read, in this process and those that share memory with it."""
    for name in _read - names():
        data, end = name.encode("utf-8", "surrogatepass") + b"\0", len(_told[:].rstrip(b"\0"))
        end += end > 0
        if end + len(data) < NAMES:
            _told[end:end + len(data)] = data
    _counted.update(_read)
    _read.clear()


def names():
    """Of the leaves that this process and its workers have seen to be read."""
    return _counted | {name.decode("utf-8", "surrogatepass") for name in _told[:].split(b"\0") if name}


def _before_fork():
    """A child that is forked in the middle of an item reads what nobody here sees."""
    for armed in list(_armed.values()):
        armed.notice_all()


os.register_at_fork(before=_before_fork)
