#!/bin/sh
# SPDX-License-Identifier: MIT
# Sourced: allocator PATTERN runs programs under a library that allocates memory.
. "$SCRIPTS/with.sh"
allocator() {
	with "$1" djpeg -ppm "$PICTURES/s_baseline.jpg" | sha256sum
	with "$1" /usr/bin/python3 "$SCRIPTS/allocations.py"
	with "$1" sh -c 'seq 20000 | sort -R --random-source=/bin/sh | sort -n | sha256sum
	ls -d /proc/self/task/* | wc -l'
}
