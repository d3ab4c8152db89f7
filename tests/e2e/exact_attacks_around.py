# SPDX-License-Identifier: MIT
"""Attacks on default mode by what libraries ask while they work: codecs, tables, other objects."""

import codecs
import collections
import copy
import functools
import io
import json
import operator
import os
import pathlib
import sys
import types
from unittest import mock

import numpy as np
import PIL.Image
import PIL.JpegImagePlugin
import torch
import torchvision.transforms.functional as TF
from torchvision import transforms as T

from exact_attacks import BUFFER, COUNTS, EVENTS, PATH, during, patched, refused
from exact_attacks_state import FLIP, PART, TRANSFORMS, counted
from exact_zoo import Items

try:
    import cv2
except ImportError:
    cv2 = None
try:
    from torchvision.transforms import v2
except ImportError:  # torchvision before 0.15
    v2 = None

TEMPLATE, MEMO = [1], {}
BLOB = np.arange(12, dtype=np.float32).tobytes()
NORMALIZE = T.Normalize([.5], [.5], inplace=True)
NAMES = {name: value for name, value in vars(TF).items() if name[:2] != "__"}
Pair = collections.namedtuple("Pair", "one other")
Pair._make = classmethod(counted)
PAIR = Pair(1, 2)


def read(index):
    return open(os.devnull, encoding="utf-8").read()


def custom(error):
    EVENTS.append(1)
    return str(len(EVENTS)), error.end


def searched(name):
    EVENTS.append(1)


# ---- text ----

during("strict_that_ignores", lambda: Items(read),
       lambda: codecs.register_error("strict", codecs.ignore_errors),
       lambda: codecs.register_error("strict", codecs.strict_errors))
during("handler_of_codecs", lambda: Items(lambda index: b"a\xff".decode("ascii", "ignore")),
       lambda: codecs.register_error("ignore", custom),
       lambda: codecs.register_error("ignore", codecs.ignore_errors))
if hasattr(codecs, "unregister"):  # from Python 3.10 on
    during("codec_of_the_users", lambda: Items(lambda index: b"a".decode("mine")),
           lambda: codecs.register(searched), lambda: codecs.unregister(searched))

# ---- libraries that were changed ----

for NAME in ("read_bytes", "read_text", "open"):
    patched("path_that_does_" + NAME, pathlib.Path, NAME, counted,
            lambda index: PATH.read_bytes())
patched("open_of_io", io, "open", counted, lambda index: PATH.read_text())
patched("fspath", os, "fspath", counted, lambda index: os.path.join("a", "b"))
patched("method_of_a_decoder", json.JSONDecoder, "decode", counted,
        lambda index: json.loads("[1]"))
patched("format_that_is_loaded_later", PIL.Image.preinit() or PIL.Image.OPEN["GIF"][0], "load_end",
        counted, lambda index: np.asarray(PIL.Image.open("x")))
patched("mock", TF, "hflip", mock.MagicMock(side_effect=counted), FLIP)
patched("caller_of_a_method", TF, "hflip", operator.methodcaller("transpose", 0), FLIP)
patched("function_of_torchscript", TF, "hflip", torch.jit.script(torch.nn.Identity()), FLIP)
patched("namespace", TRANSFORMS, "F", types.SimpleNamespace(**{**NAMES, "hflip": counted}), FLIP)
patched("object_of_no_module", TF, "hflip", type(
    "Flip", (), {"__module__": "nowhere", "__call__": counted})(), FLIP)
patched("below_the_border_of_torch", torch._C._nn, "upsample_nearest2d", counted,
        lambda index: torch.nn.functional.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2))
during("marker_of_jpeg", lambda: Items(lambda index: np.asarray(PIL.Image.open("x"))),
       lambda: PIL.JpegImagePlugin.MARKER.update({0xFFE1: ("APP1", "", counted)}),
       lambda: PIL.JpegImagePlugin.MARKER.update(MARKER))
MARKER = dict(PIL.JpegImagePlugin.MARKER)


class Stats(Items):
    """Asks for what was given to a class of torch."""

    def size(self):
        return self.stats[0]


during("attribute_of_all_data_sets", lambda: Stats(Stats(None).size),
       lambda: setattr(torch.utils.data.Dataset, "stats", (np.zeros(2),)),
       lambda: delattr(torch.utils.data.Dataset, "stats"))
refused("maker_of_a_named_tuple", lambda index: PAIR._make([1, 2]))

if v2 is not None:
    NODES = sys.modules["torch.utils._pytree"].SUPPORTED_NODES
    KIND = next(iter(NODES.values()))
    during("node_of_a_tree", lambda: Items(v2.Resize(3)),
           lambda: NODES.update({Stats: KIND._replace(flatten_fn=counted)}), lambda: NODES.pop(Stats))

# ---- changes in place, and memory that nobody wrote ----

refused("median_in_place", lambda index: np.median(BUFFER, overwrite_input=True))
refused("memo_of_a_copy", lambda index: copy.deepcopy(TEMPLATE, memo=MEMO).append(index))
refused("renamed_by_keyword", lambda index: PATH.replace(target="/tmp/x"))
refused("descriptor_by_keyword", lambda index: open(file=3).read())
refused("bytes_in_place", lambda index: NORMALIZE(torch.from_numpy(
    np.frombuffer(BLOB, np.float32).reshape(1, 3, 4))))
refused("empty_margins", lambda index: np.pad(np.ones(3), 2, mode="empty"))
refused("empty_by_place", lambda index: np.pad(np.ones(3), 2, "empty"))
refused("empty_by_default", lambda index, mode="empty": np.pad(np.ones(3), 2, mode))
refused("empty_of_a_list", lambda index: np.pad(np.ones(3), 2, ["empty"][0]))
refused("empty_made", lambda index: np.pad(np.ones(3), 2, mode="%s" % "empty"))
refused("empty_unpacked", lambda index: np.pad(*(np.ones(3), 2, "empty")))
refused("empty_by_keywords", lambda index: np.pad(np.ones(3), 2, **{"mode": "empty"}))
refused("empty_partial", functools.partial(np.pad, pad_width=2, mode="empty"))
refused("clip_elsewhere", lambda index: np.ones(3).clip(0, 1, where=np.zeros(3, bool)))
refused("flags_of_a_part", lambda index: PART.flags["OWNDATA"])
if cv2 is not None:
    PARTS = [np.zeros((4, 4), np.uint8) for _ in range(3)]
    refused("parts_by_keyword", lambda index: cv2.split(np.ones((4, 4, 3), np.uint8), mv=PARTS))
    refused("read_into", lambda index: cv2.imread("x", BUFFER))
    refused("empty_border", lambda index: cv2.warpAffine(
        np.ones((9, 9)), np.eye(3)[:2], (9, 9), borderMode=cv2.BORDER_TRANSPARENT))
    refused("empty_border_with_a_flag", lambda index: cv2.warpAffine(
        np.ones((9, 9)), np.eye(3)[:2], (9, 9), borderMode=21))

# ---- orders that are nobody's ----

refused("tensors_in_a_set", lambda index: [x.item() for x in set(torch.arange(5))])
refused("nothing_in_a_set", lambda index: [str(x) for x in {None, index, "a"}])
refused("comprehension_of_a_set", lambda index: [str(x) for x in {y for y in COUNTS}])
