#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/sources.sh"

gcc -O2 -pipe -g -c *.c
ar rcsD l.a f*.o
gcc -o p main.o l.a
./p || echo "$?"
sha256sum main.o l.a
gcc -O2 -flto=2 -save-temps=obj -o q *.c
./q || echo "$?"
echo 'int x = ;' | gcc -c -x c - 2>&1 || echo "$?"
strip p
nm -D p | grep -c .
objdump -d main.o | tail -3
gcc -shared -fPIC -o l.so f*.c
readelf -d l.so | grep -c STRTAB
rm -f p q* *.o l.* a-*
