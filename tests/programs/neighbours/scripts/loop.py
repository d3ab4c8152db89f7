# SPDX-License-Identifier: MIT
"""asyncio: a server, a child, a thread, a signal; subprocess with its options."""
import asyncio
import os
import signal
import subprocess
import sys


async def handle(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def ask(number):
    reader, writer = await asyncio.open_unix_connection("socket")
    writer.write(b"hello %d\n" % number)
    answer = await reader.readline()
    writer.close()
    return answer


async def main():
    server = await asyncio.start_unix_server(handle, "socket")
    print(await asyncio.gather(*map(ask, range(20))))
    server.close()
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "cat; exit 4", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(await process.communicate(b"text"), process.returncode)
    print(await asyncio.to_thread(os.cpu_count) > 0)
    loop = asyncio.get_running_loop()
    got = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, got.set_result, 1)
    os.kill(os.getpid(), signal.SIGUSR1)
    print(await got)


asyncio.run(main())
os.unlink("socket")
for options in ({}, {"close_fds": False}, {"start_new_session": True},
                {"preexec_fn": lambda: os.umask(0o77)}):
    print(subprocess.run("umask; ls /proc/self/fd | wc -l; exit 2", shell=True, text=True,
                         capture_output=True, **options))
code = "import os; print(sorted(k for k in os.environ if k[0] != 'T'))"
print(subprocess.run([sys.executable, "-c", code], env={"A": "1"}, text=True, capture_output=True))
