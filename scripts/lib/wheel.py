#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
wheel.py STAGE PLATFORM DIRECTORY NOTICES: put an installation into a wheel; NOTICES is what
notices.py has written of others' code in it.

Programs become scripts and all else data, which pip puts below the prefix it installs into, so
what lies how to each other is as in any installation; beside these is a package that makes
`python -m tsshim` tsrun.  No byte depends on when or where this is done.
"""

import base64
import hashlib
import os
import re
import stat
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
NAME = "tsshim"

METADATA = """Metadata-Version: 2.4
Name: %s
Version: %s
Summary: Training jobs on one node share file reads, decoded images, samples and copies to the GPU
%s
Requires-Python: >=3.6
Provides-Extra: report
Requires-Dist: matplotlib; extra == "report"
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

%s"""

WHEEL = """Wheel-Version: 1.0
Generator: scripts/package
Root-Is-Purelib: false
Tag: %s
"""


def read(*path):
    with open(os.path.join(ROOT, *path), "rb") as file:
        return file.read()


def declared_version():
    """What meson.build says, which is where the version stands; all packages ask here."""
    text = read("meson.build").decode()
    return re.search(r"^project\(.*?\bversion: '([^']+)'", text, re.M | re.S).group(1)


def options():
    """Of Meson, for an installation that write() can take."""
    lines = read("scripts", "lib", "wheel.options").decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


class Licence:
    """Of a package: @expression, as SPDX writes it, and @texts, {name: content}."""

    def __init__(self, notices=None):
        self.expression, self.texts = "MIT", {"LICENSE": read("LICENSE")}
        if notices:
            found = {name: content for name, content, _ in staged(notices)}
            self.expression = found.pop("EXPRESSION").decode().strip()
            self.texts.update(found)

    def fields(self):
        """Of metadata."""
        return "\n".join(["License-Expression: " + self.expression,
                          *("License-File: " + name for name in sorted(self.texts))])


def metadata(version, fields):
    """With these @fields of licences in it."""
    return (METADATA % (NAME, version, fields, read("README.md").decode())).encode()


def source_metadata(version):
    """Of a source package: a wheel with others' code in it is under their licences as well."""
    return metadata(version, Licence().fields() +
                    "\nDynamic: License-Expression\nDynamic: License-File")


def about(version, platform, licence):
    """(name in the wheel, content, False) of what says what it is, but for the RECORD."""
    info = "%s-%s.dist-info" % (NAME, version)
    yield info + "/METADATA", metadata(version, licence.fields()), False
    yield info + "/WHEEL", (WHEEL % tag(platform)).encode(), False
    for name, content in sorted(licence.texts.items()):
        yield "%s/licenses/%s" % (info, name), content, False


def tag(platform):
    return "py3-none-" + platform


def staged(stage):
    """(name below the prefix, content, whether it is a program) of all that is installed."""
    for top, directories, names in os.walk(stage):
        directories[:] = sorted(set(directories) - {"__pycache__"})
        for name in sorted(names):
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                yield (os.path.relpath(path, stage), file.read(),
                       bool(os.stat(path).st_mode & stat.S_IXUSR))


def contents(stage, version, platform, licence):
    """(name in the wheel, content, whether it is a program) of all but the RECORD."""
    data = "%s-%s.data" % (NAME, version)
    for name, content, is_program in staged(stage):
        place = "scripts/" + name[len("bin/"):] if name.startswith("bin/") else "data/" + name
        yield "%s/%s" % (data, place), content, is_program
    for name in ("__init__.py", "__main__.py"):
        yield "%s/%s" % (NAME, name), read("scripts", "wheel", NAME, name), False
    yield from about(version, platform, licence)


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def write(stage, platform, directory, notices=None):
    """The path of the wheel; without @notices nothing of others is in it."""
    version = declared_version()
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    files, record = list(contents(stage, version, platform, Licence(notices))), []
    for name, content, _ in files:
        record.append("%s,sha256=%s,%d" % (name, digest(content), len(content)))
    name = "%s-%s.dist-info/RECORD" % (NAME, version)
    files.append((name, ("\n".join(record + [name + ",,"]) + "\n").encode(), False))
    path = os.path.join(directory, "%s-%s-%s.whl" % (NAME, version, tag(platform)))
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, is_program in files:
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix: what follows are its modes
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    os.rename(path + ".part", path)
    return path


if __name__ == "__main__":
    print(write(*sys.argv[1:]))
