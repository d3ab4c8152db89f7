# SPDX-License-Identifier: MIT
"""What the scenes of a real Slurm share: one site for all tests of a file, in which each leaves nothing."""

import pytest

import real_slurm


@pytest.fixture(scope="module", name="site")
def a_site(request):
    """Of so many nodes, settings and lines as the file says in SITE."""
    with real_slurm.Site(**request.module.SITE) as site:
        yield site


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """After each test: no job, no drained node, no server, nothing in /dev/shm.  The next one finds the settings again."""
    yield
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.settle()
        site.write_settings(site.settings)
