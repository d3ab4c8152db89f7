# SPDX-License-Identifier: MIT
"""What the demonstration and the benchmarks have in common."""
