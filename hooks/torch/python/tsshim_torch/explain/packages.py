# SPDX-License-Identifier: MIT
"""The packages that a program has imported and that matter: their versions, and what they share."""

import mmap
import sys

from ..judge import versions

try:
    from .. import others
    _OTHERS = others.PACKAGES
except Exception:  # in an interpreter that does not take the library
    _OTHERS = {}

_BY_OWN_CODE = ("data sets that hold or call it share decoded pictures in default mode, and whole "
                "samples under --align")
# module -> what becomes of programs with it; docs/programs.md has what was measured.
PACKAGES = {
    "cv2": None,  # looked into
    "albumentations": _BY_OWN_CODE,
    "monai": _BY_OWN_CODE,
    "kornia": _BY_OWN_CODE,
    "pandas": _BY_OWN_CODE,
    "pyarrow": _BY_OWN_CODE,
    "polars": _BY_OWN_CODE,
    "h5py": _BY_OWN_CODE,
    "lmdb": _BY_OWN_CODE,
    "datasets": _BY_OWN_CODE,
    "webdataset": "iterable: samples are shared under --align, by loaders with workers",
    "streaming": "not tried",
    "litdata": "its own loader is not aligned, and of its streams no samples are shared; decoded "
               "pictures are",
    "torchdata.stateful_dataloader": "samples are shared under --align",
    "fastai": "its loaders give whole batches: aligned, and of these decoded pictures are shared",
    "torch_geometric": "samples are shared under --align",
    "lightning": "with more than one rank its sampler has a seed of its own: --align-orders",
    "pytorch_lightning": "with more than one rank its sampler has a seed of its own: --align-orders",
    "accelerate": "its sampler has a seed of its own: one for all jobs, or --align-orders",
    "nvidia.dali": "decodes by itself: nothing is shared but files of slow storage (--stage)",
    "ffcv": "decodes by itself: nothing is shared but files of slow storage (--stage)",
    "jax": "batches come from whatever loads them",
}
_OF_OTHERS = ("its loaders are not aligned, and no samples of them are shared; pictures decoded by "
              "Pillow, and files, are")
_MESSAGE = b"Not a JPEG file: starts with 0x%02x 0x%02x"  # shim/tsrun/library.c


def _version(module):
    version = getattr(module, "__version__", None)
    return version if isinstance(version, str) else None


def _has_libjpeg(path):
    """Whether the file @path has a libjpeg of its own; None: it cannot be told."""
    try:
        with open(path, "rb") as file, \
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(_MESSAGE) >= 0
    except (OSError, ValueError):
        return None


def _mapped():
    """The files that are mapped into this process, each once."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        return sorted({line[line.index("/"):].rstrip("\n") for line in maps if "/" in line})


def _base(path):
    return path.rpartition("/")[2]


def decoders():
    """{"libjpeg": [those that are libraries], "static": [files with one inside]}."""
    try:
        paths = _mapped()
    except OSError:
        return {"libjpeg": None, "static": None}
    shared = [path for path in paths if _base(path).startswith(
        ("libjpeg.", "libjpeg-", "libturbojpeg.", "libturbojpeg-"))]
    inside = [path for path in paths if _base(path).startswith(
        ("cv2.", "_imaging.", "libopencv_imgcodecs", "libtensorflow", "libdali")) and _has_libjpeg(path)]
    return {"libjpeg": shared, "static": inside}


def _load_decoder():
    """Pillow and torchvision load theirs with the first picture."""
    if "PIL.Image" in sys.modules:
        try:
            import PIL._imaging  # noqa: F401
        except ImportError:
            pass


def _judged():
    """Those whose version decides whether code of the user's is judged."""
    for name, version in versions.found().items():
        good = versions.is_judged(name, version)
        _, first, last = versions.JUDGED[name]
        words = "judged" if good else (
            "not judged (%d.%d to %d.%d are): in default mode data sets with code of your own share "
            "no samples" % (*first, *last))
        yield {"name": name, "version": version and str(version), "judged": good, "text": words}


def explain():
    """{"judged": [...], "others": [...], "decoders": {...}}"""
    _load_decoder()
    found = decoders()
    inside = [path for path in found["static"] or () if _base(path).startswith("cv2.")]
    rows = []
    for name, words in PACKAGES.items():
        if name not in sys.modules:
            continue
        if name == "cv2":
            words = ("it has a libjpeg inside: pictures that it decodes are not shared, samples of "
                     "PyTorch's loaders are") if inside else \
                "it decodes by a shared libjpeg, or has loaded none"
        rows.append({"name": name, "version": _version(sys.modules[name]), "text": words})
    for module, (name, _) in _OTHERS.items():
        if module in sys.modules:
            top = sys.modules.get(name.partition(".")[0])
            rows.append({"name": name, "version": _version(top), "text": _OF_OTHERS})
    return {"judged": list(_judged()), "others": rows, "decoders": found}
