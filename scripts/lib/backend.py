# SPDX-License-Identifier: MIT
"""
How pip makes a wheel of an unpacked source package (PEP 517): with Meson, laid out as the wheel of
scripts/package is.  It is for this system alone, so programs take its shared libraries.
"""

import os
import shutil
import subprocess
import sysconfig
import tempfile

import wheel

# Zip knows no earlier time.  Who wants the bytes of another day says so.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")


def meson(*words):
    """Meson of the environment that pip has made; pip shows what it says when it fails."""
    if not shutil.which("meson"):
        raise RuntimeError("there is no meson; let pip make an environment with one")
    subprocess.run(["meson", *words], check=True)


def platform():
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def more_options(settings):
    """Of Meson, from `pip install --config-settings setup-args=...`, named as meson-python does."""
    given = (settings or {}).get("setup-args", [])
    return [given] if isinstance(given, str) else given


def build_wheel(directory, config_settings=None, metadata_directory=None):
    # In the tree: with names that do not depend on where that lies, ccache knows the files again.
    with tempfile.TemporaryDirectory(dir=wheel.ROOT) as place:
        build, stage = os.path.join(place, "build"), os.path.join(place, "stage")
        meson("setup", build, wheel.ROOT, *wheel.options(), *more_options(config_settings))
        meson("compile", "-C", build)
        meson("install", "-C", build, "--no-rebuild", "--quiet", "--strip", "--destdir", stage)
        path = wheel.write(os.path.join(stage, "usr"), platform(), directory)
    return os.path.basename(path)


def prepare_metadata_for_build_wheel(directory, config_settings=None):
    """Without it pip would build twice."""
    made = list(wheel.about(wheel.declared_version(), platform(), wheel.Licence()))
    for name, content, _ in made:
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    return os.path.dirname(made[0][0])


class UnsupportedOperation(Exception):
    """As PEP 517 names it."""


def build_sdist(directory, config_settings=None):
    raise UnsupportedOperation("scripts/package makes the source package, of a git checkout")
