#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""
The stand-in for libcuda.so.1 is a faithful one: its interface is that of a real cuda.h, and
programs that reach it in each of the usual ways get right results and are counted.

It is a driver in software, not a GPU: nothing here says that a GPU would do the same.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from support import (BUILD, PYTHON, Skip, finish, plain_environment,  # noqa: E402
                     run, start, victim)
from counters import Driver  # noqa: E402

OWN = os.path.join(BUILD, "tests", "fakecuda")
FLAVOURS = ["direct", "dlsym", "runtime", "static"]
STREAMS = ["legacy", "thread", "legacy-handle", "thread-handle", "blocking", "non-blocking"]


def headers():
    """Directories with a real cuda.h and cudaTypedefs.h."""
    venv = os.path.dirname(os.path.dirname(os.environ.get("TSSHIM_TEST_PYPI_PYTHON", "/none/x/y")))
    places = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"),
              *glob.glob("/usr/local/cuda-*/include"), "/usr/include",
              *glob.glob(venv + "/lib/python3*/site-packages/nvidia/cu*/include"),
              *glob.glob(venv + "/lib/python3*/site-packages/triton/backends/nvidia/include")]
    found = {}
    for place in places:
        if os.path.exists(place + "/cudaTypedefs.h") and os.path.exists(place + "/cuda.h"):
            with open(place + "/cuda.h", encoding="utf-8") as file:
                version = int(re.search(r"define CUDA_VERSION (\d+)", file.read()).group(1))
            found[version] = place
    # An older one lacks what the table has.
    wanted = [place for version, place in found.items() if version >= 13000]
    if not wanted:
        raise Skip("cuda_h", "no cuda.h of CUDA 13 or newer here: the interface of the stand-in "
                   "was not compared with a real one")
    return wanted


def compiles(*arguments):
    done = subprocess.run(["cc", "-std=gnu11", "-I", HERE, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


def test_interface_is_that_of_cuda_h():
    table = os.path.join(HERE, "check_table.c")
    for place in headers():
        good, text = compiles("-fsyntax-only", "-I", place, table)
        assert good, text
        # It does find a mistake.
        good, text = compiles("-fsyntax-only", "-DCHECK_MISTAKE", "-I", place, table)
        assert not good and "cuMemcpyHtoD_v2" in text, text


def test_values_and_layouts_are_those_of_cuda_h():
    layout = os.path.join(HERE, "check_layout.c")
    with tempfile.TemporaryDirectory() as directory:
        program = directory + "/layout"
        for place in headers():
            said = []
            for more in ([], ["-DREAL_HEADER", "-I", place]):
                good, text = compiles(layout, "-o", program, *more)
                assert good, text
                said.append(subprocess.check_output([program], text=True).splitlines())
            assert len(said[0]) > 100 and said[0] == said[1], set(said[0]) ^ set(said[1])


def exported(library):
    lines = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    return {line.split()[2] for line in lines.splitlines()}


def test_exports_are_the_table():
    table = subprocess.check_output(
        ["cc", "-E", "-P", "-I", HERE, "-"], text=True,
        input='#include "functions.h"\n#define X(s, ...) s\n#define T(s, ...) s##_ptds\n'
              "#define Z(s, ...) s##_ptsz\nFAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X) "
              "FAKE_PTDS(T) FAKE_PTSZ(Z)")
    wanted = set(table.split())
    assert len(wanted) > 100
    got = exported(OWN + "/libcuda.so.1")
    assert got == wanted, got ^ wanted
    assert exported(OWN + "/older/libcuda.so.1") == wanted - {"cuGetProcAddress_v2"}
    assert exported(OWN + "/newer/libcuda.so.1") == wanted | {
        "cuMemcpyHtoDAsync_v3", "cuMemcpyHtoDAsync_v3_ptsz", "cuGetProcAddress_v2_ptsz"}
    said = subprocess.check_output(["objdump", "-p", OWN + "/libcuda.so.1"], text=True)
    assert re.search(r"SONAME\s+libcuda\.so\.1\n", said), said


def train(driver, flavour, *options, status=0):
    """Run the trainer. Returns what it printed last."""
    done = run([victim("trainer-" + flavour), *map(str, options)],
               plain_environment(**driver.environment))
    assert done.status == status, (flavour, options, done.status, done.output, done.errors)
    return done.output.strip().rpartition("\n")[2]


def test_every_way_to_a_copy():
    said = set()
    with Driver(jitter_us=500) as driver:
        for flavour in FLAVOURS:
            for stream in STREAMS:
                said.add(train(driver, flavour, "--stream", stream, "--bytes", 70001))
        copies = len(FLAVOURS) * len(STREAMS) * 8
        assert driver["h2d_copies"] == copies, driver.counts()
        assert driver["h2d_bytes"] == copies * 70001
        assert driver["h2d_pageable"] == copies
        assert driver["d2h_copies"] == copies and "d2d_copies" not in driver.counts()
        # Each flavour in one of six cases.
        assert driver["call.cuMemcpyHtoDAsync_v2_ptsz"] == copies // 6
    assert len(said) == 1, said


def test_batches_are_what_the_seed_says():
    with Driver() as driver:
        first = train(driver, "direct", "--seed", 1)
        assert first == train(driver, "direct", "--seed", 1, "--own-context")
        assert first != train(driver, "direct", "--seed", 2)
        assert first != train(driver, "direct", "--seed", 1, "--start", 1)
        lines = [run([victim("trainer-direct"), "--print", "--start", str(k), "--count", "2"],
                     plain_environment(**driver.environment)).output.splitlines()[1 - k]
                 for k in (0, 1)]
        assert lines[0] == lines[1] and lines[0].startswith("batch 1 "), lines


def test_trainer_finds_mistakes():
    """Each mistake that a hook can make; without it the same run is right."""
    for mistake, options in (("nosync", ["--memory", "pinned", "--sync"]), ("pin", []),
                             ("stale", ["--memory", "pinned"]), ("short", [])):
        with Driver(delay_us=3000) as driver:
            driver.environment["LD_PRELOAD"] = OWN + "/libcudabadhook.so"
            right = train(driver, "direct", *options)
            driver.environment["BADHOOK"] = mistake
            assert train(driver, "direct", *options, status=1) != right


def test_refused_calls_end_the_trainer():
    with Driver(fail="cuMemcpyHtoDAsync_v2:3:1") as driver:
        train(driver, "direct", status=3)
        assert driver["injected"] == 1


def test_processes_are_summed():
    with Driver(delay_us=300) as driver, tempfile.TemporaryDirectory() as directory:
        gate = directory + "/gate"
        jobs = [start([victim("trainer-dlsym"), "--gate", gate, "--ready", gate + str(i)],
                      plain_environment(**driver.environment)) for i in range(4)]
        deadline = time.monotonic() + 60
        while not all(os.path.exists(gate + str(i)) for i in range(4)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with open(gate, "w", encoding="utf-8"):
            pass
        done = [finish(job) for job in jobs]
        assert {d.status for d in done} == {0} and len({d.output for d in done}) == 1
        assert driver["h2d_copies"] == 32 and driver["call.cuInit"] == 4


def test_settings_must_be_right():
    for name, value in (("delay", 1), ("delay_us", -1), ("delay_us", "1ms"), ("devices", 17),
                        ("fail", "cuInit"), ("peers", "0-0"), ("mig", "0")):
        with Driver(**{name: value}) as driver:
            done = run([victim("trainer-direct")], plain_environment(**driver.environment))
            assert done.status == 99 and "stand-in" in done.errors, (name, done.errors)


def test_times_are_no_shorter_than_told():
    def seconds(**settings):
        with Driver(**settings) as driver:
            begin = time.monotonic()
            train(driver, "direct", "--count", 4, "--slots", 1, "--bytes", 100000)
            return time.monotonic() - begin

    # Four copies to the device and four back.
    for settings in ({"delay_us": 50000}, {"bandwidth": 2000000}):
        took = seconds(**settings)
        assert took >= 0.4, (settings, took)


def test_older_driver_is_resolved_by_name():
    with Driver(OWN + "/older") as driver:
        for flavour in ("runtime", "static", "dlsym"):
            train(driver, flavour, "--call", "htod")
        assert driver["resolved"] == 0 and driver["h2d_copies"] == 24
    with Driver() as driver:
        train(driver, "runtime")
        assert driver["resolved"] > 150, driver.counts()


ASK = """
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
for line in sys.argv[1:]:
    name, version, flags, wanted = line.split(",")
    got, status = ctypes.c_void_p(), ctypes.c_int()
    error = cu.cuGetProcAddress_v2(name.encode(), ctypes.byref(got), int(version),
                                   ctypes.c_ulonglong(int(flags)), ctypes.byref(status))
    want = ctypes.cast(getattr(cu, wanted), ctypes.c_void_p).value if wanted else None
    assert (error, got.value) == (0, want), (line, error, got, status)
version = ctypes.c_int()
ctypes.CDLL(None).cuDriverGetVersion(ctypes.byref(version)) if len(sys.argv) == 2 else 0
print(version.value)
"""


def test_newer_driver_has_what_nobody_knows():
    with Driver(OWN + "/newer") as driver:
        done = run([PYTHON, "-c", ASK, "cuMemcpyHtoDAsync,13000,0,cuMemcpyHtoDAsync_v2",
                    "cuMemcpyHtoDAsync,14000,0,cuMemcpyHtoDAsync_v3",
                    "cuMemcpyHtoDAsync,14000,2,cuMemcpyHtoDAsync_v3_ptsz"],
                   plain_environment(**driver.environment))
        assert done.status == 0, done.errors
        train(driver, "runtime")


def test_addresses_are_its_own():
    """A preload of the same name is not what cuGetProcAddress gives out."""
    with Driver() as driver:
        env = plain_environment(**driver.environment)
        env["LD_PRELOAD"] = OWN + "/libcudaneighbour.so"
        done = run([PYTHON, "-c", ASK, "cuDriverGetVersion,13000,0,cuDriverGetVersion"], env)
        assert (done.status, done.output) == (0, "1\n"), (done.output, done.errors)


def test_habits_of_real_drivers():
    """dlsym in itself while it is being loaded, and in cuInit: harmless by themselves."""
    for habit in (1, 2):
        with Driver(resolve_through_self=habit) as driver:
            for flavour in FLAVOURS:
                train(driver, flavour, "--count", 2)
            assert driver["call.cuInit"] == (4 if habit == 1 else 8)


def test_nothing_is_left():
    before = set(os.listdir("/dev/shm"))
    with Driver(delay_us=20000) as driver:
        job = start([victim("trainer-direct"), "--count", "100000"],
                    plain_environment(**driver.environment))
        deadline = time.monotonic() + 60
        while driver.counts().get("h2d_copies", 0) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        job.kill()
        job.communicate()
    left = {name for name in set(os.listdir("/dev/shm")) - before if "fakecuda" in name}
    assert not left, left
