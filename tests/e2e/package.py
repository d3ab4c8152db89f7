# SPDX-License-Identifier: MIT
"""
What scripts/package makes: the wheel as pip installs it (in an environment, moved, elsewhere) and
the source package as pip builds it.
"""

import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile

import questions
import support

ROOT = os.path.dirname(os.path.dirname(support.HERE))
KINDS = ("sdist", "wheel", "deb", "recipes")
OLDEST = (2, 28)  # the C library that the wheel is for


@functools.cache
def made(kind):
    """The path of the package of this @kind, made when it is first asked for."""
    path = support.lasting()
    make(path, kind)
    return os.path.join(path, os.listdir(path)[0])


def make(directory, *words, **more):
    done = support.run([os.path.join(ROOT, "scripts", "package"), "-o", directory, *words],
                       dict(os.environ, TSSHIM_TEST_MUST="0"), **more)
    assert done.status == 0, done.errors[-1500:]


def wheel():
    return made("wheel")


def unzipped(path):
    """{name: content} of a wheel."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def metadata():
    return unzipped(wheel())["tsshim-%s.dist-info/METADATA" % version()].decode()


def version():
    """What the project is declared as."""
    project = support.read(os.path.join(ROOT, "meson.build"))
    return re.search(r"^project\(.*?\bversion: '([^']+)'", project, re.M | re.S).group(1)


def call(*command, **more):
    """What @command prints; it has to succeed."""
    done = support.run(list(command), support.plain_environment(**more))
    assert done.status == 0, (command, done.status, done.output[-500:], done.errors[-1500:])
    return done.output


def pip(python, *words):
    return call(python, "-m", "pip", "--disable-pip-version-check", "--no-input", *words)


@functools.cache
def environment(kind="wheel", *words):
    """An environment with the package of this @kind in it; its path."""
    path = support.lasting()
    call(support.PYTHON, "-m", "venv", path)
    pip(os.path.join(path, "bin", "python"), "install", "-q", "--no-index", *words, made(kind))
    return path


def build_tools():
    """A directory with what pip builds the source package with, from PyPI."""
    path = support.lasting()
    project = support.read(os.path.join(ROOT, "scripts", "wheel", "pyproject.toml"))
    wanted = json.loads(re.search("^requires = (.*)$", project, re.M).group(1))
    done = support.run([support.PYTHON, "-m", "pip", "--disable-pip-version-check", "download",
                        "-q", "--only-binary=:all:", "-d", path, *wanted])
    if done.status != 0:
        raise support.Skip("network", "pip cannot fetch %s: %s" % (wanted, done.errors[-500:]))
    return path


def lintian(path):
    """The Outcome of lintian on that package."""
    try:
        return support.run(["lintian", "--allow-root", "--fail-on", "warning", path])
    except FileNotFoundError:
        raise support.Skip("lintian", "lintian is not installed (scripts/deps test)")


def installed(environment_path):
    """What pip has written into this environment, but for the name of the interpreter."""
    found = pip(environment_path + "/bin/python", "show", "-f", "tsshim").split("Files:\n")[1]
    # Where pip had the package from it notes for a file of sources only.
    return set(found.split()) - {"tsshim-%s.dist-info/direct_url.json" % version()}


def library_of(tsrun):
    """The library that @tsrun preloads, which must be mapped."""
    first, maps = call(tsrun, "--", "sh", "-c", "echo $LD_PRELOAD; cat /proc/self/maps").split(
        "\n", 1)
    assert first in maps, first
    return first


def shares(tsrun, group):
    """Whether a job takes what another one has left, both started by @tsrun."""
    job = [tsrun, "--group", group, "--keep", "1h", "--", support.victim("decode"),
           *support.pictures("s_baseline")]
    call(*job)
    call(*job)
    found = json.loads(call(tsrun, "stats", "--json", "--group", group))
    call(tsrun, "gc", "--group", group)
    return sum(dataset.get("kinds", dataset)["pixels"]["shared"]
               for dataset in found["datasets"]) > 0


def test_installed_in_an_environment(group):
    path = environment()
    tsrun = os.path.join(path, "bin", "tsrun")
    assert library_of(tsrun) == os.path.join(path, "libexec/tsshim/libtsshim.so")
    said = "tsrun (tsshim) %s\n" % version()
    assert call(tsrun, "--version") == said
    assert call(os.path.join(path, "bin", "python"), "-m", "tsshim", "--version") == said
    assert shares(tsrun, group.name)
    for name in ("share/man/man1/tsrun.1", "share/bash-completion/completions/tsrun",
                 "libexec/tsshim/slurm/prolog", "libexec/tsshim/python/sitecustomize.py",
                 "libexec/tsshim/report/__main__.py",
                 "libexec/tsshim/gpu/tsshim_gpu/checks.py",
                 "libexec/tsshim/report/tsshim_report/page.css"):
        assert os.path.exists(os.path.join(path, name)), name
    assert os.access(os.path.join(path, "libexec/tsshim/slurm/prolog"), os.X_OK)


def test_the_version_is_that_of_the_project():
    assert os.path.basename(wheel()).split("-")[1] == version()
    assert re.search("^Version: (.*)$", metadata(), re.M).group(1) == version()
    # Nothing else is needed: matplotlib is for who wants the page of tsrun report.
    assert re.findall("^(?:Requires-Dist|Provides-Extra): .*$", metadata(), re.M) == [
        "Provides-Extra: report", 'Requires-Dist: matplotlib; extra == "report"']


def test_it_says_that_it_has_nothing_for_other_nodes(directory):
    """No wheel may ask for the system's OpenSSL."""
    assert not [name for name in unzipped(wheel()) if "peer" in name or "secret" in name]
    tsrun = os.path.join(environment(), "bin", "tsrun")
    env = support.plain_environment(TSSHIM_CLUSTER=directory + "/cluster",
                                    XDG_RUNTIME_DIR=directory)
    support.write(directory + "/list", "127.0.0.1:11300\n")
    done = support.run([tsrun, "cluster", "up", "--nodes", directory + "/list"], env)
    assert done.status == 125 and "tsshim-secret: No such file" in done.errors, done.errors
    assert "hint: wheels have no programs for other nodes" in done.errors, done.errors
    said = support.run([tsrun, "doctor"], env).output
    assert re.search(r"^fail 19  .*tsshim-peer: No such file.*\n +fix: wheels have no programs", said,
                     re.M), said


@support.whole
def test_pip_builds_the_source_package(group):
    """Without a checkout, and to the same files; in half the time without optimization."""
    path = environment("sdist", "--find-links", build_tools(),
                       "--config-settings", "setup-args=-Doptimization=0")
    tsrun = os.path.join(path, "bin", "tsrun")
    assert library_of(tsrun) == os.path.join(path, "libexec/tsshim/libtsshim.so")
    assert call(tsrun, "--version") == "tsrun (tsshim) %s\n" % version()
    # Programs take this system's libraries, so there is nobody else's notice; and where OpenSSL is
    # one of them, those that talk to other nodes are there.
    there = installed(path)
    more = {name for name in there if name.endswith(("/tsshim-peer", "/tsshim-secret"))}
    has_openssl = subprocess.run(["pkg-config", "--exists", "openssl >= 3.0"],
                                 check=False).returncode == 0
    assert len(more) == 2 * has_openssl, more
    assert there - more == installed(environment()) - others_notices()
    assert shares(tsrun, group.name)


def test_the_source_package_is_what_git_knows():
    known = call("git", "-C", ROOT, "ls-files").splitlines()
    with tarfile.open(made("sdist")) as archive:
        names = archive.getnames()
        top = "tsshim-%s/" % version()
        about = archive.extractfile(top + "PKG-INFO").read().decode()
        program = archive.getmember(top + "scripts/package")
    assert sorted(names) == sorted([top + name for name in (*known, "PKG-INFO", "pyproject.toml")])
    assert re.search("^Version: (.*)$", about, re.M).group(1) == version()
    assert program.mode == 0o755 and program.uid == 0, (program.mode, program.uid)


def test_packed_again_the_same_bytes(directory):
    """Whatever the user's file modes and clock."""
    make(directory, "sdist", umask=0o077)
    same_bytes(directory, "sdist")


def same_bytes(directory, kind):
    again = os.path.join(directory, os.path.basename(made(kind)))
    assert support.run(["diff", "--recursive", "--brief", made(kind), again]).status == 0, kind


def test_torch_is_met_there():
    """The Python half lies beside the library, wherever that is."""
    said = call(os.path.join(environment(), "bin", "tsrun"), "--", support.torch_python(), "-c",
                "import torch.utils.data as d; "
                "print(d.DataLoader._get_iterator.__code__.co_filename)")
    assert os.path.dirname(said.strip()) == os.path.join(
        environment(), "libexec/tsshim/python/tsshim_torch"), said


def test_a_directory_of_the_users(directory):
    target = os.path.join(directory, "target")
    pip(support.PYTHON, "install", "-q", "--no-index", "--target", target, wheel())
    assert library_of(target + "/bin/tsrun") == target + "/libexec/tsshim/libtsshim.so"
    said = call(target + "/bin/tsrun", "--version")
    assert call(support.PYTHON, "-m", "tsshim", "--version", PYTHONPATH=target) == said


def test_moved_and_uninstalled_without_a_trace(directory):
    path = os.path.join(directory, "moved")
    shutil.copytree(environment(), path, symlinks=True)
    assert library_of(path + "/bin/tsrun") == path + "/libexec/tsshim/libtsshim.so"
    # A Python that leaves byte code behind.
    env = support.plain_environment()
    del env["PYTHONDONTWRITEBYTECODE"]
    done = support.run([path + "/bin/tsrun", "--", support.torch_python(), "-c",
                        "import torch.utils.data"], env)
    assert done.status == 0, done.errors
    assert os.path.exists(path + "/libexec/tsshim/python/tsshim_torch/__pycache__")
    call("sh", "-c", questions.ELSEWHERE, PATH=path + "/bin:/usr/bin:/bin")
    left = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names
            if re.search("tsshim|tsrun", os.path.join(top, name)[len(path):])]
    assert not left, left


def asked_for(path, directory, prefix=""):
    """{name: (libraries, [versions of the C library])} of what is compiled in a wheel; @prefix of the tools that tell."""
    found = {}
    for name, content in unzipped(path).items():
        if content[:4] == b"\x7fELF":
            copy = os.path.join(directory, os.path.basename(name))
            support.write(copy, content)
            told = call(prefix + "readelf", "--wide", "--dynamic", "--version-info", copy)
            found[name] = (set(re.findall(r"NEEDED.*\[(.*)\]", told)),
                           [(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", told)])
    return found


def test_no_newer_system_is_asked_for(directory):
    found = asked_for(wheel(), directory)
    assert len(found) == 3, found
    for needed, versions in found.values():
        assert needed <= {"libc.so.6"} and max(versions, default=OLDEST) <= OLDEST, found
    assert sum(bool(versions) for _, versions in found.values()) == 1, found  # the library; the programs are static


def licence_files():
    """{name: content} of what the wheel says of licences."""
    top = "tsshim-%s.dist-info/licenses/" % version()
    return {name[len(top):]: content.decode() for name, content in unzipped(wheel()).items() if name.startswith(top)}


def others_notices():
    """Names of those files that are not ours, as installed."""
    return {"tsshim-%s.dist-info/licenses/%s" % (version(), name)
            for name in licence_files() if name != "LICENSE"}


def linked():
    """{what the linker took from others: the programs it is in}, as its own maps tell."""
    wheel()
    found = {}
    for path in glob.glob(os.path.join(ROOT, "build-package", "linked-*.map")):
        program = os.path.basename(path)[len("linked-"):-len(".map")]
        text = support.read(path)
        for name in re.findall(r"^(/\S+)\(\S+\)$|^LOAD (/\S+\.o)$", text, re.M):
            found.setdefault(os.path.realpath("".join(name)), set()).add(program)
    return found


def test_a_notice_of_all_that_is_linked():
    found, files = linked(), licence_files()
    assert {"libc.a", "libelf.a", "libz.a"} <= set(map(os.path.basename, found)), found
    # A map of each program in the wheel.
    assert set.union(*found.values()) == {"libtsshim", "tsrun", "tsshim-stager"}
    for path, programs in found.items():
        package = call("dpkg", "--search", path).rpartition(": ")[0].split(":")[0]
        words = support.read("/usr/share/doc/%s/copyright" % package)
        assert words in files.values(), (path, package)
        source, number = call("dpkg-query", "--show", "-f=${source:Package} ${source:Version}",
                              package).split()
        told = re.search(r"^  %s %s: .* \(in (.*)\)$" % (source, re.escape(number)),
                         files["NOTICE"], re.M)
        assert told and programs <= set(told.group(1).split(", ")), (path, files["NOTICE"])


def test_what_notices_point_to_is_there():
    files = licence_files()
    # Whose terms are that their text is given along; the other texts are whole in the notices.
    for name in ("LICENSE", "GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3"):
        assert name in files, files.keys()
    assert "Redistributions in binary form" in files["xxhash/copyright"]
    head = metadata().split("\n\n")[0]
    assert "Metadata-Version: 2.4\n" in head
    assert sorted(re.findall("^License-File: (.*)$", head, re.M)) == sorted(files)
    expression = re.search("^License-Expression: (.*)$", head, re.M).group(1)
    for licence in re.findall(r"^  \S+ \S+: (.*) \(in", files["NOTICE"], re.M):
        assert licence in expression, (licence, expression)


@support.whole
def test_without_a_notice_there_is_no_wheel(directory):
    """Here of zlib, which no package is said to have; and of a package that the table lacks."""
    wheel()
    support.write(directory + "/dpkg-query", '#!/bin/sh\ncase $* in --search*/libz.a) exit 1 ;; esac\n'
                  'exec /usr/bin/dpkg-query "$@"\n', 0o755)
    done = support.run([os.path.join(ROOT, "scripts", "package"), "-o", directory + "/made",
                        "wheel"], support.plain_environment(
                            TSSHIM_TEST_MUST="0", PATH=directory + ":" + os.environ["PATH"]))
    assert done.status != 0 and not os.listdir(directory + "/made")
    assert re.search("^error: /.*/libz.a is linked into tsrun and there is no notice of it",
                     done.errors, re.M), done.errors
    scripts = shutil.copytree(os.path.join(ROOT, "scripts", "lib"), directory + "/scripts/lib")
    call("sed", "-i", "/^elfutils/d", scripts + "/notices.tsv")
    done = support.run([support.PYTHON, scripts + "/notices.py", ROOT + "/build-package",
                        directory + "/notices"])
    assert done.status != 0 and re.search("/libelf.a .* elfutils has no row", done.errors)


@support.whole
def test_the_same_bytes_again(directory):
    make(directory, "--build", "build-package-again", umask=0o077)
    assert len(os.listdir(directory)) == len(KINDS)
    for kind in KINDS:
        same_bytes(directory, kind)


def test_wrong_options():
    for words in (["--nonsense"], ["-o"], ["rpm"]):
        done = subprocess.run([os.path.join(ROOT, "scripts", "package"), *words],
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode != 0 and "error: " in done.stderr, (words, done.stderr)
