#!/bin/sh
# SPDX-License-Identifier: MIT
# compile.sh DIRECTORY: byte code of the installed Python files, for the interpreters in PATH.
# Whoever uses an installation may not write there; without it, each of their interpreters
# starts 1 ms later, and a job 0.1 s.  Run by `meson install`; what cannot be compiled is left out.
set -eu
case $1 in
/*) directory=${DESTDIR:-}$1 ;;
*) directory=$MESON_INSTALL_DESTDIR_PREFIX/$1 ;;
esac
ifs=$IFS
IFS=:
for place in $PATH; do
	for python in "$place"/python3.8 "$place"/python3.9 "$place"/python3.[1-9][0-9]; do
		[ -x "$python" ] || continue
		env -u LD_PRELOAD -u PYTHONPATH "$python" -I -m compileall -q "$directory" \
			>/dev/null 2>&1 || true
	done
done
IFS=$ifs
