# SPDX-License-Identifier: MIT
"""
Packages that were installed outside of the interpreter's directories: by `pip install --target`,
as an egg, in an archive.

What an installer put there is listed by the installer itself: RECORD of a *.dist-info, or
installed-files.txt of an *.egg-info.  A file that is in such a list is a library's, in whatever
directory the list lies.  All others are the program's own: a tree in PYTHONPATH, what an editable
installation leads to, a vendored copy.  People edit these between jobs, and set what their modules
hold, so they are told by what an item can reach of them and never by a name and a version.

Asks no directory that the interpreter has not listed itself while it imported from there.
"""

import functools
import importlib.machinery
import re
import sys
import zipimport

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


def has(path):
    """Whether the file or directory @path is an installed package's; runs no code of the user's."""
    finders, wanted = _finders(), path.rstrip("/")
    for place in _parents(path):
        if place in finders:
            listed = _listed(place)
            if listed is None or wanted[len(place) + 1:] in listed:
                return True
    return False


def archive(path):
    """The archive on the search path that @path lies in, or None."""
    finders = _finders()
    return next((place for place in _parents(path) if place in finders
                 and type(finders[place]) is zipimport.zipimporter), None)
