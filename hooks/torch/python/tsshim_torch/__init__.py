# SPDX-License-Identifier: MIT
"""The Python half of tsshim's hook for PyTorch; imported when torch's data loader is."""
