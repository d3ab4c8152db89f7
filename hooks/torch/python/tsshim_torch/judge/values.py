# SPDX-License-Identifier: MIT
"""What code.Reader knows of a value, and the exception of all who judge."""


class Refused(Exception):
    """Something takes part that is not known to be harmless; the argument says what."""


class Value:
    """
    What is known of a value on the stack.

    .kind   "any"; "plain": immutable; "fresh": made by this function; "self": the first argument
            of a method; "const" and "known": .what itself; "attr": .what is a name, .owner what
            it was asked of; "classes": .what are several; "class": that of
            a value, only to be compared; "super"; "enter":
            what enters the manager .owner; "null": no value
    """

    __slots__ = ("kind", "what", "owner")

    def __init__(self, kind, what=None, owner=None):
        self.kind, self.what, self.owner = kind, what, owner

    def same(self, other):
        """Whether nothing is lost by taking @other for this one."""
        return self is other or (self.kind == other.kind and self.what is other.what
                                 and self.owner is other.owner)


ANY, PLAIN, FRESH, SELF, NULL, SUPER = map(Value, ("any", "plain", "fresh", "self", "null",
                                                   "super"))
