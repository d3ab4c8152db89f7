#!/bin/sh
# SPDX-License-Identifier: MIT
# dlsym.sh LIBRARY FINDER NEIGHBOUR IFUNC PLUGIN CC: what dlsym finds with the library in front
# of it, switched off and on, must be what it finds without. TAP.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# By paths that LD_PRELOAD can tell.
build=$(dirname "$1")
ln -s "$build" "$work/build"
linked() {
	printf '%s\n' "$work/build/${1#"$build"/}"
}
library=$(linked "$1") finder=$2 neighbour=$(linked "$3") ifunc=$(linked "$4") plugin=$5
shift 5
compiler=$*
source=$(dirname "$0")
number=0
failed=0

# said STATUS NAME: one line of TAP.
said() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number - $2"
	else
		[ ! -s "$work/diff" ] || sed 's/^/# /' "$work/diff"
		[ ! -s "$work/err" ] || head -n 20 "$work/err" | sed 's/^/# /'
		echo "not ok $number - $2"
		failed=1
	fi
}

# same NAME BEFORE AFTER COMMAND...: its output and status with these preloads before and behind
# the library are those without it, whether copies are shared or not.
same() {
	name=$1 before=$2 after=$3
	shift 3
	wanted=0
	env LD_PRELOAD="$before $after" "$@" >"$work/wanted" 2>"$work/err" || wanted=$?
	for settings in TSSHIM_COPIES=off TSSHIM_COPIES=on "TSSHIM_COPIES=on LD_BIND_NOW=1" \
		TSSHIM_DISABLE=1; do
		status=0
		# shellcheck disable=SC2086 # a list of words
		env $settings LD_PRELOAD="$before $library $after" "$@" >"$work/out" 2>"$work/err" ||
			status=$?
		diff "$work/wanted" "$work/out" >"$work/diff" || status=1000
		[ "$status" -eq "$wanted" ] && status=0 || status=1
		said "$status" "$name, $settings"
	done
}

skipped() {
	number=$((number + 1))
	if [ "${TSSHIM_TEST_MUST:-0}" != 0 ]; then
		echo "not ok $number - $1 (must not be skipped)"
		failed=1
	else
		echo "ok $number - $1 # SKIP not possible here"
	fi
}

same "alone" "" "" "$finder" "$plugin"
grep -q '^default: .*undefined symbol: cuInit' "$work/wanted" && grep -q '^plugin: own scope found' "$work/wanted"
said $? "it asks for a driver, and a library for its own"
same "before a library that asks for the next" "" "$neighbour" "$finder" "$plugin"
grep -q 'neighbour: 1 calls, next is .*getppid' "$work/wanted"
said $? "that library has a next"
same "behind it" "$neighbour" "" "$finder" "$plugin"
same "asked while another library is relocated" "" "$ifunc" "$finder"
grep -q 'picked 1' "$work/wanted"
said $? "that library asks early"
same "all of them" "$ifunc" "$neighbour" "$finder" "$plugin"
same "a tool" "" "" ls "$source"
same "Python" "" "" /usr/bin/python3 -c 'import ctypes; print(ctypes.CDLL(None).getppid() > 0)'

# sanitized NAME OPTION [RUNNER...]: a program whose runtime asks for the next of everything.
sanitized() {
	kind=$1 option=$2
	shift 2
	# shellcheck disable=SC2086 # a command with its options
	if $compiler "$option" -D_GNU_SOURCE -o "$work/sanitized" "$source/finder.c" -ldl \
		2>"$work/err" && "$@" "$work/sanitized" >"$work/out" 2>"$work/err"; then
		same "a program with $kind" "" "" "$@" "$work/sanitized"
	else
		skipped "a program with $kind"
	fi
}
ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
export ASAN_OPTIONS
sanitized AddressSanitizer -fsanitize=address env
# It wants its fixed address ranges free, as step_tsan of scripts/lib/steps.sh knows.
if setarch "$(uname -m)" -R true 2>/dev/null; then
	sanitized ThreadSanitizer -fsanitize=thread setarch "$(uname -m)" -R
else
	sanitized ThreadSanitizer -fsanitize=thread env
fi
echo "1..$number"
exit "$failed"
