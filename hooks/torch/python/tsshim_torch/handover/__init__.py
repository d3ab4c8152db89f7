# SPDX-License-Identifier: MIT
"""How batches get from the workers to the trainer: in memory that is used again."""
