# SPDX-License-Identifier: MIT
"""
What the walk over a data set takes for a library's, how long it looks at code, and that a walk
which came to nothing is not made again.
"""

import contextlib
import importlib
import os
import random
import sys
import tempfile
import zipfile

import numpy
import support

PACKAGE = support.search("hooks", "torch", "python")
JOB = os.path.join(support.HERE, "walks_job.py")
from tsshim_torch import clock  # noqa: E402
from tsshim_torch.fingerprint import classes, datasets, environment, library, walk  # noqa: E402

LIBRARY = "_PRIVATE = [1]\n\n\ndef double(value):\n    return 2 * value\n"
# A data set that calls it, and prints its name.
PROGRAM = ("import toolkit.parts\nfrom tsshim_torch.fingerprint import datasets, library\n"
           "class Data:\n    def __getitem__(self, index):\n"
           "        return toolkit.parts.double(index)\n"
           "print(library.is_library_name('toolkit.parts'), datasets.fingerprint(Data()).hex())\n")


def write(path, text=""):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    support.write(path, text)


def tree(place, name="toolkit", text=LIBRARY):
    """A package of two files in the directory @place."""
    write("%s/%s/__init__.py" % (place, name))
    write("%s/%s/parts.py" % (place, name), text)


def listing(name):
    """RECORD of it, as installers write it."""
    return "".join("%s,sha256=x,1\n" % file for file in (
        name + "/__init__.py", name + "/parts.py", name + "-1.0.dist-info/RECORD",
        "../bin/" + name))


@contextlib.contextmanager
def searched(*places):
    """These are on the search path; what is imported from there is forgotten at the end."""
    before = set(sys.modules)
    sys.path[:0] = places
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for place in places:
            sys.path.remove(place)
        for name in set(sys.modules) - before:
            del sys.modules[name]


def is_library(name):
    importlib.import_module(name)
    return library.is_library_name(name)


SETTINGS = "LR = 0.1\nSIZE = 16\n\n\ndef size():\n    return SIZE\n"
# Of a data set that reads SIZE: a way that counts LR as well, or one that does not.
EXACT = ("conf.settings.SIZE", "settings.SIZE", "settings.size()", "SIZE", "imported()")
WHOLE = ("getattr(settings, NAME)", "vars(settings)[NAME]", "settings.__dict__[NAME]", "given(settings)",
         "sys.modules['conf.settings'].SIZE", "__import__('conf.settings').settings.SIZE",
         "importlib.import_module('conf.settings').SIZE", "eval('settings.SIZE')", "globals()[NAME]",
         "inside()")
READERS = """
import importlib, sys
import conf.settings
from conf import settings
from conf.settings import *
NAME = "SIZE"
def imported():
    from conf.settings import SIZE
    return SIZE
def inside():
    import conf.settings
    return conf.settings.SIZE
def given(module):
    return module.SIZE
class Data:
    def __getitem__(self, index):
        return %s
"""


def named_with(reader, text=SETTINGS, **constants):
    """What names a data set that has this @reader, where constants of its settings, a @text, were changed."""
    with tempfile.TemporaryDirectory() as work:
        write(work + "/conf/__init__.py")
        write(work + "/conf/settings.py", text)
        write(work + "/readers.py", READERS % reader)
        with searched(work):
            vars(importlib.import_module("conf.settings")).update(constants)
            data = importlib.import_module("readers").Data()
            assert data[0] == constants.get("SIZE", 16), reader
            return datasets.fingerprint(data)


def test_functions_that_print_numbers_are_nobody_elses():
    """But for methods of texts, they have addresses in what is written of them."""
    one, other = (type("Prints", (), {"text": lambda _, number: "%d" % number})() for _ in range(2))

    def written(function):
        return repr(environment._printing({"precision": 8, "formatter": {"float_kind": function}}))
    assert written("{:.2f}".format) == written("".join(("{:.2", "f}")).format)
    functions = one.text, other.text, "{:.2f}".format, "{:.3f}".format, "{:.3f}".format_map, repr, str
    assert len(set(map(written, functions))) == len(functions)


def test_of_settings_in_a_module_those_count_that_code_names():
    for reader in EXACT + WHOLE:
        names = named_with(reader), named_with(reader, LR=0.3), named_with(reader, SIZE=17)
        assert names[2] not in names[:2], reader
        edited = named_with(reader, SETTINGS.replace("0.1", "0.3"))
        assert edited == names[1] and (names[0] == names[1]) == (reader in EXACT), reader


def test_what_an_installer_has_listed_is_a_library(directory):
    target, legacy, egg = directory + "/target", directory + "/legacy", directory + "/one-1.0.egg"
    tree(target, "listed")
    write(target + "/listed-1.0.dist-info/RECORD", listing("listed"))
    write(target + "/beside.py")
    write(target + "/listed/mine.py")
    tree(legacy, "older")
    write(legacy + "/older-1.0.egg-info/installed-files.txt",
          "../older/__init__.py\n../older/parts.py\nPKG-INFO\n")
    tree(egg, "hatched")
    write(egg + "/EGG-INFO/PKG-INFO")
    with searched(target, legacy, egg):
        for name in ("listed", "listed.parts", "older.parts", "hatched.parts"):
            assert is_library(name), name
        for name in ("beside", "listed.mine"):  # nobody has installed these
            assert not is_library(name), name


def test_what_a_library_leaves_of_the_item_before_in_each_of_its_releases():
    kind = "class ImageModuleMixIn:\n    pass\n"
    for place in ("kornia/core/mixin/image_module.py", "kornia/core/module.py"):
        with tempfile.TemporaryDirectory() as work:
            write(work + "/" + place, kind)
            write(work + "/kornia-1.0.dist-info/RECORD", place + ",sha256=x,1\n")
            with searched(work):
                module = importlib.import_module(place[:-3].replace("/", "."))
                found = classes.scratch_names(type("Augment", (module.ImageModuleMixIn,), {}))
            assert "_output_image" in found, place


def test_a_namespace_in_such_a_directory_is_a_library(directory):
    write(directory + "/spread/inner/parts.py")
    write(directory + "/spread_inner-1.0.dist-info/RECORD", "spread/inner/parts.py,sha256=x,1\n")
    with searched(directory):
        assert is_library("spread") and is_library("spread.inner.parts")


def test_trees_that_nobody_installed_are_the_programs_own(directory):
    """In PYTHONPATH; editable, whose dist-info lists a .pth elsewhere; a source tree; vendored."""
    tree(directory + "/path", "onpath")
    tree(directory + "/editable/src", "edited")
    write(directory + "/other/edited-1.0.dist-info/RECORD", "__editable__.edited-1.0.pth,,\n")
    tree(directory + "/source", "develop")
    write(directory + "/source/develop.egg-info/SOURCES.txt", "develop/__init__.py\n")
    tree(directory + "/program/third_party", "vendored")
    write(directory + "/program/third_party/__init__.py")
    with searched(directory + "/path", directory + "/editable/src", directory + "/other", directory + "/source",
                  directory + "/program"):
        for name in ("onpath.parts", "edited.parts", "develop.parts",
                     "third_party.vendored.parts"):
            assert not is_library(name), name


def test_a_vendored_directory_with_a_list_is_a_library(directory):
    tree(directory + "/vendor", "bought")
    write(directory + "/vendor/bought-1.0.dist-info/RECORD", listing("bought"))
    write(directory + "/own.py")
    with searched(directory, directory + "/vendor"):
        assert is_library("bought.parts") and not is_library("own")


def archived(path, name, text=LIBRARY, **more):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name + "/__init__.py", "")
        file.writestr(name + "/parts.py", text)
        for inner, content in more.items():
            file.writestr(inner.replace("__", "/"), content)


def test_archives(directory):
    archived(directory + "/plain.zip", "zipped")
    archived(directory + "/wheel.zip", "wheeled")
    with zipfile.ZipFile(directory + "/wheel.zip", "a") as file:
        file.writestr("wheeled-1.0.dist-info/RECORD", listing("wheeled"))
    archived(directory + "/one.egg", "boiled", **{"EGG-INFO__PKG-INFO": ""})
    with searched(directory + "/plain.zip", directory + "/wheel.zip", directory + "/one.egg"):
        assert is_library("wheeled.parts") and is_library("boiled.parts")
        assert not is_library("zipped.parts")
        content = library.module_content(sys.modules["wheeled.parts"])
        assert content == library.content(directory + "/wheel.zip")


def named(place, *command):
    """(whether its toolkit is a library, the data set's name) of a program with @place searched."""
    outcome = support.run([support.torch_python(), *(command or ("-c", PROGRAM))],
                          support.plain_environment(PYTHONPATH=place + ":" + PACKAGE))
    assert outcome.status == 0, outcome.errors
    return outcome.output.split()


def test_an_edited_library_gives_another_name(directory):
    """Wherever it lies; the same one at another path gives the same name."""
    edited = LIBRARY.replace("2 *", "3 *")
    for kind in ("path", "target"):
        for place, text in (("a", LIBRARY), ("b", LIBRARY), ("c", edited)):
            tree("%s/%s-%s" % (directory, kind, place), text=text)
        if kind == "target":
            for place in "abc":
                write("%s/target-%s/toolkit-1.0.dist-info/RECORD" % (directory, place),
                      listing("toolkit"))
        names = [named("%s/%s-%s" % (directory, kind, place)) for place in "abc"]
        assert [is_a for is_a, _ in names] == [str(kind == "target")] * 3, (kind, names)
        assert names[0] == names[1] and names[0][1] != names[2][1], (kind, names)
    for place, text in (("a", LIBRARY), ("b", LIBRARY), ("c", edited)):
        archived("%s/%s.zip" % (directory, place), "toolkit", text)
    names = [named("%s/%s.zip" % (directory, place)) for place in "abc"]
    assert names[0] == names[1] and names[0][1] != names[2][1], names


def test_where_the_program_comes_from_makes_no_difference(directory):
    tree(directory)
    write(directory + "/toolkit-1.0.dist-info/RECORD", listing("toolkit"))
    write(directory + "/programs/train.py", PROGRAM)
    write(directory + "/programs/__init__.py")
    names = [named(directory), named(directory, directory + "/programs/train.py"),
             named(directory, "-m", "programs.train")]
    assert names[0][0] == "True" and names.count(names[0]) == 3, names


# ---- how long, and how often ----

def chain(length):
    """A function that calls another, and so on; only the walk finds how many."""
    names = {"__name__": "__main__"}
    lines = ["def f%d(x):\n    return f%d(x)\n" % (n, n + 1) for n in range(length)]
    exec("".join(lines) + "def f%d(x):\n    return x\n" % length, names)
    return names["f0"]


class Record:
    def __init__(self, number):
        self.number = number


class Data:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@contextlib.contextmanager
def watched(step):
    """A clock that goes on by @step whenever it is read; a list of the walks that are made."""
    now, walks, real, kind = [0.0], [], clock.thread, datasets.Walker

    def thread():
        now[0] += step
        return now[0]

    def walker(*arguments, **more):
        if not more.get("data_only"):
            walks.append(os.getpid())
        return kind(*arguments, **more)

    clock.thread, datasets.Walker = thread, walker
    datasets._refusals.clear()
    datasets._found = None
    try:
        yield walks
    finally:
        clock.thread, datasets.Walker = real, kind


def outcome(data, seeds=False):
    """(name, None) or (None, reason) of @data, and the paths of the generators that were noted."""
    notes = datasets.Notes(seeds)
    try:
        found = (datasets.fingerprint(data, notes=notes), None)
    except datasets.Unknown as unknown:
        found = (None, unknown.reason)
    return found + ([path for path, _ in notes.generators or ()],)


class Options:
    """Of which a data set holds one, or one per item."""

    def __init__(self, rate):
        self.rate = rate


class Holder:
    def __init__(self, held, also=None):
        self.held, self.also = held, also

    def __len__(self):
        return len(self.held)

    def __getitem__(self, index):
        return self.held[index]


class Flattening(Holder):
    def __getitem__(self, index):
        return tree_flatten(self.held[index])


def tree_flatten(value):
    return [value]


def left_out(held, also=None, kind=Holder, seeds=True):
    """How many bags of options the name of a data set that holds these is made without leaves of."""
    notes = datasets.Notes(seeds, set())
    datasets.fingerprint(kind(held, also), notes=notes)
    return len(notes.left)


def test_objects_of_which_there_are_many_are_no_options():
    tables = [{"rate": index / 7, "about": Holder} for index in range(100)]
    objects = [Options(index) for index in range(100)]
    assert left_out(objects[:20]) == left_out(tables[:20]) == 20
    assert left_out(objects) == left_out(tables) == 0
    assert left_out(objects, tables[0]) == left_out(tables, objects[0]) == 1
    assert left_out([{**table, "box": numpy.zeros(4)} for table in tables[:20]]) == 0


def test_a_dict_is_exactly_one_where_code_may_ask_for_that():
    table = {"rate": 0.1, "about": Holder}
    assert left_out([table]) == 1
    assert left_out([table], kind=Flattening) == 0
    assert left_out([table], seeds=False) == 0
    assert left_out([Options(1)], seeds=False) == 1


def test_torchs_trees_take_a_dict_that_is_watched_for_one():
    from torch.utils import _pytree
    from tsshim_torch.sharing.naming import unread
    table = {"rate": 0.1, "about": Holder}
    wanted, before = _pytree.tree_flatten(table), unread.noticed()
    armed = unread.arm([(table, ["rate"])])
    assert type(table) is not dict
    found = _pytree.tree_flatten(table)
    assert found[0] == wanted[0] and _pytree.tree_unflatten(*found) == table and unread.noticed() > before
    unread.disarm(armed)
    assert type(table) is dict


def test_code_is_looked_at_for_a_time():
    step = walk.PATIENCE / 4
    with watched(step):
        assert outcome(Data(call=chain(2)))[1] is None
        assert outcome(Data(call=chain(walk.UNTIMED + walk.VISITS * 8)))[1] == "slow"
    with watched(step / 100):
        assert outcome(Data(call=chain(walk.UNTIMED + walk.VISITS * 8)))[1] is None


def test_data_may_take_longer():
    """Also where code leads to it: only code is counted."""
    many = [Record(number) for number in range(walk.UNTIMED + walk.VISITS * 100)]
    names = {"MANY": many}
    exec("def call(x):\n    return MANY[x]\n", names)
    with watched(walk.PATIENCE / 40):
        assert outcome(Data(records=many))[1] is None
        assert outcome(Data(call=names["call"]))[1] is None


def test_a_walk_that_came_to_nothing_is_made_once():
    class Other(Data):
        pass

    with watched(walk.PATIENCE / 4) as walks:
        far = chain(walk.UNTIMED + walk.VISITS * 8)
        for _ in range(3):
            assert outcome(Data(call=far))[1] == "slow"
        assert len(walks) == 1
        assert outcome(Data(call=iter(())))[1] == "iterator"  # holds something else
        assert outcome(Other(call=far))[1] == "slow"
        assert len(walks) == 3


def test_a_refusal_after_a_long_walk_is_remembered_and_a_short_one_is_not():
    with watched(datasets.SLOW) as walks:
        assert [outcome(Data(part=iter(())))[1] for _ in range(3)] == ["iterator"] * 3
        assert len(walks) == 1
    with watched(datasets.SLOW / 100) as walks:
        assert [outcome(Data(part=iter(())))[1] for _ in range(3)] == ["iterator"] * 3
        assert len(walks) == 3


def test_no_name_is_remembered():
    with watched(datasets.SLOW) as walks:
        data = Data(size=1)
        before = outcome(data)
        data.size = 2
        assert before[1] is None and outcome(data)[0] != before[0] and len(walks) == 2


def test_what_there_is_no_room_for_is_looked_at_again():
    import numpy
    walk.register()
    with watched(datasets.SLOW) as walks:
        data = Data(array=numpy.zeros(1000))
        for room in (10, 10, 100000):
            try:
                datasets.fingerprint(data, room=room)
            except datasets.Unknown as unknown:
                assert unknown.reason == "large" and room == 10
        assert len(walks) == 3


def test_generators_that_data_leads_to_are_found_each_time():
    with watched(walk.PATIENCE / 4) as walks:
        data = Data(call=chain(walk.UNTIMED + walk.VISITS * 8), inner=Data(draw=random.Random(1)))
        for _ in range(3):
            assert outcome(data, seeds=True)[1:] == ("slow", ["dataset.inner.draw"])
        assert len(walks) == 1


def test_generators_that_only_code_leads_to_are_looked_for_again():
    """Where nothing was cut off, what was found is what is seeded."""
    names = {"R": random.Random(1)}
    exec("def call(x):\n    return R.random()\n", names)
    with watched(datasets.SLOW) as walks:
        for _ in range(2):
            found = outcome(Data(call=names["call"], part=iter(())), seeds=True)
            assert found[1] == "iterator" and len(found[2]) == 1, found
        assert len(walks) == 2


def test_processes_know_of_each_other():
    """A forked one what its parent found; with expect(), all what a forked one found."""
    data = Data(call=chain(walk.UNTIMED + walk.VISITS * 8))
    with watched(walk.PATIENCE / 4) as walks:
        datasets.expect()

        def look(made):
            assert outcome(data)[1] == "slow" and len(walks) == made, walks

        assert support.in_child(lambda: look(1))
        assert support.in_child(lambda: look(0))
        assert outcome(data)[1] == "slow" and not walks


def job(**settings):
    """(processes that walked in each epoch, the counts of reasons) of a job of two workers."""
    with support.Group(**settings) as group:
        made = support.run([support.torch_python(), JOB, "2"], group.environment())
        assert made.status == 0, made.errors
        passed = group.statistics()["passed"]
    lines = [line for line in made.output.splitlines() if line.startswith(("walked", "epoch"))]
    epochs = "\n".join(lines).split("epoch")
    return [epoch.split() and epoch.split("walked")[1:] for epoch in epochs[:3]], passed, made


def test_an_aligned_job_walks_once():
    """In the trainer; neither workers nor later epochs, of other data sets alike, do it again."""
    walks, passed, made = job(TSSHIM_ALIGN="7")
    assert [len(epoch) for epoch in walks] == [1, 0, 0], walks
    assert passed["torch_walk"] == 3 * 64 and passed["torch_dataset"] == 0, passed
    assert made.errors.count("generators of its own are aligned only where") == 3, made.errors


def test_a_job_in_default_mode_walks_in_the_first_epoch_alone():
    walks, passed, made = job()
    assert 1 <= len(walks[0]) <= 2 and walks[1:] == [[], []], walks
    assert passed["torch_walk"] > 0 == passed["torch_dataset"], passed
    assert "are aligned only where" not in made.errors, made.errors
