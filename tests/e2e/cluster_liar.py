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


def plain(line, value):
    """The answer @line to a question for a key, with the @value that it may have."""
    return line + END + (b"" if value is None else value + END)


def swapped(line, value):
    """Another value, with its true tag."""
    other = [one for one in list(Liar.values.values()) if len(one) > HEAD and one != value][0]
    word, _, *rest = line.split(b" ")
    return plain(b" ".join([word, b"%d" % len(other), *rest]), other)


def number_of(line):
    number, = [word for word in line.split(b" ") if word.startswith(b"O")]
    return number


# What becomes of such an answer: bytes, or None for silence.
LIES = {
    "none": plain,
    "noise": lambda line, value: os.urandom(300),
    "nothing": lambda line, value: None,
    "endless": lambda line, value: b" ".join([b"VA", b"4294967295", *line.split(b" ")[2:]]) + END + bytes(4 << 20),
    "other_number": lambda line, value: plain(line.replace(b" O", b" O1"), value),
    # Everybody is to make everything, or to wait for another one.
    "won": lambda line, value: plain(b"VA 0 %s W" % number_of(line), b""),
    "made": lambda line, value: plain(b"VA 0 %s Z" % number_of(line), b""),
}
# Of answers with a value.
LIES_OF_VALUES = {
    "changed": lambda line, value: plain(line, value[:-1] + bytes([value[-1] ^ 1])),
    # As a server of another version of ours would have it; leader/peer/value.h.
    "version": lambda line, value: plain(line, value[:4] + bytes([value[4] + 1]) + value[5:]),
    "swapped": swapped,
    # And then it closes.
    "cut": lambda line, value: (line + END + value[:len(value) // 2], True),
}


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
            line, value = self.get(rest[0], rest[1:])
            return (LIES.get(self.lie) or (LIES_OF_VALUES[self.lie] if value else plain))(line, value)
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
