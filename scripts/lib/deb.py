#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
deb.py STAGE DIRECTORY [ARCHITECTURE SYSROOT]: put an installation into a Debian package.

STAGE is changed to what the package holds.  What it depends on is what this system's packages
say of the libraries in it, or for another ARCHITECTURE those that scripts/lib/sysroot.sh has
unpacked into SYSROOT.  No byte depends on when or where this is done.
"""

import email.utils
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

import wheel

NAME = wheel.NAME
DOC = "usr/share/doc/" + NAME
SCRIPTS = ("postinst", "prerm")


def output(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **more).stdout.decode()


def maintainer():
    """Who makes the package, as Debian's tools are told; else who made the last change."""
    if os.environ.get("DEBFULLNAME") and os.environ.get("DEBEMAIL"):
        return "%(DEBFULLNAME)s <%(DEBEMAIL)s>" % os.environ
    if not os.path.exists(os.path.join(wheel.ROOT, ".git")):
        sys.exit("error: no git checkout; say who makes the package: DEBFULLNAME, DEBEMAIL")
    return output("git", "-C", wheel.ROOT, "log", "-1", "--format=%an <%ae>").strip()


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def files(top):
    """Names below @top of all files, sorted."""
    found = []
    for directory, _, names in os.walk(top):
        found += [os.path.relpath(os.path.join(directory, name), top) for name in names]
    return sorted(found)


def put(top, name, content, mode=0o644):
    path = os.path.join(top, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)


def put_packed(top, name, content):
    put(top, name + ".gz", gzip.compress(content, 9, mtime=0))


def arrange(top):
    """What Debian has elsewhere, or packed, or makes on the spot, or with other modes."""
    for directory in [path for path, _, _ in os.walk(top) if path.endswith("/__pycache__")]:
        shutil.rmtree(directory)
    for name in files(top):
        if name.startswith("usr/share/man/"):
            put_packed(top, name, read(top, name))
            os.unlink(os.path.join(top, name))
        elif name.endswith(".so"):
            os.chmod(os.path.join(top, name), 0o644)
    shares = os.path.join(top, "usr/share/zsh")
    os.rename(shares + "/site-functions", shares + "/vendor-completions")


def template(name, words):
    """A file of scripts/deb with what stands between @ replaced, without its comments."""
    text = re.sub(r"^#.*\n", "", wheel.read("scripts", "deb", name).decode(), flags=re.M)
    return re.sub("@([A-Z]+)@", lambda match: words[match.group(1)], text).encode()


def licence():
    """Who has the rights, and the terms as a field of Debian's."""
    _, who, terms = wheel.read("LICENSE").decode().strip().split("\n\n", 2)
    lines = [" " + (line or ".") for line in terms.split("\n")]
    return re.sub(r"^Copyright \(c\) ", "", who), "\n".join(lines)


def changes(version):
    """Debian's changelog; what is new in the version stands in the other one."""
    when = email.utils.formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    return ("%s (%s) unstable; urgency=medium\n\n  * Made of the sources of this version.\n\n"
            " -- %s  %s\n" % (NAME, version, maintainer(), when)).encode()


def put_documents(top, version):
    who, terms = licence()
    put(top, DOC + "/copyright", template("copyright", {"COPYRIGHT": who, "LICENSE": terms}))
    put_packed(top, DOC + "/changelog", wheel.read("docs", "changelog.md"))
    put_packed(top, DOC + "/changelog.Debian", changes(version))
    put(top, "usr/share/lintian/overrides/" + NAME,
        wheel.read("scripts", "deb", "lintian-overrides"))


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def depends(top, architecture, sysroot):
    """The packages that have the libraries; dpkg-shlibdeps wants to be in a source package."""
    command, env = ["dpkg-shlibdeps", "-O"], dict(os.environ)
    if sysroot:
        told = output("dpkg-architecture", "--host-arch", architecture,
                      stderr=subprocess.DEVNULL).splitlines()  # of the compiler, which is not used
        env.update(line.split("=", 1) for line in told)
        command.append("--admindir=%s/var/lib/dpkg" % sysroot)
        command += ["-l%s/%s/%s" % (sysroot, place, env["DEB_HOST_MULTIARCH"])
                    for place in ("lib", "usr/lib")]
    paths = [path for path in (os.path.join(top, name) for name in files(top)) if is_elf(path)]
    with tempfile.TemporaryDirectory() as place:
        put(place, "debian/control", ("Source: %s\n\nPackage: %s\nArchitecture: any\n" % (
            NAME, NAME)).encode())
        said = output(*command, *("-e" + path for path in paths), cwd=place, env=env)
    return said.strip().partition("shlibs:Depends=")[2]


def recommends(names):
    """What most users want beside it: servers only where there is what talks to them."""
    return "memcached, python3" if "usr/lib/tsshim/tsshim-secret" in names else "python3"


def put_control(top, version, architecture, sysroot):
    names = files(top)
    sums = ["%s  %s\n" % (hashlib.md5(read(top, name)).hexdigest(), name) for name in names]
    kib = sum(-(-len(read(top, name)) // 1024) for name in names)
    # First of all, for dpkg-shlibdeps knows a package by this directory.
    put(top, "DEBIAN/md5sums", "".join(sums).encode())
    words = {"VERSION": version, "ARCHITECTURE": architecture,
             "DEPENDS": depends(top, architecture, sysroot),
             "RECOMMENDS": recommends(names), "KIB": str(kib), "MAINTAINER": maintainer()}
    put(top, "DEBIAN/control", template("control", words))
    for name in SCRIPTS:
        put(top, "DEBIAN/" + name, wheel.read("scripts", "deb", name), 0o755)


def same_times(top):
    """Of all there is, and modes that no umask has changed."""
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    for directory, _, names in os.walk(top, topdown=False):
        for name in names:
            os.utime(os.path.join(directory, name), (when, when))
        os.chmod(directory, 0o755)
        os.utime(directory, (when, when))


def write(top, directory, architecture=None, sysroot=None):
    """The path of the package."""
    version = wheel.declared_version() + "-1"
    architecture = architecture or output("dpkg", "--print-architecture").strip()
    path = os.path.join(directory, "%s_%s_%s.deb" % (NAME, version, architecture))
    arrange(top)
    put_documents(top, version)
    put_control(top, version, architecture, sysroot)
    same_times(top)
    output("dpkg-deb", "--root-owner-group", "-Zxz", "--build", top, path + ".part")
    os.rename(path + ".part", path)
    return path


if __name__ == "__main__":
    if not shutil.which("dpkg-shlibdeps"):
        sys.exit("error: needs dpkg-shlibdeps, of Debian's package dpkg-dev")
    print(write(*sys.argv[1:]))
