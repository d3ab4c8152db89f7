# SPDX-License-Identifier: MIT
"""What a data set is named by, and what is known of it in this process."""
