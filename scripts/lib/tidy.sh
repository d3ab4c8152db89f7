#!/bin/sh
# SPDX-License-Identifier: MIT
# tidy.sh BUILD KEPT FILE...: clang-tidy for sources, but for those of which it had nothing to say
# before: KEPT has a file for each, named by what it read (the source, its headers, the rules).
# With TSSHIM_TEST_WHOLE=1 the analyzer follows paths through a function as far as it does by itself,
# which is nearly all that clang-tidy costs, and else a fifth as far.  Run in the source tree.
set -eu
build=$1 kept=$2
shift 2
rules=scripts/lib/clang-tidy.yaml
failed=0
set_nodes=
[ "${TSSHIM_TEST_WHOLE:-0}" = 1 ] || set_nodes=max-nodes=40000
for source; do
	read_all=$(clang -std=gnu11 -D_GNU_SOURCE -DTS_VERSION='""' -DTS_LIBRARY_FROM_BINDIR='""' -I . \
		-I "$build/shim/tsrun" -E -CC "$source") || exit 1
	key=$({
		printf '%s\n' "$read_all"
		cat "$source" "$rules"
		clang-tidy --version
		echo "$set_nodes"
	} | sha256sum | cut -d ' ' -f 1)
	[ ! -f "$kept/$key" ] || continue
	if clang-tidy -p "$build" --quiet --config-file="$rules" ${set_nodes:+--extra-arg=-Xclang
		--extra-arg=-analyzer-config --extra-arg=-Xclang "--extra-arg=$set_nodes"} "$source"; then
		: >"$kept/$key"
	else
		failed=1
	fi
done
exit "$failed"
