# SPDX-License-Identifier: MIT
"""
Data sets whose code looks otherwise in the byte code of one Python or another, and attacks by it.

What only a newer Python can read stands in strings.
"""

import dataclasses
import functools
import os
import pathlib
import random
import string
import sys

import numpy as np
import torch
from torch.utils.data import Dataset

from exact_attacks import BAD, COUNTS, EVENTS, bad, during, refused, refused_item, refused_kind
from exact_zoo import Items, good, picture

TABLE = {"one": [1, 2, 3], "two": [4, 5]}
NESTED = [[1], [2]]
PATHS = [pathlib.Path("/tmp") / name for name in ("a.txt", "b.txt")]
VERSION = sys.version_info[:2]


def work(index):
    """What makes an item cost something."""
    return torch.from_numpy(np.asarray(picture(index)).copy())


# ---- comprehensions, which are a part of the function from Python 3.12 on ----

class Comprehensive(Items):
    """Comprehensions of all kinds, and what may be done with what they give."""

    def size(self, name):
        return len(self.table[name])

    def __getitem__(self, index):
        first = [number * 2 for number in self.table["one"] if number] + [index]
        pairs = dict({key: [value + index for value in row] for key, row in self.table.items()})
        pairs["sum"] = sum(x * y for x, y in zip(first, pairs["one"]))
        nested = [[a + b for b in first] for a in pairs["two"]]
        adders = [lambda x, step=step: x + step + index for step in first]
        sizes = [self.size(name) for name in pairs if name in self.table]
        index = [index for index in first][-1]
        return work(index), first, pairs, nested, [add(1) for add in adders], sizes


@good()
def comprehensions(_root):
    return Comprehensive(None, table=TABLE)


class Parent(Items):
    def part(self, number):
        return number + 1

    def __getitem__(self, index):
        return work(index)


class Child(Parent):
    def part(self, number):
        return [super().part(each) for each in range(number)]

    def __getitem__(self, index):
        return super().__getitem__(index), self.part(3)


if VERSION >= (3, 12):  # before that it is another function's first argument
    @good()
    def super_in_comprehensions(_root):
        return Child(None)

    @good()
    def changes_what_a_comprehension_gave(_root):
        def make(index):
            found = [number for number in TABLE["one"]]
            found.append(index)
            found += [index]
            table = {key: index for key in TABLE}
            table["three"] = found
            return work(index), table
        return Items(make)


@good("python")
def reads_lines_and_slices(root):
    path = os.path.join(root, "class0", "00.jpg")

    def make(index):
        with open(path, "rb") as file:
            chunks = [chunk[:2] for chunk in file.read().split(b"\n") if chunk]
        kept = list(chunks[1:5])
        kept[0:1] = [b"x", b"y"]
        del kept[2:3]
        kept[-1] = b"z"
        rest = list(chunks)
        rest[index:] = []
        low, *_, high = sorted([random.random() for _ in range(4)])
        return work(index), kept, len(rest), low < 0.5 < high, not kept or high
    return Items(make)


@good()
def calls_and_texts(_root):
    def shown(*values, sign="+", width=3, **more):
        return f"{sign!r:>{width}}{len(values)}{sorted(more)}{values[0]:.2f}"

    def make(index):
        values, more = (index / 3, 2), {"a": 1}
        flag = None
        while flag is None:
            flag = index if index else 0
        text = shown(*values, sign="-", **more) + shown(*values) + shown(index, width=+5)
        assert any(value for value in [index, 1]) and all(value >= 0 for value in values), "none"
        return work(index), text, tuple(value for value in values), -index if flag else ~index
    return Items(make)


@dataclasses.dataclass
class Settings:
    """Compared, shown and changed as dataclasses are."""

    scale: float = 0.5
    names: list = dataclasses.field(default_factory=list)

    def scaled(self, value):
        return value * self.scale


@good()
def dataclasses_are_compared(_root):
    first, second = Settings(names=["a"]), Settings(2.0)
    return Items(lambda index: (work(index), first == second, f"{first}", second.scaled(index)))


@good()
def paths_as_objects(_root):
    return Items(lambda index: (work(index), PATHS[index % 2].name, os.path.normpath("a/../b"),
                                str(PATHS[0].parent / "x"), PATHS[1].with_suffix(".c").suffix))


# ---- a newer Python's own words ----

GENERIC = """
type Pair[T] = tuple[T, T]

class Generic[T](Dataset):
    scale: Undefined if False else int = 3

    def __init__(self, values: list[T]):
        self.values = values

    def __len__(self):
        return 24

    def at[K](self, index: K) -> Pair[T]:
        return self.values[index % len(self.values)], self.scale

    def __getitem__(self, index: int):
        return work(index), self.at(index)
"""


def compiled(text):
    """The names that @text, a part of this file, defines."""
    names = {"__name__": __name__, "COUNTS": COUNTS, "Dataset": Dataset, "Items": Items,
             "work": work, "functools": functools}
    exec(compile(text, __file__, "exec"), names)
    return names


def refused_text(name, text):
    """An attack of this @name, whose @text defines its `data`."""
    BAD[name] = lambda: compiled(text)["data"]


if VERSION >= (3, 12):
    NAMES = compiled(GENERIC)
    Generic, Pair = NAMES["Generic"], NAMES["Pair"]

    @good()
    def type_parameters(_root):
        return Generic([1, 2])

    refused_text("a_type_alias_is_evaluated", """
type X = COUNTS.append(1)
data = Items(lambda index: X.__value__)
""")
    refused_text("a_generic_one_keeps_state", """
class D[T](Items):
    def __getitem__(self, index):
        self.last: T = index
        return index
data = D(None)
""")
    refused_text("a_type_parameter_is_asked", """
class D[T](Items):
    def __getitem__(self, index):
        return T.__name__, T.__bound__
data = D(None)
""")

if VERSION >= (3, 14):
    refused_text("a_template_is_made", "data = Items(lambda index: t'{COUNTS}')")
    refused_text("a_place_for_an_argument", "data = Items(functools.partial(max, functools.Placeholder, 1))")


# ---- handlers of an author's own among those of comprehensions ----

@refused_item
def handles_around_a_comprehension(index):
    try:
        return [COUNTS[number] for number in range(index)]
    except IndexError:
        return []


@refused_item
def handles_beside_a_comprehension(index):
    numbers = [number for number in COUNTS]
    try:
        return numbers[index]
    except IndexError:
        return [number + 1 for number in numbers]


@refused_item
def finally_around_a_comprehension(index):
    try:
        return [number for number in COUNTS]
    finally:
        EVENTS.append(index)


@refused_item
def swallows_in_a_loop(index):
    for _ in range(2):
        try:
            found = {number: 1 for number in COUNTS}
        except ValueError:
            continue
        return found


@refused_item
def handles_groups(index):
    try:
        return [number for number in COUNTS]
    except* ValueError:
        pass


@bad
def a_generator_that_handles():
    def numbers(count):
        try:
            yield from [number for number in range(count)]
        except GeneratorExit:
            EVENTS.append(count)
    return Items(lambda index: next(numbers(index)))


# ---- what a comprehension's variable hides ----

@refused_item
def a_new_list_under_the_name_of_an_old_one(index):
    fresh = []
    return [fresh.append(index) for fresh in [COUNTS]], fresh


refused("a_cell_of_a_comprehension",
        lambda index: [change(index) for change in [
            lambda number, kept=kept: kept.append(number) for kept in [COUNTS]]])


@refused_item
def a_walrus_in_a_comprehension(index):
    kept = []
    [kept := NESTED for _ in range(1)]
    kept.append(index)
    return index


@refused_kind(None)
class the_first_argument_as_a_variable(Items):
    def __getitem__(self, index):
        return [self.append(index) for self in [COUNTS]]


# ---- subscripts, slices, attributes and calls of a new kind ----

refused("appended_to_an_element", lambda index: NESTED[0].append(index))
refused("appended_to_a_slice_of_tables", lambda index: TABLE["one"].append(index))
refused("any_with_effects", lambda index: any(EVENTS.append(number) for number in [index]))
refused("all_with_effects", lambda index: all(EVENTS.append(number) for number in [index]))
refused("tuple_with_effects", lambda index: tuple(EVENTS.append(number) for number in [index]))
refused("keywords_of_a_method", lambda index: COUNTS.sort(key=EVENTS.append))
refused("copied_file", lambda index: PATHS[0].copy(PATHS[1]))
refused("copied_file_by_an_order", lambda index: PATHS[0].copy("C"))
refused("copied_file_by_keyword", lambda index: PATHS[0].copy(target=PATHS[1]))
refused("copied_files", lambda index: list(map(PATHS[0].copy, PATHS)))
if hasattr(pathlib.Path, "walk"):
    refused("walked", lambda index: list(PATHS[0].walk()))
if hasattr(pathlib.Path, "move"):
    refused("moved_file", lambda index: PATHS[0].move(PATHS[1]))
    refused("moved_file_into", lambda index: PATHS[0].move_into(PATHS[1]))
refused("asked_file", lambda index: PATHS[0].info.exists())
refused("variables_by_locals", lambda index: locals()["index"])
refused("variables_of_a_frame", lambda index: sys._getframe().f_locals["index"])
refused("annotations", lambda index: Settings.scaled.__annotations__)
refused("ellipsis_in_a_set", lambda index: [each for each in {..., index, 1}])
refused("none_in_a_tuple_in_a_set", lambda index: [each for each in {(None, 1), len("ab")}])


@refused_item
def a_slice_is_replaced(index):
    COUNTS[0:0] = [index]
    return index


@refused_item
def an_element_is_changed_in_place(index):
    row = NESTED[0]
    row += [index]
    return row


@refused_item
def a_slice_is_deleted(index):
    del COUNTS[index:]
    return index


@bad
def super_of_another_class():
    class Data(Child):
        def __getitem__(self, index):
            return super(Child, self).__getitem__(index)
    return Data(None)


refused_text("super_is_another_function", """
def super(*_):
    COUNTS.append(1)
    return Items
class Data(Items):
    def __getitem__(self, index):
        return super().make(index)
data = Data(None)
""")
refused_text("another_any", """
def any(values):
    COUNTS.append(1)
    return values
data = Items(lambda index: any(number for number in [index]))
""")


class Text:
    def __format__(self, spec):
        EVENTS.append(spec)
        return spec


class Truth:
    def __bool__(self):
        EVENTS.append(1)
        return True


TEXT, TRUTH = Text(), Truth()
refused("formats_itself", lambda index: f"{TEXT:{index}}")
refused("is_true_with_effects", lambda index: TRUTH and index)


if hasattr(sys, "monitoring"):  # a tool may be told of each call
    for NAME, OWNER in (("monitored", "attack"), ("monitored_by_nobody", "")):
        during(NAME, lambda: Items(work),
               lambda owner=OWNER: sys.monitoring.use_tool_id(sys.monitoring.DEBUGGER_ID, owner),
               lambda: sys.monitoring.free_tool_id(sys.monitoring.DEBUGGER_ID))
refused("formatter", lambda index: string.Formatter().format("{0}", index))
