# SPDX-License-Identifier: MIT
"""Algorithm 1 as `tsrun --locality` runs it: the product's own module, which needs no torch."""
import os
import sys

PRODUCT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "hooks", "torch", "python")
if PRODUCT not in sys.path:
    sys.path.append(PRODUCT)  # last: its sitecustomize is for the library

from tsshim_torch.locality.assignment import Assignment, balance, moved_share, reassign  # noqa: E402

__all__ = ("Assignment", "balance", "moved_share", "reassign")
