# SPDX-License-Identifier: MIT
"""Threads that take memory and give it back, and a child."""
import os
import threading


def work():
    return [bytearray(n * 100) for n in range(500)]


threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "exit 3"))
