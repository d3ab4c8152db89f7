#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/loop.py" .
/usr/bin/python3 loop.py
