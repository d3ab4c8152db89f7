#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
notices.py BUILD DIRECTORY [SYSROOT]: write down under which licences the programs of a static
build are.

What of others is in them says the linker (its maps, BUILD/linked-*.map) and the compiler (headers
that are compiled in); whose that is and the words of their notices say the packages of this
system, and those that scripts/lib/sysroot.sh has unpacked into SYSROOT.  What nobody knows a notice of is an error.  No byte depends on when or where this is done,
but on the packages that were linked.
"""

import fnmatch
import glob
import os
import re
import subprocess
import sys

import wheel

TABLE = os.path.join(wheel.HERE, "notices.tsv")
DOCUMENTS = "usr/share/doc"
TEXTS = "/usr/share/common-licenses"
HEADERS = ("xxhash.h",)  # of which functions are compiled in

ABOUT = """The programs in this package have code of others in them. It was taken from packages of Debian or
Ubuntu, unchanged, and is:

%s
The notices are in the directories beside this file; licences that these only point to are in files
of their own. Sources of each version: https://snapshot.debian.org/package/SOURCE/VERSION/, or
https://launchpad.net/ubuntu/+source/SOURCE/VERSION for Ubuntu's. The sources of tsshim, which make
the same programs with other versions of these libraries (scripts/package wheel), are MIT.
"""


class Missing(Exception):
    """There is no notice of something that is linked."""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout.decode()


def linked(path):
    """Others' files that the linker has taken code from, by the map at @path."""
    text = read(path)
    archives = re.findall(r"^(/.*\.a)\([^)]+\)$", text, re.M)
    objects = re.findall(r"^LOAD (/.*\.o)$", text, re.M)
    if not objects:
        raise Missing("%s tells nothing: is it of another linker than GNU's?" % path)
    return {os.path.realpath(name) for name in archives + objects}


def compiled_in(build):
    """Others' headers that leave code in what was compiled."""
    known = set(re.findall(r"^ +(/.*)$", output("ninja", "-C", build, "-t", "deps"), re.M))
    for name in HEADERS:
        found = {os.path.realpath(path) for path in known if os.path.basename(path) == name}
        if not found:
            raise Missing("%s is in none of the programs; then leave it out" % name)
        yield from found


def programs_of(build):
    """{file of others: the programs of ours that it is in}"""
    found = {}
    for path in sorted(glob.glob(os.path.join(build, "linked-*.map"))):
        program = re.fullmatch("linked-(.*).map", os.path.basename(path)).group(1)
        for name in linked(path):
            found.setdefault(name, []).append(program)
    if not found:
        raise Missing("%s has no map of the linker: it is no static build" % build)
    for name in compiled_in(build):
        found[name] = ["all"]
    return found


class Packages:
    """Those of this system, or those that are unpacked below @root."""

    def __init__(self, root="/"):
        self.root = root
        self._query = ["dpkg-query"]
        if root != "/":
            self._query.append("--admindir=" + os.path.join(root, "var/lib/dpkg"))

    def have(self, path):
        return path.startswith(os.path.join(self.root, ""))

    def package_of(self, path):
        """The package that has the file @path."""
        try:
            found = output(*self._query, "--search", path)
        except (OSError, subprocess.CalledProcessError):
            raise Missing("no package has it")
        return found.rpartition(": ")[0]

    def source_of(self, package):
        """Name and version of the source package."""
        wanted = "-f=${source:Package} ${source:Version}\n"
        return output(*self._query, "--show", wanted, package).splitlines()[0].split()

    def words_of(self, package):
        """The notice in it."""
        path = os.path.join(self.root, DOCUMENTS, package.split(":")[0], "copyright")
        if not os.path.exists(path):
            raise Missing("there is no %s" % path)
        return read(path)


def row_of(source):
    """(licence, names of more texts) of what is linked of @source."""
    for line in read(TABLE).splitlines():
        pattern, _, rest = line.partition("\t")
        if not line.startswith("#") and fnmatch.fnmatchcase(source, pattern):
            licence, _, texts = rest.partition("\t")
            return licence, [] if texts == "-" else texts.split()
    raise Missing("%s has no row of %s" % (source, os.path.relpath(TABLE, wheel.ROOT)))


class Notice:
    """Of one source package."""

    def __init__(self, source, version, words):
        self.source, self.version = source, version
        self.licence, self.texts = row_of(source)
        self.words = words
        self.programs = set()

    def line(self):
        return "%s %s: %s (in %s)\n" % (self.source, self.version, self.licence,
                                        ", ".join(sorted(self.programs)))

    def files(self):
        """(name, content)"""
        yield self.source + "/copyright", self.words
        for name in self.texts:
            yield name, read(os.path.join(TEXTS, name))


def notices(build, sysroot):
    """Those of all that is linked, by name."""
    found = {}
    systems = [Packages(sysroot)] if sysroot else []
    systems.append(Packages())
    for path, programs in sorted(programs_of(build).items()):
        try:
            packages = next(system for system in systems if system.have(path))
            package = packages.package_of(path)
            source, version = packages.source_of(package)
            if source not in found:
                found[source] = Notice(source, version, packages.words_of(package))
        except Missing as missing:
            raise Missing("%s is linked into %s and there is no notice of it: %s" % (
                path, ", ".join(programs), missing))
        found[source].programs.update(programs)
    return [found[source] for source in sorted(found)]


def write(build, directory, sysroot=None):
    """The notices, and as SPDX writes it the licence of all together."""
    found = notices(build, sysroot)
    files = {"NOTICE": ABOUT % "".join("  " + one.line() for one in found)}
    for one in found:
        files.update(one.files())
    licences = ["(%s)" % one.licence if " OR " in one.licence else one.licence for one in found]
    files["EXPRESSION"] = " AND ".join(["MIT", *sorted(licences)]) + "\n"
    for name, content in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    try:
        write(*sys.argv[1:])
    except Missing as missing:
        sys.exit("error: %s" % missing)
