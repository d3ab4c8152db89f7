#!/bin/sh
# SPDX-License-Identifier: MIT
# opens.sh LIBRARY OPENER NEIGHBOUR: the open family with the library in front of it, alone and
# among other preloads, must do what it does without. TAP.
set -eu
opener=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# By a path that LD_PRELOAD can tell.
build=$(dirname "$1")
ln -s "$build" "$work/build"
library=$work/build/${1#"$build"/} neighbour=$work/build/${3#"$build"/}
echo text >"$work/file"
number=0

# same NAME EXPECTED PRELOAD [VARIABLE=VALUE]: one run, compared with the file EXPECTED.
same() {
	number=$((number + 1))
	name=$1 expected=$2 preload=$3
	shift 3
	status=0
	env "$@" LD_PRELOAD="$preload" "$opener" "$work" >"$work/out" 2>"$work/err" || status=$?
	if [ "$status" -eq 0 ] && diff "$expected" "$work/out" >"$work/diff"; then
		echo "ok $number - $name"
	else
		sed 's/^/# /' "$work/diff" "$work/err"
		echo "not ok $number - $name (exit status $status)"
		failed=1
	fi
}

# found FILE: a library of the compiler or the system; a missing one skips its tests loudly.
found() {
	path=$(cc -print-file-name="$1" 2>/dev/null || true)
	case $path in
	/*) [ -e "$path" ] && return ;;
	esac
	number=$((number + 1))
	if [ "${TSSHIM_TEST_MUST:-0}" != 0 ]; then
		echo "not ok $number - $1 (must not be skipped: not installed)"
		failed=1
	else
		echo "ok $number - $1 # SKIP not installed"
	fi
	return 1
}

failed=0
: >"$work/diff"
"$opener" "$work" >"$work/alone"
LD_PRELOAD=$neighbour "$opener" "$work" >"$work/neighbour"
grep -q 'neighbour: early 1 1 1 1 1, then [1-9]' "$work/neighbour" || {
	cat "$work/neighbour"
	exit 1
}
NEIGHBOUR_NO_STREAM=1 LD_PRELOAD=$neighbour "$opener" "$work" >"$work/no_stream"
same "alone" "$work/alone" "$library"
same "switched off" "$work/alone" "$library" TSSHIM_DISABLE=1
same "before another preload, whose constructor runs first" "$work/neighbour" "$library:$neighbour"
same "before one that makes no stream early" "$work/no_stream" "$library:$neighbour" \
	NEIGHBOUR_NO_STREAM=1
same "behind another preload" "$work/neighbour" "$neighbour:$library"
same "bound at once" "$work/neighbour" "$library:$neighbour" LD_BIND_NOW=1
if found libasan.so; then
	same "behind AddressSanitizer" "$work/alone" "$path:$library" ASAN_OPTIONS=detect_leaks=0
	same "before AddressSanitizer" "$work/alone" "$library:$path" \
		ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
fi
if found libjemalloc.so.2; then
	same "before jemalloc" "$work/alone" "$library:$path"
	same "behind jemalloc" "$work/alone" "$path:$library"
fi
echo "1..$number"
exit "$failed"
