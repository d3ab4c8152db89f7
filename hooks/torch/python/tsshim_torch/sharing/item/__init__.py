# SPDX-License-Identifier: MIT
"""What an item draws, and how it becomes bytes and an object again."""
