# SPDX-License-Identifier: MIT
"""Jobs that train on one node share what they load: put `tsrun --` in front of the command."""
