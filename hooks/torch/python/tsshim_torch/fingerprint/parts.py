# SPDX-License-Identifier: MIT
"""
What a name is made of, in parts that other jobs can compare with theirs: a sum for each, and words for
people.  Counted once per loader, for the line at the end of a job and `tsrun explain`.
"""

import collections
import marshal
import re
import struct
import zlib

MOST = 64  # parts of a loader (leader/group/loaders.h)
LEAVES = MOST // 2  # leaves of bags that come before all else
_TEXT = 88  # bytes of one's text
_PART = struct.Struct("<II%ds" % _TEXT)
_VALUE = 24  # characters of a value that are shown


def _short(path):
    """The @path as who has written the data set would say it."""
    for word in "dataset", ".__class__", ".":
        path = path[len(word):] if path.startswith(word) else path
    path = re.sub(r"\['(\w+)'\]", r".\1", path.replace("._content", ""))  # so OmegaConf keeps its items
    return path or "the data set"


def path_of(walker, bag, name):
    """Where the leaf @name of @bag lies."""
    return "%s.%s" % (walker.where(walker.number(bag)), name)


def leaf(walker, bag, name, data, reader):
    """(path, sum, value, function) of the leaf @name of @bag, of these bytes, which @reader mentions."""
    return path_of(walker, bag, name), zlib.crc32(data), _value(data), reader or ""


def _value(data):
    """What is written as @data, as text; "" where that is nothing to read."""
    try:
        return repr(marshal.loads(data))[:_VALUE]
    except (ValueError, EOFError, TypeError):
        return ""


def _held(walker):
    """For each object numbers of those that it led to first, but for what libraries hold of the program's."""
    parents = walker.parents()
    held = [[] for _ in parents]
    for number, parent in enumerate(parents[1:], 1):
        if parent or not walker.where(number).startswith(walker.where(0) + ":"):
            held[parent].append(number)
    return held


def _split(walker, named):
    """
    Numbers of the objects of which what they hold has parts of its own, with that: those next to the
    data set first, and data before code, as long as there is room.  Each has so many plain values @named.
    """
    held, found = _held(walker), {}
    room = MOST - min(len(walker.notes.parts), LEAVES) - 1
    for of_code in (False, True):
        waiting = [0]
        for number in waiting:
            if number not in found:
                count = len(held[number]) + named[number]
                if count > room or walker.is_of_code(number) > of_code:
                    continue
                room, found[number] = room - count, held[number]
            waiting += held[number]
    return found


def of_objects(walker):
    """[(path, sum, value, "")] of all that @walker has met, put together as far as there is no room."""
    sums, found, groups = {}, [], []
    named = collections.Counter(number for number, label, _ in walker.values if label and type(label) is str)
    split = _split(walker, named)
    heads = {0}.union(*split.values())
    for number, parent in enumerate(walker.parents()):
        groups.append(number if number in heads else groups[parent])
        _add(sums, groups[number], b"%d" % walker.sums.get(number, 0))
    for number, label, data in walker.values:
        if number in split and label and type(label) is str:
            found.append((walker.where(number) + label, zlib.crc32(data), _value(data[1:]), ""))
        elif number >= 0:
            _add(sums, groups[number], data)
    return found + [(walker.where(number), each, "", "") for number, each in sums.items()]


def _add(sums, number, data):
    sums[number] = zlib.crc32(data, sums.get(number, 0))


def _folded(parts):
    """@parts, of which those that there is no room for are one."""
    if len(parts) <= MOST:
        return parts
    rest = zlib.crc32(repr([each for _, each, _, _ in parts[MOST - 1:]]).encode())
    return parts[:MOST - 1] + [("dataset.(others)", rest, "", "")]


def packed(parts):
    """(bytes, how many) of @parts, each as struct ts_loader_part."""
    found, met = [], collections.Counter()
    for path, each, value, reader in _folded(parts):
        met[path] += 1  # as often as there are bases, say
        words = [_short(path)[-48:], value, reader.rpartition(".")[2]] if value else [_short(path)[-_TEXT:]]
        text = "\t".join(word.replace("\t", " ") for word in words).encode("utf-8", "replace")[:_TEXT - 1]
        key = zlib.crc32(("%d %s" % (met[path], path)).encode("utf-8", "surrogatepass")) or 1
        found.append(_PART.pack(each, key, text.replace(b"\0", b"?")))
    return b"".join(found), len(found)
