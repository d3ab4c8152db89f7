# SPDX-License-Identifier: MIT
"""The check whether the code of a data set does nothing but compute; for default mode."""
