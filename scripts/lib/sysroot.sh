#!/bin/sh
# SPDX-License-Identifier: MIT
#
# sysroot.sh [--from SUITE] ARCHITECTURE DIRECTORY PACKAGE...: unpack packages of Debian's, and what
# they depend on, into DIRECTORY.
#
# To compile for another kind of machine, and to run programs of it in an emulator.  Nothing in them
# is run, no root is needed, and this system's own packages and what dpkg knows of them stay as they
# are.  Where they come from says this system's apt, or, with --from, Debian's SUITE.
# DIRECTORY, whose path is absolute, has to stay where it is: what DIRECTORY/var/lib/dpkg tells of is
# whose each file there is.  DIRECTORY/complete is written last.
set -eu
suite=
if [ "$1" = --from ]; then
	suite=$2
	shift 2
fi
architecture=$1
target=$2
shift 2
work=$(mktemp -d "${TMPDIR:-/tmp}/tsshim-sysroot.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# With lists and packages of its own, and nothing installed.
apt_get() {
	apt-get -q -y -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
		-o Dir::State="$work/state" -o Dir::State::status="$work/status" \
		-o Dir::Cache="$work/cache" -o APT::Sandbox::User= -o Acquire::Retries=3 \
		${suite:+-o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=-} "$@"
}

# unpack FILE: what dpkg would do, but for the scripts in it.
unpack() {
	dpkg-deb --extract "$1" "$target"
	dpkg-deb --control "$1" "$work/control"
	name=$(dpkg-deb --field "$1" Package)
	[ "$(dpkg-deb --field "$1" Multi-Arch)" != same ] || name=$name:$architecture
	dpkg-deb --field "$1" | sed '1a Status: install ok installed' >>"$known/status"
	echo >>"$known/status"
	dpkg-deb --fsys-tarfile "$1" | tar -t | sed "s,^\.,$target,; s,/\$,," \
		>"$known/info/$name.list"
	for file in symbols shlibs; do
		[ ! -f "$work/control/$file" ] || cp "$work/control/$file" "$known/info/$name.$file"
	done
	rm -rf "$work/control"
}

# What is absolute leads out of the directory.
bend_links() {
	find "$target" -type l -lname '/*' | while IFS= read -r link; do
		to=$(readlink "$link")
		ln -sfnr "$target$to" "$link"
	done
}

mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
: >"$work/status"
if [ -n "$suite" ]; then
	printf 'deb [signed-by=%s] http://deb.debian.org/debian %s main\n' \
		/usr/share/keyrings/debian-archive-keyring.gpg "$suite" >"$work/sources.list"
fi
apt_get update
apt_get install --no-install-recommends --download-only "$@"
rm -rf "$target"
known=$target/var/lib/dpkg
mkdir -p "$known/info" "$known/updates"
echo 1 >"$known/info/format"
{ dpkg --print-architecture && echo "$architecture"; } >"$known/arch"
for file in "$work"/cache/archives/*.deb; do
	unpack "$file"
done
bend_links
printf '%s\n' "$*" >"$target/complete"
