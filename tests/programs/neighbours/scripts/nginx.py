# SPDX-License-Identifier: MIT
"""Forty times the page of the server at the socket s."""
import hashlib
import socket

for number in range(40):
    server = socket.socket(socket.AF_UNIX)
    server.connect("s")
    server.sendall(b"GET /page HTTP/1.0\r\n\r\n")
    head, _, body = server.makefile("rb").read().partition(b"\r\n\r\n")
    print(head.split(b"\r\n")[0], hashlib.sha256(body).hexdigest())
