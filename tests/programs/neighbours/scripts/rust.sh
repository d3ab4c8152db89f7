#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir -p d/e
for i in $(seq 50); do seq "$i" 500 >d/e/"$i"; done
echo needle >d/hay
# All of it is read: programs in Rust say that a pipe broke where it ends before they do.
rg --version | sed -n 1p
rg --no-config --sort path -c 77 d | tail -3
rg --no-config -j4 -l 499 d | sort | sha256sum
rg --no-config nowhere d || echo "$?"
rg --no-config --mmap needle d
fdfind --threads 4 . d | sort | sed -n 1,10p
fdfind -e x . d -X cat || echo "$?"
rm -r d
