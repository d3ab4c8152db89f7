# SPDX-License-Identifier: MIT
"""
Transforms that leave their address in what they make, as MONAI's do for their inverses.

The address is another one in each process, so there stands instead which of the data set's
transforms it is: in a name (a cache of items, say), and in samples (sharing/item/objects.py).
"""

import sys

# Attributes of MONAI's tensors in which they do.
TRACES = "_applied_operations", "_pending_operations"
KEY = "id"  # of the dict in which a transform tells of itself
_TRACING = "monai.transforms.inverse.TraceableTransform"


def kind():
    """The class of such transforms, or None."""
    module = sys.modules.get(_TRACING.rpartition(".")[0])
    return None if module is None else getattr(module, "TraceableTransform", None)


def note(walker, value):
    """@value is such a transform, the next one of the walk."""
    if walker.notes.traced is not None:
        walker.notes.traced.append(value)


def without_addresses(walker, value):
    """What MONAI's tensors hold of transforms, a @value of lists and dicts; tell() says which."""
    if type(value) is list:
        return [without_addresses(walker, part) for part in value]
    if type(value) is not dict:
        return value
    if type(value.get(KEY)) is int:
        walker.memory.setdefault(without_addresses, []).append(value[KEY])
    return {key: None if key == KEY and type(part) is int else without_addresses(walker, part)
            for key, part in value.items()}


def tell(walker):
    """Which transforms they are, now that all were met; of others the address."""
    places = {id(value): number for number, value in enumerate(walker.notes.traced or ())}
    for address in walker.memory.pop(without_addresses, ()):
        walker.put(b"A", repr(places.get(address, address)))
