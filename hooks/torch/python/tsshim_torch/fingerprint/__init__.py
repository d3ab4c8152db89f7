# SPDX-License-Identifier: MIT
"""Names of data sets, with the code and the settings that their items depend on."""
