# SPDX-License-Identifier: MIT
"""
Runs of Python programs that import torch, without the two seconds of a core that this takes: one
interpreter imports it, and each program runs in a fork of that one.

Only what others are compared with may come from here: plain runs, and those under the library that
have nobody to share with.  Jobs that are tested are started as users start theirs: addresses, seeds of
hashes and what the library does at a start are each process's own.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import types

IMPORTS = ("numpy", "torch", "torch.multiprocessing", "torchvision")
_servers = {}  # path of the interpreter and how it was started -> process of serve()


def run(command, env=None, **settings):
    """The support.Outcome of @command, the path of a Python interpreter, that of a program and its
    arguments, as from support.run(); @env is the whole environment.  The interpreter itself was
    started with these @settings, which is when the library reads them."""
    import support
    python, *words = command
    kind = python, *sorted(settings.items())
    if kind not in _servers:
        server = _servers[kind] = subprocess.Popen(
            [python, os.path.abspath(__file__)], env=support.plain_environment(**settings), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(_end, server)
    server = _servers[kind]
    with tempfile.TemporaryDirectory() as place:
        paths = [os.path.join(place, name) for name in ("output", "errors")]
        asked = {"words": words, "paths": paths, "cwd": os.getcwd(),
                 "env": support.plain_environment(**settings) if env is None else env,
                 "guard": support.TIMEOUT}
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        output, errors = [open(path, errors="surrogateescape").read() for path in paths]
    return support.Outcome(status, output, errors)


def _end(server):
    server.stdin.close()
    server.wait()


# ---- the interpreter that forks ----

def _traceback(kind, error, trace):
    """As a program's own excepthook: without the frames that are here."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def _become(asked):
    """Run the program in this process, a fork that is nothing else."""
    os.setsid()
    signal.alarm(asked["guard"])  # what hangs is ended, which no program that is compared expects
    for path, descriptor in zip([os.devnull, *asked["paths"]], (0, 1, 2)):
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND if descriptor else os.O_RDONLY
        file = os.open(path, how, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = asked["words"]
    path = os.path.abspath(sys.argv[0])
    sys.path[0] = os.path.dirname(path)
    sys.excepthook = _traceback
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__file__ = sys.argv[0]
    with open(path) as file:
        exec(compile(file.read(), sys.argv[0], "exec"), program.__dict__)


def serve():
    for name in IMPORTS:
        __import__(name)
    while line := sys.stdin.readline():
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            return _become(asked)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    serve()
