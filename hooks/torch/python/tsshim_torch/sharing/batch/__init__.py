# SPDX-License-Identifier: MIT
"""How a batch is made: items taken from other jobs, made for them, put together."""
