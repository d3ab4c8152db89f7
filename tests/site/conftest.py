# SPDX-License-Identifier: MIT
"""What the scenes of a real Slurm share: one site for all tests of a file, in which each leaves nothing."""

import pytest

import real_slurm


@pytest.fixture(scope="module", name="kept")
def the_kept():
    """The site that the next test goes on with, in a list."""
    kept = []
    yield kept
    for site in kept:
        site.__exit__()


@pytest.fixture(name="site")
def a_site(request, kept):
    """Of so many nodes, settings and lines as the file says in SITE.  After each test there is no job, no drained node,
    no server and nothing in /dev/shm; after one that fails the next has another site."""
    if not kept:
        kept.append(real_slurm.Site(**request.module.SITE).__enter__())
    site = kept.pop()
    try:
        yield site
        if not request.node.stash.get(real_slurm.FAILED, False):
            site.settle()
            site.write_settings(site.settings)
            kept.append(site)
    finally:
        if site not in kept:
            site.__exit__()


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Note how the test ended, for the fixture above."""
    outcome = yield
    pyfuncitem.stash[real_slurm.FAILED] = outcome.excinfo is not None
