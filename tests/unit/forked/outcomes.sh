#!/bin/bash
# SPDX-License-Identifier: MIT
# outcomes.sh PROGRAM LIBRARY: that tests fail with the stand-in, the directory of which is LIBRARY,
# when they should and only then.  One line of TAP.
set -eu
lines=$(LD_LIBRARY_PATH=$2 "$1" 2>/dev/null || :)
result='ok 1'
# Criterion's own list; Meson may have put the stand-in into this environment.
count=$(env -u LD_LIBRARY_PATH "$1" --list | grep -vc ': ')
[ "$(head -n 1 <<<"$lines")" = "1..$count" ] || result='not ok 1'
[ "$(grep -Ec '^(not )?ok ' <<<"$lines")" = "$count" ] || result='not ok 1'
while read -r line; do
	case $line in
	1..*) ;;
	'ok '*plain::is_skipped' # SKIP' | 'ok '*plain::passes | 'ok '*plain::sees_nothing_of_others) ;;
	'ok '*fixture::passes | 'not ok '*fails::* | 'not ok '*bad_*::fails) ;;
	*)
		echo "# $line"
		result='not ok 1'
		;;
	esac
done <<<"$lines"
echo 1..1
echo "$result - outcomes of tests in forks"
