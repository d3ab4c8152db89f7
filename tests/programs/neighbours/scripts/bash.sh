#!/bin/sh
# SPDX-License-Identifier: MIT
exec bash --norc -c 'set -o pipefail
mapfile -t a < <(seq 5); printf "%s," "${a[@]}"; echo
trap "echo caught" USR1; kill -USR1 $$
(exit 7) | cat; echo "${PIPESTATUS[*]} $?"
coproc cat; echo hi >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo "$x ${COPROC[*]}"
exec {fd}>file; echo "$fd"; echo text >&$fd; cat file
ulimit -a; umask; shopt; trap; [[ abc =~ b(.) ]]; echo "${BASH_REMATCH[1]}"; exit 5'
