#!/bin/sh
# SPDX-License-Identifier: MIT
# copy.sh STAMP SOURCE DESTINATION NAME...: the same tree of files in another place, nothing else
# in it, for an uninstalled library.  Files appear whole: programs may be starting meanwhile.
# With byte code, as an installation has it (compile.sh), for the interpreter in PATH.
set -eu
stamp=$1 source=$2 destination=$3
shift 3
mkdir -p "$destination"
find "$destination" -name '*.py' | while IFS= read -r old; do
	case " $* " in
	*" ${old#"$destination"/} "*) ;;
	*) rm -f "$old" ;;
	esac
done
for name; do
	mkdir -p "$(dirname "$destination/$name")"
	cp "$source/$name" "$destination/$name.$$"
	chmod 644 "$destination/$name.$$"
	mv "$destination/$name.$$" "$destination/$name"
done
if command -v python3 >/dev/null; then
	env -u LD_PRELOAD -u PYTHONPATH python3 -I -m compileall -q -f "$destination" || true
fi
: >"$stamp"
