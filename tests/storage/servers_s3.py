# SPDX-License-Identifier: MIT
"""
A server of S3 on loopback: servers_s3.py PORT FILE.

moto's, with one thing more: each answer that has bytes of an object adds a line to FILE, their number.
"""

import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple


class Counted:
    """An application in front of moto's."""

    def __init__(self, inner, path):
        self.inner = inner
        self.told = open(path, "a", buffering=1, encoding="ascii")

    def __call__(self, environ, start_response):
        # /bucket/key, and not a listing
        is_object = environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"].strip("/").count("/") >= 1
        answer = self.inner(environ, start_response)
        if not is_object:
            return answer
        pieces = list(answer)
        if hasattr(answer, "close"):
            answer.close()
        self.told.write("%d\n" % sum(map(len, pieces)))
        return pieces


if __name__ == "__main__":
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    run_simple("127.0.0.1", int(sys.argv[1]), Counted(DomainDispatcherApplication(create_backend_app), sys.argv[2]),
               threaded=True)
