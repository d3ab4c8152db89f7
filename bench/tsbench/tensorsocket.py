# SPDX-License-Identifier: MIT
"""Where TensorSocket is, and ports for it."""
import os
import socket

from .jobs import JobError, Unavailable


def python():
    """An interpreter with TensorSocket and a torch that it works with."""
    path = os.environ.get("TSSHIM_BENCH_PYPI_PYTHON", "")
    if not os.path.exists(path):
        raise Unavailable("there is no environment with TensorSocket and a torch it works "
                          "with; scripts/deps pypi makes one, of 6 GB")
    return path


def free_ports(start):
    """The first of four consecutive ports, from @start on, that nobody uses now."""
    for first in range(start, start + 4000, 4):
        try:
            for port in range(first, first + 4):
                with socket.socket() as probe:
                    probe.bind(("", port))
            return first
        except OSError:
            continue
    raise JobError("no four consecutive free ports")
