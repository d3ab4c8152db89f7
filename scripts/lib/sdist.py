#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
sdist.py DIRECTORY: put the sources into tsshim-VERSION.tar.gz, which pip can build.

That are the files that git knows, as they are now, and what pip looks for at the top.  No byte
depends on when or where this is done.
"""

import gzip
import io
import os
import stat
import subprocess
import sys
import tarfile

import wheel


def sources():
    """{name: (mode, content; of a link, where it leads)}"""
    listed = subprocess.run(["git", "-C", wheel.ROOT, "ls-files", "-z"], check=True,
                            stdout=subprocess.PIPE).stdout.decode()
    found = {}
    for name in filter(None, listed.split("\0")):
        path = os.path.join(wheel.ROOT, name)
        mode = os.lstat(path).st_mode
        found[name] = mode, os.readlink(path) if stat.S_ISLNK(mode) else wheel.read(name)
    return found


def contents(version):
    """The sources and what is only in a source package."""
    plain = stat.S_IFREG | 0o644
    return {**sources(), "PKG-INFO": (plain, wheel.source_metadata(version)),
            "pyproject.toml": (plain, wheel.read("scripts", "wheel", "pyproject.toml"))}


def add(archive, name, mode, content, when):
    entry = tarfile.TarInfo(name)
    entry.mtime = when
    entry.mode = 0o755 if mode & stat.S_IXUSR else 0o644
    if stat.S_ISLNK(mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, content
        archive.addfile(entry)
    else:
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))


def write(directory):
    """The path of the source package."""
    version = wheel.declared_version()
    top = "%s-%s" % (wheel.NAME, version)
    path = os.path.join(directory, top + ".tar.gz")
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    with open(path + ".part", "wb") as file:
        with gzip.GzipFile("", "wb", 9, file, when) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
                for name, (mode, content) in sorted(contents(version).items()):
                    add(archive, top + "/" + name, mode, content, when)
    os.rename(path + ".part", path)
    return path


if __name__ == "__main__":
    print(write(*sys.argv[1:]))
