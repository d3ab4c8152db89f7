# SPDX-License-Identifier: MIT
"""Iterable data sets under alignment."""
