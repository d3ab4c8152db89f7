#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SCRIPTS/sources.sh"

export CCACHE_DIR="$PWD"/c CCACHE_CONFIGPATH="$PWD"/none
compile() {
	for f in *.c; do ccache gcc -O2 -c $f & done
	wait
}
compile
compile
sha256sum main.o
ccache --print-stats | grep -e direct_cache_hit -e '^cache_miss'
rm -rf c *.o
