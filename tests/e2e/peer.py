# SPDX-License-Identifier: MIT
"""
The client of other nodes' servers (leader/peer) against a real memcached: with tokens, with TLS,
and when what it stores is not what comes back.  No job takes part.
"""

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import threading

import support
from memcached import MEMCACHED, SECRET, TOKEN, Memcached, answer_all, make_authority, write

DRIVER = os.path.join(support.BUILD, "tests", "unit", "peer", "peer-driver")
CHUNK = 519920
HEAD = 80
SIZES = [1, 2, 79, 4096, 107000, CHUNK - 1, CHUNK, CHUNK + 1, 1 << 20, 10_000_000]


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


def store_and_fetch(one, sizes=SIZES, **more):
    for size in sizes:
        assert one.ask("store", "size%d" % size, size, **more) == "ok %d" % size
        assert one.ask("fetch", "size%d" % size, size, **more) == "ok %d" % size


# ---- what works -------------------------------------------------------------------------------


def test_values_of_all_sizes():
    with server() as one:
        store_and_fetch(one)
        assert one.ask("fetch", "other", 100).startswith("ENOENT ")


def test_one_of_two_makes_it():
    with server() as one:
        assert one.ask("race", "key") == "ok 1 2"
        assert one.ask("store", "key", 100) == "ok 100"
        assert one.ask("fetch", "key", 100) == "ok 100"


def test_a_full_server_keeps_what_it_has():
    with server() as one:
        assert one.ask("store", "first", 10_000_000) == "ok 10000000"
        answers = [one.ask("store", "more%d" % i, 10_000_000) for i in range(8)]
        assert answers[-1].startswith("ENOSPC "), answers
        assert one.ask("fetch", "first", 10_000_000) == "ok 10000000"


# ---- who may ----------------------------------------------------------------------------------


def test_who_has_no_token_gets_nothing():
    with server() as one:
        assert one.ask("store", "key", 100) == "ok 100"
        for token in ("wrong", TOKEN[:-1] + "9", ""):
            for command in ("store", "fetch"):
                assert one.ask(command, "key", 100, token=token).startswith("EACCES "), token


def test_a_secret_that_others_may_read_is_not_used():
    with server() as one:
        os.chmod(one.secret, 0o640)
        assert one.ask("store", "key", 100).startswith("EPERM ")


def test_another_users_values_are_refused():
    with server() as one:
        other = write(os.path.join(one.folder, "other"), "7" * 64 + "\n")
        assert one.ask("store", "key", 100, secret=other, token=TOKEN) == "ok 100"
        assert one.ask("fetch", "key", 100).startswith("ENOKEY ")


def test_secrets_are_exchanged_while_values_stay():
    with server() as one:
        new = "f" * 64 + "\n"
        assert one.ask("store", "old", 100, token=TOKEN) == "ok 100"
        both = write(os.path.join(one.folder, "both"), new + SECRET + "\n")
        assert one.ask("fetch", "old", 100, secret=both, token=TOKEN) == "ok 100"
        assert one.ask("store", "new", 100, secret=both, token=TOKEN) == "ok 100"
        alone = write(os.path.join(one.folder, "alone"), new)
        assert one.ask("fetch", "new", 100, secret=alone, token=TOKEN) == "ok 100"
        assert one.ask("fetch", "old", 100, secret=alone, token=TOKEN).startswith("ENOKEY ")


# ---- what a hostile peer can put there --------------------------------------------------------


def test_changed_values_are_refused():
    with server() as one:
        assert one.ask("store", "key", 2 * CHUNK) == "ok %d" % (2 * CHUNK)
        assert one.ask("store", "kez", 2 * CHUNK) == "ok %d" % (2 * CHUNK)
        first, second = one.stored("key:0"), one.stored("key:1")
        changed = bytearray(first)
        changed[-1] ^= 1
        cases = {
            "EIO": bytes(changed),
            "ENODATA": first[:-1],
            "EKEYREJECTED": one.stored("kez:0"),
            "ENXIO": second,
            "EILSEQ": b"x" * len(first),
            "EPROTONOSUPPORT": first[:4] + bytes([first[4] + 1]) + first[5:],
            "EMSGSIZE": first + b"x",
        }
        for name, value in cases.items():
            one.put("key:0", value)
            answer = one.ask("fetch", "key", 2 * CHUNK)
            assert answer.startswith(name + " "), (name, answer)
        one.put("key:0", first)
        assert one.ask("fetch", "key", 2 * CHUNK) == "ok %d" % (2 * CHUNK)


# ---- TLS --------------------------------------------------------------------------------------


@contextlib.contextmanager
def authorities():
    with tempfile.TemporaryDirectory() as folder:
        yield (make_authority(os.path.join(folder, "ours")),
               make_authority(os.path.join(folder, "theirs")),
               make_authority(os.path.join(folder, "elsewhere"), "192.0.2.1"))


def test_values_of_all_sizes_over_tls():
    with authorities() as (ours, _, _), server(tls=ours) as one:
        store_and_fetch(one)
        assert one.ask("fetch", "size1", 1, token="wrong").startswith("EACCES ")


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


# ---- servers in trouble -----------------------------------------------------------------------


def test_a_stopped_server_keeps_nobody():
    with server() as one:
        assert one.ask("store", "key", 100) == "ok 100"
        one.process.send_signal(signal.SIGSTOP)
        assert one.ask("fetch", "key", 100, deadline_ms=50).startswith("ETIMEDOUT ")
        one.process.send_signal(signal.SIGCONT)
        assert one.ask("fetch", "key", 100) == "ok 100"


def test_a_killed_server_is_gone():
    with server() as one:
        one.process.kill()
        one.process.wait()
        assert one.ask("fetch", "key", 100).startswith("ECONNREFUSED ")


def test_what_is_no_server_is_left():
    with server() as one, authorities() as (ours, _, _), socket.create_server(("127.0.0.1", 0)) as other:
        one.port = other.getsockname()[1]
        thread = threading.Thread(target=answer_all, args=(other, b"HTTP/1.1 400 Bad Request\r\n\r\n"))
        thread.start()
        assert one.ask("fetch", "key", 100).startswith("EPROTO ")
        assert one.ask("fetch", "key", 100, tls=ours).startswith("EACCES ")
        other.shutdown(socket.SHUT_RDWR)
        thread.join()
