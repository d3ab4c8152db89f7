# SPDX-License-Identifier: MIT
"""
Attributes of libraries' transforms that each call writes before it reads them: what they hold is
left from the item before, and no part of what the next one will be.
"""

import dis
import types

from . import library

# What multiprocessing notes at an object of ctypes: where the memory is from that it lies in.
_OF_CTYPES = dict.fromkeys(("_ctypes.Array", "_ctypes.Structure", "_ctypes.Union", "_ctypes._SimpleCData"),
                           ("_wrapper",))
# By the class that has them, of a subclass as well: names of attributes.  A seed is what the
# generators beside it were made with, which are told apart from it; _key2func follows from the
# class and other attributes, in an order that differs from process to process.
_NAMES = {
    **_OF_CTYPES,
    "albumentations.core.transforms_interface.BasicTransform": (
        "params", "seed", "_key2func"),
    "albumentations.core.composition.BaseCompose": ("seed",),
    "beartype._conf.confmain.BeartypeConf": ("_hash",),  # of texts: another one in each process
    # Connections to the hub, by a token of this process.
    "datasets.iterable_dataset.IterableDataset": ("_IterableDataset__hffs_cache",),
    "kornia.augmentation.base._BasicAugmentationBase": (
        "_params", "_transform_matrix", "_transform_matrix_params",
        "_transform_matrix_params_snapshot", "_lazy_matrix_args"),
    "kornia.augmentation.container.base.BasicSequentialBase": ("_params",),
    "kornia.augmentation.container.base.TransformMatrixMinIn": (  # so it is spelt there
        "_transform_matrix", "_transform_matrices"),
    "kornia.core.mixin.image_module.ImageModuleMixIn": ("_output_image",),
    "kornia.core.module.ImageModuleMixIn": ("_output_image",),  # up to 0.8
    "monai.transforms.inverse.TraceableTransform": ("_tracing",),
    # What it has split words into, which follows from its merges.
    "open_clip.tokenizer.SimpleTokenizer": ("cache",),
    # What functions have worked out for values that name them; of these bags.py knows.
    "omegaconf.base.ContainerMetadata": ("resolver_cache",),
    "monai.transforms.transform.RandomizableTrait": ("_do_transform",),
}
# Methods that draw all anew, by the class that defines what they are for.
_DRAWING = {"monai.transforms.transform.Randomizable": "randomize",
            "fastai.vision.augment.RandTransform": "before_call"}
# Numbers that a process and its workers share: read once, when an iteration begins.
_SHARED = {"datasets.iterable_dataset.IterableDataset": "_epoch"}
_STORES = frozenset(("STORE_ATTR",))


def _stored(function):
    """Names of attributes that @function assigns."""
    if type(function) is not types.FunctionType:
        return set()
    return {step.argval for step in dis.get_instructions(function.__code__)
            if step.opname in _STORES}


def names(kind):
    """Those of objects of @kind."""
    found = set()
    classes = [base for base in library.mro(kind) if library.is_library_class(base)]
    for base in classes:
        name = library.class_name(base)
        found.update(_NAMES.get(name, ()))
        if name in _DRAWING:
            for other in classes:
                found |= _stored(library.class_dict(other).get(_DRAWING[name]))
    return frozenset(found)


def shared_number(kind):
    """The attribute of objects of @kind that is a number in shared memory, or None."""
    for base in library.mro(kind):
        if library.class_name(base) in _SHARED and library.is_library_class(base):
            return _SHARED[library.class_name(base)]
    return None
