# SPDX-License-Identifier: MIT
"""`tsrun explain -- COMMAND`: what can be said of a program before it is run."""
