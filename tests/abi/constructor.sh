#!/bin/sh
# SPDX-License-Identifier: MIT
# constructor.sh LIBRARY: what a process pays for the preload when it decodes nothing. TAP.
set -eu
skip() {
	if [ "${TSSHIM_TEST_MUST:-0}" != 0 ]; then
		echo "not ok 1 - constructor (must not be skipped: $1)"
		exit 1
	fi
	echo "ok 1 - constructor # SKIP $1"
	exit 0
}

echo 1..1
command -v strace >/dev/null || skip "strace is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# By a path that LD_PRELOAD can tell.
ln -s "$(dirname "$1")" "$work/build"
library=$work/build/$(basename "$1") trace=$work/trace
env -i strace -o "$trace" -E LD_PRELOAD="$library" /bin/true || skip "strace may not trace here"
# The loader ends with unmapping its cache; the first call of the program itself is exit.
calls=$(sed -n '/^munmap(/,/^exit_group(/p' "$trace" | sed -e 1d -e '/^exit_group/d')
sed 's/^/# /' <<END
$calls
END
# At the end of a process: whether it could be the last one out of a ring.
unexpected=$(printf '%s\n' "$calls" | grep -Ev '^(getpid|mmap|madvise|geteuid)\(|^newfstatat\(AT_FDCWD, "/dev/shm/tsshim|^readlink(at)?\((AT_FDCWD, )?"/proc/self/ns/(user|pid)"|^$' || true)
count=$(printf "%s\n" "$calls" | grep -c .)
if [ -z "$unexpected" ] && [ "$count" -le 10 ] && grep -q 'getpid()' "$trace"; then
	echo "ok 1 - a start and an end cost ten cheap system calls at most"
else
	echo "not ok 1 - a start and an end cost ten cheap system calls at most"
	exit 1
fi
