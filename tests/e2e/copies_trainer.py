# SPDX-License-Identifier: MIT
"""
A trainer's data path (tests/victims/trainer.c) with the library: every kind of copy, through
every kind of program, on drivers and machines of all kinds, says what it says without us.
"""

import itertools
import os
import sys

import support
from copies_common import DRIVER, Gpu
from support import PYTHON, Group, equal, run, victim

sys.path.insert(0, os.path.join(os.path.dirname(support.HERE), "fakecuda"))

from counters import Driver  # noqa: E402

FLAVOURS = ["direct", "dlsym", "runtime", "static"]

# How it brings its 8 batches, and whether they could be shared.
PINNED = ["--memory", "pinned", "--stream", "non-blocking"]
MODES = {
    "pageable": ([], True),
    "pageable, per thread": (["--stream", "thread", "--call", "unified"], True),
    "pageable, waiting": (["--sync", "--stream", "blocking"], True),
    "pageable, several streams": (["--stream", "non-blocking", "--streams", "2", "--slots", "3"],
                                  True),
    "pinned": (PINNED, False),
    "registered": (["--memory", "registered", "--stream", "blocking", "--call", "unified"], False),
    "graph": ([*PINNED, "--call", "graph"], False),
    "batch": (["--call", "batch", "--stream", "non-blocking"], True),
    "batch of 12": (["--call", "batch12", "--stream", "thread"], True),
    "rows": (["--call", "rows", "--stream", "blocking"], False),
    "threads": (["--threads", "4", "--count", "2", "--stream", "thread"], True),
    "own context": (["--own-context"], True),
    "several contexts": (["--own-context", "--threads", "4", "--count", "2"], True),
}

# Directory of the driver, what it is told, and what the trainer is.
MACHINES = {
    "plain": (DRIVER, {}, []),
    "second of two": (DRIVER, {"FAKECUDA_DEVICES": "2"}, ["--device", "1"]),
    "newer": (os.path.join(DRIVER, "newer"), {}, []),
    "older": (os.path.join(DRIVER, "older"), {}, []),
}


# What reaches the driver of a lone trainer's copies is what it asked for, and no more.
COPIES = ("h2d_copies", "h2d_bytes", "h2d_pageable", "h2d_captured", "d2h_copies", "d2h_bytes",
          "d2d_copies", "peer_copies", "batches", "graph_launches", "fills")


def eligible(group):
    """So many copies could be shared, those while another thread got ready among them."""
    found = group.statistics()
    rows = [row.get("kinds", row)["device"] for row in found.get("datasets", [])]
    waiting = found["passed"]["no_store"] if found else 0
    return sum(row["produced"] + row["shared"] for row in rows) + waiting


def said_and_done(command, directory, told, group=None):
    """Its Outcome, and what reached the driver."""
    with Driver(directory) as driver:
        env = {**driver.environment, **told}
        done = run(command, group.environment(TSSHIM_COPIES="on", **env) if group
                   else support.plain_environment(**env))
        counts = driver.counts()
    return done, {name: counts.get(name, 0) for name in COPIES}


def test_every_mode_says_the_same():
    for (mode, (words, could)), (machine, (directory, told, more)), flavour in itertools.product(
            MODES.items(), MACHINES.items(), FLAVOURS):
        if (flavour, machine) == ("direct", "older"):
            continue  # the older one lacks what this is linked with
        case = (mode, machine, flavour)
        command = [victim("trainer-" + flavour), "--bytes", "300001", *words, *more]
        wanted, before = said_and_done(command, directory, told)
        assert wanted.status == 0, (case, wanted.errors)
        with Group() as group:
            got, after = said_and_done(command, directory, told, group)
            equal(wanted, got, case)
            assert before == after, (case, before, after)
            assert eligible(group) == (8 if could else 0), (case, group.statistics())


def test_modes_among_jobs_that_share():
    """Two trainers at once, with a ring: what could be shared is, the rest is not touched."""
    for mode, flavour in (("pageable", "runtime"), ("pageable, per thread", "dlsym"),
                          ("pageable, waiting", "static"), ("threads", "direct"),
                          ("graph", "runtime"), ("batch", "static"), ("own context", "dlsym")):
        words, could = MODES[mode]
        command = [victim("trainer-" + flavour), *words, "--bytes", "300001", "--count", "60",
                   "--delay-us", "1500"]
        wanted = run(command, support.plain_environment(LD_LIBRARY_PATH=DRIVER))
        # A context of the program's own has no ring.
        shares = could and mode != "own context"
        what, least = ("d2d_copies", 0) if shares else ("h2d_copies", 200)
        with Gpu() as gpu:
            for outcome in gpu.trainers_until(lambda now: now.get(what, 0) > least, [command] * 2):
                equal(wanted, outcome, (mode, flavour))
            counters = gpu.safe()
            assert (counters["d2d_copies"] > 0) == shares, (mode, flavour, counters)


# Asks for a copy in the versions there are, and prints whether what it gets is the driver's own;
# of a newer driver also what a call of the newest variant does.
ASK = """
import ctypes, sys
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
def is_driver(address):
    info = Info()
    assert libc.dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return info.file.decode().rpartition("/")[2].startswith("libcuda.so")
def resolver(name):
    ask = getattr(cuda, name)
    def resolve(symbol, version, flags):
        found, status = ctypes.c_void_p(), ctypes.c_int(77)
        more = () if name == "cuGetProcAddress" else (ctypes.byref(status),)
        result = ask(symbol, ctypes.byref(found), version, ctypes.c_ulonglong(flags), *more)
        return result, status.value, found.value
    return resolve
for name in sys.argv[2:]:
    resolve = resolver(name)
    for version in 3020, 7000, 11030, 13000, 14000:
        for flags in 0, 1, 2:
            result, status, found = resolve(b"cuMemcpyHtoDAsync", version, flags)
            print(name, version, flags, result, status, found and is_driver(found))
if sys.argv[1] == "newer":
    for symbol in "cuMemcpyHtoDAsync_v3", "cuMemcpyHtoDAsync_v3_ptsz":
        address = ctypes.cast(getattr(cuda, symbol), ctypes.c_void_p).value
        print(symbol, is_driver(address))
        flags = 2 if symbol.endswith("ptsz") else 0
        print(resolver("cuGetProcAddress_v2")(b"cuMemcpyHtoDAsync", 14000, flags)[2] == address)
    size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
    print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
    source, back = ctypes.create_string_buffer(b"y" * (1 << 20), 1 << 20), bytearray(1 << 20)
    print(cuda.cuMemcpyHtoDAsync_v3(device, source, size, ctypes.c_uint(0), None), cuda.cuCtxSynchronize())
    into = (ctypes.c_char * (1 << 20)).from_buffer(back)
    print(cuda.cuMemcpyDtoH_v2(into, device, size), bytes(back) == source.raw)
"""

RESOLVERS = {"plain": ["cuGetProcAddress", "cuGetProcAddress_v2"],
             "older": ["cuGetProcAddress"],
             "newer": ["cuGetProcAddress", "cuGetProcAddress_v2", "cuGetProcAddress_v2_ptsz"]}


def test_what_nobody_knows_is_passed_on():
    """Variants that came after us are the driver's own, in whatever way they are asked for."""
    for machine, names in RESOLVERS.items():
        env = {"LD_LIBRARY_PATH": MACHINES[machine][0]}
        command = [PYTHON, "-c", ASK, machine, *names]
        wanted = run(command, support.plain_environment(**env))
        assert wanted.status == 0, wanted.errors
        with Group() as group:
            got = run(command, group.environment(TSSHIM_COPIES="on", **env))
            before, after = wanted.output.splitlines(), got.output.splitlines()
            assert (got.status, got.errors, len(after)) == (0, "", len(before)), got.errors
            replaced = set()
            for old, new in zip(before, after):
                if old != new:
                    # Found as without us, but not in the driver.
                    assert old.rpartition(" ")[0] == new.rpartition(" ")[0], (old, new)
                    assert (old.split()[-1], new.split()[-1]) == ("True", "False"), (old, new)
                    replaced.add(tuple(old.split()[:3]))
            latest = "14000" if machine == "newer" else "none"
            known = {(name, version, flags) for name, version, flags in
                     (tuple(line.split()[:3]) for line in before if line.endswith("True")
                      and line.startswith("cuGetProcAddress"))
                     if version != latest}
            assert replaced == known, (machine, replaced ^ known)
            # The copy of its own kind was not even counted.
            assert machine != "newer" or eligible(group) == 0
