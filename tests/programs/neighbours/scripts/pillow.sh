#!/bin/sh
# SPDX-License-Identifier: MIT
/usr/bin/python3 "$SCRIPTS/pillow.py" "$PICTURES"/s_[4bceg]*.jpg
