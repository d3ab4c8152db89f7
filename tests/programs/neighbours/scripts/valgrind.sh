#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/sums.c" .
cc -g -O0 -o p sums.c

valgrind --log-file=log --leak-check=full --show-leak-kinds=definite,possible ./p 1 2 || echo "$?"
grep -e 'ERROR SUMMARY' -e 'definitely' -e 'Invalid read' -e 'uninit' -e 'sum (' log |
	sed 's/==[0-9]*==//; s/0x[0-9A-F]*/ADDRESS/g'
valgrind -q --tool=helgrind --error-exitcode=9 ./p || echo "$?"
rm log
