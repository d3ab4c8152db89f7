# SPDX-License-Identifier: MIT
"""Names of 16 bytes, and of one word."""

import hashlib


def digest(*parts):
    """16 bytes for @parts, plain values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


# Bits of a word, highest first: what a data set holds, the options in it, versions, the working
# directory, a seed (leader/line/line.h).
_PARTS = 14, 14, 12, 12, 12


def word(*parts):
    """One number for @parts, in which each has bits of its own; never 0."""
    found = 0
    for part, bits in zip(parts, _PARTS):
        number = int.from_bytes(digest(part)[:8], "little") & ((1 << bits) - 1)
        found = found << bits | number
    return found or 1
