# SPDX-License-Identifier: MIT
"""Every way in which multiprocessing starts processes, and pools of them."""
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory


def square(x):
    return x * x, "PYTHONPATH" in os.environ


def try_method(method):
    context = multiprocessing.get_context(method)
    with context.Pool(3) as pool:
        print(method, pool.map(square, range(20)))
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        print(list(pool.map(square, range(5))))
    queue = context.Queue()
    process = context.Process(target=queue.put, args=(sys.path[1:],))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
    with context.Manager() as manager:
        print(manager.dict(a=1))


if __name__ == "__main__":
    for name in ("fork", "spawn", "forkserver"):
        try_method(name)
    memory = shared_memory.SharedMemory(create=True, size=100)
    memory.close()
    memory.unlink()
    with ThreadPoolExecutor(8) as threads:
        print(sum(threads.map(len, ["abc"] * 100)))
