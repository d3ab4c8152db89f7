#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""One process gives another values over a loopback connection, as the caches of two nodes would.

    peer.py BYTES COUNT     prints JSON: seconds, and CPU seconds of both processes, of COUNT values

Requests are sent eight ahead.  There is no encryption, no key and no cache: what is left is what
the kernel takes to bring the bytes from one process to the other.
"""
import json
import os
import resource
import socket
import sys
import time

AHEAD, REQUEST = 8, 16


def receive(connection, view):
    got = 0
    while got < len(view):
        count = connection.recv_into(view[got:])
        if not count:
            return False
        got += count
    return True


def serve(listener, value):
    connection, _ = listener.accept()
    request = memoryview(bytearray(REQUEST))
    while receive(connection, request):
        connection.sendall(value)


def ask(port, size, count):
    place = memoryview(bytearray(size))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(bytes(REQUEST * min(AHEAD, count)))
        for number in range(count):
            if not receive(connection, place):
                raise SystemExit("the other end is gone")
            if number + AHEAD < count:
                connection.sendall(bytes(REQUEST))


def main():
    size, count = map(int, sys.argv[1:])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            serve(listener, os.urandom(size))
            os._exit(0)
        port = listener.getsockname()[1]
    begin, cpu = time.monotonic(), time.process_time()
    ask(port, size, count)
    seconds, cpu = time.monotonic() - begin, time.process_time() - cpu
    os.waitpid(child, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"seconds": seconds, "cpu": cpu + used.ru_utime + used.ru_stime}))


if __name__ == "__main__":
    main()
