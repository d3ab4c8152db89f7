# SPDX-License-Identifier: MIT
"""From the import of torch's data loader to patch.install()."""

import sys

LOADER = "torch.utils.data.dataloader"


def find_spec(finder, name, path, target):
    """
    For sitecustomize's @finder: what the finders behind it find, its loader made to call us.

    None where they find nothing or raise: importlib then asks them again, for itself.
    """
    if name != LOADER:
        look(finder)
        return None
    finders = list(sys.meta_path)
    for other in finders[finders.index(finder) + 1:]:
        spec = other.find_spec(name, path, target)
        if spec is not None:
            watch(spec.loader, finder)
            return spec
    return None


def watch(loader, finder):
    """
    Call activate() when @loader has executed its module, once.

    The loader stays what it is, for inspect, pkgutil and whoever looks at its type; it has one
    attribute more until then.
    """
    execute = loader.exec_module

    def exec_module(module):
        vars(loader).pop("exec_module", None)
        execute(module)
        activate(finder)

    loader.exec_module = exec_module


def look(finder):
    """The data loader may have come by a finder before ours, or before ours was there."""
    module = sys.modules.get(LOADER)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        activate(finder)


def activate(finder):
    """Patch torch, once; an error of ours leaves torch as it is."""
    try:
        if finder.done:
            return
        finder.done = True
        leave(finder)
        from tsshim_torch import patch
        patch.install()
    except Exception as error:
        finder.report(error)


def leave(finder):
    """
    Take @finder out of sys.meta_path, unless an import may be walking through that list, here
    or in another thread: it would step over a finder.  Then ours stays, and answers nothing.
    """
    if len(sys._current_frames()) > 1 or finder not in sys.meta_path:
        return
    frame = sys._getframe()
    while frame:
        if frame.f_code.co_name == "_find_spec":
            return
        frame = frame.f_back
    sys.meta_path.remove(finder)
