# SPDX-License-Identifier: MIT
"""An ordinary program that decodes in many processes: processes_child.py RECIPE FILE..."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

from PIL import Image

FILES = sys.argv[2:]


def decode(path):
    """Name and hash of one picture."""
    with open(path, "rb") as file:
        pixels = Image.open(file).convert("RGB").tobytes()
    return "%s %s" % (os.path.basename(path), hashlib.sha256(pixels).hexdigest()[:16])


def decode_all(who):
    """Print all pictures, at once so that lines of processes do not mix."""
    text = "".join("%s %s\n" % (who, decode(path)) for path in FILES)
    sys.stdout.write(text)
    sys.stdout.flush()


def os_fork():
    for before in (False, True):
        pid = os.fork()
        if pid == 0:
            decode_all("child")
            os._exit(4)
        print(os.waitpid(pid, 0)[1], flush=True)
        decode_all("parent")


def subprocess_run():
    decode_all("before")
    for command in (["true"], ["sh", "-c", "echo from the shell; exit 9"],
                    [sys.executable, __file__, "leaf", FILES[0]]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.returncode, done.stdout.decode(), flush=True)
    decode_all("after")


def leaf():
    decode_all("leaf")


def pool(method):
    decode_all("before")
    with multiprocessing.get_context(method).Pool(3) as workers:
        for line in workers.map(decode, FILES * 3, chunksize=2):
            print(line)
    decode_all("after")


def posix_spawn():
    decode_all("before")
    pid = os.posix_spawn(sys.executable, [sys.executable, __file__, "leaf", FILES[0]],
                         os.environ)
    print(os.waitpid(pid, 0)[1], flush=True)
    decode_all("after")


def close_everything():
    decode_all("before")
    os.closerange(3, 4096)
    decode_all("after")
    os.closerange(3, 4096)
    pid = os.fork()
    if pid == 0:
        os.closerange(3, 4096)
        decode_all("child")
        os._exit(0)
    print(os.waitpid(pid, 0)[1])


def threads():
    results = {}

    def work(number):
        results[number] = [decode(path) for path in FILES[number:] + FILES[:number]]

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print("\n".join("%d %s" % (n, line) for n in sorted(results) for line in results[n]))


def daemon():
    """Fork twice, close all, decode, and answer through a pipe."""
    decode_all("before")
    receive, send = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(send, 1)
            os.closerange(3, 4096)
            decode_all("daemon")
            os._exit(0)
        os._exit(0)
    os.wait()
    os.close(send)
    with os.fdopen(receive) as answer:
        print(answer.read())


def exec_from_thread():
    decode_all("before")
    threading.Thread(target=lambda: os.execv(
        sys.executable, [sys.executable, __file__, "leaf", *FILES])).start()
    threading.Event().wait()


def exception():
    decode_all("before")
    raise RuntimeError("as it would be without us")


def exit_status():
    decode_all("before")
    sys.exit(77)


def killed():
    pid = os.fork()
    if pid == 0:
        decode_all("child")
        os.kill(os.getpid(), signal.SIGKILL)
    print(os.waitpid(pid, 0)[1], flush=True)
    decode_all("after")


def data_loader(epochs):
    import numpy
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Pictures(Dataset):
        """Centre pieces of the pictures."""

        def __len__(self):
            return 4 * len(FILES)

        def __getitem__(self, index):
            with open(FILES[index % len(FILES)], "rb") as file:
                picture = Image.open(file).convert("RGB")
            piece = picture.resize((64, 64))
            return torch.from_numpy(numpy.array(piece)), index

    torch.manual_seed(0)
    for epoch in range(int(epochs)):
        sums = hashlib.sha256()
        for batch, index in DataLoader(Pictures(), batch_size=4, shuffle=True, num_workers=8):
            sums.update(batch.numpy().tobytes() + index.numpy().tobytes())
        print(epoch, sums.hexdigest(), flush=True)


if __name__ == "__main__":
    RECIPE, _, ARGUMENT = sys.argv[1].partition(":")
    globals()[RECIPE](*([ARGUMENT] if ARGUMENT else []))
