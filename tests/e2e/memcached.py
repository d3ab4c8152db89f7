# SPDX-License-Identifier: MIT
"""Servers of a test's own: memcached, with a token, with TLS; and authorities for that."""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess

import support

MEMCACHED = shutil.which("memcached", path="/usr/bin:/usr/local/bin:/bin")
SECRET = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
# HMAC-SHA-256 of "tsshim peer 1: token" with it.
TOKEN = "5382f2cc7d8b7b666d067630f049fea312a90c4aeac2eb8bd43ff918afac0828"


def write(path, text, mode=0o600):
    with open(path, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, mode)) as file:
        file.write(text)
    return path


def answer_all(listener, text):
    """Be a server that says @text to whoever comes, until @listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(text)


class Memcached:
    """A memcached of our own, in @folder."""

    def __init__(self, folder, *options, tls=None, tokens=(TOKEN,)):
        self.folder, self.tls = folder, tls
        self.secret = write(os.path.join(folder, "secret"), SECRET + "\n")
        auth = write(os.path.join(folder, "auth"), "".join("job:%s\n" % x for x in tokens))
        self.ports = os.path.join(folder, "ports")
        self.port = None
        command = [MEMCACHED, "-u", getpass.getuser(), "-l", "127.0.0.1", "-p", "-1",
                   "-U", "0", "-m", "64", "-M", "-t", "2", "-Y", auth, "-F", "-X", "-W", *options]
        if tls:
            command += ["-Z", "-o", "ssl_chain_cert=%s/server.pem,ssl_key=%s/server.key,"
                        "ssl_ca_cert=%s/ca.pem,ssl_verify_mode=2" % (tls, tls, tls)]
        # The kernel chooses the port, and memcached writes it down.
        self.process = subprocess.Popen(
            command, env=support.plain_environment(MEMCACHED_PORT_FILENAME=self.ports),
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        support.wait_until(self.listens, "memcached listens")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def listens(self):
        assert self.process.poll() is None, "memcached has ended"
        if not os.path.exists(self.ports):
            return False
        words = support.read(self.ports).split()
        self.port = int(words[2])
        return True

    def raw(self):
        """A connection for what a hostile peer may do that knows the token."""
        connection = socket.create_connection(("127.0.0.1", self.port))
        text = b"job " + TOKEN.encode()
        connection.sendall(b"set auth 0 0 %d\r\n%s\r\n" % (len(text), text))
        with connection.makefile("rb") as file:
            assert file.readline() == b"STORED\r\n"
        return connection

    def stored(self, key):
        """What lies there, or None."""
        with self.raw() as connection, connection.makefile("rb") as file:
            connection.sendall(b"mg %s v\r\n" % key.encode())
            words = file.readline().split()
            assert words[0] in (b"VA", b"EN"), words
            return file.read(int(words[1])) if words[0] == b"VA" else None

    def say(self, line):
        """The words of its answer to a command."""
        with self.raw() as connection, connection.makefile("rb") as file:
            connection.sendall(line.encode() + b"\r\n")
            return file.readline().decode().split()

    def put(self, key, value):
        with self.raw() as connection, connection.makefile("rb") as file:
            connection.sendall(b"ms %s %d\r\n%s\r\n" % (key.encode(), len(value), value))
            assert file.readline().split() == [b"HD"]


def openssl(*words, cwd):
    subprocess.run(["openssl", *words], cwd=cwd, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_authority(folder, address="127.0.0.1"):
    """ca.pem, server.pem for @address and client.pem, and their keys."""
    os.mkdir(folder)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority",
            "-days", "2", cwd=folder)
    for name in ("server", "client"):
        write(os.path.join(folder, "names"), "subjectAltName=IP:%s\n" % address)
        openssl("req", *curve, "-keyout", name + ".key", "-out", name + ".csr", "-subj",
                "/CN=" + name, cwd=folder)
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", name + ".pem",
                cwd=folder)
    return folder
