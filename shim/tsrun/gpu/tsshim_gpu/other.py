# SPDX-License-Identifier: MIT
"""The second process of a check: it owns memory that the first one opens, or opens the first one's."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from ctypes import c_uint64

from .driver import LAZY_PEERS, Driver, Handle, Refused
from .memory import Data, Gpu

PART = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESSAGE = 4096  # bytes of one at most


def end_with_parent():
    """This process is killed when the one that started it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Gone(Exception):
    """The second process ended, or said why it cannot do what it was asked for."""


class Other:
    """The second process, as the first one sees it."""

    def __init__(self, device):
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen([sys.executable, "-B", PART, "--other", str(device), str(theirs.fileno())],
                                        pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def ask(self, do, **more):
        """What it answers: (an object, a descriptor or None)."""
        try:
            self.ours.send(json.dumps({"do": do, **more}).encode())
            text, fds, _, _ = socket.recv_fds(self.ours, MESSAGE, 1)
        except OSError as error:
            raise Gone(f"the other process is not there: {error}") from None
        if not text:
            raise Gone(f"the other process ended with {self.process.wait()}")
        answer = json.loads(text)
        if "refused" in answer:
            raise Gone("in the other process " + answer["refused"])
        return answer, fds[0] if fds else None

    def kill(self):
        self.process.kill()
        self.process.wait()


class _Asked:
    """The second process itself."""

    def __init__(self, device):
        self.gpu, self.data, self.memory = Gpu(Driver(), device), Data(), 0

    def own(self, count, number):
        self.memory = self.gpu.memory(count)
        self.gpu.write(self.memory, self.data.at(number), count)
        handle = self.gpu.driver.get("cuIpcGetMemHandle", Handle, self.memory)
        return {"handle": bytes(handle.bytes).hex()}, None

    def write(self, count, number):
        self.gpu.write(self.memory, self.data.at(number), count)
        return {}, None

    def look(self, count, number):
        return {"differs": self.gpu.look(self.memory, self.data.at(number), count)}, None

    def open(self, handle, count, number):
        handle = Handle.from_buffer_copy(bytes.fromhex(handle))
        self.memory = self.gpu.driver.get("cuIpcOpenMemHandle_v2", c_uint64, handle, LAZY_PEERS)
        return self.look(count, number)

    def describe(self, count, number):
        self.memory, fd = self.gpu.share_by_descriptor(count)
        self.gpu.write(self.memory, self.data.at(number), count)
        return {}, fd

    def copy_on(self, count):
        """Copies under way, and more of them, until it is killed."""
        mine = self.gpu.memory(count)
        for _ in range(4):
            self.gpu.driver.cuMemcpyDtoDAsync_v2(mine, self.memory, count, self.gpu.stream)
        return {}, None


def serve(device, descriptor):
    """Do what the first process asks for, until it ends."""
    end_with_parent()
    asked, link = _Asked(device), socket.socket(fileno=descriptor)
    while (text := link.recv(MESSAGE)):
        wanted = json.loads(text)
        try:
            answer, fd = getattr(asked, wanted.pop("do"))(**wanted)
        except (Refused, AttributeError) as error:
            answer, fd = {"refused": str(error)}, None
        socket.send_fds(link, [json.dumps(answer).encode()], [] if fd is None else [fd])
