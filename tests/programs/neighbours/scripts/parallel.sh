#!/bin/sh
# SPDX-License-Identifier: MIT
export HOME=$PWD
mkdir -p .parallel
touch .parallel/will-cite
seq 40 | parallel -j8 -k 'echo {} $(({} * {}))' | sha256sum
parallel -j4 -k --halt now,fail=1 'exit {}' ::: 0 0 3 || echo "$?"
parallel --pipe -N5 -k wc -l </etc/passwd | head -1
rm -rf .parallel
