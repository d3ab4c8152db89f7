#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/sources.sh"

clang -O2 -o p *.c
./p || echo "$?"
clang -O1 -S -o - main.c | sha256sum
echo 'int x = ;' | clang -c -x c - 2>&1 || echo "$?"
rm -f p
