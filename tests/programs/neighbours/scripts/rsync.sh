#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir -p a/b
seq 1000 >a/x
seq 9 >a/b/y
touch -d @0 a a/b a/x a/b/y
ln a/x a/hard
rsync -aiH a/ c/
rsync -aiHc a/ c/
seq 7 >a/b/y
touch -d @9 a/b/y a/b
rsync -ai --delete --inplace a/ c/
diff -r a c
rsync -a missing/ c/ 2>&1 | sed 's/at main.c.*//' || :
