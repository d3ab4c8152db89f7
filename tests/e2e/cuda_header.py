# SPDX-License-Identifier: MIT
"""What hooks/cuda/cuda_driver.h says of the driver is what each cuda.h says that is found here."""

import glob
import os
import re
import subprocess
import tempfile

import support
from support import HERE, Skip

ROOT = os.path.dirname(os.path.dirname(HERE))
CHECK = os.path.join(ROOT, "tests", "cuda", "check_abi.c")
ABI = os.path.join("hooks", "cuda", "cuda_driver.h")
NAMED = "-D__CUDA_API_VERSION_INTERNAL"  # every symbol under its own name

# Where those look who install CUDA, and what comes with the wheels of torch.
PLACES = ["/usr/local/cuda*/include", "/usr/include"]
PYPI = ["nvidia/*/include", "triton/backends/nvidia/include"]


def headers():
    """Version and folder of each; of each version one."""
    places = [os.path.join(os.environ[name], "include")
              for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)] + PLACES
    python = os.environ.get("TSSHIM_TEST_PYPI_PYTHON", "")
    packages = os.path.join(os.path.dirname(os.path.dirname(python)), "lib/python3*/site-packages")
    places += [os.path.join(packages, place) for place in PYPI if python]
    found = {}
    for place in places:
        for path in glob.glob(os.path.join(place, "cuda.h")):
            with open(path, encoding="utf-8", errors="replace") as header:
                version = re.search(r"#define CUDA_VERSION (\d+)", header.read())
            if version:
                found.setdefault(int(version[1]), os.path.dirname(path))
    if not found:
        raise Skip("cuda.h", "there is no cuda.h here (scripts/deps pypi brings one)")
    return found.items()


def compiled(folder, *more):
    """What the compiler has to say, or nothing."""
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-Wall", "-Wextra", "-Werror",
               "-fsyntax-only", *more, "-I" + ROOT, "-isystem", folder, CHECK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (not done.stderr), (command, done)
    return done.stderr


def ways(version):
    # Before, a batch had one version, and that is what programs got.
    return [()] if version < 13000 else [(), (NAMED,)]


def test_the_driver_is_as_headers_say():
    for version, folder in headers():
        for way in ways(version):
            said = compiled(folder, *way)
            assert not said, (version, way, said)
        print("# as in cuda.h of CUDA %d.%d" % (version // 1000, version % 1000 // 10))


def test_what_is_declared_wrong_is_seen():
    """The test of the test: of values, of what is where, and of parameters."""
    wrong = [(r"(TS_CU_NOT_READY +)600", r"\g<1>601", ()),
             (r"(struct ts_cu_location from, to;)\s+(unsigned flags;)", r"\2 \1", ()),
             (r"(X\(cuMemcpyBatchAsync_v2), batch_v2,", r"\1, batch,", (NAMED,))]
    text = support.read(os.path.join(ROOT, ABI))
    version, folder = max(headers())
    for right, changed, way in wrong:
        if way and way not in ways(version):
            continue
        mutant, places = re.subn(right, changed, text)
        assert places == 1, right
        with tempfile.TemporaryDirectory() as place:
            os.makedirs(os.path.join(place, os.path.dirname(ABI)))
            support.write(os.path.join(place, ABI), mutant)
            assert compiled(folder, *way, "-I" + place), changed
