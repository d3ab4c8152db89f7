# SPDX-License-Identifier: MIT
"""
What scripts/package makes for AArch64: a wheel and a Debian package with the same content as for
this processor, compiled here.  No machine with that processor is needed: an emulator runs it.
"""

import functools
import glob
import os
import re

import package
import support
from package import unzipped

QEMU = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
                    "tsshim/qemu/usr/bin/qemu-aarch64")
MACHINE = 183  # EM_AARCH64


@functools.cache
def packages():
    """Where both are."""
    done = support.run([os.path.join(package.ROOT, "scripts", "deps"), "aarch64"], dict(os.environ))
    if done.status != 0:
        raise support.Skip("network", done.errors[-500:])
    path = support.lasting()
    package.make(path, "--arch", "aarch64")
    return path


def made(kind):
    """The path of the package of this @kind; both are made when one is first asked for."""
    return glob.glob(packages() + "/*." + kind)[0]


def is_elf(content):
    return content[:4] == b"\x7fELF"


def without_licences(found):
    """Those of others' code: other packages have the same library for another processor."""
    return {name: content for name, content in found.items() if ".dist-info/licenses/" not in name}


def test_the_wheel_holds_what_the_other_one_does():
    ours, others = unzipped(package.wheel()), unzipped(made("whl"))
    assert without_licences(ours).keys() == without_licences(others).keys()
    compiled = {name for name, content in ours.items() if is_elf(content)}
    assert len(compiled) == 3, compiled
    for name, content in without_licences(others).items():
        if name in compiled:
            assert is_elf(content) and int.from_bytes(content[18:20], "little") == MACHINE, name
        elif not name.endswith((".dist-info/RECORD", ".dist-info/WHEEL", ".dist-info/METADATA")):
            assert content == ours[name], name
    said = others["tsshim-%s.dist-info/WHEEL" % package.version()].decode()
    assert "\nTag: py3-none-manylinux_2_28_aarch64\n" in said, said


def test_old_systems_have_what_it_asks_for(directory):
    found = package.asked_for(made("whl"), directory, "aarch64-linux-gnu-")
    assert all(max(versions, default=package.OLDEST) <= package.OLDEST for _, versions in found.values()), found
    assert sum(bool(versions) for _, versions in found.values()) == 1, found  # the library; the programs are static


def test_a_notice_of_all_that_is_linked():
    found = unzipped(made("whl"))
    top = "tsshim-%s.dist-info/licenses/" % package.version()
    told = found[top + "NOTICE"].decode()
    for name in ("elfutils", r"gcc-\d+\S*", "glibc", "xxhash", "zlib"):
        source = re.search("^  (%s) " % name, told, re.M)
        assert source and found["%s%s/copyright" % (top, source.group(1))], (name, told)


def test_it_says_its_version(directory):
    path = directory + "/tsrun"
    support.write(path, unzipped(made("whl"))["tsshim-%s.data/scripts/tsrun" % package.version()], 0o755)
    assert package.call(QEMU, path, "--version") == "tsrun (tsshim) %s\n" % package.version()


def test_the_debian_package():
    assert package.call("dpkg-deb", "--field", made("deb"), "Architecture") == "arm64\n"
    depends = package.call("dpkg-deb", "--field", made("deb"), "Depends")
    assert re.search(r"^libc6 \(>= [\d.]+\), libelf1(t64)? \(>= [\d.]+\), "
                     r"libssl3(t64)? \(>= 3[\d.]*\)$", depends), depends
    assert package.lintian(made("deb")).status == 0


def test_the_same_bytes_again(directory):
    package.make(directory, "--arch", "aarch64", "--build", "build-package-again", umask=0o077)
    for kind in ("whl", "deb"):
        again = glob.glob(directory + "/*." + kind)[0]
        assert support.read(again, "rb") == support.read(made(kind), "rb"), kind
