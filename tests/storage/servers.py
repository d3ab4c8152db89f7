# SPDX-License-Identifier: MIT
"""
Network storage as sites have it, for tests: GlusterFS, sshfs, and s3fs with a server of S3.

    with servers.make("sshfs") as storage:
        storage.put("f0", b"content")
        run_jobs_on(storage.path)
        print(storage.bytes_read())

Each server is the test's own: on loopback, in a temporary directory, with keys of its own.  Servers and
clients end with the block, and with this process, however that ends.
"""

import contextlib
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree

import mounted
import support
from support import Skip, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
END = 60  # seconds for a process to go


# moto looks whose request it is, and not whether that is true.
SIGNED = {"Content-Type": "application/octet-stream", "Authorization": "AWS4-HMAC-SHA256 Credential="
          "key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}


def needs(*programs):
    """Paths of these programs. Raises Skip where storage cannot be mounted here."""
    if os.geteuid() != 0:
        raise Skip("storage", "only root may start the servers and mount what they have")
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        raise Skip("storage", "/dev/fuse cannot be used here: %s" % error) from None
    place = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    found = [shutil.which(program, path=place) for program in programs]
    for program, path in zip(programs, found):
        if not path:
            raise Skip("storage", "%s is not installed (scripts/deps storage)" % program)
    return found


def running(*words):
    """Processes whose command lines have all these words in them."""
    found = []
    for place in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            line = support.read(place + "/cmdline", "rb").replace(b"\0", b" ").decode(errors="replace")
            if all(word in line for word in words):
                found.append(int(place[6:]))
    return found


def put_into(directory, name, data, age, replace):
    """A file as Server.put() makes it."""
    place = os.path.join(directory, name)
    new = place + ".new" if replace else place
    support.write(new, data)
    os.utime(new, (time.time() - age,) * 2)
    os.rename(new, place)


class Server:
    """
    A server with a directory of files, mounted by its client.  .path is where programs find it, .origin a
    local directory that has the same files, .options what the client is told beyond what it has to be.
    """

    options = ()

    def __init__(self, settings=None):
        """@settings of the server: of a volume of GlusterFS."""
        self.settings = settings or {}
        self.processes = []

    def __enter__(self):
        self.base = tempfile.mkdtemp(prefix="tsshim-server-", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.path, self.origin = (os.path.join(self.base, name) for name in ("mnt", "origin"))
        os.mkdir(self.path)
        os.mkdir(self.origin)
        self.client = None
        try:
            self.prepare()
            self.serve()
            self.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.unmount()
        finally:
            if self.processes:
                self.signal(signal.SIGKILL)
            for process in self.processes:
                process.kill()
                process.wait(END)
            assert not mounted.is_mounted(self.path), self.path
            shutil.rmtree(self.base)

    def log(self, name):
        """Path of what a program says."""
        return os.path.join(self.base, name + ".log")

    def begin(self, name, command, end="KILL"):
        """Start what ends with this process, by the signal @end. Its output is self.log(@name)."""
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(["setpriv", "--pdeathsig", end, *command], stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log, cwd="/", start_new_session=True)
        self.processes.append(process)
        return process

    def wait_for(self, process, condition, what):
        """Until @condition(), or the end of the @process that is to bring it about."""
        wait_until(lambda: process.poll() is not None or condition(), what)
        said = "".join(support.read(path) for path in glob.glob(self.log("*")))
        assert process.poll() is None, "%s: %s" % (what, said[-3000:])

    # ---- of each kind ----

    def prepare(self):
        """What is done once, before the server is started."""

    def serve(self):
        """Start the server, and wait until it answers."""
        raise NotImplementedError

    def revive(self):
        """Start what has been killed."""

    def command(self):
        """How the client is started, in the foreground."""
        raise NotImplementedError

    def servers(self):
        """The processes that read files for clients."""
        raise NotImplementedError

    def bytes_read(self):
        """What has been read of files since the last call, as the server counts it."""
        raise NotImplementedError

    def put_there(self, name, data, age, replace):
        """Give the server the file."""
        raise NotImplementedError

    # ---- of all ----

    def put(self, name, data, age=0, replace=True):
        """A file of that content, past the mount: a new one in the place of an old one, or with @replace
        False the old one's content.  It was written @age seconds ago, as far as it says."""
        put_into(self.origin, name, data, age, replace)
        self.put_there(name, data, age, replace)

    def mount(self, *options):
        """Let the client mount it, with more @options for this time."""
        self.client = self.begin("client", [*self.command(), *options], "TERM")  # then it unmounts
        self.wait_for(self.client, self.answers, "a mount")

    def answers(self):
        """Whether the client is connected. Asks for no names: those of an empty directory would be kept."""
        with contextlib.suppress(OSError):
            return mounted.is_mounted(self.path) and os.statvfs(self.path).f_bsize > 0
        return False

    def unmount(self):
        """Also of a server that does not answer any more."""
        if self.client is None:
            return
        mounted.unmount(self.path)
        try:
            self.client.wait(5)  # it goes when the last user of its files has gone
        except subprocess.TimeoutExpired:
            self.client.kill()
            self.client.wait(END)
        self.client = None

    def remount(self, *options):
        self.unmount()
        self.mount(*options)

    def signal(self, number):
        """Send it to all that read files for clients."""
        for pid in self.servers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextlib.contextmanager
    def stopped(self):
        """The server does nothing for the time of the block."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def kill(self):
        """As a crash of the server's node would."""
        self.signal(signal.SIGKILL)


class Sshfs(Server):
    """An sshd of our own, with keys of its own.  Its sftp-server says at each close how much was read."""

    def prepare(self):
        self.sshd, self.sshfs, keygen = needs("sshd", "sshfs", "ssh-keygen")
        self.sftp = next(filter(os.path.exists, SFTP_SERVERS), None)
        if not self.sftp:
            raise Skip("storage", "no sftp-server is installed")
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd wants it, whatever its settings
        for key in "host", "user":
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(self.base, key)], check=True)
        self.told = os.path.join(self.base, "sftp.told")
        support.write(self.told, b"")
        subsystem = os.path.join(self.base, "subsystem")
        support.write(subsystem, "#!/bin/sh\nexec %s -e -l INFO -d %s 2>>%s\n" % (
            self.sftp, self.origin, self.told), 0o700)
        self.port = support.free_port()
        support.write(os.path.join(self.base, "sshd_config"), "\n".join((
            "Port %d" % self.port, "ListenAddress 127.0.0.1", "HostKey %s/host" % self.base,
            "AuthorizedKeysFile %s/user.pub" % self.base, "PidFile none", "StrictModes no", "UsePAM no",
            "PasswordAuthentication no", "PermitRootLogin yes", "Subsystem sftp " + subsystem, "")))
        self.seen = 0

    def serve(self):
        process = self.begin("sshd", [self.sshd, "-D", "-e", "-f", os.path.join(self.base, "sshd_config")])
        self.wait_for(process, lambda: "Server listening" in support.read(self.log("sshd")), "sshd")

    def command(self):
        told = {"IdentityFile": self.base + "/user", "IdentitiesOnly": "yes", "BatchMode": "yes",
                "UserKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "no"}
        return [self.sshfs, "-f", "-p", str(self.port), "-F", "/dev/null",
                *("-o%s=%s" % item for item in told.items()), *self.options,
                "root@127.0.0.1:" + self.origin, self.path]

    def servers(self):
        return running(self.sftp, self.origin)

    def closed(self):
        """What has been read, of files that are all closed again; None while one is open."""
        text = support.read(self.told)
        found = re.findall(r'^close ".*" bytes read (\d+) written', text, re.MULTILINE)
        opened = len(re.findall(r'^open "', text, re.MULTILINE))
        return sum(map(int, found)) if opened == len(found) else None

    def bytes_read(self):
        # The kernel tells of a close when it finds the time.
        wait_until(lambda: self.closed() is not None, "the end of all opens")
        before, self.seen = self.seen, self.closed()
        return self.seen - before

    def put_there(self, name, data, age, replace):
        pass  # it reads self.origin


class S3fs(Server):
    """moto's server of S3, which counts the bytes of objects that it sends."""

    options = ("-oretries=1", "-oconnect_timeout=5", "-oreadwrite_timeout=60")

    def prepare(self):
        self.s3fs, = needs("s3fs")
        self.python = support.installed("storage", "MOTO", "bin", "python")
        self.port = support.free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.sent = os.path.join(self.base, "sent")
        self.password = os.path.join(self.base, "password")
        support.write(self.password, "key:secret", 0o600)
        self.seen = 0

    def ask(self, place, data=None, method="PUT", **headers):
        request = urllib.request.Request(self.url + place, data=data, method=method,
                                         headers={**SIGNED, **headers})
        with urllib.request.urlopen(request, timeout=END) as answer:
            return answer.read()

    def is_there(self):
        try:
            self.ask("/", method="GET")
            return True
        except (urllib.error.URLError, OSError):
            return False

    def serve(self):
        process = self.server = self.begin("moto", [self.python, os.path.join(HERE, "servers_s3.py"),
                                                    str(self.port), self.sent])
        self.wait_for(process, self.is_there, "a server of S3")
        self.ask("/files", b"")
        for name in sorted(os.listdir(self.origin)):  # a server that was killed has forgotten all
            place = os.path.join(self.origin, name)
            self.put_there(name, support.read(place, "rb"), time.time() - os.stat(place).st_mtime, True)

    def command(self):
        return [self.s3fs, "files", self.path, "-f", "-ourl=" + self.url, "-ouse_path_request_style",
                "-opasswd_file=" + self.password, *self.options]

    def revive(self):
        self.serve()

    def servers(self):
        return [self.server.pid] if self.server.poll() is None else []

    def bytes_read(self):
        lines = support.read(self.sent).split() if os.path.exists(self.sent) else []
        before, self.seen = self.seen, sum(map(int, lines))
        return self.seen - before

    def put_there(self, name, data, age, replace):
        # As programs do that keep times; without it the time of the upload is all that there is.
        self.ask("/files/" + name, data, **({"x-amz-meta-mtime": str(time.time() - age)} if age else {}))


class Gluster(Server):
    """A glusterd with one brick, in a PID namespace of its own, and a volume with all its defaults."""

    def prepare(self):
        self.glusterd, self.gluster, self.glusterfs = needs("glusterd", "gluster", "glusterfs")
        self.address = "127.%d.%d.%d" % tuple(random.SystemRandom().randrange(1, 255) for _ in range(3))
        self.brick, self.work, self.run = (os.path.join(self.base, name) for name in ("brick", "work", "run"))
        self.second = os.path.join(self.base, "second")
        for place in (self.brick, self.work, self.run, self.second):
            os.mkdir(place)
        self.socket = os.path.join(self.base, "socket")
        self.seen = 0

    def tell(self, *words):
        """Ask the command of GlusterFS."""
        done = subprocess.run([self.gluster, "--mode=script", "--glusterd-sock=" + self.socket,
                               "--log-file=" + self.log("gluster"), *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=2 * END)
        assert done.returncode == 0, (words, done.stdout)
        return done.stdout

    def is_there(self):
        with contextlib.suppress(AssertionError):
            return bool(self.tell("volume", "list"))
        return False

    def serve(self):
        options = {"working-directory": self.work, "run-directory": self.run, "glusterd-sockfile": self.socket,
                   "transport.socket.bind-address": self.address, "cluster-test-mode": self.base}
        self.server = self.begin("glusterd", [
            # The shell collects what was killed, which glusterd takes for alive until then.
            "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@" & wait', "sh",
            self.glusterd, "-N",
            "--log-file=" + self.log("daemon"), "--pid-file=" + self.base + "/pid",
            *("--xlator-option=management.%s=%s" % item for item in options.items())])
        self.wait_for(self.server, self.is_there, "glusterd")
        self.tell("volume", "create", "files", "%s:%s" % (self.address, self.brick), "force")
        for name, value in self.settings.items():
            self.tell("volume", "set", "files", name, value)
        self.tell("volume", "start", "files")
        self.tell("volume", "profile", "files", "start")
        other = self.begin("second", self.client_at(self.second), "TERM")
        self.wait_for(other, lambda: mounted.is_mounted(self.second), "a second mount")

    def revive(self):
        self.tell("volume", "start", "files", "force")

    def client_at(self, place):
        return [self.glusterfs, "-N", "--log-file=" + self.log("client"), "--volfile-server=" + self.address,
                "--volfile-id=files", place]

    def command(self):
        *words, place = self.client_at(self.path)
        return [*words, *self.options, place]

    def servers(self):
        return running("glusterfsd", self.brick)

    def bytes_read(self):
        told = xml.etree.ElementTree.fromstring(self.tell("volume", "profile", "files", "info", "cumulative", "--xml"))
        before, self.seen = self.seen, sum(int(one.text) for one in told.iter("totalRead"))
        return self.seen - before

    def put_there(self, name, data, age, replace):
        put_into(self.second, name, data, age, replace)

    def __exit__(self, *_):
        if mounted.is_mounted(os.path.join(self.base, "second")):
            mounted.unmount(self.second)
        super().__exit__()


KINDS = {"glusterfs": Gluster, "sshfs": Sshfs, "s3fs": S3fs}


def make(kind, settings=None):
    """Storage of that kind, for a `with` block."""
    return KINDS[kind](settings)
