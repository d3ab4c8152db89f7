# SPDX-License-Identifier: MIT
"""How samples are named, taken from other jobs, made for them, and put into batches."""
