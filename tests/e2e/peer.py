# SPDX-License-Identifier: MIT
"""
The client of other nodes' servers (leader/peer) against a real memcached: who may ask, and TLS.  No
job takes part; what jobs store and fetch is in peer_helper.py and peer_servers.py.
"""

import contextlib
import os
import shutil
import tempfile

import support
from memcached import MEMCACHED, TOKEN, Memcached, make_authority

DRIVER = os.path.join(support.BUILD, "tests", "unit", "peer", "peer-driver")
CHUNK = 519920


class Server(Memcached):
    """And the client for it."""

    def ask(self, *words, token="-", secret=None, tls=None, deadline_ms=30000, host="127.0.0.1"):
        """The driver's line."""
        env = support.plain_environment(PEER_DEADLINE_MS=str(deadline_ms))
        done = support.run([DRIVER, host, str(self.port), secret or self.secret, token,
                            (tls or self.tls or ""), *map(str, words)], env)
        assert done.errors == "", done.errors
        assert done.status == (0 if done.output.startswith("ok") else 1), done.output
        return done.output.rstrip("\n")


@contextlib.contextmanager
def server(*options, **more):
    if not MEMCACHED:
        raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
    with tempfile.TemporaryDirectory() as folder, Server(folder, *options, **more) as one:
        yield one


# ---- who may ----------------------------------------------------------------------------------


def test_who_has_no_token_gets_nothing():
    with server() as one:
        assert one.ask("store", "key", 100) == "ok 100"
        for token in ("wrong", TOKEN[:-1] + "9", ""):
            for command in ("store", "fetch"):
                assert one.ask(command, "key", 100, token=token).startswith("EACCES "), token


# ---- TLS --------------------------------------------------------------------------------------


@contextlib.contextmanager
def authorities():
    with tempfile.TemporaryDirectory() as folder:
        yield (make_authority(os.path.join(folder, "ours")),
               make_authority(os.path.join(folder, "theirs")),
               make_authority(os.path.join(folder, "elsewhere"), "192.0.2.1"))


def test_questions_directly_behind_values_are_answered():
    """memcached 1.6.18 does not look at what TLS has decrypted behind the end of a value."""
    with authorities() as (ours, _, _), server("-m", "256", tls=ours) as one:
        for count, size in ((500, 1), (500, 1000), (200, 16384), (100, 107000), (20, CHUNK)):
            assert one.ask("pairs", count, size) == "ok %d" % count, size


def test_both_sides_of_tls_are_verified():
    with authorities() as (ours, theirs, elsewhere):
        with server(tls=ours) as one:
            assert one.ask("store", "key", 100) == "ok 100"
            assert one.ask("fetch", "key", 100, tls=theirs).startswith("EACCES ")
            # Who trusts the server, and is a stranger to it.
            mixed = os.path.join(one.folder, "mixed")
            shutil.copytree(theirs, mixed)
            shutil.copy(os.path.join(ours, "ca.pem"), mixed)
            answer = one.ask("fetch", "key", 100, tls=mixed)
            assert answer.split()[0] in ("EBADMSG", "ECONNRESET", "EACCES"), answer
            # Plain words to a server that wants TLS.
            one.tls = None
            assert not one.ask("fetch", "key", 100, deadline_ms=2000).startswith("ok")
        with server(tls=elsewhere) as one:
            assert one.ask("fetch", "key", 100).startswith("EACCES "), "another address's"
