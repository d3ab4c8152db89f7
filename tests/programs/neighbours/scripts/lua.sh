#!/bin/sh
# SPDX-License-Identifier: MIT
lua5.4 "$SCRIPTS/f.lua"
