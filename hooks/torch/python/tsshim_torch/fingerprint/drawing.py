# SPDX-License-Identifier: MIT
"""
Generators of random numbers that a dataset has of its own: which there are, and which of them
somebody else can seed (sharing/item/private.py).
"""

import sys
import types

from . import library

# By the name of their class: how the generator behind an object is reached from it, if not itself.
SEEDED = {
    "random.Random": None,
    "torch._C.Generator": None,
    "numpy.random.mtrand.RandomState": "_bit_generator",
    "numpy.random._generator.Generator": "bit_generator",
    "numpy.random._mt19937.MT19937": None,
    "numpy.random._pcg64.PCG64": None,
    "numpy.random._pcg64.PCG64DXSM": None,
    "numpy.random._philox.Philox": None,
    "numpy.random._sfc64.SFC64": None,
}
# The generators whose state the caller takes care of anyway: (module, name there).
GLOBAL = {"python": ("random", "_inst"), "numpy": ("numpy.random.mtrand", "_rand"),
          "torch": ("torch", "default_generator")}

_names = {}  # id(class) -> (class, its name or None), of all that were asked about


def behind(kind):
    """The generator of this @kind, one of GLOBAL, behind the functions of its module, or None."""
    name, attribute = GLOBAL[kind]
    module = sys.modules.get(name)
    return None if module is None else library.module_dict(module).get(attribute)


def is_global(value):
    """Whether @value is the generator behind the functions of a module."""
    if value is not None and any(behind(kind) is value for kind in GLOBAL):
        return True
    # The program may have put another one behind the functions of random, for good.
    module = sys.modules.get("random")
    seed = module and library.module_dict(module).get("seed")
    return type(seed) is types.MethodType and seed.__self__ is value


def _name_of(kind):
    """The name of @kind in SEEDED, or None; subclasses may draw in ways of their own."""
    known = _names.get(id(kind))
    if known is None:
        name = library.class_name(kind)
        # Torch says that its class is of another module than where it is found.
        found = name in SEEDED and (name.startswith("torch.") or library.is_library_class(kind))
        known = _names[id(kind)] = (kind, name if found else None)
    return known[1]


def is_generator(value):
    """Whether @value is a generator that can be seeded."""
    return _name_of(type(value)) is not None


def add_generator(walker, value):
    """
    Write that the current object of the @walker is @value, a generator, and note it; gives False
    where it cannot be seeded, or nobody will.
    """
    name = _name_of(type(value))
    if is_global(value):
        walker.put(b"g", library.class_name(type(value)))
        return True
    if name is None or walker.notes.generators is None:
        return False
    inner = value if SEEDED[name] is None else getattr(value, SEEDED[name])
    if _name_of(type(inner)) is None or name.startswith("torch.") and value.device.type != "cpu":
        return False
    walker.put(b"~", name + " " + library.class_name(type(inner)))
    walker.adopt(value if name.endswith("RandomState") else inner)
    return True
