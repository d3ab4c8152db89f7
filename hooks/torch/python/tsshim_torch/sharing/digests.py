# SPDX-License-Identifier: MIT
"""Names of 16 bytes."""

import hashlib


def digest(*parts):
    """16 bytes for @parts, plain values."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()
