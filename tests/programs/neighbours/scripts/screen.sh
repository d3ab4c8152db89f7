#!/bin/sh
# SPDX-License-Identifier: MIT
export SCREENDIR="$PWD"/s HOME=$PWD
mkdir -m 700 s
screen -c /dev/null -D -m -S x sh -c 'stty size >o
	env | grep -c "^STY" >>o
	exit 3' </dev/null || echo "$?"
cat o
rm -rf s
