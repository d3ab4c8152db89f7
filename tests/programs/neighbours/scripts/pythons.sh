#!/bin/sh
# SPDX-License-Identifier: MIT
# Those of Debian, and of pyenv where somebody has it.
for INTERPRETER in /usr/bin/pypy3 /usr/bin/python3.[0-9]* "${PYENV_ROOT:-}"/versions/*/bin/python; do
	case $INTERPRETER in
	*-* | *\*) continue ;;
	esac
	export INTERPRETER
	sh -e "$SCRIPTS/python.sh"
done
