#!/bin/sh
# SPDX-License-Identifier: MIT
# Sourced: with PATTERN WORD... runs a command under another preload as well, in both orders; ours
# is what was there before.
ours=${LD_PRELOAD-}
with() {
	other=$(ls $1 | head -n 1)
	shift
	LD_PRELOAD=$other${ours:+:$ours} "$@" || echo "status $?"
	LD_PRELOAD=${ours:+$ours:}$other "$@" || echo "status $?"
}
