# SPDX-License-Identifier: MIT
"""
What can be written of the tests on a real GPU (docs/gpu.md has the list); no GPU has run them
yet.  Each is skipped, and says so, where there is none.
"""

import ctypes
import os
import re
import sys

import pytest

import meeting
import support
from aligned_common import counter
from copies import LARGE
from support import BUILD, HERE, TEST_LIBRARY, TSRUN, Group, Skip, equal, finish, run, start

TESTS = os.path.join(BUILD, "tests", "cuda")
WAYS, JOBS = os.path.join(TESTS, "ways"), os.path.join(TESTS, "jobs")
SETTINGS = {"TSSHIM_COPIES": "on", "TSSHIM_TEST_COPIES_ALWAYS": "1"}

# Meson names the directory of the software driver to whatever depends on it; a real one may lie
# in any other.  Programs are started with what is left.
STAND_IN = os.path.realpath(os.path.join(BUILD, "tests", "fakecuda"))
PATH = ":".join(place for place in os.environ.get("LD_LIBRARY_PATH", "").split(":")
                if place and not os.path.realpath(place).startswith(STAND_IN))
WHERE = {"LD_LIBRARY_PATH": PATH} if PATH else {}
if os.environ.get("LD_LIBRARY_PATH", "") != PATH:  # which the loader reads when a process begins
    os.environ.pop("LD_LIBRARY_PATH")
    os.environ.update(WHERE)
    raise support.Elsewhere(sys.executable)


def need_gpu():
    """The driver, of a machine that has a GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Skip("gpu", "no libcuda.so.1") from None
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        raise Skip("gpu", "no GPU")
    return cuda


def test_doctor_says_yes(directory):
    """What `tsrun doctor --gpu` checks is not tested again below: the driver, its events, and memory of two processes."""
    need_gpu()
    env = support.plain_environment(**WHERE, XDG_STATE_HOME=directory)
    done = run([TSRUN, "doctor", "--gpu"], env)
    print(re.sub("^", "# ", done.output, flags=re.MULTILINE))
    assert done.status == 0, (done.output, done.errors)


@pytest.mark.parametrize("way", ["dlsym", "default", "program", "resolve", "resolve_v2", "resolve_self"])
def test_every_way_meets_each_copy_once(way):
    need_gpu()
    wanted = run([WAYS, way], support.plain_environment(**WHERE))
    assert wanted.status == 0 and "differs" not in wanted.output, wanted.output
    with Group(library=TEST_LIBRARY, **SETTINGS, **WHERE) as group:
        equal(wanted, run([WAYS, way], group.environment()), way)
        assert counter(group, "produced", "device") + counter(group, "shared", "device") == LARGE


def shared_by(commands, said, more=None, **settings):
    """How many copies jobs share that say that all is equal; each has @more variables of its own."""
    with Group(library=TEST_LIBRARY, **SETTINGS, **WHERE, **settings) as group, meeting.of(len(commands)) as where:
        jobs = [start(command, group.environment(**where, **(more[number] if more else {})))
                for number, command in enumerate(commands)]
        for job in jobs:
            outcome = finish(job)
            assert outcome.status == 0 and said in outcome.output, (job.args, outcome.output, outcome.errors)
        assert group.statistics().get("mismatched", 0) == 0
        return counter(group, "shared", "device")


@pytest.mark.parametrize("count, verify", [(2, "0.1"), (4, "0.1"), (2, "100")])
def test_jobs_bring_the_same(count, verify):
    """Host memory that is overwritten at once, and streams of all kinds."""
    need_gpu()
    assert shared_by([[JOBS, "1", str(i), "300", "bytes=16777216", "pause=2000"] for i in range(count)],
                     "equal: 300", TSSHIM_VERIFY=verify) > 0


@pytest.mark.parametrize("scenario", ["plain", "parts", "edit", "numpy", "fork", "back", "odd"])
def test_named_batches_are_what_they_were(scenario):
    """Pinned twins with a real driver, and a torch that needs to know nothing of CUDA."""
    need_gpu()
    command = [support.torch_python(), os.path.join(HERE, "copies_named_job.py"), scenario, "12"]
    print("# %s: %d of 192 batches shared" % (scenario, shared_by(
        [command] * 2, "equal: 96 of 96", TSSHIM_ALIGN="7", TSSHIM_RING="64M")))


def test_jobs_on_two_gpus_bring_the_same():
    """Whether or not they reach each other; where they do, how much comes from the other one."""
    cuda, count = need_gpu(), ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    if count.value < 2:
        raise Skip("gpu", "there is only one")
    print("# %d of 2000 copies shared" % shared_by(
        [[JOBS, "1", str(i), "1000", "bytes=16777216", "pace=5000"] for i in range(2)], "equal: 1000",
        more=[{"CUDA_VISIBLE_DEVICES": str(i)} for i in range(2)]))
