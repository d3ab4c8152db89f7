# SPDX-License-Identifier: MIT
"""Standing in front of a CUDA driver: in every way that programs reach it, once and unseen.

Not called cuda.py: jobs that lie in this directory would find it in the place of the package
that PyPI's torch imports.
"""

import os
import subprocess

import support
from support import BUILD, LIBRARY, PYTHON, Group, Skip, equal, run

DRIVER = os.path.join(BUILD, "tests", "fakecuda")
TESTS = os.path.join(BUILD, "tests", "cuda")
WAYS = os.path.join(TESTS, "ways")
TRAMPOLINES = os.path.join(TESTS, "libtrampolines.so")
SOURCE = os.path.join(os.path.dirname(support.HERE), "cuda", "ways.c")

# What each way does: 8 copies to share and 4 in batches, 9 small ones, one back and one to nowhere,
# one without a context.
LARGE, SMALL, OTHERS, STATE = 12, 9, 2, 1

COMMANDS = {way: [WAYS, way] for way in
            ["dlsym", "default", "program", "resolve", "resolve_v2", "resolve_self", "reload"]}
COMMANDS["linked"] = [WAYS + "-linked", "linked"]
COMMANDS["entry"] = [WAYS + "-runtime", "entry"]
COMMANDS["entry_version"] = [WAYS + "-runtime", "entry_version"]
COMMANDS["trampoline"] = [WAYS, "trampoline", TRAMPOLINES]
COMMANDS["global"] = [WAYS, "global", TRAMPOLINES]
COMMANDS["deepbind"] = [WAYS, "deepbind", TRAMPOLINES]
COMMANDS["deepbind-now"] = [WAYS, "deepbind", os.path.join(TESTS, "libtrampolines-now.so")]
COMMANDS["deeplinked"] = [WAYS, "deeplinked", os.path.join(TESTS, "libdeeplinked.so")]

# By ctypes, as scripts do; the counts are one large copy and one small.
SCRIPT = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = 1 << 20, ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
source, back = ctypes.create_string_buffer(bytes(range(256)) * 4096, size), bytearray(size)
copy = cuda.cuMemcpyHtoD_v2
print(copy(device, source, ctypes.c_size_t(size)), copy(device, source, ctypes.c_size_t(9)))
into = (ctypes.c_char * size).from_buffer(back)
print(cuda.cuMemcpyDtoH_v2(into, device, ctypes.c_size_t(size)), bytes(back) == source.raw)
"""


def plain(**more):
    """The environment without us."""
    return support.plain_environment(LD_LIBRARY_PATH=DRIVER, **more)


def settings(group, **more):
    """The environment of a job of @group that shares copies."""
    return group.environment(**{"LD_LIBRARY_PATH": DRIVER, "TSSHIM_COPIES": "on", **more})


def counts(group):
    """(eligible copies, small ones, of other kinds, in an unusual state)"""
    found = group.statistics()
    rows = [row.get("kinds", row)["device"] for row in found["datasets"]]
    reasons = found["passed"]
    return (sum(row["produced"] + row["shared"] for row in rows), reasons["copy_small"],
            reasons["copy_kind"], reasons["copy_state"])


def test_every_way_meets_each_copy_once():
    for way, command in COMMANDS.items():
        wanted = run(command, plain())
        assert wanted.status == 0 and "differs" not in wanted.output, (way, wanted.output)
        with Group() as group:
            equal(wanted, run(command, settings(group)), way)
            assert counts(group) == (LARGE, SMALL, OTHERS, STATE), (way, counts(group))


def test_nothing_is_met_when_off():
    for way, command in COMMANDS.items():
        wanted = run(command, plain())
        for more in ({"TSSHIM_COPIES": "off"}, {"TSSHIM_DISABLE": "1"}, {"TSSHIM_SHARE": "off"},
                     {"TSSHIM_RING": "0"}):
            with Group() as group:
                equal(wanted, run(command, settings(group, **more)), (way, more))
                assert group.leftovers("ledger") == [], (way, more)


def test_python():
    wanted = run([PYTHON, "-c", SCRIPT], plain())
    assert wanted.output.endswith("0 True\n"), (wanted.output, wanted.errors)
    with Group() as group:
        equal(wanted, run([PYTHON, "-c", SCRIPT], settings(group)), "ctypes")
        assert counts(group)[:2] == (1, 1), counts(group)


def test_no_driver_is_made_up():
    wanted = run([WAYS, "none"], support.plain_environment())
    if "library: 0" not in wanted.output:
        raise Skip("driver", "this machine has a driver")
    with Group() as group:
        outcome = run([WAYS, "none"], group.environment(TSSHIM_COPIES="on"))
        equal(wanted, outcome, "no driver")
        assert group.leftovers("*") == []


def test_programs_without_cuda_pay_nothing():
    for command in (["ls", "/"], [PYTHON, "-c", "print(1)"], ["/bin/sh", "-c", "exec true"]):
        wanted = run(command, support.plain_environment())
        with Group() as group:
            env = group.environment(TSSHIM_COPIES="on")
            equal(wanted, run(command, env), command)
            assert group.leftovers("*") == [], command


def test_drivers_that_look_themselves_up():
    for habit in "12":
        for way in ("dlsym", "resolve_v2", "linked"):
            wanted = run(COMMANDS[way], plain(FAKECUDA_RESOLVE_THROUGH_SELF=habit))
            with Group() as group:
                env = settings(group, FAKECUDA_RESOLVE_THROUGH_SELF=habit)
                equal(wanted, run(COMMANDS[way], env), (way, habit))
                assert counts(group)[0] == LARGE, (way, habit, counts(group))


def test_other_preloads():
    neighbour = os.path.join(BUILD, "tests", "abi", "libfinder-neighbour.so")
    for order in (LIBRARY + " " + neighbour, neighbour + " " + LIBRARY):
        for way in ("dlsym", "resolve_v2", "linked", "default"):
            wanted = run(COMMANDS[way], plain(LD_PRELOAD=neighbour))
            with Group(library=order) as group:
                equal(wanted, run(COMMANDS[way], settings(group)), (way, order))
                assert counts(group)[0] == LARGE, (way, order, counts(group))


def test_bound_at_once():
    for way in ("linked", "trampoline", "global", "deepbind", "deeplinked"):
        wanted = run(COMMANDS[way], plain(LD_BIND_NOW="1"))
        with Group() as group:
            equal(wanted, run(COMMANDS[way], settings(group, LD_BIND_NOW="1")), way)
            assert counts(group)[0] == LARGE, (way, counts(group))


def test_address_sanitizer():
    program = os.path.join(TESTS, "ways-sanitized")
    compiled = subprocess.run(["cc", "-fsanitize=address", "-D_GNU_SOURCE", "-o", program, SOURCE,
                               "-ldl"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
    if compiled.returncode != 0 or run([program, "none"], plain(**options)).status != 0:
        raise Skip("asan", "the compiler has no AddressSanitizer")
    for way in ("dlsym", "resolve_v2", "default"):
        wanted = run([program, way], plain(**options))
        with Group() as group:
            equal(wanted, run([program, way], settings(group, **options)), way)
            assert counts(group)[0] == LARGE, (way, counts(group))


def test_errors_stay_the_driver_s():
    # Of the copies themselves, and of what only we ask: the program must not see those.
    copies = ["cuMemcpyHtoD_v2:2:700", "cuMemcpyHtoDAsync_v2:0:719", "cuMemcpyAsync:1:999"]
    for failure in copies:
        wanted = run(COMMANDS["dlsym"], plain(FAKECUDA_FAIL=failure))
        with Group() as group:
            outcome = run(COMMANDS["dlsym"], settings(group, FAKECUDA_FAIL=failure))
            equal(wanted, outcome, failure)
    wanted = run(COMMANDS["dlsym"], plain())
    for call in ("cuStreamIsCapturing", "cuStreamIsCapturing_ptsz", "cuCtxGetCurrent",
                 "cuCtxGetDevice", "cuPointerGetAttributes"):
        with Group() as group:
            outcome = run(COMMANDS["dlsym"], settings(group, FAKECUDA_FAIL=call + ":0:1"))
            equal(wanted, outcome, call)
            assert counts(group)[0] < LARGE, (call, counts(group))
