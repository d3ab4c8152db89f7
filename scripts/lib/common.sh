# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# What the scripts have in common: messages, the tools they installed, building.
#
# Sourced, with $root set to the source tree.

: "${root:?}"

ts_cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tsshim

# Where ccache is installed, Meson compiles with it.  What one clone compiled serves another: paths
# below the source tree are the same for it, and its directory is no part of what is compared.
export CCACHE_DIR="$ts_cache/ccache" CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=2G

say() {
	printf '%s\n' "$*" >&2
}

die() {
	say "error: $*"
	exit 1
}

# Set PYTHON: the system's own, which sees the packages python3-torch and python3-torchvision,
# or the one with wheels of them, where scripts/deps found no such packages.
ts_find_python() {
	PYTHON=/usr/bin/python3
	[ ! -f "$ts_cache/torch/complete" ] || PYTHON=$ts_cache/torch/bin/python
	export PYTHON
}

ts_find_python

# ts_need PURPOSE...: install what is missing for it.
ts_need() {
	"$root/scripts/deps" "$@"
	ts_find_python
}

# Meson 1.0 or newer: the system's, else the one scripts/deps put aside for old systems.
ts_meson() {
	for candidate in meson "$ts_cache/meson/bin/meson"; do
		version=$("$candidate" --version 2>/dev/null) || continue
		case $version in
		0.*) continue ;;
		esac
		printf '%s\n' "$candidate"
		return 0
	done
	return 1
}

# What scripts/deps aarch64 unpacks: libraries for AArch64, and an emulator of it.
ts_sysroot=$ts_cache/arm64
ts_qemu=$ts_cache/qemu/usr/bin/qemu-aarch64

# ts_cross_files: options of Meson's with which it compiles for AArch64.
ts_cross_files() {
	ccache=
	! command -v ccache >/dev/null 2>&1 || ccache="'ccache'"
	cat >"$ts_cache/arm64.ini.$$" <<-END
		[constants]
		sysroot = '$ts_sysroot'
		qemu = '$ts_qemu'
		ccache = [$ccache]
	END
	mv "$ts_cache/arm64.ini.$$" "$ts_cache/arm64.ini"
	printf '%s\n' "--cross-file=$ts_cache/arm64.ini" "--cross-file=$root/scripts/lib/arm64.ini"
}

# hint_full LOG: where that is the cause, it is easily overlooked among errors of compilers.
hint_full() {
	! grep -q 'No space left' "$1" || say "hint: the disk is full"
}

# ts_configure DIR [MESON OPTIONS...]: configure $root/DIR once, and again what has changed since;
# show output on failure.
ts_configure() {
	build=$root/$1
	shift
	meson=$(ts_meson) || die "no meson >= 1.0; run scripts/deps build"
	mkdir -p "$build"
	ts_lock "$build"
	configure "$@"
	ts_unlock
}

# ts_lock DIR, ts_unlock: two steps of scripts/test may want the same build at once.
ts_lock() {
	exec 9>"$1/build.lock"
	flock 9
}

ts_unlock() {
	exec 9>&-
}

configure() {
	log=$build/build.log
	# What has to be made anew since is: under the lock, for two at once would spoil it.
	if [ -f "$build/build.ninja" ]; then
		ninja -C "$build" build.ninja >"$log" 2>&1 || configure_failed
		return 0
	fi
	"$meson" setup "$@" "$build" "$root" >"$log" 2>&1 || configure_failed
}

configure_failed() {
	tail -n 30 "$log" >&2
	hint_full "$log"
	die "configuring failed; the whole output is in $log"
}

# ts_build DIR [MESON OPTIONS...]: the same, and build all of it.
ts_build() {
	ts_configure "$@"
	ts_lock "$build"
	if ! "$meson" compile -C "$build" >"$log" 2>&1; then
		grep -E 'error|warning|FAILED' "$log" | head -n 30 >&2
		hint_full "$log"
		die "building failed; the whole output is in $log"
	fi
	ts_unlock
}
