# SPDX-License-Identifier: MIT
"""
Attacks on the names of samples: pairs of programs that make different samples of the same code.

In each pair something is done in the second program that the first one does not do.  The two
may be refused, but where they are not their keys must differ.
"""

import argparse
import ctypes
import functools
import locale
import os
import sys
import types
import warnings

import numpy as np
import PIL.Image
import PIL.ImageColor  # noqa: F401 -- a table of its is edited
import torch
import torchvision.transforms.functional as TF
from torchvision import transforms as T

from exact_zoo import Items
from tsshim_torch.fingerprint import datasets, environment
from tsshim_torch.judge import judgement

APART = {}
STEP = T.RandomHorizontalFlip()


def apart(name, change, undo, make=STEP, aligned=False, before=None):
    """What @change() does must show in the name of the samples that @make gives; under alignment,
    where nothing is refused, if so said.  @before() is done in both programs."""
    APART[name] = (lambda: Items(make), change, undo, aligned, before)


def restored(name, get, put, other, **more):
    """What @get() gives is set to @other by @put(), and back again."""
    before = []
    apart(name, lambda: (before.append(get()), put(other)), lambda: put(before.pop()), **more)


def attribute(name, owner, key, value, **more):
    """The attribute of @owner is bound to another @value."""
    restored(name, lambda: getattr(owner, key), lambda new: setattr(owner, key, new), value,
             **more)


# ---- switches ----

restored("recursion", sys.getrecursionlimit, sys.setrecursionlimit, 4321)
if hasattr(sys, "set_int_max_str_digits"):
    restored("digits", sys.get_int_max_str_digits, sys.set_int_max_str_digits, 5432)
restored("buffers_of_numpy", np.getbufsize, np.setbufsize, 16)
restored("locale", lambda: locale.setlocale(locale.LC_NUMERIC),
         lambda name: locale.setlocale(locale.LC_NUMERIC, name), "C.UTF-8")
if hasattr(np, "_set_promotion_state"):
    restored("promotion_of_numpy", np._get_promotion_state, np._set_promotion_state, "weak")

_LIBM = ctypes.CDLL("libm.so.6")
for _name, _mode in (("down", 0x400), ("up", 0x800), ("to_zero", 0xc00)):  # of x86; see fenv.h
    apart("rounding_" + _name, functools.partial(_LIBM.fesetround, _mode),
          functools.partial(_LIBM.fesetround, 0))


# Both raise a warning as an error, but in the second another filter comes first.
warnings.filters.append(("error", None, BytesWarning, None, 0))
apart("order_of_filters", lambda: warnings.filters.insert(
    0, ("ignore", None, BytesWarning, None, 0)), lambda: warnings.filters.pop(0))

_MKLDNN = torch.backends.mkldnn
if hasattr(getattr(_MKLDNN, "conv", None), "fp32_precision"):
    attribute("precision_of_convolutions", _MKLDNN.conv, "fp32_precision", "bf16")

# ---- Pillow ----

def _of_itself():
    """Whether what Pillow loads when it meets its first pictures makes no difference."""
    before, is_new = datasets.environment(), "PIL.GifImagePlugin" not in sys.modules
    PIL.Image.preinit()
    PIL.Image.init()
    return is_new and datasets.environment() == before


LOADS_ITSELF = _of_itself()
GIF = sys.modules["PIL.GifImagePlugin"]
_STRATEGY = getattr(GIF, "LoadingStrategy", None)
if _STRATEGY is not None:
    attribute("strategy_of_gif", GIF, "LOADING_STRATEGY", _STRATEGY.RGB_ALWAYS)
apart("format_of_another_package",
      lambda: PIL.Image.register_open("NUMPY", np.load, np.isscalar),
      lambda: (PIL.Image.ID.remove("NUMPY"), PIL.Image.OPEN.pop("NUMPY")))
attribute("texts_of_png", sys.modules["PIL.PngImagePlugin"], "MAX_TEXT_CHUNK", 1 << 24)
attribute("library_of_tiff", sys.modules["PIL.TiffImagePlugin"], "READ_LIBTIFF", True)
restored("format_taken_away", lambda: list(PIL.Image.ID),
         lambda names: PIL.Image.ID.__setitem__(slice(None), names),
         [name for name in PIL.Image.ID if name != "GIF"])
restored("format_opened_by_another", lambda: PIL.Image.OPEN["GIF"],
         lambda opener: PIL.Image.OPEN.update(GIF=opener), PIL.Image.OPEN["PNG"])

_TIFF, _MODES = sys.modules["PIL.TiffImagePlugin"].OPEN_INFO, TF.pil_modes_mapping
apart("format_of_tiff", lambda: _TIFF.update({(b"II", 99): ("L", "L")}),
      lambda: _TIFF.pop((b"II", 99)))
restored("modes_of_torchvision", lambda: dict(_MODES), _MODES.update,
         {T.InterpolationMode.BILINEAR: 0}, make=T.Resize(3))

_MARKER = sys.modules["PIL.JpegImagePlugin"].MARKER
apart("marker_of_jpeg_that_is_skipped", lambda: _MARKER.update({0xFFE1: _MARKER[0xFFFE]}),
      functools.partial(_MARKER.update, {0xFFE1: _MARKER[0xFFE1]}))
_COLOURS = sys.modules["PIL.ImageColor"].colormap
apart("a_colour_more", lambda: _COLOURS.update(mine="#102030"), lambda: _COLOURS.pop("mine"))
restored("another_colour", lambda: {"red": _COLOURS["red"]}, _COLOURS.update, {"red": (9, 9, 9)})

# ---- libraries ----

attribute("defaults_of_a_function", TF.to_pil_image, "__defaults__", ("L",))
OTHER = types.ModuleType("exact_apart_other")
vars(OTHER).update((name, value) for name, value in vars(TF).items() if name[:2] != "__")
sys.modules["exact_apart_other"] = OTHER
TRANSFORMS = sys.modules["torchvision.transforms.transforms"]
HFLIP = TF.hflip


def decorated(function):
    """Both programs replace TF.hflip, by functions of which only the closures differ."""
    TF.hflip = torch.no_grad()(function)


def from_another(function):
    """Both programs replace TF, by modules of one name."""
    OTHER.hflip, TRANSFORMS.F = function, OTHER


for _function in (decorated, from_another):
    apart(_function.__name__, functools.partial(_function, lambda image: image),
          lambda: (setattr(TF, "hflip", HFLIP), setattr(TRANSFORMS, "F", TF)), aligned=True,
          before=functools.partial(_function, lambda image: image.rotate(90)))


try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
if v2 is not None:
    _SPACE = v2.RandAugment._AUGMENTATION_SPACE
    restored("table_of_a_class", lambda: dict(_SPACE), lambda new: (_SPACE.clear(), _SPACE.update(
        new)), {"Identity": _SPACE["Identity"]}, make=v2.RandAugment())
    attribute("types_of_a_class", v2.Transform, "_transformed_types", (int,),
              make=v2.RandomHorizontalFlip())

# ---- threads ----

VECTOR, DOT = np.ones(9), np.dot
for _name, _make in (
        ("dot", lambda index: DOT(VECTOR, VECTOR)), ("method", lambda index: VECTOR.dot(VECTOR)),
        ("operator", lambda index: VECTOR @ VECTOR),
        ("value", lambda index: list(map(torch.matmul, [torch.ones(2)], [torch.ones(2)]))),
        ("transform", T.LinearTransformation(torch.ones(2, 2), torch.ones(2)))):
    restored("threads_of_" + _name, lambda: os.environ.get("OMP_NUM_THREADS", "1"),
             lambda count: os.environ.update(OMP_NUM_THREADS=count), "37", make=_make)

# ---- values that are equal ----

IDS = [{0, 8}]
restored("order_of_a_set", lambda: IDS[0], lambda new: IDS.__setitem__(0, new), {8, 0},
         make=lambda index: list(IDS[0]))
CONSTANTS = types.SimpleNamespace(one=1, two=2)


def reorder(names, order):
    values = dict(vars(names))
    for name in order:
        delattr(names, name)
        setattr(names, name, values[name])


PARSED = argparse.Namespace(one=1, two=2)
for _name, _names in (("namespace", CONSTANTS), ("arguments", PARSED)):
    apart("order_of_a_" + _name, functools.partial(reorder, _names, ["two", "one"]),
          functools.partial(reorder, _names, ["one", "two"]),
          make=functools.partial(lambda names, index: str(names), _names))


def verdict(name):
    """ "apart" or "alike", for the two of this @name. """
    make, change, undo, aligned, before = APART[name]

    def key():
        data = make()
        names = (datasets.fingerprint(data), datasets.environment())
        if aligned:
            return names
        try:
            found = judgement.judge(data)
        except judgement.Refused:
            return None
        threads = environment.blas_threads() if found.by_threads else b""
        return (*names, found.generators, found.by_hash, found.orders, threads)
    if before is not None:
        before()
    first = key()
    change()
    try:
        second = key()
    finally:
        undo()
    assert first is not None and (before is not None or key() == first), name
    return "alike" if first == second else "apart"
