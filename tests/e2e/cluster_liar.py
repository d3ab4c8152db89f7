# SPDX-License-Identifier: MIT
"""
A server that is none: it keeps to memcached's meta protocol as far as leader/peer uses it, takes any
token, and lies as it is told.  A program for the place of a memcached of a cluster without TLS:

    python3 cluster_liar.py ADDRESS PORT

says "ready", then reads the name of a LIE from each line on stdin and says it back.
"""

import itertools
import os
import socket
import sys
import threading
import time

HEAD = 80  # of a value
END = b"\r\n"


class Lies:
    """What becomes of an answer (line, value) to a question for a key; bytes, or None for silence."""

    @staticmethod
    def none(line, value):
        return line + END + (b"" if value is None else value + END)

    @staticmethod
    def noise(line, value):
        return os.urandom(300)

    @staticmethod
    def nothing(line, value):
        return None

    @staticmethod
    def changed(line, value):
        if not value:
            return Lies.none(line, value)
        return Lies.none(line, value[:-1] + bytes([value[-1] ^ 1]))

    @staticmethod
    def version(line, value):
        """As a server of another version of ours would have it; leader/peer/value.h."""
        if not value:
            return Lies.none(line, value)
        return Lies.none(line, value[:4] + bytes([value[4] + 1]) + value[5:])

    @staticmethod
    def swapped(line, value):
        """Another value, with its true tag."""
        if not value:
            return Lies.none(line, value)
        others = [one for one in list(Liar.values.values()) if len(one) > HEAD and one != value]
        other = others[0]
        words = line.split(b" ")
        words[1] = b"%d" % len(other)
        return Lies.none(b" ".join(words), other)

    @staticmethod
    def cut(line, value):
        """And then it closes."""
        if not value:
            return Lies.none(line, value)
        return line + END + value[:len(value) // 2], True

    @staticmethod
    def endless(line, value):
        words = line.split(b" ")
        return b" ".join([b"VA", b"4294967295", *words[2:]]) + END + bytes(4 << 20)

    @staticmethod
    def other_number(line, value):
        return Lies.none(line.replace(b" O", b" O1"), value)

    @staticmethod
    def won(line, value):
        """Everybody is to make everything."""
        number, = [word for word in line.split(b" ") if word.startswith(b"O")]
        return Lies.none(b"VA 0 %s W" % number, b"")

    @staticmethod
    def made(line, value):
        """Everybody is to wait for another one."""
        number, = [word for word in line.split(b" ") if word.startswith(b"O")]
        return Lies.none(b"VA 0 %s Z" % number, b"")


class Liar:
    """One connection."""

    values, numbers, lie = {}, {}, "none"  # of each key; its number among all that were kept
    lock = threading.Lock()
    count = itertools.count(1)

    def keep(self, key, value):
        self.values[key], self.numbers[key] = value, next(self.count)

    def __init__(self, connection):
        self.connection, self.file = connection, connection.makefile("rb")

    def get(self, key, flags):
        number, = [word for word in flags if word.startswith(b"O")]
        with self.lock:
            value = self.values.get(key)
            wins = value is None and any(word.startswith(b"N") for word in flags)
            if wins:
                self.keep(key, b"")
            which = self.numbers.get(key)
        if value is None and not wins:
            return b"EN " + number, None
        mark = b" W" if wins else b" Z" if value == b"" else b""
        return b"VA %d c%d %s%s" % (len(value or b""), which, number, mark), value or b""

    def take_away(self, key, flags):
        """The word for it."""
        with self.lock:
            if key not in self.values:
                return b"NF "
            if any(flag[:1] == b"C" and int(flag[1:]) != self.numbers[key] for flag in flags):
                return b"EX "
            del self.values[key]
        return b"HD "

    def answer(self, line):
        """The bytes to one request, and whether the connection ends."""
        word, *rest = line.split()
        if word == b"set":
            self.file.read(int(rest[3]) + 2)
            return b"STORED\r\n"
        numbers = b" ".join(flag for flag in rest if flag[:1] == b"O" and flag != rest[0])
        if word == b"ms":
            value = self.file.read(int(rest[1]) + 2)[:-2]
            with self.lock:
                self.keep(rest[0], value)
            return b"HD " + numbers + END
        if word == b"md":
            return self.take_away(rest[0], rest[1:]) + numbers + END
        if word == b"mg":
            return getattr(Lies, self.lie)(*self.get(rest[0], rest[1:]))
        return b"MN\r\n"

    def run(self):
        try:
            for line in iter(self.file.readline, b""):
                said = self.answer(line)
                said, ends = said if isinstance(said, tuple) else (said, False)
                if said:
                    self.connection.sendall(said)
                if ends:
                    break
        except OSError:
            pass
        finally:
            self.file.close()
            self.connection.close()


def listen(address, port):
    while True:
        try:
            return socket.create_server((address, port))
        except OSError:
            time.sleep(0.01)  # who had it before has not quite gone


def main(address, port):
    listener = listen(address, int(port))

    def serve():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=Liar(connection).run, daemon=True).start()
    threading.Thread(target=serve, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        Liar.lie = line.strip()
        print(Liar.lie, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
