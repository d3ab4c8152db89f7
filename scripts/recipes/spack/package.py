# SPDX-License-Identifier: MIT
"""For Spack 1.0 or newer; scripts/lib/recipes.py fills in what stands between @."""

import os

from spack.package import depends_on, license, version
from spack_repo.builtin.build_systems.meson import MesonPackage


class Tsshim(MesonPackage):
    """Training jobs on one node share what they repeat: reading, decoding and augmenting data.

    Put `tsrun --` in front of the commands you already have."""

    # The source package lies beside this file.
    url = "file://%s/tsshim-@VERSION@.tar.gz" % os.path.dirname(os.path.abspath(__file__))

    license("MIT")

    version("@VERSION@", sha256="@SHA256@")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("xxhash", type="build")
    depends_on("elfutils")
    # `tsrun cluster` starts a memcached of PATH; who has none needs none.
    depends_on("openssl@3:")

    def meson_args(self):
        return ["-Dtests=disabled", "-Dtools=enabled", "-Dpeers=enabled", "-Db_lto=false"]
