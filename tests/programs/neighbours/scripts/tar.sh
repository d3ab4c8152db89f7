#!/bin/sh
# SPDX-License-Identifier: MIT
mkdir d
for i in $(seq 20); do seq "$i" 5000 >d/"$i"; done
touch -d @0 d d/*
for z in zstd gzip xz; do
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -I "$z" -cf "$z.tar" d
	mkdir "$z"
	tar -C "$z" -I "$z" -xf "$z.tar"
	diff -r d "$z/d"
	sha256sum <"$z.tar"
done
zstd -q -T2 -19 -c zstd.tar | zstd -dc | cmp - zstd.tar
rm -r d zstd gzip xz
