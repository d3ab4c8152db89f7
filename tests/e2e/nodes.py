# SPDX-License-Identifier: MIT
"""
Several nodes on one machine: network namespaces behind one switch, each with a name, addresses of
IPv4 and IPv6, a /dev/shm, a /run (with root's directory there) and an /etc/hosts of its own.  All other files, users and process
numbers they have in common, as nodes with a shared home do.

    with nodes.Nodes(3) as three:
        three.run(0, ["getent", "hosts", three.names[1]])
        three.shape(delay_ms=1)                          # Nodes(3, delays=True)

Needs root.  What it starts in a namespace and is not waited for is ended with it.
"""

import contextlib
import ctypes
import fcntl
import heapq
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import support

NETWORK4, NETWORK6 = "10.77.0.%d", "fd77::%x"
FRAME = 9000  # bytes of a packet, as on networks of clusters
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000

HOLD = """
mount -t tmpfs -o size=4G,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/user/0
chmod 700 /run/user/0
mount --bind "$1" /etc/hosts
hostname "$2"
ip link set lo up
echo ready
exec sleep infinity
"""


def quiet(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def has_netem():
    """Whether this kernel delays packets by itself."""
    return subprocess.run(["unshare", "--net", "tc", "qdisc", "replace", "dev", "lo", "root", "netem",
                           "delay", "1ms"], stderr=subprocess.DEVNULL).returncode == 0


def check():
    """Skip where there can be no nodes."""
    for program in ("ip", "tc", "unshare", "nsenter"):
        if not shutil.which(program):
            raise support.Skip("nodes", "needs %s" % program)
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--mount", "--uts", "true"],
                                           stderr=subprocess.DEVNULL).returncode != 0:
        raise support.Skip("nodes", "needs root, for network namespaces")


class Nodes:
    """@count nodes.  @delays: shape() will be asked for delays; then a process of ours
    carries the packets where the kernel cannot delay them, some 1 Gbit/s between all nodes."""

    def __init__(self, count, delays=False):
        check()
        self.count = count
        self.names = ["node%d" % (i + 1) for i in range(count)]
        self.addresses = [NETWORK4 % (i + 1) for i in range(count)]
        self.addresses6 = [NETWORK6 % (i + 1) for i in range(count)]
        self.folder = tempfile.mkdtemp(prefix="tsshim-nodes-")
        self.holders, self.relay = [], None
        self.relayed = delays and not has_netem()

    def __enter__(self):
        try:
            hosts = os.path.join(self.folder, "hosts")
            with open(hosts, "w", encoding="ascii") as file:
                file.write("127.0.0.1 localhost\n::1 localhost\n")
                for name, *addresses in zip(self.names, self.addresses, self.addresses6):
                    file.writelines("%s %s\n" % (address, name) for address in addresses)
            os.chmod(self.folder, 0o755)
            for name in [*self.names, "switch"]:
                self.holders.append(subprocess.Popen(
                    ["unshare", "--net", "--mount", "--uts", "--propagation", "private", "sh",
                     "-euc", HOLD, "sh", hosts, name], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, text=True))
            for holder in self.holders:
                assert holder.stdout.readline() == "ready\n", holder.args
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for number in range(len(self.holders)):
            for process in self.processes(number):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()
        if self.relay:
            self.relay.stdin.close()
            self.relay.wait()
        shutil.rmtree(self.folder)

    # ---- the network ----

    def inside(self, number, *words):
        """A command line in that node; it begins in the root directory."""
        return ["nsenter", "-t", str(self.holders[number].pid), "--net", "--mount", "--uts", "--wd=/",
                "--", *words]

    def connect(self):
        if self.relayed:
            self.start_relay()
        else:
            quiet(*self.inside(self.count, "ip", "link", "add", "bridge", "type", "bridge"))
            quiet(*self.inside(self.count, "ip", "link", "set", "bridge", "up"))
        for number in range(self.count):
            port = "port%d" % number
            if not self.relayed:
                quiet(*self.inside(self.count, "ip", "link", "add", port, "mtu", str(FRAME), "type",
                                   "veth", "peer", "name", "eth0", "mtu", str(FRAME), "netns",
                                   str(self.holders[number].pid)))
                quiet(*self.inside(self.count, "ip", "link", "set", port, "master", "bridge", "up"))
            for address in (self.addresses[number] + "/24", self.addresses6[number] + "/64"):
                quiet(*self.inside(number, "ip", "address", "add", address, "dev", "eth0",
                                   *(["nodad"] if ":" in address else [])))
            quiet(*self.inside(number, "ip", "link", "set", "eth0", "mtu", str(FRAME), "up"))

    def start_relay(self):
        taps = [open_tap(holder.pid, number) for number, holder in enumerate(self.holders[:-1])]
        self.relay = subprocess.Popen([sys.executable, os.path.abspath(__file__),
                                       *map(str, taps)], pass_fds=taps, stdin=subprocess.PIPE,
                                      text=True, bufsize=1)
        for tap in taps:
            os.close(tap)

    def shape(self, number=None, delay_ms=0, rate_mbit=0):
        """How late and how fast is what node @number, or all of them, send: 0 is as the machine is."""
        for one in range(self.count) if number is None else [number]:
            if self.relay:
                self.relay.stdin.write("%d %f %f\n" % (one, delay_ms, rate_mbit))
                continue
            words = []
            if delay_ms:
                words = ["netem", "limit", "100000", "delay", "%fms" % delay_ms]
                words += ["rate", "%dkbit" % (rate_mbit * 1000)] if rate_mbit else []
            elif rate_mbit:
                words = ["tbf", "rate", "%dkbit" % (rate_mbit * 1000), "burst", "256k", "latency",
                         "100ms"]
            done = subprocess.run(
                self.inside(one, "tc", "qdisc", *(["replace", "dev", "eth0", "root", *words] if words
                                                  else ["delete", "dev", "eth0", "root"])),
                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            assert not words or done.returncode == 0, done.stderr

    def cut(self, number):
        """Take the node off the network: nothing comes or goes, and nobody is told."""
        quiet(*self.inside(number, "ip", "link", "set", "eth0", "down"))

    def mend(self, number):
        quiet(*self.inside(number, "ip", "link", "set", "eth0", "up"))
        quiet(*self.inside(number, "ip", "address", "replace", self.addresses6[number] + "/64", "dev",
                           "eth0", "nodad"))

    # ---- programs ----

    def start(self, number, command, env=None, user=None, **more):
        """As support.start(), in that node; @user is a number."""
        become = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"]
        command = self.inside(number, *([] if user is None else become), *command)
        return support.start(command, support.plain_environment() if env is None else env, **more)

    def run(self, number, command, env=None, user=None, **more):
        """As support.run(), in that node."""
        return support.finish(self.start(number, command, env, user, **more))

    def run_all(self, command, env=None, user=None):
        """In all nodes at once; what came of each.  %d in a word is the number of the node."""
        started = [self.start(i, [word.replace("%d", str(i)) for word in command], env, user)
                   for i in range(self.count)]
        return [support.finish(process) for process in started]

    def processes(self, number):
        """Numbers of what runs in that node, but for what holds it."""
        holder = self.holders[number].pid
        network = os.stat("/proc/%d/ns/net" % holder).st_ino if self.holders[
            number].poll() is None else None
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if int(process) != holder and os.stat(
                        "/proc/%s/ns/net" % process).st_ino == network:
                    found.append(int(process))
        return found


# ---- a switch that delays ---------------------------------------------------------------------


def open_tap(pid, number):
    """A descriptor of the interface eth0, made in the network namespace of @pid."""
    found = []

    def in_namespace():
        # Of this thread alone, which ends.
        with open("/proc/%d/ns/net" % pid, encoding="ascii") as namespace:
            assert ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) == 0
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
        found.append(tap)

    if not os.path.exists("/dev/net/tun"):
        raise support.Skip("nodes", "delays need netem in the kernel, or /dev/net/tun")
    thread = threading.Thread(target=in_namespace)
    thread.start()
    thread.join()
    quiet("nsenter", "-t", str(pid), "--net", "ip", "link", "set", "eth0", "address",
          "02:00:00:00:00:%02x" % number)
    return found[0]


class Relay:
    """Carries frames between interfaces, each late and slow as its sender is said to be."""

    def __init__(self, taps):
        self.taps = taps
        self.shapes = [(0.0, 0.0)] * len(taps)
        self.free = [0.0] * len(taps)  # when the sender's line is
        self.queue, self.serial = [], 0

    def take(self, sender, now):
        """One frame of @sender's."""
        frame = os.read(self.taps[sender], FRAME + 64)
        delay, rate = self.shapes[sender]
        begin = max(now, self.free[sender])
        self.free[sender] = begin + (len(frame) / rate if rate else 0)
        to = frame[5]
        ports = [to] if frame[:5] == b"\2\0\0\0\0" and to < len(self.taps) else [
            i for i in range(len(self.taps)) if i != sender]
        for port in ports:
            self.serial += 1
            heapq.heappush(self.queue, (self.free[sender] + delay, self.serial, port, frame))

    def give(self, now):
        """All that is due."""
        while self.queue and self.queue[0][0] <= now:
            _, _, port, frame = heapq.heappop(self.queue)
            # A full one, or one that is down: a packet is lost.
            with contextlib.suppress(OSError):
                os.write(self.taps[port], frame)

    def run(self, control):
        """Until @control is closed; its lines are those of Nodes.shape()."""
        poll = select.epoll()
        numbers = {tap: number for number, tap in enumerate(self.taps)}
        for descriptor in [control, *self.taps]:
            poll.register(descriptor, select.EPOLLIN)
        while True:
            now = time.monotonic()
            ready = poll.poll(max(0, self.queue[0][0] - now) if self.queue else -1)
            now = time.monotonic()
            for descriptor, _ in ready:
                if descriptor != control:
                    with contextlib.suppress(OSError):
                        self.take(numbers[descriptor], now)
                    continue
                text = os.read(control, 65536).decode()
                if not text:
                    return
                for line in text.splitlines():
                    number, delay, rate = line.split()
                    self.shapes[int(number)] = (float(delay) / 1e3, float(rate) * 125e3)
            self.give(now)


if __name__ == "__main__":
    Relay(list(map(int, sys.argv[1:]))).run(0)
