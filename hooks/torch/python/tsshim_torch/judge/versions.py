# SPDX-License-Identifier: MIT
"""
The versions for which the check of code of the user's was judged.

The check knows instructions and functions by their names.  What one of a known name does may
change from one version to the next, so what holds here was read, and tested, for the versions
below; of any other nothing is known.
"""

import re
import sys

from . import Refused

# What users call it: (its module, or None for the interpreter; the first and the last version,
# major and minor).  The tests of default mode run with both ends; whoever moves one runs them.
JUDGED = {
    "Python": (None, (3, 11), (3, 14)),
    "torch": ("torch", (1, 13), (2, 15)),
    "torchvision": ("torchvision", (0, 14), (0, 29)),
    "NumPy": ("numpy", (1, 24), (2, 4)),
    "Pillow": ("PIL", (9, 4), (13, 0)),
}
_MINOR = re.compile(r"(\d+)\.(\d+)(?!\d)")


class Unjudged(Refused):
    """Code of the user's takes part, and something it works with is of a version not judged."""


def _python():
    """The interpreter's version; of another kind of interpreter no number."""
    if sys.implementation.name != "cpython":
        return sys.implementation.name
    # Without the global lock threads change objects while an item looks at them.
    return "free-threaded" if "t" in sys.abiflags else "%d.%d" % sys.version_info[:2]


def found():
    """{name: version} of what is loaded of JUDGED; what is not, no allowed code can load."""
    versions = {"Python": _python()}
    for name, (module, _, _) in JUDGED.items():
        if module in sys.modules:
            versions[name] = getattr(sys.modules[module], "__version__", None)
    return versions


def is_judged(name, version):
    """Whether @version, what a module says of itself, is one of those judged of @name."""
    # torch's is of a class derived from str.
    minor = _MINOR.match(version) if isinstance(version, str) else None
    _, first, last = JUDGED[name]
    return minor is not None and first <= (int(minor[1]), int(minor[2])) <= last


def check():
    """Raise Unjudged where something that is loaded is of another version."""
    for name, version in found().items():
        if not is_judged(name, version):
            raise Unjudged("%s %s" % (name, version))
