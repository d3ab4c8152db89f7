#!/bin/sh
# SPDX-License-Identifier: MIT
show() { grep -e ERROR -e SUMMARY | sed 's/==[0-9]*==//; s/0x[0-9a-f]*.*//'; }
export ASAN_OPTIONS=verify_asan_link_order=0
cp "$SCRIPTS/overrun.c" .
gcc -g -fsanitize=address -o a overrun.c
./a 2>&1
./a 1 2>&1 | show
for sanitizer in thread leak undefined; do
	gcc -g "-fsanitize=$sanitizer" -o a overrun.c
	./a
done
rm a
