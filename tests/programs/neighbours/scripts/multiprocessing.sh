#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/pools.py" .
/usr/bin/python3 pools.py
rm -rf __pycache__
