#!/bin/sh
# SPDX-License-Identifier: MIT
show() { grep -e ERROR -e SUMMARY | sed 's/==[0-9]*==//; s/0x[0-9a-f]*.*//'; }
cp "$SCRIPTS/overrun.c" .
for how in 'gcc -static-libasan' clang; do
	$how -g -fsanitize=address -o a overrun.c
	./a 2>&1
	./a 1 2>&1 | show
done
gcc -g -fsanitize=thread -static-libtsan -o a overrun.c
./a
rm a
