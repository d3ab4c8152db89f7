# SPDX-License-Identifier: MIT
"""Which items an iteration gives, in which order, and from which seeds."""
