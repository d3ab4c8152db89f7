# SPDX-License-Identifier: MIT
"""
PyTorch on a real GPU with copies that are shared (docs/gpu.md, 2, 3, 12); no GPU has run these
yet.  Each is skipped, and says so, where there is no GPU or no torch that knows it.
"""

import os
import re
import subprocess
import sys

import support
from aligned_common import counter
from gpu import SETTINGS, WHERE, need_gpu
from support import HERE, TEST_LIBRARY, Group, Skip, equal, finish, run, start

JOB = os.path.join(HERE, "gpu_torch_job.py")
CALLS = 50  # as there


def torch_with_cuda():
    """An interpreter whose torch has the GPU: the one named, ours, or those of other tests."""
    need_gpu()
    named = os.environ.get("TSSHIM_TEST_GPU_PYTHON")
    pypi = os.environ.get("TSSHIM_TEST_PYPI_PYTHON")
    for python in (named,) if named else (sys.executable, pypi, "python3"):
        code = "import torch; assert torch.cuda.is_available()"
        try:
            if python and subprocess.run([python, "-c", code], capture_output=True, timeout=300,
                                         check=False).returncode == 0:
                return python
        except FileNotFoundError:
            continue
    raise Skip("gpu", "no torch that has CUDA (TSSHIM_TEST_GPU_PYTHON names an interpreter)")


def passed(python, function):
    """{reason: count} of a job that calls @function of the runtime."""
    with Group(library=TEST_LIBRARY, **SETTINGS, **WHERE) as group:
        outcome = run([python, JOB, "runtime", function], group.environment())
        assert outcome.status == 0 and "arrived True" in outcome.output, (
            function, outcome.output, outcome.errors[-1500:])
        return group.statistics()["passed"]


def test_copies_of_the_runtime_are_met_once():
    python = torch_with_cuda()
    before = passed(python, "none")["copy_small"]
    met = {function: passed(python, function)["copy_small"] - before
           for function in ("cudaMemcpy", "cudaMemcpy:default", "cudaMemcpyAsync",
                            "cudaMemcpyAsync:default", "cudaMemcpy2D")}
    print("# of %d calls each are met: %s" % (CALLS, met))
    assert all(count == CALLS for function, count in met.items() if "2D" not in function), met
    assert met["cudaMemcpy2D"] == 0, met


def test_pinned_batches_are_not_copied_again():
    """By the pinning thread; and what was queued before the batch went is what arrives."""
    python = torch_with_cuda()
    wanted = run([python, JOB, "loader"], support.plain_environment(**WHERE))
    assert wanted.status == 0 and "pinned 32 wrong 0" in wanted.output, wanted
    with Group(library=TEST_LIBRARY, **SETTINGS, **WHERE) as group:
        equal(wanted, run([python, JOB, "loader"], group.environment()), "loader")


def test_graphs_are_captured_and_replayed():
    python = torch_with_cuda()
    wanted = run([python, JOB, "graph"], support.plain_environment(**WHERE))
    assert wanted.status == 0 and re.search(r"graph \w{16}", wanted.output), wanted
    with Group(library=TEST_LIBRARY, **SETTINGS, **WHERE) as group:
        jobs = [start([python, JOB, "graph"], group.environment()) for _ in range(2)]
        for job in jobs:
            equal(wanted, finish(job), "graph")
        print("# %d of 40 copies beside it shared" % counter(group, "shared", "device"))
