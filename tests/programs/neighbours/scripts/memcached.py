# SPDX-License-Identifier: MIT
"""Two hundred keys are written to the memcached at the socket s, and one is read."""
import socket

server = socket.socket(socket.AF_UNIX)
server.connect("s")
stream = server.makefile("rwb")


def lines():
    """Up to the one that ends the answer."""
    return list(iter(stream.readline, b"END\r\n"))


for number in range(200):
    stream.write(b"set k%d 0 0 5\r\nvalue\r\n" % number)
stream.flush()
print({stream.readline() for _ in range(200)})
stream.write(b"get k7\r\nstats settings\r\n")
stream.flush()
print(lines(), [line for line in lines() if b"num_threads" in line])
