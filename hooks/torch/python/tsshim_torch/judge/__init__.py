# SPDX-License-Identifier: MIT
"""What an item of a data set may depend on; for default mode."""


class Refused(Exception):
    """Something takes part that is not known to be harmless; the argument says what."""
