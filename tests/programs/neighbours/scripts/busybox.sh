#!/bin/sh
# SPDX-License-Identifier: MIT
busybox sh -c 'busybox seq 100 >f
busybox touch -d @0 f
busybox tar cf t f
busybox tar tf t
busybox md5sum f
busybox awk "{s+=\$1} END {print s}" f
busybox sed -n 5p f; busybox find . | busybox sort; exit 6'
