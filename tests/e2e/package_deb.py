# SPDX-License-Identifier: MIT
"""The Debian package that scripts/package makes: what is in it, installed, upgraded, purged."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import support
from package import call, library_of, lintian, made, version

# Waits for a line before it reads any picture, and shows its memory map.
WAITING_JOB = """
import sys
from PIL import Image
print("ready", flush=True)
sys.stdin.readline()
for path in sys.argv[1:]:
    Image.open(path).load()
print(open("/proc/self/maps").read())
"""


def next_revision(directory):
    """The same package as a later one, made in @directory."""
    unpacked, path = directory + "/unpacked", directory + "/tsshim.deb"
    call("dpkg-deb", "--raw-extract", made("deb"), unpacked)
    call("sed", "-i", "s/^Version: .*-1$/Version: %s-2/" % version(), unpacked + "/DEBIAN/control")
    call("dpkg-deb", "--root-owner-group", "-Znone", "--build", unpacked, path)
    return path


class Root(tempfile.TemporaryDirectory):
    """A directory in which dpkg installs; there is an interpreter, and nothing else."""

    def __init__(self):
        if os.geteuid() != 0:
            raise support.Skip("root", "dpkg gives files to root")
        super().__init__()
        self.path = self.name
        os.makedirs(os.path.join(self.path, "var/lib/dpkg/updates"))
        for name in ("status", "available"):
            open(os.path.join(self.path, "var/lib/dpkg", name), "w").close()
        python = os.path.realpath(support.PYTHON)
        os.makedirs(os.path.dirname(self.path + python))
        os.symlink(python, self.path + python)

    def __enter__(self):
        return self

    def dpkg(self, *words):
        """The libraries that the package wants are this system's."""
        return call("dpkg", "--root=" + self.path, "--force-script-chrootless", "--force-depends",
                    *words, PATH="/usr/sbin:/usr/bin:/sbin:/bin")

    def files(self):
        """All but what dpkg keeps for itself."""
        return sorted(os.path.relpath(os.path.join(top, name), self.path)
                      for top, directories, names in os.walk(self.path)
                      for name in (*names, *directories)
                      if not (top + "/" + name).startswith(self.path + "/var"))

    def tsrun(self):
        return os.path.join(self.path, "usr/bin/tsrun")

    def byte_code(self):
        return [name for name in self.files() if name.endswith("sitecustomize.cpython-%d%d.pyc" %
                                                               sys.version_info[:2])]


def field(name):
    return call("dpkg-deb", "--field", made("deb"), name).strip()


def test_what_the_package_says():
    assert field("Package") == "tsshim"
    assert field("Version") == version() + "-1"
    assert field("Architecture") == call("dpkg", "--print-architecture").strip()
    assert re.match(r"libc6 \(>= [\d.]+\), libelf1(t64)? ", field("Depends")), field("Depends")
    assert re.search(r", libssl3(t64)? \(>= 3\.", field("Depends")), field("Depends")
    assert field("Recommends") == "memcached, python3"


def test_what_is_in_the_package():
    listed = [line.split(None, 5) for line in
              call("dpkg-deb", "--contents", made("deb")).splitlines()]
    assert {owner for _, owner, *_ in listed} == {"root/root"}
    modes = {name[2:]: mode for mode, *_, name in listed}
    for name in ("usr/bin/tsrun", "usr/lib/tsshim/tsshim-stager", "usr/lib/tsshim/tsshim-peer",
                 "usr/lib/tsshim/tsshim-secret", "usr/lib/tsshim/slurm/prolog",
                 "usr/lib/tsshim/slurm/epilog", "usr/lib/tsshim/slurm/taskprolog"):
        assert modes[name] == "-rwxr-xr-x", (name, modes[name])
    for name in ("usr/lib/tsshim/libtsshim.so", "usr/lib/tsshim/python/sitecustomize.py",
                 "usr/lib/tsshim/report/tsshim_report/page.js", "usr/share/man/man1/tsrun.1.gz", "usr/share/man/man7/tsshim.7.gz",
                 "usr/share/bash-completion/completions/tsrun",
                 "usr/share/zsh/vendor-completions/_tsrun",
                 "usr/share/doc/tsshim/copyright", "usr/share/doc/tsshim/changelog.gz",
                 "usr/share/doc/tsshim/changelog.Debian.gz"):
        assert modes[name] == "-rw-r--r--", (name, modes[name])
    assert not [name for name in modes if "__pycache__" in name]


def test_a_notice_of_what_is_compiled_in(directory):
    """That is xxHash; its terms as the package that it was taken from has them."""
    call("dpkg-deb", "--extract", made("deb"), directory)
    ours = support.read(directory + "/usr/share/doc/tsshim/copyright")
    theirs = support.read("/usr/share/doc/libxxhash-dev/copyright")
    terms = [re.search(r"^License: BSD-2-clause\n((?: .*\n)+)", text, re.M).group(1)
             for text in (ours, theirs)]
    assert re.sub(r"\W+", " ", terms[0]).replace("OWNER", "HOLDER") == re.sub(
        r"\W+", " ", terms[1]), terms
    assert "Yann Collet" in ours


def test_lintian_is_content():
    done = lintian(made("deb"))
    assert (done.status, done.output, done.errors) == (0, "", ""), (done.output, done.errors)


def test_installed_and_purged_without_a_trace():
    with Root() as root:
        before = root.files()
        root.dpkg("--install", made("deb"))
        assert call(root.tsrun(), "--version") == "tsrun (tsshim) %s\n" % version()
        assert library_of(root.tsrun()) == root.path + "/usr/lib/tsshim/libtsshim.so"
        assert root.dpkg("--verify", "tsshim") == ""
        assert len(root.byte_code()) == 1, root.files()
        root.dpkg("--purge", "tsshim")
        assert root.files() == before


def test_a_server_of_a_cluster():
    """The one node of it, with the installed programs and a memcached of the system's."""
    if not shutil.which("memcached"):
        raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
    with Root() as root, tempfile.TemporaryDirectory() as directory:
        before = root.files()
        root.dpkg("--install", made("deb"))
        cluster, runtime = (os.path.join(directory, name) for name in ("cluster", "runtime"))
        os.mkdir(runtime, 0o700)
        support.write(directory + "/list", "127.0.0.1:%d\n" % support.free_port())

        def tsrun(*words):
            return call(root.tsrun(), *words, XDG_RUNTIME_DIR=runtime, TSSHIM_CLUSTER=cluster,
                        TSSHIM_STAGE="shm")
        for name in ("tsshim-peer", "tsshim-secret"):
            linked = call("ldd", root.path + "/usr/lib/tsshim/" + name)
            assert "libcrypto.so.3 => /" in linked and "not found" not in linked, linked
        try:
            said = tsrun("cluster", "up", "--nodes", directory + "/list", "--memory", "64M")
            assert said.startswith("up: 127.0.0.1:"), said
            support.wait_until(lambda: support.run(
                [root.tsrun(), "cluster", "status", "--dir", cluster],
                support.plain_environment(XDG_RUNTIME_DIR=runtime)).status == 0, "the server is up")
            support.wait_until(lambda: re.search(r"^ok   19  ", tsrun("doctor"), re.M), "all is well")
        finally:
            assert tsrun("cluster", "down").startswith("down: ")
        assert os.listdir(runtime + "/tsshim") == []
        root.dpkg("--purge", "tsshim")
        assert root.files() == before


def start(root, group, pictures):
    command = [root.tsrun(), "--group", group, "--keep", "1h", "--", support.PYTHON, "-c",
               WAITING_JOB, *pictures]
    return subprocess.Popen(command, env=support.plain_environment(), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def test_upgraded_while_a_job_runs():
    """It goes on with the library that it has, and shares with those that have the new one."""
    pictures = support.pictures("s_baseline")
    with Root() as root, support.Group() as group, tempfile.TemporaryDirectory() as directory:
        root.dpkg("--install", made("deb"))
        old = start(root, group.name, pictures)
        assert old.stdout.readline() == "ready\n"
        root.dpkg("--install", next_revision(directory))
        assert "\nVersion: %s-2\n" % version() in root.dpkg("--status", "tsshim")
        assert len(root.byte_code()) == 1, root.files()
        new = start(root, group.name, pictures)
        maps = [job.communicate("\n")[0] for job in (new, old)]
        assert (new.returncode, old.returncode) == (0, 0)
        library = root.path + "/usr/lib/tsshim/libtsshim.so"
        assert library + " (deleted)" in maps[1]
        assert library in maps[0] and library + " (deleted)" not in maps[0]
        assert group.pixels("shared") == len(pictures), group.report()
        call(root.tsrun(), "gc", "--group", group.name)
